"""Runs and their history in a browser, read-only, for the person at this machine."""
