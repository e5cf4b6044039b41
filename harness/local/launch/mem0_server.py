"""Run by the Python of .real/mem0: Mem0's own server as it is, its API client pointed at another address (it has no setting for that)."""

import functools
import os

from mem0_mcp_server import http_entry, server  # type: ignore[import-not-found]  # lives in the venv that runs this

server.MemoryClient = functools.partial(server.MemoryClient, host=os.environ["MEM0_API_HOST"])
http_entry.main()
