"""Who runs us."""

import os


def own_user() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or f"uid {os.getuid()}"
