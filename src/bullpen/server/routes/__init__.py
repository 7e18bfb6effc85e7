"""The endpoints, one module per noun. Each function calls one method of the workspace or the host."""
