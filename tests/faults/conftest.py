"""The modules beside this one serve `make faults` too, which runs them as scripts."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "reference")]
