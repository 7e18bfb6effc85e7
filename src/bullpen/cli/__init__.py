"""The `bullpen` command: one module per sub-command, each importing what it needs when it runs."""
