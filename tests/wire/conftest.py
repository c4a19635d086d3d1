"""The modules beside this one serve `make wire` and `make bytes` too, which run them as scripts."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
