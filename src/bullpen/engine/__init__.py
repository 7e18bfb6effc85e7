"""The agent: accepts prompts, runs turns, cancels them, and ends every one exactly once."""
