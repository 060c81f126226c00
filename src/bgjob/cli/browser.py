"""The person's browser, which shows an address."""

from bgjob.core.errors import BgjobError

BROWSER_NOTE = """\
The browser is the one of your desktop, or that which the variable BROWSER names.
"""


class NoBrowser(BgjobError):
    def __init__(self, address: str) -> None:
        super().__init__(f"No browser could be started for {address}.", "The variable BROWSER can name one.")


def open_in_browser(address: str) -> None:
    import webbrowser  # 10 ms, which a command that only prints does not need

    if not webbrowser.open(address):
        raise NoBrowser(address)
