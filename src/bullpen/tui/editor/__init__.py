"""The prompt: a text area with history, completion, attachments and drafts."""
