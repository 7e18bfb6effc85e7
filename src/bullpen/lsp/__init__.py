"""Language servers of a workspace: started when a tool touches a file they know, spoken to, and ended.

`selection` decides which a file wants, `servers` holds them, `server` keeps one of them alive, `client` speaks with it, and
the rest reads and words what it says.
"""
