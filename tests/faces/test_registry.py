"""What the MCP face derives from a declared tool: schemas, answers, and words when something is wrong."""

import json
import logging
import threading
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field

from bgjob.core.errors import BgjobError
from bgjob.mcp.registry import Registry
from bgjob.mcp.stdio import NoMessage, parsed

READS = ToolAnnotations(read_only_hint=True)


@dataclass(frozen=True)
class Wheel:
    inches: int
    maker: str | None = None


@dataclass(frozen=True)
class Bike:
    """Two wheels, or so."""

    name: str
    wheels: list[Wheel]
    colour: Literal["red", "blue"] | None = None


class Shop:
    """An api to try the registry on."""

    def __init__(self) -> None:
        self.thread = ""

    def sell(self, name: str) -> Bike:
        self.thread = threading.current_thread().name
        if name == "stolen":
            raise BgjobError("We do not sell that. list_bikes shows what we sell.")
        if name == "broken":
            raise ZeroDivisionError("secret detail")
        return Bike(name, [Wheel(28), Wheel(26, maker="Schwalbe")])


TOOLS = Registry[Shop]()


@TOOLS.tool(READS)
def buy_bike(
    shop: Shop,
    name: Annotated[str, Field(description="As on the label")],
    gears: Annotated[int, Field(ge=1, le=30)] = 7,
    price: Annotated[float | None, Field(gt=0)] = None,
    colour: Literal["red", "blue"] | None = None,
    extras: dict[str, str] | None = None,
    gift: bool = False,
) -> Bike:
    """Buy a bike.
    It is yours at once."""
    return shop.sell(name)


@TOOLS.tool(READS, blocks=True)
def wait_for_bike(shop: Shop, name: str) -> Bike:
    """Buy a bike and wait for it."""
    return shop.sell(name)


@TOOLS.tool(READS)
def show_arguments(
    shop: Shop, gears: int = 7, extras: dict[str, str] | None = None, gift: bool = False
) -> Bike:
    """What arrived."""
    return Bike(json.dumps([gears, extras, gift]), [])


@TOOLS.tool(READS)
def close_shop(shop: Shop) -> Bike:
    """Close."""
    return Bike("none", [])


@TOOLS.tool(READS)
def find_bike(shop: Shop) -> Bike:
    """A name with a lone surrogate, a pair of them, and a plain letter."""
    return Bike(b"caf\xff".decode("utf-8", "surrogateescape") + " \ud83d\udeb2 é", [])


def call(tool: str, shop: Shop | None = None, **arguments: Any) -> CallToolResult:
    return anyio.run(partial(TOOLS.call, shop or Shop(), tool, arguments))


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def complaint(tool: str, **arguments: Any) -> str:
    result = call(tool, **arguments)
    assert result.is_error
    assert result.structured_content is None
    return text_of(result)


class TestTheSchemas:
    def test_the_input_schema_is_the_signature_and_nothing_else(self) -> None:
        assert TOOLS.entries["buy_bike"].tool.input_schema == {
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "As on the label"},
                "gears": {"type": "integer", "minimum": 1, "maximum": 30, "default": 7},
                "price": {"type": "number", "exclusiveMinimum": 0},
                "colour": {"type": "string", "enum": ["red", "blue"]},
                "extras": {"type": "object", "additionalProperties": {"type": "string"}},
                "gift": {"type": "boolean"},
            },
            "required": ["name"],
        }

    def test_the_output_schema_is_the_answer_without_titles_nulls_and_references(self) -> None:
        assert TOOLS.entries["buy_bike"].tool.output_schema == {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "wheels": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {"inches": {"type": "integer"}, "maker": {"type": "string"}},
                        "required": ["inches"],
                    },
                },
                "colour": {"type": "string", "enum": ["red", "blue"]},
            },
            "required": ["name", "wheels"],
        }

    def test_the_docstring_is_the_description_on_one_line(self) -> None:
        assert TOOLS.entries["buy_bike"].tool.description == "Buy a bike. It is yours at once."

    def test_tools_are_listed_in_the_order_of_their_declaration(self) -> None:
        names = [tool.name for tool in TOOLS.listing]
        assert names == ["buy_bike", "wait_for_bike", "show_arguments", "close_shop", "find_bike"]


class TestAnswers:
    def test_an_answer_is_structured_and_the_same_json_as_text(self) -> None:
        result = call("buy_bike", name="Möve")
        assert not result.is_error
        assert result.structured_content == {
            "name": "Möve",
            "wheels": [{"inches": 28}, {"inches": 26, "maker": "Schwalbe"}],
        }
        assert json.loads(text_of(result)) == result.structured_content
        assert text_of(result).splitlines()[0] == '{"name":"Möve",'

    def test_lone_surrogates_are_replaced_and_the_rest_stays(self) -> None:
        result = call("find_bike")
        assert result.structured_content == {"name": "caf\ufffd 🚲 é", "wheels": []}
        assert json.loads(text_of(result)) == result.structured_content
        assert "caf\ufffd 🚲 é" in result.model_dump_json()

    def test_only_a_tool_that_blocks_gets_a_thread(self) -> None:
        shop = Shop()
        call("buy_bike", shop, name="x")
        assert shop.thread == threading.main_thread().name
        call("wait_for_bike", shop, name="x")
        assert shop.thread != threading.main_thread().name


class TestForgivingArguments:
    @pytest.mark.parametrize(
        ("given", "arrived"),
        [
            ({"gears": "21"}, [21, None, False]),
            ({"gears": 21.0}, [21, None, False]),
            ({"gears": None, "extras": None, "gift": None}, [7, None, False]),
            ({"extras": {"PORT": 3000}}, [7, {"PORT": "3000"}, False]),
            ({"gift": "true"}, [7, None, True]),
            ({}, [7, None, False]),
        ],
    )
    def test_what_is_clearly_meant_is_taken(self, given: dict[str, Any], arrived: list[Any]) -> None:
        result = call("show_arguments", **given)
        assert result.structured_content is not None
        assert json.loads(result.structured_content["name"]) == arrived


class TestComplaints:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"gears": 0}, "Invalid argument gears=0: give a whole number from 1 to 30 (default 7)."),
            (
                {"gears": "many"},
                'Invalid argument gears="many": give a whole number from 1 to 30 (default 7).',
            ),
            ({"gears": 7.5}, "Invalid argument gears=7.5: give a whole number from 1 to 30 (default 7)."),
            ({"price": 0}, "Invalid argument price=0: give a number above 0."),
            ({"price": float("nan")}, "Invalid argument price=NaN: give a number above 0."),
            ({"colour": "pink"}, 'Invalid argument colour="pink": give one of red, blue.'),
            ({"extras": "bell"}, 'Invalid argument extras="bell": give an object, each value text.'),
            ({"extras": {"bell": []}}, "Invalid argument extras.bell=[]: give text."),
            ({"gift": "perhaps"}, 'Invalid argument gift="perhaps": give true or false.'),
            ({"name": None}, "Invalid argument name=null: give text."),
            ({"size": 5}, "Unknown argument size: buy_bike takes name, gears, price, colour, extras, gift."),
        ],
    )
    def test_a_complaint_names_the_argument_the_value_and_what_is_accepted(
        self, given: dict[str, Any], said: str
    ) -> None:
        assert complaint("buy_bike", **{"name": "x"} | given) == said

    def test_a_missing_argument_is_named(self) -> None:
        assert complaint("buy_bike") == "Missing argument name: give text."

    def test_every_problem_has_one_line(self) -> None:
        lines = complaint("buy_bike", gears=99, colour=3).splitlines()
        assert [line.split(":")[0] for line in lines] == [
            "Missing argument name",
            "Invalid argument gears=99",
            "Invalid argument colour=3",
        ]

    def test_a_tool_without_arguments_says_so(self) -> None:
        assert complaint("close_shop", now=True) == "Unknown argument now: close_shop takes no arguments."

    def test_a_huge_value_or_name_is_shortened(self) -> None:
        assert len(complaint("buy_bike", name="x", gears="9" * 10_000 + "x")) < 200
        assert len(complaint("close_shop", **{"n" * 10_000: 1})) < 200


class TestErrors:
    def test_an_error_of_ours_is_shown_as_it_is(self) -> None:
        for tool in ("buy_bike", "wait_for_bike"):
            assert complaint(tool, name="stolen") == "We do not sell that. list_bikes shows what we sell."

    def test_a_bug_is_loud_on_stderr_and_short_to_the_client(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR):
            said = complaint("buy_bike", name="broken")
        assert said == "Internal error in buy_bike; the server's log on stderr has the details."
        assert "ZeroDivisionError: secret detail" in caplog.text

    def test_an_unknown_tool_is_an_error_of_the_protocol(self) -> None:
        with pytest.raises(MCPError, match="Unknown tool: sell_bike"):
            call("sell_bike")


class TestTheWire:
    def test_half_an_emoji_from_javascript_is_still_a_message(self) -> None:
        message = parsed(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"a\\ud83d b"}}\n')
        assert isinstance(message, SessionMessage)
        assert message.message.model_dump()["params"] == {"text": "a? b"}

    def test_bytes_that_are_no_utf8_are_still_a_message(self) -> None:
        message = parsed(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"text":"caf\xe9"}}\n')
        assert isinstance(message, SessionMessage)
        assert message.message.model_dump()["params"] == {"text": "caf\ufffd"}

    @pytest.mark.parametrize("line", [b"\n", b"garbage\n", b"[1]\n", b"[" * 100_000, b'{"jsonrpc":"2.0"}\n'])
    def test_what_is_no_message_is_refused_and_raises_nothing(self, line: bytes) -> None:
        assert isinstance(parsed(line), NoMessage)
