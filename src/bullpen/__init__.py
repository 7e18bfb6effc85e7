"""Bullpen: one server for a coding agent that any number of clients share."""

__version__ = "0.1.0"
