"""Workspaces: one live directory shared by all clients at that path, and the host that keeps them."""
