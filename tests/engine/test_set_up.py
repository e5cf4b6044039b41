"""Where a connection's secret goes, and under which host its provider is mapped."""

from __future__ import annotations

import pytest

from harness.engine.bench import wildcard
from harness.engine.set_up import host_of, path_of
from harness.errors import UsageError
from harness.model.scenario import ConnectionSpec
from harness.scenario.files import data_root
from harness.scenario.manifest import load_manifests

MANIFESTS = load_manifests(data_root() / "providers")


@pytest.mark.parametrize(
    ("provider", "host", "pattern"),
    [("cognee", "t1.aws.cognee.ai", "*.aws.cognee.ai"), ("papr", "t1.memory.papr.ai", "*.memory.papr.ai")],
)
def test_each_connection_has_a_host_that_the_pattern_maps(provider: str, host: str, pattern: str) -> None:
    assert (host_of(MANIFESTS[provider], "t1"), wildcard(MANIFESTS[provider])) == (host, pattern)


def test_the_credential_is_the_named_one_of_several_or_the_first() -> None:
    papr, cognee = MANIFESTS["papr"], MANIFESTS["cognee"]
    assert path_of(papr, ConnectionSpec()) == "credentials.api_key"
    assert path_of(papr, ConnectionSpec(credential="credentials.bearer")) == "credentials.bearer"
    assert path_of(cognee, ConnectionSpec()) == "env.COGNEE_API_KEY"
    with pytest.raises(UsageError, match=r"credentials\.bearer"):
        path_of(papr, ConnectionSpec(credential="credentials.bearr"))
