"""What msgspec refuses is read all the same, and nothing that is sent can be refused for its text."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heaveto.models.json_bytes import decode, encode, is_object, without_strays

any_text = st.text(st.characters(exclude_categories=()))
decoder = msgspec.json.Decoder(dict[str, str], strict=False)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"a": "x\\ud83dy"}', "x�y"),
        (b'{"a": "\\ud83d\\ude00"}', "😀"),
        (b'{"a": "\\udc00\\ud83d"}', "��"),
        (b'{"a": "\xff"}', "�"),
        (b'{"a": "\xed\xa0\xbd"}', "���"),
    ],
)
def test_strays_are_replaced(data: bytes, text: str) -> None:
    assert decode(decoder, data) == {"a": text}


@pytest.mark.parametrize("data", [b"", b"{", b'{"a": 1', b"[]", b'{"a": {}}', b"[" * 100_000])
def test_what_is_no_json_of_the_type_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        decode(decoder, data)


@given(any_text, any_text)
def test_any_text_can_be_encoded(key: str, value: str) -> None:
    data = encode({key: [value, {"x": value}]})
    assert json.loads(data.decode()) == {without_strays(key): [without_strays(value), {"x": without_strays(value)}]}


@given(any_text)
def test_text_without_strays_stays_and_any_other_becomes_encodable(text: str) -> None:
    clean = without_strays(text)
    clean.encode()
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert clean == text


def test_only_an_object_is_an_object() -> None:
    assert [is_object(text) for text in ('{"a": 1}', "[]", "", '{"a"', "[" * 100_000)] == [True, False, False, False, False]
