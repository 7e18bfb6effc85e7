from __future__ import annotations

from typing import Any

import pytest

from bullpen.providers.refusals import error_in, is_retryable, resets_at, retry_after_s, trouble_of

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    "said",
    [
        "prompt is too long: 213462 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000",
        "Input is too long for requested model.",
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Please reduce the length of the messages or completion.",
        "the request exceeds the available context size, try increasing it",
        "request (40000 tokens) exceeds the available context size (8192 tokens)",
        "prompt too long; exceeded max context length by 4 tokens",
        "input length exceeds the context length",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Invalid request: Your request exceeded model token limit: 262144",
        "invalid params, context window exceeds limit",
        "Range of input length should be [1, 129024]",
        "prompt token count of 130000 exceeds the limit of 128000",
        "Error code: context_length_exceeded",
    ],
)
def test_vendors_words_for_a_conversation_that_does_not_fit(said: str) -> None:
    assert trouble_of(400, [], said) == "overflow"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Your credit balance is too low to access the Anthropic API.", "limit"),
        ("anthropic/claude-nope is not a valid model ID", "missing"),
        ("Model Not Exist", "missing"),
        ("model 'llama9' not found, try pulling it first", "missing"),
        ("The model `nope` does not exist.", "missing"),
        ("API key not valid. Please pass a valid API key.", "auth"),
        ("tools.0.name: must be a string", ""),
    ],
)
def test_what_a_bad_request_was_about(said: str, kind: str) -> None:
    """Many hosts have one status for everything that is wrong."""
    assert trouble_of(400, ["invalid_request_error"], said) == kind


def test_a_rate_limit_that_speaks_of_tokens_is_no_overflow() -> None:
    assert trouble_of(429, [], "Request too large: prompt is too long for your tokens per minute") == "limit"


@pytest.mark.parametrize(
    ("status", "types", "kind", "retryable"),
    [
        (400, ["context_length_exceeded"], "overflow", False),
        (400, ["invalid_request_error"], "", False),
        (429, ["insufficient_quota"], "limit", False),
        (429, ["rate_limit_error"], "limit", True),
        (402, [], "limit", False),
        (500, ["api_error"], "", True),
        (200, ["overloaded_error"], "overloaded", True),
        (200, ["authentication_error"], "auth", False),
        (529, [], "overloaded", True),
    ],
)
def test_kinds(status: int, types: list[str], kind: str, retryable: bool) -> None:
    assert (trouble_of(status, types, ""), is_retryable(status, types)) == (kind, retryable)


def test_an_error_in_a_stream_has_its_kind_too() -> None:
    error = error_in({"type": "invalid_request_error", "message": "prompt is too long: 5 > 4"})
    assert (error.kind, error.retryable, error.details) == ("overflow", False, "prompt is too long: 5 > 4")


def test_retry_after_may_be_a_date() -> None:
    headers = {"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}
    assert retry_after_s(headers, 20.0) == 40.0
    assert retry_after_s(headers, 100.0) == 0.0


@pytest.mark.parametrize(
    ("headers", "moment"),
    [
        ({"anthropic-ratelimit-requests-reset": "2027-01-15T08:01:00Z"}, NOW + 60),
        ({"anthropic-ratelimit-unified-reset": "1800000060"}, NOW + 60),
        ({"x-ratelimit-reset-tokens": "6m0s"}, NOW + 360),
        ({"x-ratelimit-reset-tokens": "250ms"}, NOW + 0.25),
        ({"x-ratelimit-reset-tokens": "7"}, NOW + 7),
        ({"x-ratelimit-reset": "1800000060000"}, NOW + 60),
        (
            {
                "x-ratelimit-reset-requests": "9s",
                "x-ratelimit-remaining-requests": "5",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-tokens": "0",
            },
            NOW + 2,
        ),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "3s"}, NOW + 3),
        ({"x-ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-reset": "nan"}, None),
        ({}, None),
    ],
)
def test_when_a_limit_begins_anew(headers: dict[str, Any], moment: float | None) -> None:
    """Dates, epochs and spans; of several limits the last that is used up."""
    assert resets_at(headers, NOW) == moment
