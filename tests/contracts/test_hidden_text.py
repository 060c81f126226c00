"""No text of any answer hides anything from its reader: no control, bidi, zero-width or tag character unless raw=true.

Every kind of the escape corpus goes in by all ways that a job, its caller or a file on disk can bring it in.
"""

import contextlib
import itertools
import json
import shlex
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from anyio.from_thread import BlockingPortal
from mcp import MCPError

from bgjob.api import Jobs, JobStatus
from bgjob.core.errors import InvalidArgument
from bgjob.home import event_log
from bgjob.mcp import listings, results
from bgjob.mcp.answers import Answer
from bgjob.mcp.uris import LIST, TARGETS, View
from bgjob.protocol.jsonrpc import RpcError
from tests.support.escapes import ESCAPES, as_text
from tests.support.homes import end_all_jobs
from tests.support.server import Server, ToolError
from tests.support.tools import call_tool, text_of

Ended = Callable[[str], JobStatus]

UNSEEN_LETTERS = frozenset(
    [0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *range(0x180B, 0x1810)]
)
NOBODY = "00000000-0000-4000-8000-000000000000"
EMOJI = "👩\u200d💻 ☁\ufe0f"  # what makes them is seen
AT_ONCE = 14
BATCHES = [
    dict(itertools.islice(ESCAPES.items(), at, at + AT_ONCE)) for at in range(0, len(ESCAPES), AT_ONCE)
]


def is_hidden(letter: str) -> bool:
    code = ord(letter)
    if letter in "\n\t":
        return False
    return (
        unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        or code in UNSEEN_LETTERS
        or 0xE0000 <= code <= 0xE0FFF
    )


def hidden(answer: object, path: str = "") -> Iterator[str]:
    """Where in an answer something is hidden, and what; names of fields are text too."""
    if isinstance(answer, str) and any(map(is_hidden, answer.replace(EMOJI, ""))):
        yield f"{path}: {answer!r}"
    elif isinstance(answer, dict):
        for key, value in answer.items():
            yield from hidden(key, f"{path} as a key")
            yield from hidden(value, f"{path}.{key}")
    elif isinstance(answer, list):
        for value in answer:
            yield from hidden(value, path)


class Reader:
    """Looks through whatever a server answers, and knows which fields had text in them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.fields: set[str] = set()

    def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer = self._server.call(tool, **arguments)
        except ToolError as error:
            answer = {"error": str(error)}
        assert list(hidden(answer, tool)) == []
        self.fields |= {f"{tool}{path}" for path in texts(answer)}
        return answer

    def resources(self, job_id: str) -> None:
        """Every resource of a job, those of all jobs, and the lists of them."""
        for listing in self._server.listed_resources():
            assert list(hidden(listing)) == []
        for view in get_args(View):
            uri = f"bgjob://{view}" if view in (LIST, TARGETS) else f"bgjob://jobs/{job_id}/{view}"
            answer = self._resource(uri)
            assert list(hidden(answer, uri)) == []
            self.fields |= {f"resource {view}{path}" for path in texts(answer)}

    def _resource(self, uri: str) -> object:
        try:
            content = self._server.read_resource(uri)
        except MCPError as error:
            return str(error)
        return json.loads(content["text"]) if content["mimeType"] == "application/json" else content["text"]


def texts(answer: object, path: str = "") -> Iterator[str]:
    if isinstance(answer, str) and answer:
        yield path
    elif isinstance(answer, dict):
        for key, value in answer.items():
            yield from texts(value, f"{path}.{key}")
    elif isinstance(answer, list):
        for value in answer:
            yield from texts(value, path)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("hidden") / "home"
    yield home
    end_all_jobs(home)


@pytest.fixture(scope="module")
def server(portal: BlockingPortal, home: Path) -> Iterator[Server]:
    with contextlib.closing(Server(portal, home, {"MCP_BG_MAX_JOBS": "50"}, "auto")) as server:
        yield server


@pytest.fixture
def read(server: Server) -> Reader:
    return Reader(server)


def octal(data: bytes) -> str:
    """As printf of a shell reads it."""
    return "".join(f"\\{byte:03o}" for byte in data)


def printing(escapes: dict[str, bytes]) -> str:
    """Says them as arguments, prints them on both streams, and waits for input with them in its prompt."""
    words = shlex.join(map(as_text, escapes.values()))
    lines = "".join(f"MARK {octal(escape)}\\n" for escape in escapes.values())
    prompt = octal(b"".join(escapes.values()))
    return f": {words}; printf '{lines}' >&2; printf '{lines}'; printf '{prompt} name? '; read x; echo '{prompt}'"


def place_named(tmp_path: Path, escapes: dict[str, bytes]) -> Path:
    """A directory whose name cannot be seen; not longer than a name may be."""
    name = b"".join(escapes.values()).replace(b"/", b"")[:200].decode("utf-8", "ignore")
    place = tmp_path / f"place{name}"
    place.mkdir(parents=True)
    return place


def test_the_reader_finds_each_kind() -> None:
    assert [kind for kind, escape in ESCAPES.items() if not list(hidden(as_text(escape)))] == []


def test_only_output_goes_out_as_it_came() -> None:
    """And that is cleaned before, unless it is asked for raw."""
    kinds = [
        kind
        for kind in (vars(results) | vars(listings)).values()
        if isinstance(kind, type) and issubclass(kind, Answer)
    ]
    assert len(kinds) > 5
    assert {name for kind in kinds for name in kind.OUTPUT} == {"stdout", "stderr", "interleaved"}


@pytest.mark.parametrize("pty", [False, True])
def test_no_answer_about_a_job_hides_anything(read: Reader, tmp_path: Path, pty: bool) -> None:
    for number, escapes in enumerate(BATCHES):
        look_at_a_job(read, place_named(tmp_path / str(number), escapes), escapes, pty)
    read("list_jobs")
    assert {
        "list_jobs.jobs.command",
        "job_events.events.line",
        "job_events.events.pattern",
        "get_job_status.cwd",
        "get_job_status.prompt",
        "wait_for_job.jobs.match",
        "wait_for_job.jobs.prompt",
        "get_job_output.interleaved",
        "tail_job_output.stdout",
        "search_job_output.jobs.matches.before",
        *(["get_job_output.screen", "get_job_output.title"] if pty else ["execute_command.stderr"]),
        *(f"resource {view}" for view in ("stdout", "output", "screen")),
        *("resource jobs.jobs.command", "resource status.cwd"),
    } <= read.fields


def look_at_a_job(read: Reader, place: Path, escapes: dict[str, bytes], pty: bool) -> None:
    watch = ["MARK", *(f"MARK [{as_text(escape)}]" for escape in escapes.values())]
    started = read(
        "execute_command",
        command=printing(escapes),
        cwd=str(place),
        env={as_text(escape): as_text(escape) for escape in list(escapes.values())[:1]},
        watch=watch[:5],
        pty=pty,
        stdin="open",
        wait_s=0.1,
    )
    if "error" in started:  # some are no pattern, or no name of a variable
        started = read(
            "execute_command",
            command=printing(escapes),
            cwd=str(place),
            watch=watch[:1],
            pty=pty,
            stdin="open",
            wait_s=0.1,
        )
    one = {"job_id": started["job_id"]}
    read("wait_for_job", job_ids=[one["job_id"]], pattern="MARK", timeout_s=20)
    read("wait_for_job", job_ids=[one["job_id"]], for_input=True, timeout_s=20)
    read("get_job_status", **one, detail=True)
    for view in ("apart", "interleaved", *(["screen"] if pty else [])):
        read("get_job_output", **one, view=view)
        read("tail_job_output", **one, view=view)
    read("search_job_output", pattern="MARK", job_ids=[one["job_id"]], context_lines=2)
    read.resources(one["job_id"])
    read("interact_with_job", **one, input="x")
    read("wait_for_job", job_ids=[one["job_id"]], timeout_s=20)
    read("job_events", job_ids=[one["job_id"]])
    read("kill_job", **one)


def test_no_error_hides_what_it_repeats(jobs: Jobs) -> None:
    said = [
        complaint(jobs, tool, arguments)
        for escape in map(as_text, ESCAPES.values())
        for tool, arguments in wrong_calls(escape)
    ]
    assert len(said) > 15 * len(ESCAPES)
    assert list(hidden(said)) == []


def complaint(jobs: Jobs, tool: str, arguments: dict[str, Any]) -> str:
    try:
        result = call_tool(jobs, tool, arguments)
    except RpcError as error:
        return str(error)
    assert result["isError"], (tool, arguments, result)
    return text_of(result)


def wrong_calls(escape: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield escape, {}
    for wrong in (
        {"name": f"a{escape}b", "shell": escape},
        {"cwd": f"nowhere{escape}"},
        {"shell": escape},
        {"after": [f"nobody{escape}"]},
        {"env": {f"={escape}": ""}},
        {"options": {f"no option {escape}": 1}},
        {"options": {"group": escape}},
        {"options": {"memory": escape}},
        {f"no argument {escape}": 1},
        {"rows": escape},
        {"watch": [f"({escape}"]},
    ):
        yield "execute_command", {"command": "true", **wrong}
    yield "get_job_status", {"job_id": escape}
    yield "get_job_output", {"job_id": NOBODY, "since": escape}
    yield "kill_job", {"job_id": NOBODY, "signal": f"no signal {escape}"}
    yield "search_job_output", {"pattern": f"({escape}"}
    yield "search_job_output", {"pattern": "x", "after": escape}
    yield "job_events", {"since": f"no cursor {escape}"}


def test_a_name_that_hides_something_is_refused(jobs: Jobs) -> None:
    for escape in map(as_text, ESCAPES.values()):
        with pytest.raises(
            InvalidArgument, match=r"^name has U\+[0-9A-F]{4,6} at position \d+, which cannot be seen"
        ):
            jobs.execute("true", name=f"a{escape}b")


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\r"])
def test_a_name_is_one_line(jobs: Jobs, name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^name has "):
        jobs.execute("true", name=name)


@pytest.mark.parametrize("name", ["dev server", "ünï", "漢字", f"{EMOJI} deploy", "a\u00a0b"])
def test_a_name_that_can_be_seen_is_taken(jobs: Jobs, ended: Ended, name: str) -> None:
    assert ended(jobs.execute("true", name=name).id).job.spec.name == name


def test_what_others_wrote_on_disk_is_shown_without_what_it_hides(
    read: Reader, home: Path, jobs: Jobs, ended: Ended
) -> None:
    """Names of older versions, and events of anybody's making; the line of news has them too."""
    text = "".join(map(as_text, ESCAPES.values()))
    job_id = str(read("execute_command", command=f": {shlex.quote(text)}; read x")["job_id"])
    jobs.kill(job_id)
    ended(job_id)
    spec = next(home.glob(f"**/{job_id}/spec.json"))
    spec.write_bytes(json.dumps(json.loads(spec.read_bytes()) | {"name": text, "cwd": text}).encode())
    event_log.append(str(home / "events"), "ended", job_id, name=text, cause=text, limit=text, **{text: text})
    event_log.append(str(home / "events"), text, job_id, name=text, line=text, prompt=[text, {text: text}])
    read("search_job_output", pattern="nothing")
    read("list_jobs")
    read("get_job_status", job_id=job_id)
    read("job_events", max_tokens=100_000)
    assert {
        "list_jobs.jobs.name",
        "search_job_output.news",
        "get_job_status.name",
        "get_job_status.cwd",
        "job_events.events.name",
        "job_events.events.kind",
        "job_events.events.cause",
    } <= read.fields


def test_raw_output_is_what_the_job_printed(server: Server) -> None:
    escapes = b"".join(ESCAPES.values())
    answer = server.call("execute_command", command=f"printf '{octal(escapes)}'", wait_s=30)
    assert list(hidden(answer)) == []
    raw = server.output(answer["job_id"], raw=True)["stdout"]
    assert raw == escapes.decode("utf-8", "replace")
