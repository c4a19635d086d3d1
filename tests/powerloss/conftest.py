"""The modules beside this one serve `make powerloss` too, which runs them as scripts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
