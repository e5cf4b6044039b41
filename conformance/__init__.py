"""The official conformance suite, run against this project: `python -m conformance client server`."""
