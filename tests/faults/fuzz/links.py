"""Which answers lead to which requests: links that turn the API's description into a state machine.

What an answer names (a workspace, a session, a waiting prompt, an open ask) is used in every operation that takes
such a name, so that made-up requests go on from what earlier ones made.
"""

from __future__ import annotations

from typing import Any

WORKSPACE = {"workspace_id": "$response.body#/id"}
SAME_WORKSPACE = {"workspace_id": "$request.path.workspace_id"}
OF_SESSION = {**SAME_WORKSPACE, "session_id": "$response.body#/id"}
OF_PROMPT = {**SAME_WORKSPACE, "session_id": "$request.body#/session_id"}
OF_QUEUED = {**SAME_WORKSPACE, "session_id": "$request.path.session_id", "seq": "$response.body#/0/seq"}

SOURCES: list[tuple[str, str, dict[str, str]]] = [
    ("create_workspace", "200", {**WORKSPACE, "client_id": "$request.body#/client_id"}),
    ("create_session", "200", OF_SESSION),
    ("accept_prompt", "202", OF_PROMPT),
    ("list_queue", "200", OF_QUEUED),
]
"""The operation whose answer is used, its status, and what it knows by which name."""

BODIES: dict[tuple[str, str], dict[str, Any]] = {
    ("create_session", name): {"session_id": "$response.body#/id"}
    for name in ("accept_prompt", "mark_read", "set_current_session", "answer_permission")
} | {
    ("list_asks", "answer_permission"): {"permission": "$response.body#/permissions/0", "action": "allow"},
    ("list_asks", "answer_questions"): {"batch_request_id": "$response.body#/questions/0/id"},
    ("list_asks", "cancel_questions"): {"batch_request_id": "$response.body#/questions/0/id"},
}


def with_links(document: dict[str, Any]) -> dict[str, Any]:
    """The description, with a link from every answer that names something to every operation that takes it."""
    operations = {o["operationId"]: o for item in document["paths"].values() for o in item.values()}
    for source, status, known in SOURCES:
        for name, target in operations.items():
            taken = {p["name"] for p in target.get("parameters", ()) if p["in"] in {"path", "query"}}
            body = BODIES.get((source, name))
            # A link that names less than the path needs, or nothing that only this answer knows, leads nowhere.
            needed = {p["name"] for p in target.get("parameters", ()) if p["in"] == "path"}
            new = {each for each, where in known.items() if where.startswith("$response")}
            if name == source or not needed <= known.keys() or not (taken & new or body):
                continue
            _link(
                operations[source], status, name, {each: known[each] for each in taken & known.keys()}, body
            )
    for (source, name), body in BODIES.items():
        if source == "list_asks":
            _link(operations[source], "200", name, SAME_WORKSPACE, body)
    return document


def _link(
    source: dict[str, Any], status: str, name: str, parameters: dict[str, str], body: dict[str, Any] | None
) -> None:
    link: dict[str, Any] = {"operationId": name, "parameters": parameters}
    if body:
        link["requestBody"] = body
    source["responses"][status].setdefault("links", {})[f"{source['operationId']} to {name}"] = link
