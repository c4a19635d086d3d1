"""The page of causes and errors says what the classes say."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from errors_page import PAGE, errors_page, sentence
from examples import classes, example

from heaveto.causes import Described, from_data, to_data

CLASSES = list(classes())


def test_the_page_is_what_the_classes_make() -> None:
    assert PAGE.read_text("utf-8") == errors_page(), "make reference writes it anew"


def test_there_are_as_many_as_there_were() -> None:
    """Names may grow, not shrink."""
    assert len(CLASSES) >= 53
    assert len({cls.code for cls in CLASSES}) == len(CLASSES), "each has a code of its own"


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.code)
def test_each_has_a_sentence_and_comes_through_data_copies_and_pickles(cls: type[Described]) -> None:
    assert sentence(cls).endswith("."), f"{cls.__name__} has no docstring of its own"
    assert "code" in vars(cls), "a code of its own"
    error = example(cls)
    forms = [from_data(json.loads(json.dumps(to_data(error)))), copy.copy(error), pickle.loads(pickle.dumps(error))]
    for other in forms:
        assert type(other) is cls
        assert (str(other), to_data(other)) == (str(error), to_data(error))
        assert other.retryable == error.retryable
    text = str(error)
    assert text == text.strip().rstrip(".")
    assert text
