"""Screens: a full-screen program answers with what a person would see, and with what is selected there."""

import shutil
from collections.abc import Callable
from typing import Any

import pytest

from bgjob.api import JobStatus
from tests.support.gate import Gate
from tests.support.server import Server

Ended = Callable[[str], JobStatus]
ENTER, LEAVE = r"\033[?1049h\033[H\033[2J", r"\033[?1049l"
MENU = rf"{ENTER}\033[2;5HPick one\033[4;5H  Apple\033[5;5H\033[7m  Banana \033[27m\033[6;5H  Cherry\033[5;5H"
SHOWN = "\n    Pick one\n\n      Apple\n      Banana\n      Cherry"
# A piece of shell: a menu that stays until a line is typed.
ON_A_MENU = f"stty -echo; printf '{MENU}'; read answer"


def start(server: Server, command: str, **options: Any) -> str:
    return server.execute(command, pty=True, **options)


def waited(server: Server, job_id: str, pattern: str) -> dict[str, Any]:
    (answer,) = server.call("wait_for_job", job_ids=[job_id], pattern=pattern, timeout_s=30)["jobs"]
    assert answer["condition"] == "pattern"
    return dict(answer)


def assert_is_menu(answer: dict[str, Any]) -> None:
    assert (answer["screen"], answer["highlight"]) == (SHOWN, ["Banana"])
    assert (answer["stdout"], answer["stderr"]) == ("", "")
    assert (answer["cursor_row"], answer["cursor_column"]) == (5, 5)


def test_a_full_screen_program_answers_with_its_screen_and_what_is_selected(server: Server) -> None:
    """Whichever tool is asked; only get_job_output still reads the text unless the screen is asked for."""
    job_id = start(server, f"{ON_A_MENU}; cat")
    assert_is_menu(waited(server, job_id, "Cherry"))
    assert_is_menu(server.call("tail_job_output", job_id=job_id))
    assert_is_menu(
        server.call("interact_with_job", job_id=job_id, input="", keys=["enter"], add_newline=False)
    )
    assert "screen" not in server.output(job_id)
    assert_is_menu(server.output(job_id, view="screen"))


def test_a_command_that_ends_on_its_own_screen_answers_with_it(server: Server) -> None:
    assert_is_menu(server.call("execute_command", command=f"printf '{MENU}'", pty=True, wait_s=30))


def test_a_screen_that_was_left_is_text_again(server: Server) -> None:
    job_id = start(server, f"echo before; {ON_A_MENU}; printf '{LEAVE}'; echo chosen; read end")
    assert_is_menu(waited(server, job_id, "Cherry"))
    server.call("interact_with_job", job_id=job_id, input="")
    answer = waited(server, job_id, "chosen")
    assert "screen" not in answer
    assert answer["stdout"].endswith("chosen\n")


def test_a_program_that_places_its_text_answers_with_its_screen_until_it_ends(
    server: Server, ended: Ended, gate: Gate
) -> None:
    """As top and dialog do, on the main screen. Where it ends, its text stays."""
    job_id = start(
        server, rf"printf '\033[H\033[2Jtitle\033[3;4Hcell'; {gate.pause}; printf '\033[5;1Hover\n'"
    )
    gate.wait_until_reached()
    assert waited(server, job_id, "cell")["screen"] == "title\n\n   cell"
    gate.open()
    ended(job_id)
    tail = server.call("tail_job_output", job_id=job_id)
    assert "screen" not in tail
    assert tail["stdout"].endswith("over\n")


def test_text_is_there_for_the_asking(server: Server) -> None:
    job_id = start(server, f"{ON_A_MENU}; cat")
    waited(server, job_id, "Cherry")
    tail = server.call("tail_job_output", job_id=job_id, view="apart")
    assert "screen" not in tail
    assert "Cherry" in tail["stdout"]


PROGRESS = {
    "one line": r"for n in 1 2 3; do printf '\r\033[K%s of 3' $n; done; echo",
    "several lines": r"printf 'a: 0\nb: 0\n'; for n in 1 2; do printf '\033[2A\033[2Ka: %s\nb: %s\n' $n $n; done",
    "status line": r"printf '\0337\033[24;0fat the bottom\0338line\n'",
    "cleared": r"printf 'old\n\033[H\033[2J\033[3Jnew\n'",
}


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("one line", "3 of 3\n"),
        ("several lines", "a: 2\nb: 2\n"),
        ("status line", "line\n"),
        ("cleared", "new\n"),
    ],
)
def test_progress_is_text(server: Server, gate: Gate, how: str, text: str) -> None:
    job_id = start(server, f"{PROGRESS[how]}; echo shown; {gate.pause}")
    gate.wait_until_reached()
    answer = waited(server, job_id, "shown")
    assert "screen" not in answer
    assert answer["stdout"].endswith(text + "shown\n")


def test_a_wide_terminal_is_drawn_as_wide_as_it_is_also_after_a_resize(server: Server, gate: Gate) -> None:
    job_id = start(
        server,
        rf"stty -echo; printf %0750d; printf '\033[2;700Hat 700'; {gate.pause}; printf '\033[3;950Hat 950'; read end",
        rows=4,
        cols=800,
    )
    gate.wait_until_reached()
    line, placed = waited(server, job_id, "at 700")["screen"].split("\n")
    assert (line, placed) == ("0" * 750, "at 700".rjust(699 + len("at 700")))
    server.call("interact_with_job", job_id=job_id, input="", rows=6, cols=1000)
    gate.open()
    third = waited(server, job_id, "at 950")["screen"].split("\n")[2]
    assert third == "at 950".rjust(949 + len("at 950"))


# A piece of shell: paints a header once, and a counter so many times.
COUNTS = (
    r"""stty -echo; printf '\033[?1049h\033[H\033[2Jheader'; """
    r"""awk 'BEGIN { for (n = 1; n <= %d; n++) printf "\033[3;1Hcount %%07d", n }'; read line; """
)


def test_what_a_program_painted_once_is_still_on_its_screen(server: Server) -> None:
    job_id = start(server, COUNTS % 30_000)
    answer = waited(server, job_id, "count 0030000")
    assert answer["screen"] == "header\n\ncount 0030000"
    assert "screen_incomplete" not in answer


def test_a_screen_that_cannot_be_drawn_for_certain_says_so_until_the_program_draws_it_again(
    server: Server,
) -> None:
    job_id = start(server, COUNTS % 100_000 + r"printf '\033[H\033[2Jheader\033[3;1Hcount 0'; read line")
    answer = waited(server, job_id, "count 0100000")
    assert (answer["screen"], answer["screen_incomplete"]) == ("\n\ncount 0100000", True)
    answer = server.call("interact_with_job", job_id=job_id, input="")
    assert answer["screen"] == "header\n\ncount 0"
    assert "screen_incomplete" not in answer


@pytest.mark.skipif(not shutil.which("whiptail"), reason="whiptail is not installed")
def test_the_selected_line_of_whiptail_is_told(server: Server) -> None:
    job_id = start(server, "whiptail --menu Pick 15 50 4 a Apple b Banana c Cherry")
    assert "a Apple" in highlight_with(server, job_id, "a Apple")
    server.call("interact_with_job", job_id=job_id, input="", keys=["down"], add_newline=False)
    assert "a Apple" not in highlight_with(server, job_id, "b Banana")


@pytest.mark.skipif(not shutil.which("dialog"), reason="dialog is not installed")
def test_the_selected_button_of_dialog_is_told(server: Server) -> None:
    job_id = start(server, "dialog --yesno 'Go on?' 8 40")
    assert highlight_with(server, job_id, "< Yes >") == ["< Yes >"]
    server.call("interact_with_job", job_id=job_id, input="", keys=["tab"], add_newline=False)
    assert highlight_with(server, job_id, "< No  >") == ["< No  >"]


def highlight_with(server: Server, job_id: str, text: str) -> list[str]:
    """What stands out, once this text does: woken by the job's output, not by a clock."""
    cursor = "0"
    while text not in (
        found := server.call("tail_job_output", job_id=job_id, view="screen").get("highlight", [])
    ):
        (answer,) = server.call(
            "wait_for_job", job_ids=[job_id], pattern=".", since=cursor, timeout_s=30, raw=True
        )["jobs"]
        assert answer["condition"] == "pattern", found
        cursor = answer["cursor"]
    return list(found)
