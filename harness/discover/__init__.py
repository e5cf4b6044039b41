"""Capture complete tool lists from a URL, a command or a file."""
