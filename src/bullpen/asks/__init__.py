"""Asks: permissions and questions. Stored, addressed one by one, answered once, by anybody."""
