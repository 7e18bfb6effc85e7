"""Permission rules that people made, by answering an ask or by writing them. They lie here, outside of any workspace.

A `person` rule belongs to no workspace and holds in all of them.
"""

from __future__ import annotations

from bullpen.schema.asks import Rule
from bullpen.store.tx import Row, Tx

_SELECT = """SELECT id, effect, tool, command, path, host, scope, session, origin, created_by, created_at, expires_at
    FROM rules WHERE (workspace = $1 OR scope = 'person') AND (expires_at = 0 OR expires_at > $2)"""


async def add(tx: Tx, workspace: str, rule: Rule) -> None:
    await tx.run(
        """INSERT INTO rules (id, workspace, effect, tool, command, path, host, scope, session, origin, created_by,
               created_at, expires_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)""",
        rule.id,
        "" if rule.scope == "person" else workspace,
        rule.effect,
        rule.tool,
        rule.command,
        rule.path,
        rule.host,
        rule.scope,
        rule.session_id,
        rule.origin,
        rule.created_by,
        rule.created_at,
        rule.expires_at,
    )


async def in_force(tx: Tx, workspace: str) -> list[Rule]:
    """All that have not expired, oldest first."""
    return [_rule(row) for row in await tx.rows(_SELECT + " ORDER BY created_at, id", workspace, tx.now)]


async def remove(tx: Tx, workspace: str, rule_id: str) -> bool:
    return bool(
        await tx.run(
            "DELETE FROM rules WHERE id = $2 AND (workspace = $1 OR scope = 'person')", workspace, rule_id
        )
    )


async def forget_session(tx: Tx, workspace: str, session: str) -> None:
    await tx.run(
        "DELETE FROM rules WHERE workspace = $1 AND session = $2 AND scope = 'session'", workspace, session
    )


async def prune(tx: Tx, workspace: str) -> None:
    """Forget what has expired."""
    await tx.run(
        "DELETE FROM rules WHERE workspace IN ($1, '') AND expires_at > 0 AND expires_at <= $2",
        workspace,
        tx.now,
    )
    await tx.run(
        "DELETE FROM grants WHERE workspace = $1 AND expires_at > 0 AND expires_at <= $2", workspace, tx.now
    )


def _rule(row: Row) -> Rule:
    return Rule(
        id=row[0],
        effect=row[1],
        tool=row[2],
        command=row[3],
        path=row[4],
        host=row[5],
        scope=row[6],
        session_id=row[7],
        origin=row[8],
        created_by=row[9],
        created_at=row[10],
        expires_at=row[11],
    )
