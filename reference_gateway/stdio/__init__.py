"""Local servers: approved commands as supervised child processes that speak MCP over their standard input and output."""
