"""Whatever a client sends: a clear error that names the problem, no trace of our insides, and the server lives."""

import json
from collections.abc import Iterator

import pytest

from tests.support.homes import end_all_jobs
from tests.support.raw_client import Message, RawClient

pytestmark = pytest.mark.timeout(600)

ANY_ID = "00000000-0000-4000-8000-000000000000"
HUGE = json.dumps("x" * 5_000_000)
UNREADABLE = {
    "a number of 5,000 digits": "9" * 5000,
    "500 arrays in each other": "[" * 500 + "]" * 500,
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    home = tmp_path_factory.mktemp("errors") / "home"
    with RawClient(home, MCP_BG_MAX_JOBS="100") as client:
        client.shake_hands()
        yield client
    end_all_jobs(home)


@pytest.fixture(autouse=True)
def _lives(client: RawClient) -> Iterator[None]:
    yield
    assert len(client.tools()) == 10
    assert client.process.poll() is None


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("execute_command", "{}", "Missing argument command: give text."),
        ("execute_command", "null", "Missing argument command"),
        ("execute_command", '{"command":null}', "Invalid argument command=null"),
        ("execute_command", '{"command":["ls","-l"]}', 'Invalid argument command=["ls", "-l"]: give text.'),
        ("execute_command", '{"command":{"a":1}}', 'Invalid argument command={"a": 1}'),
        ("execute_command", '{"command":true}', "Invalid argument command=true"),
        (
            "execute_command",
            '{"command":"true","colour":1}',
            "Unknown argument colour: execute_command takes",
        ),
        ("execute_command", '{"command":"true","timeout_s":NaN}', "Invalid argument timeout_s=NaN"),
        ("execute_command", '{"command":"true","timeout_s":Infinity}', "Invalid argument timeout_s=Infinity"),
        ("execute_command", '{"command":"true","timeout_s":1e999}', "Invalid argument timeout_s=Infinity"),
        ("execute_command", '{"command":"true","timeout_s":0}', "Invalid argument timeout_s=0"),
        ("execute_command", '{"command":"true","timeout_s":[]}', "Invalid argument timeout_s=[]"),
        ("execute_command", '{"command":"true","env":"A=1"}', 'Invalid argument env="A=1"'),
        ("execute_command", '{"command":"true","env":{"A":{}}}', "Invalid argument env.A={}"),
        ("execute_command", '{"command":"true","env":{"A":true}}', "env.A=true: give text."),
        ("execute_command", '{"command":"true","options":[1]}', "options=[1]: give an object."),
        ("execute_command", '{"command":"true","name":" "}', "name is blank"),
        (
            "execute_command",
            '{"command":"true","until":{"port":70000}}',
            "until.port=70000: give a whole number from 0 to 65535",
        ),
        ("execute_command", '{"command":"true","env":{"A=B":"x"}}', "env has 'A=B'"),
        ("execute_command", '{"command":"true","env":{"":"x"}}', "env has ''"),
        ("execute_command", '{"command":"true","env":{"A":"\\u0000"}}', "env has 'A'"),
        ("execute_command", '{"command":"true","cwd":"\\u0000"}', "cwd="),
        ("execute_command", '{"command":"true","shell":"perl"}', "shell='perl'"),
        ("execute_command", '{"command":"echo \\u0000"}', "Invalid command: "),
        ("get_job_status", '{"job_id":17}', "Job 17 not found"),
        ("get_job_status", '{"job_id":"\\ud83d"}', "Job ? not found"),
        ("get_job_status", f'{{"job_id":{HUGE}}}', "not found"),
        ("get_job_output", '{"job_id":"x","since":{}}', "Invalid argument since={}"),
        ("tail_job_output", '{"job_id":"x","lines":1.5}', "Invalid argument lines=1.5: give a whole number"),
        ("tail_job_output", '{"job_id":"x","lines":NaN}', "Invalid argument lines=NaN"),
        ("tail_job_output", f'{{"job_id":"x","lines":{HUGE}}}', 'Invalid argument lines="xxx'),
        ("list_jobs", '{"status":"waiting"}', "give one of queued, running, completed, failed, killed"),
        ("list_jobs", '{"limit":0}', "Invalid argument limit=0: give a whole number from 1 to 1000"),
        ("list_jobs", '{"\\ud83d":1}', "Unknown argument ?"),
        ("list_jobs", f'{{"a":{"[" * 100}{"]" * 100}}}', "Unknown argument a"),
        ("interact_with_job", f'{{"job_id":"{ANY_ID}"}}', "Nothing to type. Give input"),
        ("interact_with_job", f'{{"job_id":"{ANY_ID}","input":null}}', "Nothing to type. Give input"),
        ("interact_with_job", '{"job_id":"x","input":[]}', "Invalid argument input=[]"),
        (
            "interact_with_job",
            '{"job_id":"x","input":"y","wait_s":-Infinity}',
            "Invalid argument wait_s=-Inf",
        ),
        (
            "kill_job",
            '{"job_id":"x","grace_s":61}',
            "Invalid argument grace_s=61: give a number from 0 to 60",
        ),
        ("kill_job", '{"job_id":"x","signal":99}', "signal='99' is not a signal"),
    ],
    ids=lambda value: value[:60],
)
def test_a_bad_argument_is_named_with_what_is_accepted(
    client: RawClient, tool: str, arguments: str, said: str
) -> None:
    result = client.call(tool, arguments)
    (content,) = result["content"]
    assert result["isError"]
    assert said in content["text"]
    assert_short_and_clean(content["text"])


def assert_short_and_clean(text: str) -> None:
    assert len(text) < 500
    for inside in ("Traceback", 'File "', "pydantic", "Error:", "bgjob."):
        assert inside not in text


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("list_jobs", '{"status":null,"limit":null,"cursor":null}'),
        (
            "execute_command",
            '{"command":"true","cwd":null,"env":null,"name":null,"timeout_s":null,"shell":null}',
        ),
        ("kill_job", '{"job_id":"x","grace_s":null,"signal":null}'),
    ],
)
def test_null_is_how_some_clients_leave_out_an_optional_argument(
    client: RawClient, tool: str, arguments: str
) -> None:
    assert not client.call(tool, arguments)["isError"]


def test_half_an_emoji_in_a_command_is_replaced_and_runs(client: RawClient) -> None:
    result = client.call("execute_command", '{"command":"echo \\ud83d"}')
    job_id = result["structuredContent"]["job_id"]
    listed = client.call("list_jobs")["structuredContent"]["jobs"]
    assert next(job["command"] for job in listed if job["job_id"] == job_id) == "echo ?"


def test_a_command_of_five_megabytes_runs(client: RawClient) -> None:
    result = client.call("execute_command", f'{{"command":": {HUGE[1:-1]}; cat"}}')
    job_id = result["structuredContent"]["job_id"]
    client.call("interact_with_job", {"job_id": job_id, "input": "still here"})
    waited = client.call("wait_for_job", {"job_ids": [job_id], "pattern": "still here", "timeout_s": 30})
    assert waited["structuredContent"]["jobs"][0]["stdout"] == "still here\n"


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", '{"name":5}'),
        ("tools/call", "{}"),
        ("tools/call", '{"name":"list_jobs","arguments":[1]}'),
        ("tools/call", '{"name":"list_jobs","arguments":"all"}'),
        ("tools/call", '{"name":"\\ud83d"}'),
        ("tools/call", f'{{"name":{HUGE}}}'),
        ("tools/nonsense", "{}"),
        ("prompts/list", "{}"),
    ],
    ids=lambda value: value[:60],
)
def test_a_bad_request_is_an_error_of_the_protocol(client: RawClient, method: str, params: str) -> None:
    error = client.ask(method, params)["error"]
    assert error["code"] in (-32600, -32601, -32602)
    assert_short_and_clean(json.dumps(error))


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_request_that_cannot_be_read_is_answered_all_the_same(client: RawClient, value: str) -> None:
    """It is JSON, and has an id: whoever sent it waits for an answer."""
    answer = client.answer_to(client.send_call("tail_job_output", f'{{"job_id":"x","lines":{value}}}'))
    assert "error" in answer or answer["result"]["isError"]
    assert_short_and_clean(json.dumps(answer))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hello?",
        b"{",
        b"[]",
        b"null",
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":77,"result":{}}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":424242}}',
        b'{"jsonrpc":"2.0","method":"notifications/nonsense"}',
        b"[" * 200_000,
        b"\xff\xfe\x00\x00",
    ],
    ids=lambda line: repr(line[:40]),
)
def test_a_line_that_is_no_request_is_got_over(client: RawClient, line: bytes) -> None:
    client.write(line)
    assert client.ask("ping")["result"] == {}


def test_every_line_it_ever_answered_is_a_message(client: RawClient) -> None:
    messages: list[Message] = [json.loads(line) for line in client.lines]
    assert {message["jsonrpc"] for message in messages} == {"2.0"}


def test_none_of_this_was_a_bug(client: RawClient) -> None:
    assert "Internal error" not in client.stderr
