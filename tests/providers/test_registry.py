from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bullpen.config.settings import ProviderSettings
from bullpen.config.usable import OFFLINE
from bullpen.errors import ConfigError
from bullpen.providers.anthropic import Anthropic
from bullpen.providers.azure import Azure
from bullpen.providers.bedrock import Bedrock
from bullpen.providers.demo import Demo
from bullpen.providers.gemini import Gemini
from bullpen.providers.http import ModelClient
from bullpen.providers.openai_compat import OpenAICompat
from bullpen.providers.openai_responses import OpenAI
from bullpen.providers.registry import build, known_types
from bullpen.providers.scripted import Scripted
from bullpen.providers.vertex import Vertex


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("openai-compat", OpenAICompat),
        ("ollama", OpenAICompat),
        ("anthropic", Anthropic),
        ("openai", OpenAI),
        ("azure", Azure),
        ("bedrock", Bedrock),
        ("google", Gemini),
        ("google-vertex", Vertex),
        ("scripted", Scripted),
        ("demo", Demo),
    ],
)
async def test_types(http: ModelClient, kind: str, expected: type) -> None:
    assert isinstance(
        build(ProviderSettings(id="x", type=kind, base_url="http://127.0.0.1:1"), http), expected
    )


async def test_an_unknown_type_names_the_known_ones(http: ModelClient) -> None:
    with pytest.raises(ConfigError, match=r"unknown provider type 'nope'; known: anthropic, .*scripted"):
        build(ProviderSettings(id="x", type="nope"), http)


def test_the_config_knows_which_types_need_no_address() -> None:
    assert known_types() >= OFFLINE


def test_others_can_ship_providers(tmp_path: Path) -> None:
    """An entry point of the group is found, built with settings and client, and listed."""
    (tmp_path / "acme_models.py").write_text(
        "class Acme:\n    def __init__(self, settings, http): self.id = settings.id\n"
    )
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[bullpen.providers]\nacme = acme_models:Acme\nbad = acme_models:Gone\n"
    )
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from bullpen.config.settings import ProviderSettings\n"
        "from bullpen.errors import ConfigError\n"
        "from bullpen.providers.registry import build, known_types\n"
        "assert 'acme' in known_types() and build(ProviderSettings(id='x', type='acme'), None).id == 'x'\n"
        "try: build(ProviderSettings(id='x', type='bad'), None)\n"
        "except ConfigError as exc: assert 'cannot be loaded' in str(exc)\n"
        "else: raise AssertionError\n"
        "assert 'httpx2' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, timeout=30)
