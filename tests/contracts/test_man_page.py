"""The man page that is installed is made from the parsers of the commands."""

from bgjob.cli.man_page import man_page
from tests.contracts import golden

PAGE = golden.ROOT / "docs" / "bgjob.1"


def test_the_man_page_is_current() -> None:
    golden.check(PAGE, man_page())
