"""The vendors that are asked through the library, each before a fake host that speaks its format."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.providers.conftest import Exchange
from tests.providers.wires import ClaudeWire, ConverseWire, GoogleWire, ResponsesWire

from bullpen.config.settings import ProviderSettings
from bullpen.providers.azure import Azure
from bullpen.providers.base import Provider
from bullpen.providers.bedrock import Bedrock
from bullpen.providers.gemini import Gemini
from bullpen.providers.http import ModelClient
from bullpen.providers.openai_responses import OpenAI
from bullpen.providers.streaming import Limits
from bullpen.providers.vertex import Vertex

Wire = ResponsesWire | GoogleWire | ClaudeWire | ConverseWire
Make = Callable[..., Provider]

KEY = "sk-test-key-0123456789"


class Vendor(NamedTuple):
    name: str
    kind: Callable[..., Provider]
    wire: Wire
    model: str
    path: str = ""
    """What the configured address has behind the host."""
    target: str = ""
    """Where requests go."""

    def build(self, url: str, http: ModelClient, login: Path, limits: Limits | None, facts: Any) -> Provider:
        environment = {
            "AWS_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "aws-secret-0123456789",
            "VERTEXAI_PROJECT": "our-project",
            "VERTEXAI_LOCATION": "europe-west4",
            "GOOGLE_APPLICATION_CREDENTIALS": str(login),
        }
        plain = {
            "id": "fake",
            "name": "Fake",
            "type": self.name,
            "base_url": url + self.path,
            "api_key": "" if self.kind in (Vertex, Bedrock) else KEY,
            "environment": environment,
        }
        return self.kind(ProviderSettings(**(plain | facts)), http, limits=limits)


VERTEX = "/v1beta1/projects/our-project/locations/europe-west4/publishers"

VENDORS = [
    Vendor("openai", OpenAI, ResponsesWire(), "gpt-5.6-sol", "/v1", "/v1/responses"),
    Vendor("azure", Azure, ResponsesWire(), "gpt-5.6", "", "/openai/v1/responses"),
    Vendor(
        "google",
        Gemini,
        GoogleWire(),
        "gemini-3.1-pro-preview",
        "/v1beta",
        "/v1beta/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse",
    ),
    Vendor(
        "vertex",
        Vertex,
        GoogleWire(),
        "gemini-3.1-pro-preview",
        "",
        f"{VERTEX}/google/models/gemini-3.1-pro-preview:streamGenerateContent?alt=sse",
    ),
    Vendor(
        "vertex-claude",
        Vertex,
        ClaudeWire(),
        "claude-sonnet-4-6",
        "/v1",
        VERTEX.replace("v1beta1", "v1") + "/anthropic/models/claude-sonnet-4-6:streamRawPredict",
    ),
    Vendor(
        "bedrock",
        Bedrock,
        ConverseWire(),
        "eu.anthropic.claude-sonnet-4-6",
        "",
        "/model/eu.anthropic.claude-sonnet-4-6/converse-stream",
    ),
]


def head_of(wire: Wire) -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\nContent-Type: {wire.content_type}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )


async def speak(exchange: Exchange, wire: Wire, pieces: list[bytes], *, ends: bool = True) -> None:
    await exchange.send(head_of(wire))
    for piece in pieces:
        await exchange.chunk(piece)
    if ends:
        await exchange.send(b"0\r\n\r\n")


class _Tokens(BaseHTTPRequestHandler):
    """Where a service account gets its token."""

    def do_POST(self) -> None:
        body = json.dumps({"access_token": "ya29.token", "expires_in": 3600, "token_type": "Bearer"}).encode()
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def google_login(directory: Path) -> Iterator[Path]:
    """The file of a service account whose token host is on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Tokens)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    file = directory / "service-account.json"
    facts = {
        "type": "service_account",
        "project_id": "our-project",
        "private_key_id": "1",
        "private_key": key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
        "client_email": "robot@our-project.iam.gserviceaccount.com",
        "token_uri": f"http://127.0.0.1:{server.server_port}/token",
    }
    file.write_text(json.dumps(facts))
    try:
        yield file
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
