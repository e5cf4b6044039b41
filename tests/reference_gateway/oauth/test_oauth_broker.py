"""The broker over loopback: what it asks for, what it refuses, what it keeps, and what a renewal may cost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from reference_gateway.oauth.authorized import Authorized
from reference_gateway.oauth.pending import LIFE_S, Asker
from reference_gateway.oauth.registration import Configured
from reference_gateway.oauth.tokens import REFRESH_BEFORE_S

Work = Callable[..., None]
MARK = "MARKER call 555-0100"


def test_a_consent_is_asked_for_as_the_standards_have_it(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        held = await bench.consent()
        asked = {each["at"]: each for each in bench.stand_in.seen}
        assert (asked["authorize"]["pkce"], asked["authorize"]["resource"], asked["authorize"]["scopes"]) == ("S256", "right", ["graph:read"])
        assert (asked["token"]["grant"], asked["token"]["resource"]) == ("authorization_code", "right")
        assert held.consent.tokens is not None
        assert held.consent.tokens.expires_at == bench.now() + 3600
        assert await bench.request() == 200

    work_on(work)


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"metadata": {"issuer": "https://other.example"}}, "oauth_issuer_mismatch"),
    ({"metadata": {"authorization_endpoint": "javascript:alert(1)"}}, "oauth_authorization_endpoint_rejected"),
    ({"metadata": {"token_endpoint": "https://10.0.0.1/token"}}, "oauth_token_endpoint_rejected"),
    ({"metadata": {"registration_endpoint": "https://[::1]/register"}}, "oauth_registration_endpoint_rejected"),
    ({"metadata": {"code_challenge_methods_supported": ["plain"]}}, "oauth_pkce_unsupported"),
    ({"metadata": {"scopes_supported": "graph:read"}}, "oauth_metadata_invalid"),
    ({"html": "metadata"}, "oauth_metadata_invalid"),
    ({"html": "registration"}, "oauth_metadata_invalid"),
    ({"html": "token"}, "oauth_token_exchange_failed"),
    ({"resource": {"resource": "https://other.example/mcp"}}, "oauth_resource_mismatch"),
    ({"resource": {"authorization_servers": ["https://169.254.169.254"]}}, "oauth_issuer_endpoint_rejected"),
    ({"resource": {"authorization_servers": []}}, "oauth_metadata_invalid"),
    ({"challenge": 'Digest realm="x"'}, "oauth_challenge_unusable"),
    ({"challenge": 'Bearer resource_metadata="https://localhost/prm"'}, "oauth_resource_metadata_endpoint_rejected"),
    ({"challenge": ""}, "oauth_challenge_unusable"),
    ({"registers": False}, "oauth_manual_client_required"),
    ({"answer_iss": "wrong"}, "oauth_issuer_mismatch"),
    ({"answer_iss": "none"}, "oauth_issuer_mismatch"),
    ({"person": "refuses", "says": MARK}, "oauth_authorization_denied"),
    ({"refuse": "invalid_client", "says": MARK}, "oauth_token_exchange_failed"),
    ({"token": {"expires_in": 0}}, "oauth_token_expired"),
    ({"token": {"token_type": "mac"}}, "oauth_token_unusable"),
    ({"token": {"access_token": None}}, "oauth_token_unusable"),
    ({"token": {"access_token": "not-one-that-opens"}}, "oauth_token_rejected"),
    ({"token": {"access_token": "a\r\nx-evil: 1"}}, "oauth_token_unusable"),
]


def test_whatever_is_hostile_is_refused_by_code_and_leaves_nothing(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        usual = bench.stand_in.behaviour
        for changes, code in HOSTILE:
            bench.stand_in.behaviour = usual.changed(changes)
            assert (await bench.code_of(bench.consent()), MARK in bench.said, bench.held) == (code, False, None), changes
        bench.stand_in.behaviour = usual
        assert (await bench.consent()).generation == 1

    work_on(work)


def test_an_answer_counts_once_and_only_from_whoever_was_sent(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        answer = await bench.answer(await bench.begin())
        complete = bench.broker.complete
        assert await bench.code_of(complete("t2", bench.asker, answer)) == "oauth_state_unknown"
        assert await bench.code_of(complete("t1", Asker("ada", "browser-2"), answer)) == "oauth_state_foreign"
        assert await bench.code_of(complete("t1", Asker("bob", "browser-1"), answer)) == "oauth_state_foreign"
        assert await bench.code_of(complete("t1", bench.asker, replace(answer, state="rt_forged"))) == "oauth_state_unknown"
        assert await bench.code_of(complete("t1", bench.asker, answer)) == ""  # the wrong people did not use it up
        assert await bench.code_of(complete("t1", bench.asker, answer)) == "oauth_state_unknown"
        misdirected = await bench.answer(await bench.begin())
        assert await bench.code_of(complete("t1", bench.asker, replace(misdirected, redirect_uri=bench.redirect + "/"))) == "oauth_redirect_mismatch"
        assert await bench.code_of(complete("t1", bench.asker, misdirected)) == "oauth_state_unknown"
        empty = await bench.answer(await bench.begin())
        assert await bench.code_of(complete("t1", bench.asker, replace(empty, code=None))) == "oauth_code_missing"
        assert await bench.code_of(complete("t1", bench.asker, empty)) == "oauth_state_unknown"

    work_on(work)


def test_nobody_is_waited_for_longer_than_ten_minutes(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        in_time, late = await bench.answer(await bench.begin()), await bench.answer(await bench.begin())
        await bench.advance(LIFE_S - 1)
        assert await bench.code_of(bench.broker.complete("t1", bench.asker, in_time)) == ""
        await bench.advance(1)
        assert await bench.code_of(bench.broker.complete("t1", bench.asker, late)) == "oauth_state_unknown"

    work_on(work)


def test_the_client_is_named_configured_remembered_or_registered(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        first = await bench.consent()
        assert first.consent.client.kind == "registered"
        again = await bench.consent()
        assert again.consent.client == first.consent.client
        assert sum(each["at"] == "registration" for each in bench.stand_in.seen) == 1
        assert again.consent.epoch == 2
        elsewhere = await bench.begin(redirect_uri="http://127.0.0.1:8978/oauth/callback")
        assert first.consent.client.id not in elsewhere.url  # bound to the redirect it was registered for
        named = await bench.begin(configured=Configured("by-hand"))
        assert "client_id=by-hand" in named.url

    work_on(work)


def test_a_client_may_be_a_document(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        held = await bench.consent()
        assert (held.consent.client.kind, held.consent.client.id) == ("document", "https://gateway.example/oauth/client-metadata.json")
        assert not any(each["at"] == "registration" for each in bench.stand_in.seen)

    work_on(work, document_url="https://gateway.example/oauth/client-metadata.json", takes_documents=True)


def test_a_token_is_renewed_once_before_it_ends_whoever_asks(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        first = await bench.consent()
        await bench.advance(3600 - REFRESH_BEFORE_S - 1)
        assert (await bench.request(), bench.renewals()) == (200, 0)
        await bench.advance(1)
        assert await asyncio.gather(*(bench.request() for _ in range(12))) == [200] * 12
        assert bench.renewals() == 1
        assert bench.held is not None
        assert (bench.held.generation, bench.held.consent.epoch) == (first.generation + 1, first.consent.epoch)
        assert bench.told == [("token_renewed", "")]

    work_on(work)


def test_a_caller_who_leaves_does_not_break_a_renewal_off(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        held = await bench.consent()
        caller = asyncio.ensure_future(bench.broker.refresher.renewed(bench.place, held.generation))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.wait({caller})
        newer = await bench.broker.refresher.renewed(bench.place, held.generation)
        assert (bench.renewals(), bench.stand_in.grant_of(newer.consent.tokens.access) is not None) == (1, True)  # type: ignore[union-attr]

    work_on(work)


def test_a_renewal_that_lost_the_race_does_not_undo_the_winner(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        held = await bench.consent()

        async def overtake() -> None:
            await bench.consent()

        bench.stand_in.overtaken = overtake
        newer = await bench.broker.refresher.renewed(bench.place, held.generation)
        assert bench.held == newer
        assert await bench.request() == 200

    work_on(work)


def test_invalid_grant_ends_the_consent_until_a_person_gives_it_again(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        await bench.consent()
        bench.stand_in.withdraw()
        assert await bench.request() == 401
        assert bench.access().ready() == "oauth_reauthorization_required"
        assert ("authorization_lost", "oauth_reauthorization_required") in bench.told
        assert await bench.code_of(bench.request()) == "oauth_reauthorization_required"
        await bench.consent()
        assert (bench.access().ready(), await bench.request()) == (None, 200)

    work_on(work)


@pytest.mark.parametrize("trouble", [{"refuse": "server_error"}, {"html": "token"}, {"token": {"access_token": None}}])
def test_any_other_trouble_costs_no_consent(work_on: Work, trouble: dict[str, Any]) -> None:
    async def work(bench: Any) -> None:
        before = await bench.consent()
        usual = bench.stand_in.behaviour
        bench.stand_in.behaviour = usual.changed(trouble)
        assert await bench.code_of(bench.broker.refresher.renewed(bench.place, before.generation)) in (
            "oauth_token_exchange_failed",
            "oauth_token_unusable",
        )
        assert bench.held == before
        assert bench.access().ready() is None

    work_on(work)


def test_a_token_without_a_successor_is_used_up_and_then_asked_for(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        await bench.consent()
        await bench.advance(3590)
        assert (await bench.request(), bench.renewals()) == (200, 0)
        await bench.advance(20)
        assert bench.access().ready() == "oauth_refresh_missing"

    work_on(work, token={"refresh_token": None})


def test_a_token_that_ends_before_its_time_is_renewed_and_the_request_sent_once_more(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        await bench.consent()
        await bench.advance(61)
        assert await asyncio.gather(*(bench.request() for _ in range(6))) == [200] * 6
        assert bench.renewals() == 1
        bench.stand_in.withdraw()
        assert await bench.request() == 401  # and not again and again

    work_on(work, life_s=60.0, token={"expires_in": 3600})


def test_what_is_still_to_be_said_goodbye_with_survives_the_consent(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        held = await bench.consent()
        door = Authorized(bench.egress.lines, bench.access()).as_now()
        bench.broker.store(bench.place, held.consent.lost())
        assert await bench.code_of(bench.request()) == "oauth_reauthorization_required"
        response = await door.request("DELETE", bench.url, {})
        response.close()
        assert response.status == 200

    work_on(work)


def test_more_scopes_are_remembered_and_asked_for_together(work_on: Work) -> None:
    async def call(bench: Any) -> int:
        door = Authorized(bench.egress.lines, bench.access())
        response = await door.request("POST", bench.url, {"content-type": "application/json"}, b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}')
        response.close()
        return response.status

    async def work(bench: Any) -> None:
        await bench.consent()
        bench.stand_in.behaviour = bench.stand_in.behaviour.changed({"demands": ["graph:admin"]})
        assert (await call(bench), bench.broker.consents.demanded(bench.place)) == (403, ("graph:admin",))
        held = await bench.consent(more=bench.broker.consents.demanded(bench.place))
        assert held.consent.asked == ("graph:read", "graph:admin")
        assert (await call(bench), bench.broker.consents.demanded(bench.place)) == (200, ())

    work_on(work)


def test_a_lease_keeps_others_waiting_and_ends_with_its_time(work_on: Work) -> None:
    async def work(bench: Any) -> None:
        held = await bench.consent()
        consents, now = bench.broker.consents, bench.now()
        assert consents.take_lease(bench.place, "somebody", now, now + 120)
        waiting = asyncio.ensure_future(bench.code_of(bench.broker.refresher.renewed(bench.place, held.generation)))
        for _ in range(40):  # it waits 30 seconds of this clock, and the lease holds for 120
            if not waiting.done():
                await asyncio.sleep(0)
                await bench.clock.advance(1)
        assert waiting.done()
        assert (waiting.result(), bench.renewals()) == ("oauth_refresh_in_progress", 0)
        await bench.clock.advance(120)
        assert (await bench.broker.refresher.renewed(bench.place, held.generation)).generation == held.generation + 1

    work_on(work)
