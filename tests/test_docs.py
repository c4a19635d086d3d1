"""Each Python block of the documentation runs: those with tests under pytest, the others as programs.

A block of `text` right behind a program is what it prints.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n^```text\n(?P<prints>.*?)^```$)?", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    name: str
    code: str
    prints: str | None


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    return [
        Block(f"{page.stem} line {text.count(chr(10), 0, each.start()) + 2}", each["code"], each["prints"])
        for each in BLOCK.finditer(text)
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HEAVETO_STATE": str(folder / "state"), "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-W", "error", *command], capture_output=True, text=True, cwd=folder, env=environment, timeout=100
    )


@pytest.mark.parametrize("block", [pytest.param(block, id=block.name) for block in BLOCKS])
def test_it_does_what_it_says(block: Block, tmp_path: Path) -> None:
    has_tests = re.search(r"^(async )?def test_", block.code, re.MULTILINE)
    file = tmp_path / ("test_block.py" if has_tests else "program.py")
    file.write_text(block.code, "utf-8")
    if has_tests:
        plugins = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "timeout", "xdist")]
        options = ["-q", "-c", "/dev/null", "--rootdir", str(tmp_path), "-W", "error", *plugins]
        done = run(tmp_path, "-m", "pytest", *options, str(file))
        assert done.returncode == 0, done.stdout + done.stderr
        return
    done = run(tmp_path, str(file))
    assert done.returncode == 0, done.stderr
    if block.prints is not None:
        assert done.stdout == block.prints


def test_there_are_blocks_and_each_page_closes_them() -> None:
    assert len(BLOCKS) >= 6
    for page in PAGES:
        text = page.read_text("utf-8")
        assert len(re.findall(r"^```", text, re.MULTILINE)) % 2 == 0, page.name
        assert len(blocks_of(page)) == len(re.findall(r"^```python$", text, re.MULTILINE)), page.name
