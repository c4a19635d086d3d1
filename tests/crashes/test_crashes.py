"""A few of the kills of `make crashes`, and that its judges see what is wrong."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from crash_judge import only_what_was_allowed, wrong_with
from crash_life import Left, begin, live
from crash_outside import Note
from crash_scenarios import SCENARIOS
from msgspec import structs

from heaveto.journal.records import (
    CallSpent,
    DriveStarted,
    Record,
    Replied,
    ToolApproved,
    ToolFinished,
    ToolResolved,
    ToolStarted,
)

HERE = Path(__file__).parent


def test_some_kills_of_each_scenario() -> None:
    """In a process of their own: the suite's may have threads, which a fork does not take along."""
    command = [sys.executable, str(HERE / "crashes.py"), "--processes", "1", "--every", "43", "--chains", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("crashes: ")
    assert "nothing wrong" in last
    assert int(last.split()[1]) >= 2 * len(SCENARIOS)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Left:
    """What the plain scenario leaves when nobody kills it."""
    folder = tmp_path_factory.mktemp("crashes") / "run"
    begin(folder)
    live(SCENARIOS["plain"], folder, "asyncio")
    return Left.of(folder)


def problems(*lefts: Left) -> str:
    return "; ".join(wrong_with(SCENARIOS["plain"], lefts))


def test_what_is_right_is_not_called_wrong(left: Left) -> None:
    assert problems(left) == ""
    assert problems(replace(left, records=left.records[:6], notes=left.notes[:9]), left) == ""


def test_an_effect_that_came_twice_is_seen(left: Left) -> None:
    paid = next(note for note in left.notes if note.text.startswith("paid"))
    assert "paid rent: 2 times" in problems(replace(left, notes=[*left.notes, paid]))
    ran = Note("ran", paid.name, "pay")
    assert "ran 2 times, and 0 verdicts" in problems(replace(left, notes=[*left.notes, ran]))


def test_a_rung_that_may_not_say_so_is_seen(left: Left) -> None:
    at = next(index for index, each in enumerate(left.records) if isinstance(each, ToolFinished) and each.name == "shout")
    finished = left.records[at]
    verdict = ToolResolved(call_id=finished.call_id, name="shout", verdict="done", by="idempotent", content=finished.content)
    assert "was settled by: idempotent" in problems(
        replace(left, records=[*left.records[:at], verdict, *left.records[at + 1 :]])
    )


def test_a_lost_effect_is_seen(left: Left) -> None:
    notes = [note for note in left.notes if note.what != "effect"]
    assert "has a result, and nothing was done" in problems(replace(left, notes=notes))


def test_what_was_settled_and_ran_again_or_reads_otherwise_is_seen(left: Left) -> None:
    before = replace(left, notes=left.notes[:-4], records=list(left.records[:-2]))
    call_id = next(note.name for note in left.notes if note.what == "ran")
    assert "was settled, and ran again" in problems(before, replace(left, notes=[*left.notes, Note("ran", call_id, "look")]))
    before.records[1] = DriveStarted(epoch=1, model="another")
    assert "records have changed since" in problems(before, left)


def test_a_lost_record_is_seen(left: Left) -> None:
    assert "records were safe, and 4 are there" in problems(replace(left, records=left.records[:4]), left)


def test_a_call_that_nobody_counted_is_seen(left: Left) -> None:
    asked = replace(left, notes=[*left.notes, Note("asked", number=2)])
    assert "1 calls came to nothing, and 0 are flagged" in problems(asked)


def test_a_reply_that_was_counted_twice_is_seen(left: Left) -> None:
    at = next(index for index, each in enumerate(left.records) if isinstance(each, Replied))
    spent = CallSpent(turn=1, usage=left.records[at].usage, error={})
    assert "was counted" in problems(replace(left, records=[*left.records[:at], spent, *left.records[at:]]))


def test_what_nobody_allowed_is_seen(tmp_path: Path) -> None:
    begin(tmp_path / "run")
    live(SCENARIOS["approval"], tmp_path / "run", "asyncio")
    left = Left.of(tmp_path / "run")
    assert wrong_with(SCENARIOS["approval"], [left]) == []

    def problems(*words: Record) -> str:
        records = [record for record in left.records if not isinstance(record, ToolApproved)]
        return "; ".join(only_what_was_allowed(SCENARIOS["approval"], [replace(left, records=[*records, *words])]))

    words = [record for record in left.records if isinstance(record, ToolApproved)]
    assert "bought tea, and nobody allowed" in problems(*words[1:])
    assert "bought tea, and nobody allowed" in problems(structs.replace(words[0], verdict="denied"), *words[1:])
    assert "two words about" in problems(*words, words[0])
    (edited,) = [word for word in words if word.arguments]
    others = [word for word in words if word is not edited]
    assert "is for something else" in problems(*others, structs.replace(edited, arguments='{"what": "a bakery"}'))


def test_a_journal_that_the_code_would_not_have_written_is_seen(left: Left) -> None:
    at = next(index for index, each in enumerate(left.records) if isinstance(each, ToolStarted))
    changed = structs.replace(left.records[at], key="another")
    assert "has the key another" in problems(replace(left, records=[*left.records[:at], changed, *left.records[at + 1 :]]))
