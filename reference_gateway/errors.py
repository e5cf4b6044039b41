"""The gateway's one coded error. Everything that can be refused or can fail by name is a subclass, defined beside its cause."""

from __future__ import annotations


class GatewayError(Exception):
    """Answers what (`message`), where and how to fix, under a `code` of docs/operator-api.md.

    `http_status` is what the operator API answers with. Messages never hold a secret, an argument or a result.
    """

    http_status = 500

    def __init__(self, code: str, message: str, *, where: str = "", fix: str = "", http_status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.where = where
        self.fix = fix
        if http_status is not None:
            self.http_status = http_status

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        remedy = f". {self.fix}" if self.fix else ""
        return f"{self.message}{place}{remedy}"
