"""Read lines such as `2024-05-01 GET /index 200 0.034`."""


def parse(line):
    date, verb, path, status, seconds = line.split()
    return {
        "date": date,
        "verb": verb,
        "path": path,
        "status": status,
        "seconds": float(seconds),
    }


def parse_all(text):
    return [parse(line) for line in text.splitlines() if line.strip()]


def failures(entries):
    return [entry["path"] for entry in entries if entry["status"] >= 500]


def slowest(entries):
    return max(entries, key=lambda entry: entry["seconds"])["path"]
