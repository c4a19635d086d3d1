from .defaults import DEFAULTS


def parse(text):
    """`name = value` lines; # begins a comment."""
    found = {}
    for line in text.splitlines():
        line = line.partition("#")[0].strip()
        if line:
            name, _, value = line.partition("=")
            found[name.strip()] = value.strip()
    return found


def load(text):
    settings = {**DEFAULTS, **parse(text)}
    settings["port"] = int(settings["port"])
    settings["url"] = f"http://{settings['host']}:{settings['port']}"
    settings["debug"] = str(settings["debugging"]).lower() in ("true", "yes", "1")
    return settings
