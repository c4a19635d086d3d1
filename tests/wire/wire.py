"""`make wire`: every reply decoded whole, byte by byte, at its nasty offsets, in two at many places, at random splits.

The last line is the figure. Exit status 1 when a conclusion is wrong, or when the recordings are missing where CI is set.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator

from hand_made import hand_made
from judge import OURS, WrongConclusion, cut, judge, judge_refusal, splits
from replies import FOLDER, Reply, recorded


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--random", type=int, default=150, help="random splits of each reply")
    options.add_argument("--two", type=int, default=400, help="places at which a reply is cut in two, at most")
    chosen = options.parse_args()
    began = time.monotonic()
    recordings, made = recorded(), hand_made()
    wrong, decodings = [], 0
    for reply in (*recordings, *made):
        try:
            decodings += try_all(reply, chosen.random, chosen.two)
        except WrongConclusion as error:
            print(f"wrong: {error}")
            wrong.append(reply.name)
    for name, (why, _) in sorted(OURS.items()):
        print(f"expected otherwise than the index says: {name}: {why}")
    right = sum(reply.name not in wrong for reply in recordings)
    verdict = "all as expected" if not wrong else f"{len(wrong)} wrong"
    seconds = time.monotonic() - began
    print(f"hand-made: {len(made) - sum(reply.name in wrong for reply in made)} of {len(made)}")
    if not recordings:
        print(f"wire: no recordings in {FOLDER} (HEAVETO_WIRE_DIR): hand-made alone, {decodings:,} decodings, {verdict}")
        return 1 if wrong or os.environ.get("CI") else 0
    print(f"wire: {right} of {len(recordings)} entries, {decodings:,} decodings in {seconds:.0f} s, {verdict}")
    return 1 if wrong else 0


def try_all(reply: Reply, random_splits: int, most_in_two: int) -> int:
    """Decode in every way; how many there were."""
    if reply.status != 200:
        judge_refusal(reply)
        return 1
    ways = [*splits(reply, random_splits), *in_two(reply, most_in_two)]
    for pieces in ways:
        judge(reply, pieces)
    return len(ways)


def in_two(reply: Reply, most: int) -> Iterator[list[bytes]]:
    step = max(1, len(reply.body) // most)
    for place in range(1, len(reply.body), step):
        yield cut(reply.body, [place])


if __name__ == "__main__":
    sys.exit(main())
