"""A little of Markdown."""

import re

RULES = [
    (r"\*(.+?)\*", r"<i>\1</i>"),
    (r"\*\*(.+?)\*\*", r"<b>\1</b>"),
    (r"`(.+?)`", r"<code>\1</code>"),
]


def inline(text):
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    return text


def render(text):
    blocks = []
    for block in text.strip().split("\n\n"):
        if block.startswith("# "):
            blocks.append(f"<h1>{inline(block[2:])}</h1>")
        else:
            blocks.append(f"<p>{inline(block)}</p>")
    return "\n".join(blocks)
