"""The agent runtime: serves agents on every GPU of a fleet."""

__version__ = "0.1.0"
