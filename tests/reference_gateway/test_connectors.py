"""The gallery agrees with the manifests of the providers. Neither reads the other; here somebody compares them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from reference_gateway.connectors import CONNECTORS, connector, gallery_tag
from reference_gateway.errors import GatewayError

PROVIDERS = Path(__file__).parents[2] / "providers"


def manifest(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((PROVIDERS / f"{name}.yaml").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", list(CONNECTORS))
def test_a_connector_is_what_its_manifest_says(name: str) -> None:
    known, ours = manifest(name), CONNECTORS[name]
    assert (ours.title, ours.docs, ours.transport) == (known["title"], known["docs"], known["transport"])
    assert set(ours.paths) == set(known["auth"]["paths"])
    assert set(ours.scopes) == set(known["auth"].get("scopes", ()))
    assert (ours.auth == "oauth") == (known["auth"]["scheme"] == "oauth")
    assert (ours.choose == "one") == bool(known["auth"].get("one_of"))
    if ours.endpoint is not None:
        assert ours.endpoint.rstrip("/") == known["endpoint"].rstrip("/")
    else:
        assert "{tenant}" in known["endpoint"]
    assert set(ours.managed) <= set(known["selectors"])


def test_every_provider_is_in_the_gallery() -> None:
    every = {path.stem for path in PROVIDERS.glob("*.yaml") if "known_as" not in manifest(path.stem)}
    assert set(CONNECTORS) == every


def test_an_empty_gallery_has_another_tag() -> None:
    assert gallery_tag(on=True) == gallery_tag(on=True) != gallery_tag(on=False)


def test_a_connector_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(GatewayError) as refused:
        connector("mem1")
    assert (refused.value.code, refused.value.http_status) == ("connector_unknown", 404)
    assert "mem0" in refused.value.fix
