"""Papr's batch webhook through stub ports: nothing here dials. Private targets are refused before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import pytest

from harness.clock import TestClock
from harness.fake.kit import Account
from harness.fake.papr import PaprFake
from harness.fake.papr_webhook import Delivery, Webhooks

pytestmark = pytest.mark.anyio

URL = "https://hooks.example.com/papr"
NAMES = {
    "hooks.example.com": ["93.184.215.14"],
    "inside.example.com": ["10.0.0.7"],
    "mixed.example.com": ["93.184.215.14", "169.254.169.254"],
    "empty.example.com": [],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Wire:
    """A resolver and a connector that only write down what they were asked."""

    def __init__(self, status: int | None = 200) -> None:
        self.status = status
        self.sent: list[tuple[str, str, Mapping[str, str], Any]] = []

    async def resolve(self, host: str) -> Sequence[str]:
        if host not in NAMES:
            raise OSError(host)
        return NAMES[host]

    async def connect(self, address: str, url: str, headers: Mapping[str, str], body: Any) -> int:
        self.sent.append((address, url, headers, body))
        if self.status is None:
            raise OSError("reset")
        return self.status


async def batch(fake: PaprFake, **more: Any) -> httpx2.Response:
    fake.admit(Account("key", "developer"))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=fake.app), base_url="http://papr") as http:
        body = {"memories": [{"content": "one"}, {"content": " "}], **more}
        return await http.post("/v1/memory/batch", json=body, headers={"X-API-Key": "key", "X-Client-Type": "test"})


async def test_the_notice_carries_its_secret_to_the_judged_address_once() -> None:
    wire = Wire()
    fake = PaprFake(TestClock(), Webhooks(wire.resolve, wire.connect))
    answer = await batch(fake, webhook_url=URL, webhook_secret="whs-1")
    assert answer.status_code == 207
    ((address, url, headers, body),) = wire.sent
    assert (address, url, headers["X-Webhook-Secret"]) == ("93.184.215.14", URL, "whs-1")
    assert body == {"status": "partial", "total_processed": 2, "total_successful": 1, "total_failed": 1}
    assert fake.deliveries("key") == [Delivery(URL, "delivered", 200)]
    assert "whs-1" not in answer.text


async def test_without_a_secret_there_is_no_such_header() -> None:
    wire = Wire(status=500)
    fake = PaprFake(TestClock(), Webhooks(wire.resolve, wire.connect))
    assert (await batch(fake, webhook_url=URL)).status_code == 207
    assert "X-Webhook-Secret" not in wire.sent[0][2]
    assert fake.deliveries("key") == [Delivery(URL, "failed", 500)]


async def test_a_receiver_that_hangs_up_changes_nothing_of_the_batch() -> None:
    wire = Wire(status=None)
    fake = PaprFake(TestClock(), Webhooks(wire.resolve, wire.connect))
    assert (await batch(fake, webhook_url=URL)).json()["total_successful"] == 1
    assert fake.deliveries("key") == [Delivery(URL, "failed")]


async def test_by_default_nothing_is_dialled() -> None:
    fake = PaprFake(TestClock())
    assert (await batch(fake, webhook_url=URL)).status_code == 207
    assert fake.deliveries("key") == [Delivery(URL, "not_dialled")]


PRIVATE = [
    "http://hooks.example.com/", "https://127.0.0.1/", "https://10.1.2.3/", "https://169.254.169.254/latest", "https://[::1]/",
    "https://[fe80::1]/", "https://[::ffff:8.8.8.8]/", "https://localhost/", "https://papr.internal/", "https://inside/",
    "https://inside.example.com/", "https://mixed.example.com/", "https://empty.example.com/", "https://unknown.example.com/",
    "https://user:pw@hooks.example.com/", "https://hooks.example.com:8443/", "https://2130706433/", "https://127.1/", "ftp://hooks.example.com",
    "https://", "https://hooks.example.com:x/", "https://224.0.0.1/", "https://hooks.example.com./",
]  # fmt: skip


@pytest.mark.parametrize("url", PRIVATE)
async def test_a_private_target_is_refused_and_nothing_is_stored_or_dialled(url: str) -> None:
    wire = Wire()
    fake = PaprFake(TestClock(), Webhooks(wire.resolve, wire.connect))
    answer = await batch(fake, webhook_url=url, webhook_secret="whs-2")
    assert (answer.status_code, answer.json()["status"]) == (400, "error")
    assert "webhook_url" in answer.json()["error"]
    assert "whs-2" not in answer.text
    assert wire.sent == []
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=fake.app), base_url="http://papr") as http:
        gone = await http.delete("/v1/memory/all", headers={"X-API-Key": "key", "X-Client-Type": "test"})
    assert gone.status_code == 404
