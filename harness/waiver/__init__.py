"""Accepted exceptions: `waivers.yaml` read, written and applied."""
