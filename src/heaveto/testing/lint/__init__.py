"""Rules that no type checker and no other linter knows: `python -m heaveto.testing.lint PATH...`.

Each finding names its rule: `path:line: RULE what is wrong; what right looks like`. A comment on the same line silences one,
with a reason: `# heaveto: allow raw-scope a moment of its own after the stop`. A comment that silences nothing is a finding.
"""

from .findings import Finding, check_file, check_source, python_files
from .rules import RULES

__all__ = ["RULES", "Finding", "check_file", "check_source", "python_files"]
