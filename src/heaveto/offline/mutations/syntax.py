"""A file that is not valid Python: a colon, a bracket or a quote that is missing near where the parser stumbled."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["mend_syntax"]

AROUND = 2  # the parser notices a missing bracket up to this many lines late
HEADS = ("def ", "class ", "if ", "elif ", "else", "for ", "while ", "try", "except", "finally", "with ", "async ")


def mend_syntax(text: str) -> Iterator[tuple[int, str]]:
    """Texts that do parse, with the line that each changes."""
    try:
        compile(text, "<text>", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = text.split("\n")
        at = min(error.lineno or 1, len(lines))
        for line in sorted(range(max(1, at - AROUND), min(len(lines), at + 1) + 1), key=lambda each: abs(each - at)):
            for changed in _changed(lines[line - 1]):
                mended = "\n".join([*lines[: line - 1], changed, *lines[line:]])
                if _parses(mended):
                    yield line, mended


def _changed(line: str) -> Iterator[str]:
    if not line.strip():
        return
    if line.strip().startswith(HEADS):
        yield line.rstrip() + ":"
    for tail in (")", "]", "}", "):", '"', "'", ",", "):"):
        yield line.rstrip() + tail
    for extra in ")]}:":
        if line.rstrip().endswith(extra):
            yield line.rstrip()[:-1]
    if line.strip().startswith(("if ", "elif ", "while ")) and " = " in line:
        yield line.replace(" = ", " == ", 1)
    yield "    " + line
    if line.startswith("    "):
        yield line[4:]


def _parses(text: str) -> bool:
    try:
        compile(text, "<text>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
