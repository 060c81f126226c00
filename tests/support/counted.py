"""A job that is run again, and knows how often it was."""

from pathlib import Path


def counting(directory: Path, then: str) -> str:
    """A command that knows the number of its run: `$n`, from 1."""
    return f"echo x >> {directory}/runs; n=$(wc -l < {directory}/runs); echo run $n; {then}"


def runs(directory: Path) -> int:
    file = directory / "runs"
    return len(file.read_text().splitlines()) if file.exists() else 0
