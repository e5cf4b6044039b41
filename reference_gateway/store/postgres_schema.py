"""The PostgreSQL schema, as numbered steps. A step is never edited once released; a change is a new step."""

from __future__ import annotations

# `COLLATE "C"` orders texts by code point, as SQLite does; `instance` says which process wrote a row that a crash could leave unfinished.
STEPS: tuple[str, ...] = (
    """
    CREATE TABLE audit (
        seq BIGINT PRIMARY KEY, tenant TEXT COLLATE "C" NOT NULL, run TEXT COLLATE "C", invocation TEXT COLLATE "C", event TEXT NOT NULL,
        hash TEXT NOT NULL, record TEXT NOT NULL,
        instance BIGINT NOT NULL DEFAULT current_setting('gateway.instance')::bigint);
    CREATE INDEX audit_by_run ON audit (tenant, run, seq);
    CREATE INDEX audit_calls ON audit (invocation, event) WHERE event IN ('call_started', 'call_completed', 'call_failed');
    CREATE FUNCTION audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the audit is append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
    CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR DELETE ON audit FOR EACH ROW EXECUTE FUNCTION audit_is_append_only();
    CREATE TRIGGER audit_is_kept BEFORE TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION audit_is_append_only();

    CREATE TABLE tenants (tenant TEXT COLLATE "C" PRIMARY KEY);
    CREATE TABLE connections (tenant TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, doc TEXT NOT NULL, PRIMARY KEY (tenant, name));
    CREATE TABLE settings (tenant TEXT COLLATE "C" NOT NULL, name TEXT COLLATE "C" NOT NULL, doc TEXT NOT NULL, PRIMARY KEY (tenant, name));
    CREATE TABLE secrets (tenant TEXT COLLATE "C" NOT NULL, connection TEXT COLLATE "C" NOT NULL, path TEXT COLLATE "C" NOT NULL,
        version BIGINT NOT NULL, blob BYTEA NOT NULL, PRIMARY KEY (tenant, connection, path));
    CREATE TABLE secret_versions (tenant TEXT COLLATE "C" NOT NULL, connection TEXT COLLATE "C" NOT NULL, path TEXT COLLATE "C" NOT NULL,
        last BIGINT NOT NULL, PRIMARY KEY (tenant, connection, path));
    CREATE TABLE runs (run TEXT COLLATE "C" PRIMARY KEY, tenant TEXT NOT NULL, token_digest TEXT NOT NULL UNIQUE, doc TEXT NOT NULL);
    CREATE TABLE approvals (
        ord BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT COLLATE "C" NOT NULL, run TEXT COLLATE "C" NOT NULL,
        tool_key TEXT COLLATE "C" NOT NULL, digest TEXT NOT NULL, state TEXT NOT NULL, expires_at TEXT COLLATE "C" NOT NULL, doc TEXT NOT NULL,
        instance BIGINT NOT NULL DEFAULT current_setting('gateway.instance')::bigint);
    CREATE INDEX approvals_by_call ON approvals (run, tool_key, digest, ord);
    CREATE INDEX approvals_by_tenant ON approvals (tenant, run, ord);
    CREATE INDEX approvals_waiting ON approvals (expires_at) WHERE state = 'pending';
    CREATE FUNCTION approval_taken_by() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.instance := current_setting('gateway.instance')::bigint; RETURN NEW; END $$;
    CREATE TRIGGER approval_taken_by BEFORE UPDATE OF state ON approvals FOR EACH ROW EXECUTE FUNCTION approval_taken_by();
    """,
    """
    CREATE TABLE counters (name TEXT COLLATE "C" PRIMARY KEY, last BIGINT NOT NULL);
    ALTER TABLE connections ADD COLUMN revision BIGINT NOT NULL DEFAULT 0;
    """,
)

VERSION = len(STEPS)
