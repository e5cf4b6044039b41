"""Bridges: providers that speak no MCP, as tools."""
