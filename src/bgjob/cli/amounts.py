"""Times, sizes and shares as a person reads them: short, and to the precision that matters; and how they went."""

from collections.abc import Sequence

BLOCKS, ASCII_BLOCKS = "▁▂▃▄▅▆▇█", "_.-=+*%#"
SIZES = "KMGTPE"
UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def duration(seconds: float) -> str:
    """0.4s, 12s, 2m05s, 3h20m, 5d4h."""
    for long_s, long, short_s, short in UNITS:
        if seconds >= long_s:
            whole, rest = divmod(int(seconds), long_s)
            return f"{whole}{long}{rest // short_s:0{1 if long == 'd' else 2}}{short}"
    return f"{max(0.0, seconds):.1f}s" if seconds < 9.95 else f"{int(seconds)}s"


def age(seconds: float) -> str:
    """In its largest unit: 12s, 2m, 3h, 5d."""
    for length_s, unit, _, _ in UNITS:
        if seconds >= length_s:
            return f"{int(seconds // length_s)}{unit}"
    return f"{max(0, int(seconds))}s"


def size(count: float) -> str:
    """Of bytes, in at most four columns: 512, 1.5K, 210M."""
    units = iter(SIZES)
    unit = ""
    while count >= 999.5:
        count, unit = count / 1024, next(units)
    return f"{count:.1f}{unit}" if unit and count < 9.95 else f"{count:.0f}{unit}"


def percent(share: float) -> str:
    return f"{share:.0f}%"


def sparkline(values: Sequence[float], columns: int, *, low: float, high: float, blocks: str = BLOCKS) -> str:
    """The last values, each as a block, from `low` to `high`. Blank on the left."""
    last = values[-columns:] if columns > 0 else ()
    return "".join(_block(value - low, high - low, blocks) for value in last).rjust(columns)


def _block(value: float, most: float, blocks: str) -> str:
    step = int(value / most * len(blocks)) if most > 0 else 0
    return blocks[max(0, min(step, len(blocks) - 1))]
