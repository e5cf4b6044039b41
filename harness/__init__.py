"""Acceptance and conformance harness for MCP tool gateways and the memory providers behind them."""

__version__ = "0.1.0"
