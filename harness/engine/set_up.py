"""Setting up one plan item: tenant, accounts, mounts, connections, run token, agent session, and what stood there before."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import httpx2

from harness.action.base import Leg, Stage
from harness.clock import TestClock
from harness.engine.sandboxed import in_sandbox
from harness.errors import HarnessError, Unreachable
from harness.model.manifest import Manifest
from harness.model.scenario import ConnectionSpec
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
        self.subject = f"user-{run.tenant}"

    async def run(self, stack: AsyncExitStack) -> Stage:
        gateway, run = self.bench.gateway, self.run_
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
        )
        for name, leg in run.legs.items():
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
        manifest, source = self.bench.options.manifests[provider], self.bench.sources[provider]
        standing = bool(self.bench.target_kind.tap_port)  # it was told address and credential before, so both are fixed
        secret = source.fixed_credential or (f"synthetic-{provider}" if standing else self.bench.options.names.secret(provider))
        run.log.redactor.know({f"{name}:{manifest.auth.paths[-1]}": secret})
        clock = self.bench.still_clock or TestClock()
        consent = spec.consent.model_validate(run.bindings.render(spec.consent.model_dump()))
        source.admit(secret, name, consent, run.bindings.render(dict(spec.fake)), clock)
        host = host_of(manifest, f"{self.tenant}-{name}") if source.mapped else None
        operations = [(o.method, o.path, o.tool) for o in manifest.operations]
        mount = self.bench.tap.mount(name if standing else f"{name}-{self.tenant}", source.base_url, host=host, operations=operations)
        settle = clock.advance if source.fake is not None else None
        run.legs[name] = Leg(name=name, provider=provider, spec=spec, mount=mount, settle=settle)
        run.credentials[name] = (provider, secret)
        request = self._request(name, spec, manifest, source.pin(run.item.protocol), mount.url(source.path), secret)
        await self.bench.gateway.connect(self.tenant, request)

    def _request(self, name: str, spec: ConnectionSpec, manifest: Manifest, protocol: str, url: str, secret: str) -> ConnectionRequest:
        """Permissions are set later, so that access can be read before the scenario's first change."""
        auth = manifest.auth
        bridge = manifest.transport != "mcp_http"
        scheme = "bearer" if auth.scheme == "oauth" else auth.scheme
        return ConnectionRequest(
            name=name,
            provider=manifest.id,
            transport=manifest.transport,
            url=None if bridge else url,
            protocol=protocol,
            auth={} if bridge else {"scheme": scheme, "path": auth.paths[-1]},
            credentials={auth.paths[0]: url, auth.paths[-1]: secret} if bridge else {auth.paths[-1]: secret},
            spec=spec.model_copy(update={"permissions": {}}),
            subject=self.subject,
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


def host_of(manifest: Manifest, tenant: str) -> str:
    """The provider's real host for this tenant label: each connection gets one of its own, so that exchanges are attributed by name."""
    return manifest.endpoint.split("://", 1)[-1].split("/", 1)[0].replace("{tenant}", tenant)
