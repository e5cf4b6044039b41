"""Run by the Python of .real/papr: Papr's own MCP server as it is, over HTTP on a free port instead of standard input and output."""

from papr_memory_mcp.core import mcp  # type: ignore[import-not-found]  # lives in the venv that runs this

mcp.run(transport="http", host="127.0.0.1", port=0, show_banner=False)
