"""What one token, one client, one turn, one request costs: derived from the results, nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.results import Result, fan_out, figure, rows
from bench.targets import NOTHING, aligned

TOKENS = 10_000
MANY, PACED_TOKENS = 100, 25_000

Cost = Callable[[Result], float | None]


def cpu_per_token(clients: int) -> Cost:
    """µs for each token of one paced answer, shown to so many clients."""
    return lambda result: scaled(fan_out(result, "best_cpu_s", clients=clients), 1e6 / TOKENS)


def cpu_per_token_and_client(result: Result) -> float | None:
    """µs for each token that one more client sees."""
    one, many = (fan_out(result, "best_cpu_s", clients=clients) for clients in (1, MANY))
    return None if one is None or many is None else (many - one) * 1e6 / TOKENS / (MANY - 1)


def cpu_per_event_and_client(result: Result) -> float | None:
    """µs for each event that one more client is sent: a token's cost, spread over fewer events."""
    token, events = cpu_per_token_and_client(result), fan_out(result, "events_per_client", clients=MANY)
    return None if token is None or not events else token * TOKENS / events


def cpu_per_token_of_a_long_answer(result: Result) -> float | None:
    """µs for each token of the longest answer of suite e."""
    listed = rows(result, "e")
    if not listed:
        return None
    spent, tokens = figure(listed[-1], "server_cpu_s"), figure(listed[-1], "tokens")
    return spent * 1e6 / tokens if spent is not None and tokens else None


def memory_per_token(result: Result) -> float | None:
    """Bytes that the server grew by at most, over the tokens of one answer with one client."""
    before, peak = (fan_out(result, key, clients=1) for key in ("rss_before", "rss_peak"))
    return None if before is None or peak is None else (peak - before) / TOKENS


def at(*keys: str, scale: float = 1) -> Cost:
    return lambda result: scaled(figure(result, *keys), scale)


def scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


COSTS: Mapping[str, Cost] = {
    "CPU per token, 1 client (10,000 at 1,000/s), µs": cpu_per_token(1),
    "CPU per token, 10 clients, µs": cpu_per_token(10),
    "CPU per token, 100 clients, µs": cpu_per_token(MANY),
    "CPU per token and further client, µs": cpu_per_token_and_client,
    "CPU per event and further client, µs": cpu_per_event_and_client,
    "CPU per token, 100 sessions at 50/s, µs": at("h2", "best_cpu_s", scale=1e6 / PACED_TOKENS),
    "CPU per token, 8,000 to 10 clients, µs": cpu_per_token_of_a_long_answer,
    "CPU per turn of one token, µs": at("c", "cpu_ms_per_turn", scale=1e3),
    "CPU per turn, 32 sessions at once, µs": at("c2", "concurrent32_cpu_ms_per_turn", scale=1e3),
    "CPU per file read by the agent, µs": at("i", "read", "cpu_ms_per_call", scale=1e3),
    "CPU per shell call, µs": at("i", "bash", "cpu_ms_per_call", scale=1e3),
    "CPU per GET of 1,000 messages, µs": at("j", "cpu_ms_per_get", scale=1e3),
    "CPU of a start, ms": at("a", "start_cpu_s", scale=1e3),
    "CPU while 200 clients idle, %": at("b", "idle_cpu_pct_with_clients"),
    "memory per token at the peak, bytes": memory_per_token,
    "memory per idle client, KiB": at("b", "rss_per_client_kib"),
    "memory per session, KiB": at("b", "rss_per_session_kib"),
}


def table(ours: Mapping[str, Result | None], beside: Mapping[str, Result | None]) -> str:
    """A column for each result, first ours, then those beside them; a cost that none of ours has is left out."""
    mine = {name: result for name, result in ours.items() if result is not None}
    others = {name: result for name, result in beside.items() if result is not None}
    lines = [
        [name, *(shown(cost(result)) for result in (*mine.values(), *others.values()))]
        for name, cost in COSTS.items()
        if any(cost(result) is not None for result in mine.values())
    ]
    return aligned([["cost", *mine, *others], *lines])


def shown(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
