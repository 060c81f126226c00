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


def sparkline(values: Sequence[float], columns: int, *, top: float = 0.0, blocks: str = BLOCKS) -> str:
    """The last values, each as a block; the highest is `top`, or the largest of all. Blank on the left."""
    top = max(top, *values) if values else top
    shown = (
        [_block(value / top if top else 0.0, blocks) for value in values[-columns:]] if columns > 0 else []
    )
    return "".join(shown).rjust(columns)


def _block(share: float, blocks: str) -> str:
    return blocks[min(len(blocks) - 1, int(share * len(blocks)))]
