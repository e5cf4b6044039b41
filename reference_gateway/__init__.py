"""The reference gateway: a separate program, reached only over the wire and its operator API (docs/operator-api.md)."""

__version__ = "0.1.0"
