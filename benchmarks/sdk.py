"""What a model call costs beside the official SDKs, in one run: CPU, as ratios, for the machine is shared.

    python benchmarks/sdk.py [--quick] [--sdks FOLDER]        `make sdk`

FOLDER has the packages `openai` and `anthropic`, which nothing else here uses. Each ratio is the SDK's CPU over ours, the
median over the repetitions; our client speaks the same API to the same server, and `fast` is aiohttp on uvloop. "reading its
JSON alone" is as far down as any decoder in Python can get: our side splits the events there, reads the JSON, and does no
more. The last line says how many goals were reached; below all of them the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias

from speed import server

__all__ = ["GOALS", "Goal", "main", "table"]

HERE = Path(__file__).parent
Figures: TypeAlias = dict[str, list[dict[str, float]]]


class Goal(NamedTuple):
    """A line of the table: how many times less than the SDK it is to cost; 0 is told and not held to anything."""

    name: str
    figure: str
    fast: bool
    times: float


GOALS = (
    Goal("chunk of text", "chunk", False, 10),
    Goal("chunk of text, fast", "chunk", True, 20),
    Goal("chunk of text, decoding alone", "decode", False, 50),
    Goal("chunk of text, reading its JSON alone", "json", False, 0),
    Goal("short answer", "reply", False, 0),
    Goal("short answer, fast", "reply", True, 0),
    Goal("request of 300 messages, made", "made", False, 50),
    Goal("request of 300 messages, answered", "request", False, 0),
    Goal("request of 300 messages, answered, fast", "request", True, 0),
)
SDKS = {"openai": "chat", "anthropic": "messages"}


def table(found: Figures) -> tuple[list[str], int, int]:
    """The lines, how many goals were reached, and how many there are."""
    lines, reached, held = [f"{'':<40} {'SDK':>10} {'its us':>9} {'our us':>9} {'times':>7} {'goal':>5}"], 0, 0
    for goal in GOALS:
        for sdk, api in SDKS.items():
            theirs, ours = (
                [each[goal.figure] for each in found[side]] for side in (sdk, f"{api} fast" if goal.fast else api)
            )
            times = median(their / our for their, our in zip(theirs, ours, strict=True))
            held += goal.times > 0
            reached += 0 < goal.times <= times
            wanted = f"{goal.times:.0f}" if goal.times else ""
            figures = f"{median(theirs):>9,.1f} {median(ours):>9,.1f} {times:>7.1f} {wanted:>5}"
            lines.append(f"{goal.name:<40} {sdk:>10} {figures}".rstrip())
    return lines, reached, held


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="What a model call costs beside the official SDKs.")
    parser.add_argument("--quick", action="store_true", help="one repetition, to see that it works")
    parser.add_argument("--sdks", help="the folder with the packages of the SDKs", default="")
    options = parser.parse_args(arguments)
    sizes = ["1", "4"] if options.quick else ["3", "1"]
    environment = {**os.environ, "PYTHONPATH": options.sdks}
    with server() as url:
        command = [sys.executable, str(HERE / "sdk_sides.py"), url, *sizes]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    lines, reached, held = table(json.loads(done.stdout))
    print(*lines, sep="\n")
    print(f"beside the SDKs: {reached} of {held} goals reached")
    return 0 if reached == held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
