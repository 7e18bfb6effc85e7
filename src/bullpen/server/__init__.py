"""HTTP and SSE: the front door of the server. Knows HTTP and workspaces, knows no agent."""
