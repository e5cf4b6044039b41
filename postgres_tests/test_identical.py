"""Identical calls at two gateways on one database: one of them asks, and what is approved is sent once."""

from __future__ import annotations

from tests.reference_gateway.test_identical import asks_once, two_gateways


def test_of_identical_calls_at_two_gateways_one_asks(url: str) -> None:
    asks_once(url, 30)


def test_a_loosened_word_withdraws_what_waits_at_the_other_gateway(url: str) -> None:
    with two_gateways(url) as (one, other):
        _, token = one.run()
        approval = one.call(token, "add_note", {"text": "x"})["_meta"]["gateway/approval"]["id"]
        other.permit(add_note="allowed")
        assert one.op("GET", f"/approvals/{approval}")["state"] == "cancelled"
        assert one.call(token, "add_note", {"text": "x"})["_meta"]["gateway/outcome"] == "success"
        assert len(one.provider.calls) == 1
