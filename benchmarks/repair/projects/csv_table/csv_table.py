"""Write rows as text."""


def quote(value):
    text = str(value)
    if "," in text or '"' in text:
        escaped = text.replace('"', '""')
        return f'"{escaped}"'
    return text


def line(values):
    return ", ".join(quote(value) for value in values)


def table(header, rows):
    return "\n".join([line(header), *(line(row) for row in rows)]) + "\n"


def column(header, rows, name):
    at = header.index(name)
    return [row[at] for row in rows]
