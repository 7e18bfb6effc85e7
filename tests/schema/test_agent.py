"""Workspaces, models, and what else answers are made of, to the byte."""

from __future__ import annotations

from typing import Any

import pytest
from tests.schema.golden import both_ways, names

from bullpen.schema.agent import (
    ZERO_TIME,
    AgentInfo,
    CatalogueProvider,
    ClientInfo,
    CommandArgument,
    CommandInfo,
    LspInfo,
    McpChange,
    McpChanges,
    McpInfo,
    McpPrompt,
    McpPromptArgument,
    McpResource,
    Model,
    QueuedPrompt,
    SelectedModel,
    SkillInfo,
    SkillState,
    VersionInfo,
    Workspace,
)

MODEL = (
    '{"id":"","name":"","cost_per_1m_in":0,"cost_per_1m_out":0,"cost_per_1m_in_cached":0,'
    '"cost_per_1m_out_cached":0,"context_window":0,"default_max_tokens":0,"can_reason":false,'
    '"supports_attachments":false}'
)

NOUNS: list[tuple[Any, str]] = [
    (Model(), MODEL),
    (
        Model(
            id="m",
            name="M",
            cost_per_1m_in=1.5,
            context_window=128000,
            can_reason=True,
            reasoning_levels=("low", "high"),
            default_reasoning_effort="low",
            options={"a": 1},
        ),
        (
            '{"id":"m","name":"M","cost_per_1m_in":1.5,"cost_per_1m_out":0,"cost_per_1m_in_cached":0,'
            '"cost_per_1m_out_cached":0,"context_window":128000,"default_max_tokens":0,"can_reason":true,'
            '"reasoning_levels":["low","high"],"default_reasoning_effort":"low","supports_attachments":false,'
            '"options":{"a":1}}'
        ),
    ),
    (SelectedModel(), '{"model":"","provider":""}'),
    (
        SelectedModel(
            model="m",
            provider="p",
            reasoning_effort="high",
            think=False,
            max_tokens=0,
            temperature=0.5,
            top_p=1.5,
            top_k=3,
            frequency_penalty=0.5,
            presence_penalty=0.5,
            provider_options={"x": []},
        ),
        (
            '{"model":"m","provider":"p","reasoning_effort":"high","think":false,"max_tokens":0,"temperature":0.5,'
            '"top_p":1.5,"top_k":3,"frequency_penalty":0.5,"presence_penalty":0.5,"provider_options":{"x":[]}}'
        ),
    ),
    (
        AgentInfo(is_busy=False, is_ready=False, model=Model(), model_cfg=SelectedModel()),
        f'{{"is_busy":false,"is_ready":false,"model":{MODEL},"model_cfg":{{"model":"","provider":""}}}}',
    ),
    (
        CatalogueProvider(name="Acme", id="acme", type="openai-compat", models=(Model(),)),
        f'{{"name":"Acme","id":"acme","type":"openai-compat","models":[{MODEL}]}}',
    ),
    (
        VersionInfo(version="0.1.0", commit="", build_id="b", go_version="", platform="linux/amd64"),
        '{"version":"0.1.0","commit":"","build_id":"b","go_version":"","platform":"linux/amd64"}',
    ),
    (
        SkillInfo(id="k", name="k", description="d", label="user:k", source="user", user_invocable=False),
        '{"id":"k","name":"k","description":"d","label":"user:k","source":"user","user_invocable":false}',
    ),
    (SkillState(name="k", path="/k", state=0), '{"name":"k","path":"/k","state":0}'),
    (
        SkillState(name="k", path="/k", state=1, error="no name"),
        '{"name":"k","path":"/k","state":1,"error":"no name"}',
    ),
    (
        LspInfo(name="gopls", state=0, connected_at=ZERO_TIME),
        '{"name":"gopls","state":0,"connected_at":"0001-01-01T00:00:00Z"}',
    ),
    (
        LspInfo(name="gopls", state=3, error="gone", diagnostic_count=2, connected_at=ZERO_TIME),
        '{"name":"gopls","state":3,"error":"gone","diagnostic_count":2,"connected_at":"0001-01-01T00:00:00Z"}',
    ),
    (
        McpInfo(name="docs", state="needs auth", connected_at=ZERO_TIME),
        '{"name":"docs","state":"needs auth","connected_at":"0001-01-01T00:00:00Z"}',
    ),
    (
        McpInfo(
            name="docs", state="connected", tool_count=1, prompt_count=2, resource_count=3, connected_at="t"
        ),
        '{"name":"docs","state":"connected","tool_count":1,"prompt_count":2,"resource_count":3,"connected_at":"t"}',
    ),
    (
        McpInfo(name="docs", state="connected", held_count=2, connected_at="t"),
        '{"name":"docs","state":"connected","held_count":2,"connected_at":"t"}',
    ),
    (
        McpChanges(name="docs", fingerprint="f", changes=(McpChange(tool="t", kind="new", diff="+x"),)),
        '{"name":"docs","fingerprint":"f","changes":[{"tool":"t","kind":"new","diff":"+x"}]}',
    ),
    (
        McpResource(name="docs", uri="note://1", title="One", mime_type="text/plain", size=3),
        '{"name":"docs","uri":"note://1","title":"One","mime_type":"text/plain","size":3}',
    ),
    (
        McpPrompt(
            id="docs:p",
            prompt_id="p",
            client_id="docs",
            arguments=(McpPromptArgument(id="a", title="A", required=True),),
        ),
        '{"id":"docs:p","prompt_id":"p","client_id":"docs","arguments":[{"id":"a","title":"A","required":true}]}',
    ),
    (
        CommandInfo(
            id="project:c",
            name="c",
            source="project",
            description="d",
            usage="/c A",
            arguments=(CommandArgument(name="A", required=True), CommandArgument(name="B", default="b")),
            untrusted=True,
        ),
        (
            '{"id":"project:c","name":"c","source":"project","description":"d","usage":"/c A",'
            '"arguments":[{"name":"A","required":true},{"name":"B","default":"b"}],"untrusted":true}'
        ),
    ),
    (ClientInfo(client_id="c", streams=0), '{"client_id":"c","streams":0}'),
    (
        ClientInfo(client_id="c", name="ana", streams=2, current_session="S1", attached_at=5),
        '{"client_id":"c","name":"ana","streams":2,"current_session":"S1","attached_at":5}',
    ),
    (
        QueuedPrompt(
            seq=7, session_id="S1", run_id="r1", text="later", author="ana", attachments=1, created_at=5
        ),
        '{"seq":7,"session_id":"S1","run_id":"r1","text":"later","author":"ana","attachments":1,"created_at":5}',
    ),
    (Workspace(id="W1", path="/x", config={}), '{"id":"W1","path":"/x","config":{}}'),
    (
        Workspace(
            id="W1",
            path="/x",
            yolo=True,
            debug=True,
            data_dir="/d",
            version="0.1.0",
            config={"options": {"tui": {}}, "providers": {}},
            channels=("one",),
            skills=(SkillState(name="k", path="/k", state=0),),
            trusted=True,
            outlive=True,
            untrusted_settings=("hooks",),
        ),
        (
            '{"id":"W1","path":"/x","yolo":true,"debug":true,"data_dir":"/d","version":"0.1.0",'
            '"config":{"options":{"tui":{}},"providers":{}},"channels":["one"],'
            '"skills":[{"name":"k","path":"/k","state":0}],"trusted":true,"outlive":true,'
            '"untrusted_settings":["hooks"]}'
        ),
    ),
]


@pytest.mark.parametrize(("noun", "text"), NOUNS, ids=names([noun for noun, _ in NOUNS]))
def test_a_noun_both_ways(noun: Any, text: str) -> None:
    """What the wire calls optional is left out while zero; everything else is always there."""
    both_ways(noun, text)


def test_a_workspace_never_shows_an_environment() -> None:
    """Clients send `env` back when they re-create, so it is not even there to be masked."""
    assert not {"env", "client_id"} & set(Workspace.__struct_fields__)
