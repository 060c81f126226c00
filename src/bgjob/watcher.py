"""The name by which a server of 0.1.0 that still runs starts the watcher, after this version was installed."""


def main(home: str) -> None:
    from bgjob.watch import watcher

    watcher.main(home)


def sweep(_store: object, _deadline: float) -> None:
    """Nothing to do: such a server starts the watcher right after it has called this."""
