"""Outside tool servers (MCP), turned into `Tool` values. `servers.py` is the door; what they say is never trusted.

The library behind this room takes most of a second to import, so nothing here imports it at the top: the first
server that is started loads it, in a thread.
"""
