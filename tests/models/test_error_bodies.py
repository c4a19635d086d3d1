"""Every provider's shape of an error, and the waits that they ask for."""

import json
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.models.error_bodies import api_error, asked_wait, page_title, read_error, read_error_object, should_retry


@pytest.mark.parametrize(
    ("body", "message", "status"),
    [
        ({"error": {"message": "no credits", "code": 402}}, "no credits", 402),
        ({"error": {"message": "bad tool", "code": "tool_use_failed", "status_code": 400}}, "bad tool", 400),
        ({"error": "overloaded"}, "overloaded", None),
        ({"detail": "Invalid API Key"}, "Invalid API Key", None),
        ({"message": "wrong model", "code": "1211"}, "wrong model", None),
        ([{"error": {"message": "a list", "code": 400}}], "a list", 400),
        ({"detail": [{"msg": "field required"}]}, '[{"msg": "field required"}]', None),
        ({"error": {"message": "", "code": 500}}, '{"message": "", "code": 500}', 500),
        (
            {
                "error": {
                    "message": "Provider returned error",
                    "code": 429,
                    "metadata": {"raw": '{"error": {"message": "slow down"}}', "provider_name": "X"},
                }
            },
            "Provider returned error (X: slow down)",
            429,
        ),
        ("busy", "busy", None),
    ],
)
def test_the_message_is_found(body: object, message: str, status: int | None) -> None:
    error = read_error(json.dumps(body).encode())
    assert (error.message, error.status) == (message, status)


def test_plain_text_pages_and_nothing_have_a_message_too() -> None:
    assert read_error(b"upstream connect error\n").message == "upstream connect error"
    assert read_error(b" \n").message == "an empty body"
    page = b"<!DOCTYPE html>\n<html><head><title>502 Bad &amp; Gateway</title></head></html>"
    assert read_error(page).message == "an HTML page where JSON was expected: 502 Bad & Gateway"
    assert page_title(b'{"html": 1}') is None


keys = st.sampled_from(["error", "message", "code", "status_code", "metadata", "raw", "headers", "X-RateLimit-Reset"])
leaves = st.none() | st.booleans() | st.integers() | st.text()
shapes = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4))


@given(st.binary(max_size=200) | shapes.map(lambda shape: json.dumps(shape).encode()))
def test_no_body_breaks_the_reading(body: bytes) -> None:
    assert read_error(body).message


def test_a_long_message_is_cut() -> None:
    assert len(read_error(b"x" * 5000).message) == 1000


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1", "retry-after-ms": "0"}, 1),
        ({"retry-after": "1", "retry-after-ms": "250"}, 0.25),
        ({"retry-after": formatdate(1_000_030, usegmt=True)}, 30),
        ({"retry-after": formatdate(999_000, usegmt=True)}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_waits(headers: dict[str, str], wait: float | None) -> None:
    assert asked_wait(headers, 1_000_000) == wait


def test_should_retry_is_what_the_server_says() -> None:
    assert [
        should_retry(h) for h in ({"x-should-retry": "true"}, {"x-should-retry": "False"}, {}, {"x-should-retry": "?"})
    ] == [
        True,
        False,
        None,
        None,
    ]


def test_a_reset_in_the_body_is_a_wait() -> None:
    body = {"error": {"message": "limit", "code": 429, "metadata": {"headers": {"X-RateLimit-Reset": "1000060000"}}}}
    assert api_error("openrouter", 429, {}, json.dumps(body).encode(), 1_000_000).retry_after == 60
    assert api_error("openrouter", 429, {}, json.dumps(body).encode(), 2_000_000).retry_after is None


@pytest.mark.parametrize("code", [[], {}, [[1]], {"a": []}, None, 1.5])
@pytest.mark.parametrize("shape", ["text", "object"])
def test_a_code_that_is_neither_a_word_nor_a_number_is_none(code: object, shape: str) -> None:
    body = {"error": "busy", "code": code} if shape == "text" else {"error": {"message": "busy", "code": code, "type": code}}
    assert read_error(json.dumps(body).encode()).code is None


@pytest.mark.parametrize("status", ["9" * 5000, "\u0664\u0660\u0664" * 3, "4040"])
def test_a_status_of_too_many_digits_is_none(status: str) -> None:
    assert read_error_object({"message": "busy", "status": status}).status is None


def test_a_reset_time_beyond_all_floats_is_none() -> None:
    metadata = {"headers": {"X-RateLimit-Reset": 10**400}}
    assert read_error_object({"error": {"message": "limit", "metadata": metadata}}).wait_until is None


def test_a_reset_without_an_end_is_no_wait() -> None:
    body = b'{"error": {"message": "limit", "metadata": {"headers": {"X-RateLimit-Reset": "1e999"}}}}'
    assert api_error("p", 429, {}, body, now=1.0).retry_after is None
