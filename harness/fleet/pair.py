"""Two named sources, got and checked: what `harness drift` and every server of a fleet come down to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.drift.relations import RelateSchemas
from harness.errors import CredentialsMissing, HarnessError, LoadError, UsageError, ungrouped
from harness.fleet.check import Checked, Policy, check, failed
from harness.fleet.side import Access, Loaded, load, same_endpoint
from harness.fleet.source import Source
from harness.inventory.store import read_inventory
from harness.model.drift import Against
from harness.scenario.files import inventories_folder, providers_folder
from harness.scenario.manifest import load_manifests


@dataclass(frozen=True, slots=True)
class Pair:
    """`against` None: a fake behind a gateway says so itself, everything else counts as live."""

    old: Source
    new: Source
    subject: str = ""
    against: Against | None = None


async def loaded_pair(pair: Pair, access: Access) -> tuple[Loaded, Loaded]:
    """Both sides, one after the other: the second is not asked when the first cannot be had."""
    with ungrouped():
        return await load(pair.old, access), await load(pair.new, access)


def checked(pair: Pair, old: Loaded, new: Loaded, access: Access, policy: Policy, relate: RelateSchemas) -> Checked:
    told = next((word for word in (new.against, old.against) if word), "live")
    against: Against = pair.against or ("fake" if told == "fake" else "local" if told == "local" else "live")
    subject = pair.subject or old.provider or new.provider
    return check(old, new, policy, relate=relate, subject=subject, against=against, headers=access.headers)


async def run_pair(pair: Pair, access: Access, policy: Policy, relate: RelateSchemas) -> Checked:
    """Never raises a HarnessError: what keeps a check from being made becomes its result."""
    try:
        old, new = await loaded_pair(pair, access)
        return checked(pair, old, new, access, policy, relate)
    except HarnessError as error:
        return could_not(pair, policy, error)


def could_not(pair: Pair, policy: Policy, error: HarnessError) -> Checked:
    """The result that says why a check could not be made. Queries and credentials of URLs are left out of it."""
    from harness.discover.http_wire import public_url

    def shown(source: Source) -> str:
        return public_url(source.text) if source.kind == "url" else source.text

    return Checked(failed(error, policy, subject=pair.subject, old=shown(pair.old), new=shown(pair.new)), frozenset())


def inventory_folders() -> tuple[Path, ...]:
    """Where inventories are looked for: the working folder's own first, then those that are shipped."""
    return tuple(dict.fromkeys(folder for folder in (Path("inventories").resolve(), inventories_folder()) if folder.is_dir()))


def baseline_of(new: Source, folders: Sequence[Path]) -> Source:
    """The committed inventory of the provider at a URL, by the endpoint it was taken from or that its manifest names. Raises UsageError."""
    if new.kind == "gateway":
        return Source(kind="provider", text=new.text)
    if new.kind != "url":
        raise UsageError("there is only one side", where=new.text, fix="name both, OLD NEW, or --inventory FILE")
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            try:
                endpoint = read_inventory(path).taken.endpoint
            except LoadError:
                continue  # another provider's file may be broken; it is not the one asked for
            if same_endpoint(endpoint, new.text):
                return Source(kind="file", text=str(path))
    manifests = load_manifests(providers_folder()) if providers_folder().is_dir() else {}
    for manifest in manifests.values():
        if same_endpoint(manifest.endpoint, new.text):
            return Source(kind="provider", text=manifest.id)
    from harness.discover.http_wire import public_url

    url = public_url(new.text)
    fix = f"capture what is there now, review it, and compare later:\n       harness inventory capture {url} --out inventory.yaml\n"
    raise UsageError("no inventory was taken from this endpoint", where=url, fix=f"{fix}       harness drift inventory.yaml {url}")


def http_headers(literal: Sequence[str], from_environment: dict[str, str]) -> dict[str, str]:
    """`NAME:VALUE` each, beside those from the environment. No message ever holds a value."""
    found = dict(from_environment)
    for pair in literal:
        name, colon, value = pair.partition(":")
        if not (name.strip() and colon and value.strip()):
            raise UsageError("a header is NAME:VALUE", where="--header", fix="for example: --header X-Tenant:acme; for secrets use --header-env")
        found[name.strip()] = value.strip()
    for name, value in found.items():
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise UsageError("this is no header name", where=f"header {ascii(name)[1:-1]}", fix="use letters, digits and hyphens")
        if any(ord(char) < 0x20 or ord(char) > 0x7E for char in value):
            raise CredentialsMissing("the value holds characters that no header may", where=f"header {name}", fix="check the variable for line ends")
    return found
