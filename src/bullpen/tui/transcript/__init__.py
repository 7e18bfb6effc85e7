"""The conversation, drawn line by line."""
