"""A part of the fault matrix, and that the page in the docs is the table. `make faults` runs all of it on both back ends."""

from __future__ import annotations

import pytest
from examples import classes
from opening import OPENING
from rows import HISTORIES, POINTS, ROWS, Row

from faults import PAGE, check, faults_page
from heaveto.testing.clocks import Backend

SHARE = 4  # a cell of so many; each row has one at least
SLOW = ("process", "MCP")
CELLS = [(row, point) for row in ROWS for point in row.cells if point not in SLOW]
CHOSEN = [cell for number, cell in enumerate(CELLS) if number % SHARE == 0 or next(iter(cell[0].cells)) == cell[1]]


@pytest.mark.parametrize(("row", "point"), [pytest.param(*cell, id=f"{cell[0].name}-{cell[1]}") for cell in CHOSEN])
def test_a_cell_comes_out_as_the_table_says(row: Row, point: str) -> None:
    backend: Backend = "trio" if POINTS.index(point) % 2 else "asyncio"
    assert check(row, point, backend) is None


def test_the_page_is_what_the_table_makes() -> None:
    assert PAGE.read_text("utf-8") == faults_page(), "make faults ARGS=--write writes it anew"


def test_every_cause_and_error_has_a_row() -> None:
    there = {row.of for row in ROWS} | {each.of for each in OPENING}
    assert set(classes()) - there == set()
    assert len(ROWS) >= 40


def test_the_table_names_points_and_histories_that_there_are() -> None:
    assert all(set(row.cells) <= set(POINTS) for row in ROWS)
    used = {result.history for row in ROWS for _, result in row.cells.values()}
    assert used == set(HISTORIES)
