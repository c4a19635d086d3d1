"""Small edits by the syntax tree, a module for each family of slips. Importing the families fills the table of rules."""

from . import calls, constants, names, operators, statements
from .hints import hinted
from .rules import Place, proposals
from .syntax import mend_syntax

__all__ = ["Place", "calls", "constants", "hinted", "mend_syntax", "names", "operators", "proposals", "statements"]
