"""The SQLite schema, as numbered steps. A step is never edited once released; a change is a new step."""

from __future__ import annotations

# `instance` says which process wrote a row that a crash could leave unfinished, `revision` when a connection was last stored.
STEPS: tuple[str, ...] = (
    """
    CREATE TABLE audit (
        seq INTEGER PRIMARY KEY, tenant TEXT NOT NULL, run TEXT, invocation TEXT, event TEXT NOT NULL,
        hash TEXT NOT NULL, record TEXT NOT NULL) STRICT;
    CREATE INDEX audit_by_run ON audit (tenant, run, seq);
    CREATE INDEX audit_calls ON audit (invocation, event) WHERE event IN ('call_started', 'call_completed', 'call_failed');
    CREATE TRIGGER audit_is_append_only BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;
    CREATE TRIGGER audit_is_kept BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END;

    CREATE TABLE tenants (tenant TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

    CREATE TABLE connections (tenant TEXT NOT NULL, name TEXT NOT NULL, doc TEXT NOT NULL,
        PRIMARY KEY (tenant, name)) STRICT, WITHOUT ROWID;

    CREATE TABLE secrets (tenant TEXT NOT NULL, connection TEXT NOT NULL, path TEXT NOT NULL, version INTEGER NOT NULL, blob BLOB NOT NULL,
        PRIMARY KEY (tenant, connection, path)) STRICT, WITHOUT ROWID;
    CREATE TABLE secret_versions (tenant TEXT NOT NULL, connection TEXT NOT NULL, path TEXT NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (tenant, connection, path)) STRICT, WITHOUT ROWID;

    CREATE TABLE runs (run TEXT PRIMARY KEY, tenant TEXT NOT NULL, token_digest TEXT NOT NULL UNIQUE, doc TEXT NOT NULL)
        STRICT, WITHOUT ROWID;

    CREATE TABLE approvals (
        ord INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, run TEXT NOT NULL, tool_key TEXT NOT NULL,
        digest TEXT NOT NULL, state TEXT NOT NULL, expires_at TEXT NOT NULL, doc TEXT NOT NULL) STRICT;
    CREATE INDEX approvals_by_call ON approvals (run, tool_key, digest, ord);
    CREATE INDEX approvals_by_tenant ON approvals (tenant, run, ord);
    CREATE INDEX approvals_waiting ON approvals (expires_at) WHERE state = 'pending';
    """,
    """
    CREATE TABLE settings (tenant TEXT NOT NULL, name TEXT NOT NULL, doc TEXT NOT NULL,
        PRIMARY KEY (tenant, name)) STRICT, WITHOUT ROWID;
    """,
    """
    CREATE TABLE counters (name TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    ALTER TABLE connections ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE audit ADD COLUMN instance INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE approvals ADD COLUMN instance INTEGER NOT NULL DEFAULT 0;
    """,
)

VERSION = len(STEPS)
