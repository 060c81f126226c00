"""Tool calls that no sane client makes, derived from the schemas the server publishes.

Everything is JSON text from the start, for no encoder writes what is sent here: NaN, half an emoji, numbers of
5,000 digits. What is chosen depends on the seed alone, never on an answer. Commands come from a short list of
harmless ones; only what surrounds them is made up.
"""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Value = TypeVar("Value")
Schema = Mapping[str, Any]
Arguments = dict[str, str]
"""By name, each as JSON text."""

HUGE_CHARACTERS = 120_000
HUGE = "x" * HUGE_CHARACTERS
UNKNOWN_ID = "00000000-0000-4000-8000-000000000000"

# What is sent as text, by the name of its argument: the sane, and what the schema allows as well.
Texts = tuple[Sequence[str], Sequence[str]]
COMMANDS: Texts = (
    ("true", "echo x", "exit 3", "cat", "seq 1 3000 >&2", "printf '\\377\\000\\033[31mred\\033[0m\\303'"),
    ("", "  ", "echo \0", f": {HUGE}"),
)
WRONG_COMMANDS = ("null", "true", "[]", '["true"]', "{}", '"echo \\ud83d"')

PATTERNS: Texts = (
    (
        "x",
        "^[0-9]+$",
        "(?i)ÄÖ|ß",
        "(a+)+$",
        "(x+x+)+y",
        "(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)z",
        "(" * 900 + ")" * 900,
    ),
    (
        *("", "((((((((((", "[", "\\", "(?=x)", "(?P<", "\\1", "\\C", "a\nb", "\0", "a{1000}{1000}"),
        *("(?:\\pL{100}){10}", "x" * 5000, "(" * 2000 + ")" * 2000),
    ),
)
CURSORS: Texts = (
    ("0", "1", "5-9"),
    ("9-5", "-", "1-", "-1", "9" * 23, "1.5", "٣", "x", "", HUGE),
)
KEYS: Texts = (
    ("enter", "up", "f5", "^z", "alt-ß", "shift-tab"),
    ("C-1", "ctrl-ctrl-a", "hyper-q", "", "\0", "ab", HUGE),
)
TIMES: Texts = (
    ("2026-07-28T12:30:00Z", "2026-07-28", "20260728T12"),
    ("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "yesterday", "", HUGE),
)
PLACES = ("..", "/nowhere", "/dev/null", "~nobody-of-this-name", "\0", "a/" * 3000, HUGE)
TEXTS: dict[str, Texts] = {
    "command": COMMANDS,
    "pattern": PATTERNS,
    "stop_pattern": PATTERNS,
    "since": CURSORS,
    "cursor": ((f"{10**16}-{UNKNOWN_ID}", "9" * 40), (*CURSORS[1], "../..")),
    "keys": KEYS,
    "after": TIMES,
    "before": TIMES,
    "signal": (
        ("TERM", "sigint", "KILL", "STOP", "CONT", "WINCH", "RTMIN"),
        ("NOPE", "", "9", "SIGSIG", "\0", HUGE),
    ),
    "cwd": (("/", "/proc/self", "~", "."), PLACES),
    "shell": (("sh", "bash"), ("zsh", "perl", "/bin/sh", "", "sh\0")),
    "name": (("one", "two", "ünï"), ("", "\0", "x" * 200, "x" * 201)),
    "input": (("", "yes", "no\n", "ä" * 1000), ("\x04", "\x03", "\x1b[A\0\x07", HUGE)),
}
SOME = (True, False), (True, True)
OTHER_TEXTS: Texts = (("x", "y"), ("", "\0", HUGE))
ENVIRONMENTS = (
    {"A": "b"},
    {"A": ""},
    {"": "b"},
    {"A=B": "c"},
    {"A": "\0"},
    {"PATH": ""},
    {"LD_PRELOAD": "/nowhere.so"},
    {"BIG": HUGE},
    {f"BIG{number}": HUGE for number in range(30)},
)

HOSTILE = (
    *("null", "true", "false", "0", "-0.0", "-1", "1.5", "1e-320", "1e308", "1e999", "-1e999"),
    *("NaN", "Infinity", "-Infinity", "9" * 400, "-" + "9" * 4000, "9" * 5000, "0." + "0" * 5000 + "1"),
    *('""', '" "', '"0"', '"1e1"', '"NaN"', '"true"', '"/"', '"../../../etc/passwd"', '"%s%n{0}"'),
    *('"\\u0000"', '"a\\u0000b"', '"\\ud83d"', '"\\udc00\\ud800x"', '"\\u001b[2J\\u0007\\b\\r"'),
    *('"\\u2028\\u202e\\ufeff\\uffff"', json.dumps(HUGE), json.dumps("\0" * 10**5), json.dumps("\n" * 10**5)),
    *("[]", "[[]]", "[null]", '["x", 5, {}]', "{}", '{"a": {}}', '{"": null}', '{"a": 1, "a": 2}'),
    *("[" * 90 + "]" * 90, '{"a":' * 90 + "1" + "}" * 90, "[" * 500 + "]" * 500),
    *(json.dumps(list(range(3000))), json.dumps(["x"] * 3000), json.dumps([{}] * 3000)),
    json.dumps({f"key{number}": number for number in range(3000)}),
)
UNKNOWN_NAMES = (
    *("", "x", "Job_id", "__proto__", "self", "jobs", "caller", "\0", "ünï", HUGE, "command ", "args"),
)
NO_OBJECTS = ("[]", "[1]", '"x"', "5", "true")
SHORT_GRACES_S = ("0", "0.01", "0.05")
SPARED = ("pipe", "terminal")


# ID stands for a number that no other line has.
ODD_REQUESTS = (
    b'{"jsonrpc":"2.0","id":ID,"method":"ping"}\r',
    b'\xef\xbb\xbf  {"jsonrpc" : "2.0" , "id":ID, "method":"ping" }\t',
    b'{"jsonrpc":"2.0","id":ID,"met\n{"jsonrpc":"2.0","id":ID,"method":"ping"}',
    b'\n\0\n\xff\xfe\n{"jsonrpc":"2.0","id":ID,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":"lost","id":ID,"method":"ping","extra":[1,{"a":null}]}',
    b'{"jsonrpc":"2.0","id":ID,"method":"ping","result":{}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"ping","params":null}',
    b'{"jsonrpc":"2.0","id":ID,"method":"ping","params":{"a":"\xff\xed\xa0\xbd\\ud83d"}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"ping","params":{"_meta":5}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"ping","params":[1]}',
    b'{"jsonrpc":"2.0","id":ID,"method":"ping","params":"x"}',
    b'{"jsonrpc":"2.0","id":ID,"method":"ping","params":%b}' % (b"[" * 500 + b"]" * 500),
    b'{"jsonrpc":"2.0","id":ID,"method":5}',
    b'{"jsonrpc":"2.0","id":ID,"method":null,"params":{}}',
    b'{"jsonrpc":"2.0","id":ID,"method":""}',
    b'{"jsonrpc":"2.0","id":ID,"method":"\\ud83d"}',
    b'{"jsonrpc":"2.0","id":ID,"method":"%b"}' % HUGE.encode(),
    b'{"jsonrpc":"2.0","id":ID}',
    b'{"jsonrpc":"1.0","id":ID,"method":"ping"}',
    b'{"jsonrpc":2.0,"id":ID,"method":"ping"}',
    b'{"id":ID,"method":"ping"}',
    b'[{"jsonrpc":"2.0","id":ID,"method":"ping"}]',
    b'{"jsonrpc":"2.0","id":ID,"method":"initialize"}',
    b'{"jsonrpc":"2.0","id":ID,"method":"notifications/initialized"}',
    b'{"jsonrpc":"2.0","id":ID,"method":"tools/list","params":{"cursor":"x"}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"tools/call"}',
    b'{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":5}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"%b"}}' % HUGE.encode(),
    b'{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"__init__","arguments":{}}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"list_jobs","_meta":{"progressToken":[]}}}',
    b'{"jsonrpc":"2.0","id":ID,"method":"tools/call","params":{"name":"list_jobs","_meta":{"progressToken":ID}}}',
)
ODD_IDS = (
    *('""', '"ID"', '"id \\u0000 ID"', '"\\u2028ID"', "-ID", "1" + "0" * 300 + "ID", json.dumps(f"{HUGE}ID")),
)
NO_IDS = ("ID.5", "1e2", "true", "[ID]", '{"a":ID}', "9" * 5000)
# Each is refused, with an id that is null.
REFUSED = (
    *(b"hello?", b"{", b"[]", b"{}", b"null", b"17", b'"ping"', b"\xff\xfe\x00", b"\0" * 1000),
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_jo',
    b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":1,"method":"ping"}',
    b"[" * 200_000,
    HUGE.encode(),
    b'{"jsonrpc":"2.0","id":null,"method":"tools/list"}',
)
NO_REQUESTS = (
    *(b"", b" "),
    b'{"jsonrpc":"2.0","method":"ping"}',
    b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"execute_command","arguments":{"command":"true"}}}',
    b'{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}',
    b'{"jsonrpc":"2.0","method":"notifications/nonsense","params":{"a":1}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}',
    b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":"x"}}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":1,"result":[]}',
    b'{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","id":null,"error":5}',
)


@dataclass(frozen=True)
class Sent:
    """What goes to the server, and what is known of its answer."""

    line: bytes
    id: str = ""
    """JSON text."""
    answers: int = 1
    refused: int = 0
    """How many answers it gets, beside those, that have no id."""
    must_answer: bool = True
    tool: str | None = None
    valid: bool = False
    """By the published schema: the server has no reason to complain of an argument."""
    says: str = ""
    """A piece of the error that it must get."""


class Fuzzer:
    def __init__(self, seed: int, tools: Sequence[Schema]) -> None:
        self._random = random.Random(seed)
        self._tools = {str(tool["name"]): dict(tool["inputSchema"]) for tool in tools}
        self._asked = 0
        self._oddity = 0.0
        self._jobs: Mapping[str, str] = {}
        self._job_ids: Sequence[str] = ()

    def round(self, count: int, jobs: Mapping[str, str]) -> Iterator[Sent]:
        """So many lines, about these jobs."""
        self._jobs, self._job_ids = jobs, [*jobs.values(), *(jobs[role] for role in SPARED)]
        for _ in range(count):
            yield self._call() if self._random.random() < 0.87 else self._envelope()

    # -- tools --------------------------------------------------------------------------------------

    def _call(self) -> Sent:
        tool = self._random.choice(list(self._tools))
        schema = self._tools[tool]
        mutations: list[Callable[[str, Schema, Arguments], Sent]] = [
            *[self._as_it_is] * 12,
            *[self._with_hostile_values] * 8,
            *[self._with_one_missing] * 2,
            *[self._with_unknown_arguments] * 2,
            self._with_no_object,
        ]
        return self._random.choice(mutations)(tool, schema, self._valid_arguments(schema))

    def _as_it_is(self, tool: str, schema: Schema, arguments: Arguments) -> Sent:
        return self._tool_call(tool, arguments, valid=True)

    def _with_hostile_values(self, tool: str, schema: Schema, arguments: Arguments) -> Sent:
        names = list(schema["properties"])
        for name in self._random.sample(names, min(len(names), self._random.choice((1, 1, 2, 5)))):
            arguments[name] = self._random.choice(WRONG_COMMANDS if name == "command" else HOSTILE)
        return self._tool_call(tool, arguments)

    def _with_one_missing(self, tool: str, schema: Schema, arguments: Arguments) -> Sent:
        required = schema.get("required", ())
        if not required:
            return self._with_unknown_arguments(tool, schema, arguments)
        name = self._random.choice(required)
        del arguments[name]
        return self._tool_call(tool, arguments, says=f"Missing argument {name}")

    def _with_unknown_arguments(self, tool: str, schema: Schema, arguments: Arguments) -> Sent:
        for name in self._random.sample(UNKNOWN_NAMES, self._random.choice((1, 1, 3))):
            arguments[name] = self._random.choice(HOSTILE[1:])  # without null, which is as good as nothing
        if self._random.random() < 0.1:
            arguments |= {f"x{number}": "1" for number in range(1000)}
        return self._tool_call(tool, arguments, says="Unknown argument ")

    def _with_no_object(self, tool: str, schema: Schema, arguments: Arguments) -> Sent:
        wrong = self._random.choice(NO_OBJECTS)
        return self._request("tools/call", f'{{"name":"{tool}","arguments":{wrong}}}')

    def _tool_call(self, tool: str, arguments: Arguments, valid: bool = False, says: str = "") -> Sent:
        if tool == "kill_job":
            arguments = self._merciful(arguments)
        pairs = ",".join(f"{json.dumps(name)}:{value}" for name, value in arguments.items())
        return self._request("tools/call", f'{{"name":"{tool}","arguments":{{{pairs}}}}}', tool, valid, says)

    def _merciful(self, arguments: Arguments) -> Arguments:
        """Two of the living jobs are left to the other calls, and what ignores a signal is not waited for."""
        spared = [json.dumps(self._jobs[role]) for role in SPARED]
        if arguments.get("job_id") in spared:
            arguments["job_id"] = json.dumps(self._jobs["victim"])
        if "signal" in arguments:
            arguments["grace_s"] = self._random.choice(SHORT_GRACES_S)
        return arguments

    def _request(
        self, method: str, params: str, tool: str | None = None, valid: bool = False, says: str = ""
    ) -> Sent:
        number = self._next_id()
        line = f'{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{params}}}'
        return Sent(line.encode(), number, tool=tool, valid=valid, says=says)

    def _next_id(self) -> str:
        self._asked += 1
        return str(self._asked)

    # -- values that a schema allows ----------------------------------------------------------------

    def _valid_arguments(self, schema: Schema) -> Arguments:
        required = schema.get("required", ())
        often, self._oddity = self._random.choice((0.1, 0.3, 0.9)), self._random.choice((0.0, 0.0, 0.1, 0.5))
        return {
            name: self._valid(name, value)
            for name, value in schema["properties"].items()
            if name in required or self._random.random() < often
        }

    def _valid(self, name: str, schema: Schema) -> str:
        match schema:
            case {"enum": words}:
                return json.dumps(self._random.choice(words))
            case {"type": "boolean"}:
                return self._random.choice(("true", "false"))
            case {"type": "integer"}:
                return str(self._number(schema, self._one_of(((24, 60), (1, 10**30)))))
            case {"type": "number"}:
                return str(self._number(schema, self._one_of(((0.01, 0.5), (1e-300, 1e308)))))
            case {"type": "array", "items": items}:
                count = self._random.choice((0, 1, 1, 2, 5))
                return f"[{','.join(self._valid(name, items) for _ in range(count))}]"
            case {"type": "object", "properties": members}:
                given = [
                    f'"{each}":{self._valid(each, members[each])}' for each in members if self._one_of(SOME)
                ]
                return "{" + ",".join(given) + "}"
            case {"type": "object"}:
                return json.dumps(
                    self._random.choice(ENVIRONMENTS if name == "env" else self._cursors_of_jobs())
                )
            case {"anyOf": choices}:
                return self._valid(name, self._random.choice(choices))
            case {"type": "string"}:
                return json.dumps(self._text(name))
            case _:
                return "null"

    def _number(self, schema: Schema, between: float) -> float:
        """One of its bounds, or something between them."""
        low: float = schema.get("minimum", between)
        high: float = schema.get("maximum", max(low, between))
        return self._random.choice((low, high, max(low, min(between, high))))

    def _text(self, name: str) -> str:
        return self._one_of(self._ids() if name in ("job_id", "job_ids") else TEXTS.get(name, OTHER_TEXTS))

    def _ids(self) -> Texts:
        one = self._random.choice(self._job_ids)
        malformed = (one.upper(), one[:-1], f"{one}\n", f"{one}/", f"../jobs/{one}")
        return self._job_ids, ("", "x", UNKNOWN_ID, "\0", HUGE, *malformed)

    def _one_of(self, choices: tuple[Sequence[Value], Sequence[Value]]) -> Value:
        return self._random.choice(choices[self._random.random() < self._oddity])

    def _cursors_of_jobs(self) -> list[dict[str, str]]:
        one, cursor = self._random.choice(self._job_ids), self._one_of(CURSORS)
        return [{}, {one: cursor}, {UNKNOWN_ID: cursor, one: "0"}, {"": cursor}]

    # -- envelopes ----------------------------------------------------------------------------------

    def _envelope(self) -> Sent:
        kinds = (self._odd_request, self._odd_id, self._no_id, self._no_request, self._twice, self._cancelled)
        return self._random.choice((*kinds, self._odd_request, self._no_request))()

    def _odd_request(self) -> Sent:
        """It may come after lines that cannot be read."""
        number = self._next_id()
        line = self._random.choice(ODD_REQUESTS).replace(b"ID", number.encode())
        *before, _ = line.split(b"\n")
        return Sent(line, number, refused=len([each for each in before if each.strip()]))

    def _odd_id(self) -> Sent:
        name = self._random.choice(ODD_IDS).replace("ID", self._next_id())
        return Sent(_ping(name), name)

    def _no_id(self) -> Sent:
        """Who sent it cannot be named, but is told."""
        return Sent(_ping(self._random.choice(NO_IDS).replace("ID", self._next_id())), "null")

    def _no_request(self) -> Sent:
        line = self._random.choice((*NO_REQUESTS, *REFUSED))
        return Sent(line, answers=0, refused=1 if line in REFUSED else 0)

    def _twice(self) -> Sent:
        number = self._next_id()
        return Sent(_ping(number) + b"\n" + _ping(number), number, answers=2)

    def _cancelled(self) -> Sent:
        wait = self._request(
            "tools/call", f'{{"name":"wait_for_job","arguments":{{"job_ids":["{self._job_ids[0]}"]}}}}'
        )
        cancel = f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{wait.id}}}}}'
        return Sent(wait.line + b"\n" + cancel.encode(), wait.id, must_answer=False)


def _ping(request_id: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % request_id.encode()
