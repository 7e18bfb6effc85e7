"""What the agent read and wrote: tracker, diffs, snapshots for undo."""
