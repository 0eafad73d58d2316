"""The operator's tool. Each command is thin: it says what is asked, others do it."""

from .app import app, main

__all__ = ["app", "main"]
