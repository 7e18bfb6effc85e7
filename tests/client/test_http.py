"""Errors come back as the classes they were raised as."""

import pytest

from bullpen import errors
from bullpen.client.http import error_of
from bullpen.client.locate import find_address, find_token
from bullpen.schema.api import ErrorBody
from bullpen.schema.wire import encode
from bullpen.system.address import TcpAddress, UnixAddress, parse_host


@pytest.mark.parametrize(
    "error",
    [
        errors.WorkspaceNotFound("w1"),
        errors.SessionNotFound("s1"),
        errors.HostingWorkspaces(),
        errors.AgentNotReady(),
        errors.DataDirectoryInUse("/data", 42, "1", "now"),
        errors.StoreFull(),
        errors.ProviderError("no route"),
        errors.ConfigError("bad"),
    ],
)
def test_an_error_survives_the_wire(error: errors.BullpenError) -> None:
    """Its class by its code, its text, and the facts that the call or the text tells."""
    body = encode(ErrorBody(message=error.message, code=error.code))
    back = error_of(500, body, "/workspaces/w1/sessions/s1")
    assert (type(back), back.message) == (type(error), error.message)
    for fact in ("workspace_id", "session_id", "pid", "directory"):
        assert getattr(back, fact, None) == getattr(error, fact, None)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (404, b'{"message":"workspace not found"}', errors.WorkspaceNotFound),
        (404, b"404 page not found\n", errors.NotFound),
        (409, b'{"message":"client has been retired"}', errors.ClientRetired),
        (409, b'{"message":"other"}', errors.Conflict),
        (401, b"", errors.Unauthorized),
        (503, b'{"message":"server is shutting down"}', errors.ShuttingDown),
        (500, b'{"message":"sql: no rows"}', errors.BullpenError),
        (502, b"\xff", errors.BullpenError),
    ],
)
def test_a_server_without_codes_is_understood_too(status: int, body: bytes, kind: type) -> None:
    """By the wire's fixed texts, else by the status."""
    assert type(error_of(status, body)) is kind


def test_the_server_is_the_one_named_else_the_users_own() -> None:
    env = {"XDG_RUNTIME_DIR": "/run/user/7", "BULLPEN_HOST": "tcp://localhost:7"}
    assert find_address("unix:///a.sock", env) == parse_host("unix:///a.sock")
    assert find_address(None, env) == TcpAddress("localhost", 7)
    del env["BULLPEN_HOST"]
    own = find_address(None, env)
    assert isinstance(own, UnixAddress)
    assert str(own.path) == "/run/user/7/bullpen/server.sock"


def test_a_token_is_for_tcp_alone(tmp_path: object) -> None:
    """The variable goes before the file."""
    env = {"HOME": str(tmp_path), "BULLPEN_TOKEN": "from-env"}
    tcp, unix = TcpAddress("127.0.0.1", 1), parse_host("unix:///a.sock")
    assert (find_token(unix, env), find_token(tcp, env)) == ("", "from-env")
    del env["BULLPEN_TOKEN"]
    assert find_token(tcp, env) == ""
    directory = parse_host(f"unix://{tmp_path}/.local/share/bullpen").path  # type: ignore[union-attr]
    directory.mkdir(parents=True)
    (directory / "token").write_text("from-file\n")
    assert find_token(tcp, env) == "from-file"
