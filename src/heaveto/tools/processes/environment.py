"""What a child process may see of our environment: an allow-list, so that a key under any name stays here."""

from __future__ import annotations

import os
from collections.abc import Mapping

__all__ = ["child_environment"]

ALLOWED = frozenset(
    {
        # who and where
        *("HOME", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP", "TMPDIR", "TZ", "USER"),
        *("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"),
        # language
        *("LANG", "LANGUAGE"),
        # what makes a project's tests behave as in the shell that we were started from
        *("CI", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYENV_VERSION", "LD_LIBRARY_PATH"),
        *("CARGO_HOME", "GOPATH", "GOROOT", "JAVA_HOME", "NODE_PATH", "RUSTUP_HOME"),
        # which certificates to trust: paths of public files
        *("REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE"),
    }
)
# Left out on purpose: proxies and package indexes (their URLs may hold passwords), agents' sockets, every *_KEY and *_TOKEN.


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The allowed part of our environment, with `extra` on top of it.

    Args:
        extra: Variables that the child needs, or needs with other values.
    """
    allowed = {name: value for name, value in os.environ.items() if name in ALLOWED or name.startswith("LC_")}
    return allowed | dict(extra or {})
