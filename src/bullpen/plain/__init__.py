"""The client in lines, with numbered choices: for screen readers, dumb terminals and pipes."""
