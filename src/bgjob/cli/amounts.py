"""Amounts in a few columns: times, sizes, shares, and how they went."""

from collections.abc import Sequence

BLOCKS, ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.-=+*%#"
UNITS = "KMGTP"


def age(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def size(size_bytes: float) -> str:
    """At most four columns up to a petabyte: 0K, 12K, 1.5M, 100M."""
    size_bytes /= 1024
    for unit in UNITS:
        if size_bytes < 9.95 and unit != "K":
            return f"{size_bytes:.1f}{unit}"
        if size_bytes < 999.5:
            return f"{size_bytes:.0f}{unit}"
        size_bytes /= 1024
    return f"{size_bytes:.0f}E"


def percent(share: float) -> str:
    return f"{share:.0f}%"


def sparkline(values: Sequence[float], columns: int, *, low: float, high: float, blocks: str = BLOCKS) -> str:
    """The last values, each as a block, from `low` to `high`. Blank on the left."""
    last = values[-columns:] if columns > 0 else ()
    return "".join(_block(value - low, high - low, blocks) for value in last).rjust(columns)


def _block(value: float, most: float, blocks: str) -> str:
    step = int(value / most * len(blocks)) if most > 0 else 0
    return blocks[max(0, min(step, len(blocks) - 1))]
