"""Trees of folders as nested dicts: name -> subtree, None for a file."""


def paths(tree, prefix=""):
    """Every path, a folder before what is in it."""
    found = []
    for name, below in sorted(tree.items()):
        path = f"{prefix}{name}"
        if below is None:
            found.append(path)
        else:
            found.append(path + "/")
            found.extend(paths(below, prefix + "/"))
    return found


def depth(tree):
    if not tree:
        return 0
    return 1 + max(depth(below) if below else 0 for below in tree.values())


def count_files(tree):
    return sum(1 if below is None else count_files(below) for below in tree.values())
