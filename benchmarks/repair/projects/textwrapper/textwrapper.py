"""Break text into lines of a given width."""


def wrap(text, width):
    """Lines of at most `width` characters, broken between words."""
    lines = []
    line = ""
    for word in text.split():
        if not line:
            line = word
        elif len(line) + 1 + len(word) <= width:
            line = " " + word
        else:
            lines.append(line)
            line = word
    if line:
        lines.append(line)
    return lines


def indent(lines, prefix="    "):
    return [prefix + line for line in lines]


def fill(text, width, prefix=""):
    return "\n".join(indent(wrap(text, width - len(prefix)), prefix))
