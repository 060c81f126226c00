"""Times and sizes as a person reads them: short, and to the precision that matters."""

SIZES = ((1 << 40, "T"), (1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))
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


def size(count: int) -> str:
    """Of bytes: 512, 1.5K, 210M."""
    for unit, letter in SIZES:
        if count >= unit:
            number = count / unit
            return f"{number:.1f}{letter}" if number < 9.95 else f"{number:.0f}{letter}"
    return str(count)
