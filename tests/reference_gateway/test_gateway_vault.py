"""The vault: what was sealed opens in its own place only, and keys are kept as keys. Grants: who may use what."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_gateway.errors import GatewayError
from reference_gateway.grant import Grant, parse, refusal
from reference_gateway.store.sqlite import SqliteStore
from reference_gateway.vault import KEY_BYTES, KeySource, Vault, VaultError, check_status, load_key, opened_vault

KEY = bytes(range(KEY_BYTES))
SECRET = "sk-canary-3f9a-ünï"
HOME = ("t1", "mem0", "organization", "credentials.authorization")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "gateway.db")
    opened.open()
    yield opened
    opened.close()


@pytest.fixture
def vault(store: SqliteStore) -> Vault:
    return Vault(KEY, store)


def code(vault: Vault, place: tuple[str, str, str, str]) -> str:
    with pytest.raises(VaultError) as caught:
        vault.get(*place)
    with pytest.raises(VaultError) as checked:
        vault.check(*place)
    assert checked.value.code == caught.value.code
    assert SECRET not in str(caught.value)
    assert caught.value.fix
    return caught.value.code


def test_what_was_put_is_got_and_replaced_under_a_new_version(vault: Vault) -> None:
    assert vault.version("t1", "mem0", HOME[3]) == 0
    assert vault.put(*HOME, SECRET) == 1
    assert vault.get(*HOME) == SECRET
    assert vault.put(*HOME, "") == 2
    assert vault.get(*HOME) == ""
    assert vault.version("t1", "mem0", HOME[3]) == 2


def test_deleting_a_connection_removes_all_of_its_secrets_and_no_version_returns(vault: Vault) -> None:
    vault.put(*HOME, SECRET)
    vault.put(*HOME[:3], "other.path", SECRET)
    vault.put("t2", *HOME[1:], "theirs")
    assert vault.delete("t1", "mem0") == 2
    assert code(vault, HOME) == "vault_secret_missing"
    assert vault.get("t2", *HOME[1:]) == "theirs"
    assert vault.put(*HOME, SECRET) == 2


@settings(max_examples=20, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, secret: str) -> None:
    store = SqliteStore(tmp_path_factory.mktemp("vault") / "gateway.db")
    store.open()
    vault = Vault(KEY, store)
    vault.put(*HOME, secret)
    assert vault.get(*HOME) == secret
    store.close()


def test_the_same_secret_is_never_sealed_alike(vault: Vault, store: SqliteStore) -> None:
    seen = set()
    for _ in range(20):
        vault.put(*HOME, SECRET)
        found = store.secret_get(*HOME[:2], HOME[3])
        assert found is not None
        seen.add(found[1])
    assert len(seen) == 20


def test_nothing_readable_reaches_the_disk(vault: Vault, tmp_path: Path) -> None:
    vault.put(*HOME, SECRET)
    files = list(tmp_path.iterdir())
    assert len(files) >= 2
    for file in files:
        content = file.read_bytes()
        assert SECRET.encode() not in content
        assert KEY not in content
    assert any(b"credentials.authorization" in file.read_bytes() for file in files)  # the scan sees what is there


def test_every_flipped_bit_is_refused(vault: Vault, store: SqliteStore) -> None:
    vault.put(*HOME, SECRET)
    vault.check(*HOME)  # what was good once is no excuse
    found = store.secret_get(*HOME[:2], HOME[3])
    assert found is not None
    version, blob = found
    with store.transaction():  # one commit for all of them
        for bit in range(len(blob) * 8):
            forged = bytearray(blob)
            forged[bit // 8] ^= 1 << bit % 8
            store.secret_put(*HOME[:2], HOME[3], version, bytes(forged))
            assert code(vault, HOME) in ("vault_sealed_altered", "vault_key_wrong")
        for cut in (0, 1, 11, 23, 71, 83, 84, 99, len(blob) - 1):
            store.secret_put(*HOME[:2], HOME[3], version, blob[:cut])
            assert code(vault, HOME) in ("vault_sealed_altered", "vault_key_wrong")
    store.secret_put(*HOME[:2], HOME[3], version, blob)
    assert vault.get(*HOME) == SECRET


@pytest.mark.parametrize(
    "place",
    [
        ("t2", "mem0", "organization", "credentials.authorization"),
        ("t1", "zep", "organization", "credentials.authorization"),
        ("t1", "mem0", "organization", "credentials.other"),
        ("t1m", "em0", "organization", "credentials.authorization"),
    ],
)
def test_a_row_moved_elsewhere_does_not_open(vault: Vault, store: SqliteStore, place: tuple[str, str, str, str]) -> None:
    vault.put(*HOME, SECRET)
    found = store.secret_get(*HOME[:2], HOME[3])
    assert found is not None
    store.secret_put(place[0], place[1], place[3], *found)
    assert code(vault, place) == "vault_sealed_altered"


def test_another_grant_or_version_does_not_open_it(vault: Vault, store: SqliteStore) -> None:
    vault.put(*HOME, SECRET)
    vault.check(*HOME)
    assert code(vault, ("t1", "mem0", Grant("personal", "user-1").key, HOME[3])) == "vault_sealed_altered"
    found = store.secret_get(*HOME[:2], HOME[3])
    assert found is not None
    store.secret_put(*HOME[:2], HOME[3], found[0] + 1, found[1])
    assert code(vault, HOME) == "vault_sealed_altered"


def test_another_key_is_named_as_such(vault: Vault, store: SqliteStore) -> None:
    vault.put(*HOME, SECRET)
    assert code(Vault(bytes(KEY_BYTES), store), HOME) == "vault_key_wrong"
    with pytest.raises(VaultError):
        Vault(b"short", store)


# the wrapping key, changed


OTHER_KEY = bytes(reversed(range(KEY_BYTES)))
PERSONAL = ("t2", "zep", Grant("personal", "user-1").key, "credentials.authorization")


def rows(store: SqliteStore) -> list[tuple[str, str, str, int, bytes]]:
    return store.secrets()


def test_the_wrapping_key_changes_and_every_secret_opens_under_the_new_one_only(vault: Vault, store: SqliteStore) -> None:
    vault.put(*HOME, SECRET)
    vault.put(*PERSONAL, "another")
    before = rows(store)
    done = vault.rotate(OTHER_KEY)
    assert (done.secrets, done.after, vault.key_id) == ({"t1": 1, "t2": 1}, vault.key_id, Vault(OTHER_KEY, store).key_id)
    assert done.before != done.after
    assert [vault.get(*HOME), vault.get(*PERSONAL)] == [SECRET, "another"]
    assert [row[:4] for row in rows(store)] == [row[:4] for row in before]  # no version changes: approvals that wait stay valid
    assert all(new[4] != old[4] and new[4][-28:] == old[4][-28:] for new, old in zip(rows(store), before, strict=True))  # only the wrapping is new
    assert code(Vault(KEY, store), HOME) == "vault_key_wrong"
    assert vault.put(*HOME, "newer") == 2
    assert vault.get(*HOME) == "newer"


def test_a_row_that_does_not_open_leaves_all_as_it_was(vault: Vault, store: SqliteStore) -> None:
    vault.put(*HOME, SECRET)
    vault.put(*PERSONAL, "another")
    found = store.secret_get(*PERSONAL[:2], PERSONAL[3])
    assert found is not None
    store.secret_put(*PERSONAL[:2], PERSONAL[3], found[0], found[1][:30] + bytes([found[1][30] ^ 1]) + found[1][31:])
    before, key = rows(store), vault.key_id
    with pytest.raises(VaultError) as caught:
        vault.rotate(OTHER_KEY)
    assert (caught.value.code, caught.value.http_status) == ("vault_sealed_altered", 422)
    assert (rows(store), vault.key_id) == (before, key)
    assert vault.get(*HOME) == SECRET


def test_what_is_done_with_the_change_fails_with_it(vault: Vault, store: SqliteStore) -> None:
    vault.put(*HOME, SECRET)
    before = rows(store)
    with pytest.raises(RuntimeError), vault.rotating(OTHER_KEY):
        raise RuntimeError("the record could not be written")
    assert rows(store) == before
    assert vault.get(*HOME) == SECRET


def test_a_data_key_does_not_serve_another_row(vault: Vault, store: SqliteStore) -> None:
    """The wrapped data key of one row before the sealed secret of another, and both of another row under this one's."""
    vault.put(*HOME, SECRET)
    vault.put(*HOME[:3], "other.path", SECRET)
    mine, theirs = (store.secret_get(*HOME[:2], path) for path in (HOME[3], "other.path"))
    assert mine is not None
    assert theirs is not None
    end = 3 + 8 + 12 + 48
    for forged in (theirs[1][:end] + mine[1][end:], mine[1][:end] + theirs[1][end:]):
        store.secret_put(*HOME[:2], HOME[3], mine[0], forged)
        assert code(vault, HOME) == "vault_sealed_altered"


def test_a_key_that_was_changed_while_nothing_ran_is_named_once(tmp_path: Path, vault: Vault, store: SqliteStore) -> None:
    vault.put(*HOME, SECRET)
    old, new = key_file(tmp_path / "old"), key_file(tmp_path / "new", OTHER_KEY)
    for _ in range(2):  # naming the old key again does no harm
        assert opened_vault(KeySource(new, previous_file=old), store).get(*HOME) == SECRET
    assert opened_vault(KeySource(new), store).get(*HOME) == SECRET
    assert code(opened_vault(KeySource(old), store), HOME) == "vault_key_wrong"
    with pytest.raises(VaultError) as caught:
        opened_vault(KeySource(old, previous_file=key_file(tmp_path / "third", bytes(KEY_BYTES))), store)
    assert caught.value.code == "vault_key_wrong"


def test_a_key_that_another_process_changed_is_taken_over_and_none_is_sealed_under_an_older_one(tmp_path: Path, store: SqliteStore) -> None:
    present, before = tmp_path / "key", tmp_path / "before"
    key_file(before), key_file(present)
    source = KeySource(str(present), previous_file=str(before))
    one, other = (Vault(KEY, store, keys=source) for _ in range(2))
    one.put(*HOME, SECRET)
    key_file(present, OTHER_KEY)
    one.rotate(source.next())
    assert (other.get(*HOME), other.key_id) == (SECRET, one.key_id)
    late, blind = Vault(KEY, store, keys=source), Vault(KEY, store)
    second = ("t2", *HOME[1:])
    late.put(*second, SECRET)
    assert (late.key_id, one.get(*second)) == (one.key_id, SECRET)
    with pytest.raises(VaultError) as caught:  # it does not know where keys come from, and must not seal what nobody else can open
        blind.put(*HOME, "other")
    assert (caught.value.code, caught.value.http_status) == ("vault_key_wrong", 409)
    assert one.get(*HOME) == SECRET
    # The next key is in the file already, and the change is still to come: what is stored is under the one before.
    key_file(before, OTHER_KEY), key_file(present, bytes(KEY_BYTES))
    behind = Vault(KEY, store, keys=source)
    assert behind.get(*HOME) == SECRET
    assert Vault(KEY, store, keys=source).rotate(source.next()).secrets == {"t1": 1, "t2": 1}
    assert one.get(*HOME) == behind.get(*second) == SECRET


def test_the_next_key_is_what_the_file_holds_now(tmp_path: Path) -> None:
    file = key_file(tmp_path / "key")
    source = KeySource(file, "ab" * 32)
    assert source.key() == source.next() == KEY
    key_file(tmp_path / "key", OTHER_KEY)
    assert source.next() == OTHER_KEY
    with pytest.raises(VaultError) as caught:
        KeySource(None, "ab" * 32).next()
    assert (caught.value.code, caught.value.http_status) == ("vault_key_fixed", 409)
    assert KeySource().next() != KeySource().next()


# keys


def key_file(path: Path, content: bytes = KEY, mode: int = 0o600) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def refused(file: str | None, environment: str | None = None) -> str:
    with pytest.raises(VaultError) as caught:
        load_key(file, environment)
    assert caught.value.code == "vault_key_unusable"
    assert caught.value.where
    assert caught.value.fix
    return caught.value.message


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_of_32_bytes_is_a_key(tmp_path: Path, mode: int) -> None:
    assert load_key(key_file(tmp_path / "key", mode=mode), "ab" * 32) == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601, 0o610, 0o777])
def test_a_file_that_others_may_use_is_not(tmp_path: Path, mode: int) -> None:
    assert f"{mode:04o}" in refused(key_file(tmp_path / "key", mode=mode))


@pytest.mark.parametrize("size", [0, 31, 33, 64, 100_000])
def test_a_file_of_another_size_is_not(tmp_path: Path, size: int) -> None:
    assert "not 32" in refused(key_file(tmp_path / "key", bytes(size)))


def test_folders_pipes_missing_files_and_links_to_open_files_are_not(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    tmp_path.joinpath("folder").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(key_file(tmp_path / "open", mode=0o644))
    for name in ("missing", "link", "pipe", "folder", "nul\0"):
        refused(str(tmp_path / name))


def test_a_link_is_judged_by_the_file_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(key_file(tmp_path / "key"))
    assert load_key(str(tmp_path / "link")) == KEY


def test_a_file_of_another_user_is_not(tmp_path: Path) -> None:
    name = key_file(tmp_path / "key")
    real = os.stat(name)
    check_status(real, name)
    theirs = os.stat_result((*real[:4], real.st_uid + 1, *real[5:]))
    with pytest.raises(VaultError, match="another user"):
        check_status(theirs, name)


def test_the_environment_holds_64_hexadecimal_digits(tmp_path: Path) -> None:
    assert load_key(None, KEY.hex()) == load_key(None, KEY.hex().upper()) == KEY
    for text in ("", "ab", KEY.hex() + "0", "g" * 64, " " + KEY.hex()[1:], KEY.hex() + "\n"):
        assert text.strip() == "" or text.strip() not in refused(None, text)


def test_without_either_a_key_is_made_for_this_process() -> None:
    assert len(load_key(None)) == KEY_BYTES
    assert load_key(None) != load_key(None)


# grants


@pytest.mark.parametrize(
    "doc",
    [
        {"kind": "organization"},
        {"kind": "personal", "subject": "user-1"},
        {"kind": "organization", "audience": ["a", "b"]},
        {"kind": "organization", "audience": []},
    ],
)
def test_a_documented_grant_reads_and_writes_alike(doc: dict[str, object]) -> None:
    assert parse(doc).document() == doc


@pytest.mark.parametrize(
    ("doc", "expected", "where"),
    [
        (None, "invalid_field", "grant"),
        ("organization", "invalid_field", "grant"),
        ({}, "invalid_field", "grant.kind"),
        ({"kind": "agent"}, "invalid_field", "grant.kind"),
        ({"kind": ["personal"]}, "invalid_field", "grant.kind"),
        ({"kind": "personal"}, "invalid_field", "grant.subject"),
        ({"kind": "personal", "subject": " "}, "invalid_field", "grant.subject"),
        ({"kind": "personal", "subject": 7}, "invalid_field", "grant.subject"),
        ({"kind": "organization", "subject": "user-1"}, "unknown_field", "grant.subject"),
        ({"kind": "personal", "subject": "user-1", "audience": ["user-1"]}, "unknown_field", "grant.audience"),
        ({"kind": "organization", "audience": "user-1"}, "invalid_field", "grant.audience"),
        ({"kind": "organization", "audience": ["user-1", 7]}, "invalid_field", "grant.audience"),
        ({"kind": "organization", "audience": [" "]}, "invalid_field", "grant.audience"),
        ({"kind": "organization", "audience": ["x"] * 1001}, "invalid_field", "grant.audience"),
        ({"kind": "personal", "subject": "user-1", "agent": "x"}, "unknown_field", "grant.agent"),
    ],
)
def test_any_other_grant_is_refused_with_its_place(doc: object, expected: str, where: str) -> None:
    with pytest.raises(GatewayError) as caught:
        parse(doc)
    assert (caught.value.code, caught.value.where, caught.value.http_status) == (expected, where, 422)


def test_a_personal_grant_serves_its_subject_alone() -> None:
    personal, organization = Grant("personal", "user-1"), Grant("organization")
    assert refusal(personal, "user-1") is None
    assert all(refusal(personal, other) == "not_granted" for other in ("user-2", "USER-1", "user-1 ", "", None))
    assert all(refusal(organization, anyone) is None for anyone in ("user-1", "", None))


def test_an_audience_is_who_is_named_in_it() -> None:
    narrow, nobody = Grant("organization", audience=("user-1",)), Grant("organization", audience=())
    assert refusal(narrow, "user-1") is None
    assert [refusal(narrow, other) for other in ("user-2", "", None)] == ["grant_audience_denied"] * 3
    assert refusal(nobody, "user-1") == "grant_audience_denied"
    assert narrow.key == nobody.key == Grant("organization").key  # the secret stays where it is when the audience changes


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_grant_keys_are_unambiguous(one: str, other: str) -> None:
    assert (Grant("personal", one).key == Grant("personal", other).key) == (one == other)
    assert Grant("personal", one).key != Grant("organization").key
