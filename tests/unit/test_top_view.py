"""What each key of `bgjob top` does to what is shown."""

from itertools import pairwise

import pytest

from bgjob.api.arrangement import Arrangement
from bgjob.api.live import Row
from bgjob.api.preview import Preview
from bgjob.api.preview_reader import Wish
from bgjob.cli.top.actions import Act, press
from bgjob.cli.top.layout import LEAST_COLUMNS, LEAST_ROWS, Layout, columns_for
from bgjob.cli.top.view import MOST_LINES, View
from tests.support.rows import a_row, live, names

MANY = [a_row(f"job{number:03}", created_at=1000.0 - number) for number in range(100)]


def a_view(*rows: Row, size: tuple[int, int] = (24, 80)) -> View:
    view = View(Arrangement())
    view.resize(*size)
    view.update(live(*rows))
    return view


def pressed(view: View, *keys: str) -> Act | None:
    """When no other key waits."""
    *_, last = [press(view, key) for key in keys]
    view.apply_typed_filter()
    return last


def selected(view: View) -> str:
    return names([view.selected]) if view.selected else ""


class TestTheSelection:
    @pytest.mark.parametrize(
        ("keys", "name"),
        [
            (["down"], "job001"),
            (["j", "j", "k"], "job001"),
            (["up"], "job000"),
            (["end"], "job099"),
            (["G", "down"], "job099"),
            (["G", "g"], "job000"),
            (["end", "home"], "job000"),
            (["page down", "page up"], "job000"),
        ],
    )
    def test_keys_move_it_within_the_list(self, keys: list[str], name: str) -> None:
        view = a_view(*MANY)
        pressed(view, *keys)
        assert selected(view) == name

    def test_it_is_always_in_sight(self) -> None:
        view = a_view(*MANY)
        for key in ["page down"] * 12 + ["down"] * 3 + ["page up"] * 12 + ["end", "up", "home"]:
            pressed(view, key)
            assert view.first <= view.index < view.first + view.layout.list_rows
        assert (view.first, view.index) == (0, 0)

    def test_a_page_is_as_many_jobs_as_are_shown(self) -> None:
        view = a_view(*MANY)
        pressed(view, "page down")
        assert view.index == view.layout.list_rows

    def test_it_stays_with_its_job_wherever_that_moves(self) -> None:
        view = a_view(*MANY)
        pressed(view, "down", "down")
        view.update(live(*MANY, a_row("newest", created_at=2000), a_row("asks", "asking", created_at=1)))
        assert (selected(view), view.index) == ("job002", 4)

    def test_until_a_key_moves_it_it_is_whichever_job_is_first(self) -> None:
        view = a_view(*MANY)
        view.update(live(*MANY, a_row("newest", created_at=2000)))
        assert selected(view) == "newest"

    def test_if_its_job_is_gone_it_is_the_one_in_its_place(self) -> None:
        view = a_view(*MANY)
        pressed(view, "down", "down")
        view.update(live(*MANY[:2], *MANY[3:]))
        assert selected(view) == "job003"
        view.update(live(MANY[0]))
        assert selected(view) == "job000"
        view.update(live())
        assert (view.selected, view.wish) == (None, None)

    @pytest.mark.parametrize("key", ["down", "end", "page up", "enter", "l", "x", "s", "/", "escape", " "])
    def test_without_jobs_no_key_fails(self, key: str) -> None:
        assert pressed(a_view(), key) is None


class TestWhatIsShownOfAJob:
    def test_it_is_a_preview_of_the_selected_job(self) -> None:
        view = a_view(*MANY)
        pressed(view, "down")
        assert view.wish == Wish(MANY[1].job.id, view.layout.preview_rows)

    def test_its_output_stays_its_own_whatever_happens_to_the_list(self) -> None:
        view = a_view(*MANY)
        pressed(view, "l")
        view.update(live(a_row("newest", created_at=2000)))
        assert view.wish == Wish(MANY[0].job.id, view.layout.output_rows)

    def test_who_scrolls_back_reads_more_and_nothing_moves(self) -> None:
        view = a_view(*MANY)
        pressed(view, "l")
        assert view.wish == Wish(MANY[0].job.id, view.layout.output_rows)
        lines = tuple(map(str, range(view.layout.output_rows)))
        view.show_preview(Preview(MANY[0].job.id, len(lines), lines, has_more=True))
        pressed(view, "page up")
        assert view.wish == Wish(MANY[0].job.id, MOST_LINES, follows=False)

    def test_it_scrolls_from_the_oldest_line_to_the_newest(self) -> None:
        view = a_view(*MANY)
        pressed(view, "l")
        view.show_preview(Preview(MANY[0].job.id, MOST_LINES, tuple(map(str, range(100)))))
        pressed(view, "home")
        assert view.back == 100 - view.layout.output_rows
        pressed(view, "up")
        assert view.back == 100 - view.layout.output_rows
        pressed(view, "down", "down")
        assert view.back == 98 - view.layout.output_rows
        pressed(view, "end", "down")
        assert view.back == 0

    @pytest.mark.parametrize("key", ["q", "escape", "l"])
    def test_a_key_leads_back_to_the_list(self, key: str) -> None:
        view = a_view(*MANY)
        assert pressed(view, "down", "l", key) is None
        assert (view.mode, selected(view)) == ("list", "job001")


class TestActs:
    @pytest.mark.parametrize("group", ["running", "asking"])
    def test_enter_attaches_to_a_job_that_runs(self, group: str) -> None:
        row = a_row("it", group)
        assert pressed(a_view(row), "enter") == Act("attach", row.job)

    @pytest.mark.parametrize(
        "row", [a_row("it", "ended"), a_row("it", "queued"), a_row("it", left_running=2)]
    )
    def test_of_one_that_does_not_it_shows_the_output(self, row: Row) -> None:
        view = a_view(row)
        assert pressed(view, "enter") is None
        assert view.mode == "output"

    def test_a_kill_asks_first(self) -> None:
        view = a_view(*MANY)
        assert pressed(view, "x") is None
        assert view.to_kill == MANY[0].job
        assert pressed(view, "y") == Act("kill", MANY[0].job)

    @pytest.mark.parametrize("key", ["n", "enter", "escape", "down", "q", " "])
    def test_only_yes_is_a_yes(self, key: str) -> None:
        view = a_view(*MANY)
        assert pressed(view, "x", key) is None
        assert view.mode == "list"

    def test_the_job_that_was_asked_about_is_killed_whatever_is_selected_by_then(self) -> None:
        view = a_view(*MANY)
        pressed(view, "x")
        view.update(live(a_row("newest", created_at=2000), *MANY))
        assert selected(view) == "newest"
        assert pressed(view, "y") == Act("kill", MANY[0].job)

    def test_a_job_that_is_over_is_not_killed(self) -> None:
        view = a_view(a_row("it", "ended"))
        assert pressed(view, "x") is None
        assert (view.mode, view.message) == ("list", "it has ended, and left nothing running.")

    @pytest.mark.parametrize(
        ("key", "verb"), [("ctrl-c", "interrupt"), ("ctrl-z", "stop"), ("ctrl-l", "redraw")]
    )
    @pytest.mark.parametrize("before", ["j", "/", "x", "l", "?"])
    def test_some_keys_do_the_same_everywhere(self, before: str, key: str, verb: str) -> None:
        act = pressed(a_view(*MANY), before, key)
        assert act is not None
        assert act.verb == verb

    def test_q_quits_only_from_the_list(self) -> None:
        view = a_view(*MANY)
        assert pressed(view, "?", "q") is None
        assert pressed(view, "q") == Act("quit")


class TestTheFilter:
    def test_it_is_applied_as_it_is_typed(self) -> None:
        view = a_view(*MANY)
        pressed(view, "/", *"job01")
        assert names(view.rows) == " ".join(f"job{number:03}" for number in range(10, 20))
        pressed(view, "7")
        assert names(view.rows) == "job017"
        pressed(view, "backspace", "backspace", "enter")
        assert (len(view.rows), view.mode) == (100, "list")
        assert view.arrangement.words == ("job0",)

    def test_what_is_typed_is_seen_before_all_jobs_are_looked_at(self) -> None:
        view = a_view(*MANY)
        for key in "/job017":
            press(view, key)
        assert (view.typed, len(view.rows)) == ("job017", 100)
        press(view, "enter")
        assert names(view.rows) == "job017"

    def test_escape_takes_it_back(self) -> None:
        view = a_view(*MANY)
        pressed(view, "/", *"job01", "enter", "/", *"7", "escape")
        assert (view.arrangement.words, view.mode) == (("job01",), "list")
        pressed(view, "escape")
        assert (view.arrangement.words, len(view.rows)) == ((), 100)

    def test_keys_of_the_list_are_letters_while_it_is_typed(self) -> None:
        view = a_view(*MANY)
        assert pressed(view, "/", *"qxs j") is None
        assert (view.typed, view.mode) == ("qxs j", "filter")
        pressed(view, "ctrl-u")
        assert (view.typed, len(view.rows)) == ("", 100)

    def test_half_a_word_leaves_the_list_as_it_is_and_says_why(self) -> None:
        view = a_view(*MANY)
        pressed(view, "/", *"status=runn")
        assert view.arrangement.words == ("status",)
        assert "is no status. Accepted: queued, running" in view.message
        pressed(view, *"ing")
        assert (view.message, len(view.rows)) == ("", 100)


def test_s_goes_through_the_orders() -> None:
    view = a_view(*MANY)
    seen = []
    for _ in range(5):
        seen.append(view.arrangement.order)
        pressed(view, "s")
    assert seen == ["state", "cpu", "memory", "age", "state"]


def test_while_it_is_paused_nothing_moves() -> None:
    view = a_view(*MANY)
    pressed(view, " ")
    view.update(live())
    assert len(view.rows) == 100
    assert view.wish == Wish(MANY[0].job.id, view.layout.preview_rows, follows=False)
    pressed(view, " ")
    view.update(live())
    assert view.rows == []


class TestTheLayout:
    @pytest.mark.parametrize("rows", [LEAST_ROWS, 20, 24, 50, 200])
    @pytest.mark.parametrize("listed", [0, 1, 10, 10_000])
    def test_list_and_preview_fill_the_screen(self, rows: int, listed: int) -> None:
        layout = Layout(rows, 80, listed)
        assert not layout.is_too_small
        assert layout.preview_at + 1 + layout.preview_rows == rows - 1
        assert layout.list_rows >= 3

    def test_the_list_grows_with_the_jobs_and_does_not_shrink(self) -> None:
        layout = Layout(50, 80).grown(5)
        assert layout.list_rows == 6
        assert layout.grown(3).list_rows == 6
        assert layout.grown(1000).list_rows == 27

    @pytest.mark.parametrize("columns", [LEAST_COLUMNS, 59, 60, 79, 80, 119, 120, 250])
    def test_columns_are_side_by_side_and_fit(self, columns: int) -> None:
        places = list(columns_for(columns).places().values())
        assert all(at + wide < begin for (at, wide), (begin, _) in pairwise(places))
        assert sum(places[-1]) == columns

    @pytest.mark.parametrize("size", [(LEAST_ROWS - 1, 80), (24, LEAST_COLUMNS - 1)])
    def test_a_smaller_terminal_is_too_small(self, size: tuple[int, int]) -> None:
        assert Layout(*size).is_too_small
