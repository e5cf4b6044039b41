"""What the probe and the search from outside recognise, and what they do not take for a secret."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import string
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.engine.bench import Names
from harness.errors import Untestable
from harness.sandbox import probe as probing
from harness.sandbox.controls import planted, probe_outside
from harness.sandbox.outside import Needles, descriptors, remains
from harness.sandbox.probe import found_in
from harness.sandbox.runtime import interpreter_of, runtime
from reference_gateway.ids import RandomIds

noise = st.binary(max_size=200)


@given(noise, noise)
def test_secrets_are_recognised_by_their_shape(before: bytes, after: bytes) -> None:
    """The shapes are those of the secrets that the bench and the gateway really make."""
    assume(not before[-1:].isalnum() and before[-1:] != b"_" and not before[-1:] > b"\x7f")
    assert "credential" in found_in(before + Names().secret("mem0").encode() + after)
    token = RandomIds().token().encode()
    if any(chr(c).isdigit() for c in token):
        assert "run-token" in found_in(before + token + b" " + after)
    assert "planted" in found_in(before + b"planted-control-" + os.urandom(16).hex().encode() + after)


@given(st.text(string.ascii_letters + string.digits + "_-. ", max_size=300))
def test_ordinary_text_is_no_secret(text: str) -> None:
    assume("planted-control-" not in text and "synthetic-" not in text and "rt_" not in text)
    assert found_in(text.encode()) == []


def test_the_probe_does_not_find_itself() -> None:
    assert found_in(Path(probing.__file__).read_bytes()) == []
    assert found_in(b"_PyObject_sta" + b"rt_" + b"a1" * 21 + b"a") == []  # a long symbol of a library


@given(st.text(string.ascii_letters + string.digits + "/+=.:", min_size=12, max_size=60), noise, noise)
def test_needles_are_found_in_other_spellings(secret: str, before: bytes, after: bytes) -> None:
    needles = Needles({"key": secret})
    for spelled in (secret.encode(), base64.b64encode(secret.encode()), secret.encode().hex().encode(), secret.encode("utf-16-le")):
        assert needles.within(before + spelled + after) == ["key"]
    assert needles.within(b"") == []


def test_every_planted_control_is_found_outside_and_gone_afterwards() -> None:
    async def look() -> None:
        with socket.create_server(("127.0.0.1", 0)) as gateway:
            async with planted(("127.0.0.1", gateway.getsockname()[1])) as controls:
                seen = await probe_outside(controls)
                folder = controls.folder
        assert (seen["key_file"], seen["socket"], seen["abstract"], seen["gateway"]) == ("read", "connected", "connected", "connected")
        assert seen["environment"]["planted"]
        assert seen["environment"]["found"] == seen["memory"]["found"] == ["planted"]
        assert seen["files"]["found"] == [str(folder / "control.key")]
        assert not folder.exists()

    asyncio.run(look())


def test_what_is_left_of_a_place_is_seen(tmp_path: Path) -> None:
    """The control of the check for removal: this very process, with its namespace and an existing folder."""
    left = remains(os.getpid(), os.readlink("/proc/self/ns/pid"), tmp_path)
    assert left["process"]
    assert os.getpid() in left["namespace_members"]
    assert left["folder"]
    assert remains(2**22 + 1, "pid:[0]", tmp_path / "gone") == {"process": False, "namespace_members": [], "mounts": [], "folder": False}


def test_what_a_process_holds_open_is_told_by_name(tmp_path: Path) -> None:
    """The control of the check of descriptors: this very process, inside (the probe) and outside (the kernel)."""
    one, other = socket.socketpair()
    secret = tmp_path / "null"
    secret.write_text("x")
    with one, other, secret.open() as held, open(os.devnull, "rb") as null:
        seen = descriptors(os.getpid(), {os.fstat(one.fileno()).st_ino: "script"})
        assert {f"{one.fileno()} script", f"{other.fileno()} socket", f"{held.fileno()} {secret}", f"{null.fileno()} /dev/null"} <= set(seen)
        inside = probing.descriptors()
        assert inside.count(str(secret)) == 1
        assert inside.count("socket") >= 2
        assert "/dev/null" in inside


def test_the_runtime_is_small_and_names_no_path_of_this_machine() -> None:
    taken = asyncio.run(runtime())
    inside = [destination for _, destination in taken.files]
    assert len(inside) < 200
    assert all(path.startswith(("/usr/", "/lib", "/runner/")) for path in inside)
    assert interpreter_of(Path(taken.interpreter).read_bytes()) in inside


def test_only_a_program_has_a_loader() -> None:
    for data in (b"", b"#!/bin/sh\n", b"\x7fELF\x01\x01" + bytes(100)):
        with pytest.raises(Untestable):
            interpreter_of(data)
