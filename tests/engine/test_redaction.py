"""No spelling of a secret reaches the evidence file, whatever surrounds it; and where it stood, a marker says so."""

from __future__ import annotations

import base64
import html
import json
import string
from pathlib import Path
from urllib.parse import quote, quote_plus, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.cassette.redact import SHORTEST, Redactor
from harness.engine.evidence_log import EvidenceLog, read_evidence
from harness.model.evidence import NoteRecord
from harness.model.secret import MARKER, marker

PRINTABLE = string.ascii_letters + string.digits + "-._~+/=!?&<>'\"\\ %$#@:;,|()[]{}*^é測\U0001f9ed"
SECRETS = st.text(PRINTABLE, min_size=12, max_size=40).filter(lambda s: s.strip() == s and len(set(s)) > 5)
AROUND = st.text(max_size=20)


def spelled(secret: str) -> dict[str, str]:
    raw = secret.encode()
    return {
        "plain": secret,
        "JSON": json.dumps(secret)[1:-1],
        "JSON, not ASCII": json.dumps(secret, ensure_ascii=False)[1:-1],
        "JSON, slashes escaped": json.dumps(secret)[1:-1].replace("/", "\\/"),
        "JSON in JSON": json.dumps(json.dumps(secret))[3:-3],
        "percent": quote(secret, safe=""),
        "percent, slashes kept": quote(secret),
        "percent, lower case": quote(secret, safe="").replace("%2F", "%2f").replace("%3F", "%3f"),
        "form": quote_plus(secret),
        "HTML": html.escape(secret),
        "hex": raw.hex(),
        "HEX": raw.hex().upper(),
        "base64": base64.b64encode(raw).decode(),
        "base64url": base64.urlsafe_b64encode(raw).decode(),
        "base64url, no padding": base64.urlsafe_b64encode(raw).decode().rstrip("="),
        "basic": base64.b64encode(b"user:" + raw).decode(),
        "basic, other name": base64.b64encode(b"me:" + raw).decode(),
        "reversed": secret[::-1],
    }


@given(SECRETS, AROUND, AROUND)
@example("1/rt-Canary~~?>Zq", "", "")
@example('aaaaaaaaaaab/"\\&<', '"', "\\")
def test_no_spelling_of_a_secret_is_left(secret: str, before: str, after: str) -> None:
    redactor = Redactor()
    redactor.know({"mem0:key": secret})
    for name, spelling in spelled(secret).items():
        cleaned = redactor.clean(f"{before}{spelling}{after}")
        assert MARKER[0] in cleaned, (name, spelling, cleaned)
        if name.startswith(("base", "basic")):
            assert len(cleaned.replace(marker("mem0:key"), "")) <= len(before) + len(after) + len("user:") * 2 + 8, (name, cleaned)
        else:
            assert spelling not in cleaned.replace(before, "", 1), (name, cleaned)


@given(
    SECRETS, st.dictionaries(st.text(max_size=8), st.recursive(st.text(max_size=12) | st.integers(), lambda c: st.lists(c, max_size=3)), max_size=4)
)
def test_text_without_a_secret_is_left_as_it_is(secret: str, data: dict[str, object]) -> None:
    redactor = Redactor()
    redactor.know({"mem0:key": secret})
    text = json.dumps(data)
    if not any(spelling in text for spelling in spelled(secret).values()):
        assert redactor.clean(text) == text


@given(SECRETS, SECRETS)
def test_of_two_secrets_each_is_named(one: str, other: str) -> None:
    redactor = Redactor()
    redactor.know({"one": one})
    redactor.know({"other": other})
    cleaned = redactor.clean(f"[{one}] [{other}]")
    assert cleaned.startswith(f"[{marker('one')}")
    assert one not in cleaned
    assert other not in cleaned


@given(SECRETS, AROUND)
def test_a_cleaned_text_is_clean(secret: str, around: str) -> None:
    redactor = Redactor()
    redactor.know({"k": secret})
    once = redactor.clean(around + secret)
    assert redactor.clean(once) == once


def test_a_secret_too_short_to_tell_from_text_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter than"):
        Redactor().know({"k": "x" * (SHORTEST - 1)})


def test_every_spelling_is_gone_from_the_file_and_the_record(tmp_path: Path) -> None:
    """The control first: without redaction each is found."""
    secret = "1/rt-Canary~~?>Zq"
    texts = spelled(secret) | {"query": "https://x.test/?" + urlencode({"token": secret}), "header": f"Authorization: Bearer {secret}"}
    for known in (False, True):
        path = tmp_path / f"{known}.jsonl"
        redactor = Redactor()
        if known:
            redactor.know({"mem0:key": secret})
        log = EvidenceLog(path, redactor)
        returned = [log.record(NoteRecord(text=name, data={"nested": [{name: text}]})) for name, text in texts.items()]
        log.close()
        file = path.read_text(encoding="utf-8")
        assert returned == read_evidence(path)
        leaked = {name for name, text in texts.items() if json.dumps(text)[1:-1] in file}
        assert leaked == (set() if known else set(texts)), leaked
        assert file.count(marker("mem0:key")) >= (len(texts) if known else 0)


@given(st.text(st.characters(), max_size=60))
def test_any_text_is_kept_in_a_file_that_is_utf8(text: str) -> None:
    """Lone surrogates among it: the file must always be readable again, to the same record."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "evidence.jsonl"
        log = EvidenceLog(path, Redactor())
        written = log.record(NoteRecord(text="x", data={"value": text}))
        log.close()
        assert path.read_bytes().decode("utf-8")
        assert read_evidence(path) == [written]
