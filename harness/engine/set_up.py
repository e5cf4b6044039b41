"""Setting up one plan item: tenant, accounts, mounts, connections, run token, agent session, and what stood there before."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

import httpx2

from harness.action.base import Leg, Stage
from harness.clock import TestClock
from harness.engine.consents import behind_consent
from harness.engine.drafts import Reissue, as_local, begin_draft
from harness.engine.legs import LegSource
from harness.engine.sandboxed import in_sandbox
from harness.engine.tapes import source_of, thread
from harness.errors import HarnessError, Unreachable, UsageError
from harness.fake.authorization_front import Consenting
from harness.model.manifest import Manifest
from harness.model.scenario import ConnectionSpec
from harness.registry import suggest
from harness.target.base import ConnectionRequest, RunGrant
from harness.target.session import AgentSession
from harness.target.wire import wire_session

if TYPE_CHECKING:
    from harness.engine.item import ItemRun


class SetUp:
    """Fills an ItemRun's legs and credentials as it goes, so that whatever was opened is closed even when it breaks off midway."""

    def __init__(self, run: ItemRun) -> None:
        self.run_ = run
        self.bench = run.bench
        self.tenant = run.tenant
        self.stack: AsyncExitStack
        self.subject = f"user-{run.tenant}"

    async def run(self, stack: AsyncExitStack) -> Stage:
        gateway, run = self.bench.gateway, self.run_
        self.stack = stack
        await gateway.open_tenant(self.tenant)
        for name, spec in run.item.scenario.connections.items():
            await self._connect(name, spec)
        grant = await gateway.start_run(self.tenant, list(run.legs), task=run.item.scenario.id, agent="scripted-agent", subject=self.subject)
        run.gateway_run = grant.run
        if grant.token:
            run.log.redactor.know({"run-token": grant.token})
        client = await stack.enter_async_context(self.bench.agent_client({"Authorization": f"Bearer {grant.token}"} if grant.token else {}))
        agent = await self._session(stack, grant, client)
        stage = Stage(
            item=run.item.id,
            target=gateway,
            tenant=self.tenant,
            grant=grant,
            agent=agent,
            legs=run.legs,
            clock=self.bench.clock,
            sequencer=self.bench.sequencer,
            emit=run.emit,
            new_trace=self.bench.options.names.trace,
            time=self.bench,
            protocol=run.item.protocol,
            admit=run.admit,
            secrets=lambda: {name: secret for secret, name in run.log.redactor.known.items()},
        )
        for name, leg in run.legs.items():
            if leg.spec.setup == "made":  # of a draft there is nothing to read
                await self._read_before(stage, name, leg)
        return stage

    async def _session(self, stack: AsyncExitStack, grant: RunGrant, client: httpx2.AsyncClient) -> AgentSession:
        """Raises Unreachable naming the gateway and its version when it does not let the agent in."""
        if self.run_.item.scenario.place == "sandbox":
            return await in_sandbox(stack, self.run_, grant, self.subject)
        try:
            return await stack.enter_async_context(wire_session(grant.url, client, self.run_.item.protocol))
        except Unreachable as error:
            raise Unreachable(f"{self.bench.gateway.label}: {error.what}", where=error.where or grant.url, fix=error.fix) from error

    async def _connect(self, name: str, spec: ConnectionSpec) -> None:
        run = self.run_
        provider = spec.provider or name
        manifest, source = self.bench.options.manifests[provider], source_of(run, name, provider) or self.bench.sources[provider]
        if self.run_.live is not None:
            await self.run_.live.session.patience(provider)
        standing = bool(self.bench.target_kind.tap_port)  # it was told address and credential before, so both are fixed
        secret = source.fixed_credential or (f"synthetic-{provider}" if standing else self.bench.options.names.secret(provider))
        path = source.credential_path or path_of(manifest, spec)
        run.log.redactor.know({f"{name}:{path}": secret, **{f"{name}:{key}": value for key, value in source.secrets.items()}})
        clock = self.bench.still_clock or TestClock()
        consent = spec.consent.model_validate(run.bindings.render(spec.consent.model_dump()))
        source.admit(secret, name, consent, run.bindings.render(dict(spec.fake)), clock)
        host = source.host or (host_of(manifest, f"{self.tenant}-{name}") if source.mapped else None)
        operations = [(o.method, o.path, o.tool) for o in manifest.operations]
        guarded = await self._guarded(name, spec, manifest, source, secret)
        upstream = guarded.base_url if guarded is not None else source.base_url
        mount = self.bench.tap.mount(name if standing else f"{name}-{self.tenant}", upstream, host=host, operations=operations)
        thread(run, name, mount)
        mount.guard = run.live.guard(provider) if run.live is not None else None
        settle = clock.advance if source.fake is not None or mount.player is not None else None  # what was recorded needs no waiting for
        run.legs[name] = Leg(name=name, provider=provider, spec=spec, mount=mount, settle=settle)
        if guarded is not None:
            guarded.server.resource_url = mount.url(source.path)
            run.legs[name].consents = guarded.server
        run.credentials[name] = (provider, secret)
        if source.signed_in:
            await self.bench.gateway.refresh(self.tenant, name)  # the tap must see it discover; permissions and grant are as signed in
            return
        request = self._request(name, spec, manifest, source.pin(run.item.protocol), mount.url(source.path), (path, secret))
        run.legs[name].request = request
        if source.fake is not None:
            fake = run.bindings.render(dict(spec.fake))
            known, names = run.log.redactor.know, self.bench.options.names
            admit = partial(source.admit, name=name, consent=consent, settings=fake, clock=clock)
            run.legs[name].reissue = Reissue(source, name, provider, names.secret, admit, run.credentials, known).again
        if spec.setup == "draft":
            await begin_draft(self.bench.gateway, self.tenant, request, run.bindings.render(dict(spec.managed)))
        else:
            await self.bench.gateway.connect(self.tenant, request)

    async def _guarded(self, name: str, spec: ConnectionSpec, manifest: Manifest, source: LegSource, secret: str) -> Consenting | None:
        if spec.oauth is None:
            return None
        run, clock = self.run_, self.bench.still_clock or self.bench.clock
        settings = run.bindings.render(dict(spec.oauth))
        known = itertools.count(1)
        return await behind_consent(
            self.stack, source, secret, manifest, spec, settings, clock, lambda token: run.log.redactor.know({f"{name}:token-{next(known)}": token})
        )

    def _request(self, name: str, spec: ConnectionSpec, manifest: Manifest, protocol: str, url: str, secret: tuple[str, str]) -> ConnectionRequest:
        """Permissions are set later, so that access can be read before the scenario's first change."""
        auth = manifest.auth
        bridge = manifest.transport != "mcp_http"
        scheme = "bearer" if auth.scheme == "oauth" else auth.scheme
        if spec.transport == "local":
            return as_local(name, manifest.known_as or manifest.id, spec.model_copy(update={"permissions": {}}), url, secret[1], self.subject)
        return ConnectionRequest(
            name=name,
            provider=manifest.known_as or manifest.id,
            transport=manifest.transport,
            url=None if manifest.transport == "cognee_cloud" else url,
            protocol=protocol,
            auth={} if bridge else {"scheme": scheme, "path": auth.paths[-1]},
            credentials={**({auth.paths[0]: url} if manifest.transport == "cognee_cloud" else {}), secret[0]: secret[1]},
            spec=spec.model_copy(update={"permissions": {}}),
            subject=spec.subject or self.subject,
        )

    async def _read_before(self, stage: Stage, name: str, leg: Leg) -> None:
        gateway, lacking = self.bench.gateway, self.run_.item.lacking
        if "catalog" in lacking:
            await self._shown(stage, name)
        else:
            stage.control("catalog", dict(await gateway.catalog(self.tenant, name)), phase="before", connection=name)
        if "access" not in lacking:
            stage.control("access", dict(await gateway.access(self.tenant, name)), phase="before", connection=name)
        if "permissions" in lacking:
            return
        self.run_.permissions_before[name] = dict(await gateway.permissions(self.tenant, name))
        wanted = leg.spec.permissions
        if not wanted:
            return
        unknown = [tool for tool in wanted if tool not in self.run_.permissions_before[name]]
        if unknown:
            raise HarnessError(f"{name} has no tool {unknown[0]!r} to set a permission on", fix="compare with `harness discover`")
        stage.changed_permissions.add(name)
        answer = await gateway.set_permissions(self.tenant, name, wanted)
        stage.control("permissions", {tool: answer.get(tool) for tool in wanted}, phase="before", connection=name)

    async def _shown(self, stage: Stage, name: str) -> None:
        """Where a gateway has no list of its own, what the agent is shown is all there is. It also makes the gateway ask its provider,
        which a tap that is awake must see."""
        listing = await stage.agent.list_tools(timeout=stage.step_timeout_s)
        shown = [str(tool.get("name", "")) for tool in listing.tools]
        stage.control("shown", {"tools": shown, "pages": listing.pages, "complete": listing.complete}, phase="before", connection=name)


def path_of(manifest: Manifest, spec: ConnectionSpec) -> str:
    """Under which path the gateway gets the secret. Raises UsageError for one that the provider does not have."""
    paths = manifest.auth.paths
    if spec.credential is None:
        return paths[0] if manifest.auth.one_of else paths[-1]
    if spec.credential not in paths:
        fix = suggest(spec.credential, list(paths))
        raise UsageError(f"{manifest.id} has no credential {spec.credential!r}", where=f"providers/{manifest.id}.yaml", fix=fix)
    return spec.credential


def host_of(manifest: Manifest, tenant: str) -> str:
    """The provider's real host for this tenant label: each connection gets one of its own, so that exchanges are attributed by name.

    Where the provider has one host for everybody, it is a name below that.
    """
    host = manifest.endpoint.split("://", 1)[-1].split("/", 1)[0]
    return host.replace("{tenant}", tenant) if "{tenant}" in host else f"{tenant}.{host}"
