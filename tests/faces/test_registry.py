"""What the MCP face derives from a declared tool: schemas, answers, and words when something is wrong."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest

from bgjob.core.errors import BgjobError
from bgjob.mcp.answers import Answer
from bgjob.mcp.registry import Kind, Registry
from bgjob.mcp.schema import derived
from bgjob.protocol.jsonrpc import INVALID_PARAMS, RpcError, encoded
from bgjob.protocol.tasks import Task
from tests.support.tools import Result, new_caller, text_of

READS = Kind("read", {"readOnlyHint": True})
SELLS = Kind("run", {"readOnlyHint": False})


class Wheel(Answer):
    inches: int
    maker: str | None = None


class Bike(Answer):
    """Two wheels, or so."""

    name: str
    wheels: list[Wheel]
    colour: Literal["red", "blue"] | None = None


class Shop:
    """An api to try the registry on."""

    def sell(self, name: str) -> Bike:
        if name == "stolen":
            raise BgjobError("We do not sell that. list_bikes shows what we sell.")
        if name == "broken":
            raise ZeroDivisionError("secret detail")
        return Bike(name=name, wheels=[Wheel(inches=28), Wheel(inches=26, maker="Schwalbe")])


SCHEMAS: dict[str, Any] = {}
TOOLS = Registry[Shop](SCHEMAS)


@TOOLS.tool("Buy a bike", SELLS)
def buy_bike(
    shop: Shop,
    name: Annotated[str, {"description": "As on the label"}],
    gears: Annotated[int, {"minimum": 1, "maximum": 30}] = 7,
    price: Annotated[float | None, {"exclusiveMinimum": 0}] = None,
    colour: Literal["red", "blue"] | None = None,
    extras: dict[str, str] | None = None,
    gift: bool = False,
) -> Bike:
    """Buy a bike.
    It is yours at once."""
    return shop.sell(name)


@TOOLS.tool("Wait for a bike", SELLS, blocks=True)
def wait_for_bike(shop: Shop, name: str) -> Bike:
    """Buy a bike and wait for it."""
    return shop.sell(name)


@TOOLS.tool("A tool", READS)
def show_arguments(
    shop: Shop, gears: int = 7, extras: dict[str, str] | None = None, gift: bool = False
) -> Bike:
    """What arrived."""
    return Bike(name=json.dumps([gears, extras, gift]), wheels=[])


@TOOLS.tool("A tool", READS)
def close_shop(shop: Shop) -> Bike:
    """Close."""
    return Bike(name="none", wheels=[])


@TOOLS.tool("A tool", READS)
def find_bike(shop: Shop) -> Bike:
    """A name with a lone surrogate, a pair of them, and a plain letter."""
    return Bike(name=b"caf\xff".decode("utf-8", "surrogateescape") + " \ud83d\udeb2 é", wheels=[])


SCHEMAS.update(derived(TOOLS))


def call(tool: str, **arguments: Any) -> Result:
    result = TOOLS.call(Shop(), TOOLS.find(tool), arguments, new_caller())
    assert not isinstance(result, Task)
    return result


def complaint(tool: str, **arguments: Any) -> str:
    result = call(tool, **arguments)
    assert result["isError"]
    assert "structuredContent" not in result
    return text_of(result)


def listed(tool: str) -> Mapping[str, Any]:
    return next(each for each in TOOLS.listing() if each["name"] == tool)


class TestTheSchemas:
    def test_the_input_schema_is_the_signature_and_nothing_else(self) -> None:
        assert listed("buy_bike")["inputSchema"] == {
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
        assert listed("buy_bike")["outputSchema"] == {
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
        assert listed("buy_bike")["description"] == "Buy a bike. It is yours at once."

    def test_tools_are_listed_in_the_order_of_their_declaration(self) -> None:
        names = [tool["name"] for tool in TOOLS.listing()]
        assert names == ["buy_bike", "wait_for_bike", "show_arguments", "close_shop", "find_bike"]

    def test_only_the_tools_are_listed_that_the_rights_of_a_client_allow(self) -> None:
        assert [tool["name"] for tool in TOOLS.listing(["run"])] == ["buy_bike", "wait_for_bike"]
        assert TOOLS.listing([]) == []

    def test_a_tool_has_a_title_and_says_what_it_does_to_the_world(self) -> None:
        assert listed("buy_bike")["title"] == "Buy a bike"
        assert listed("buy_bike")["annotations"] == {"readOnlyHint": False}


class TestAnswers:
    def test_an_answer_is_structured_and_the_same_json_as_text(self) -> None:
        result = call("buy_bike", name="Möve")
        assert not result["isError"]
        assert result["structuredContent"] == {
            "name": "Möve",
            "wheels": [{"inches": 28}, {"inches": 26, "maker": "Schwalbe"}],
        }
        assert json.loads(text_of(result)) == result["structuredContent"]
        assert text_of(result).splitlines()[0] == '{"name":"Möve",'

    def test_lone_surrogates_are_replaced_and_the_rest_stays(self) -> None:
        result = call("find_bike")
        assert result["structuredContent"] == {"name": "caf\ufffd 🚲 é", "wheels": []}
        assert json.loads(text_of(result)) == result["structuredContent"]
        assert "caf\ufffd 🚲 é" in encoded(result).decode()


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
        assert "structuredContent" in result
        assert json.loads(result["structuredContent"]["name"]) == arrived


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

    def test_a_bug_is_loud_on_stderr_and_short_to_the_client(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        said = complaint("buy_bike", name="broken")
        assert said == "Internal error in buy_bike; the server's log on stderr has the details."
        assert "ZeroDivisionError: secret detail" in capsys.readouterr().err

    def test_an_unknown_tool_is_an_error_of_the_protocol(self) -> None:
        with pytest.raises(RpcError, match="Unknown tool: sell_bike") as problem:
            call("sell_bike")
        assert problem.value.code == INVALID_PARAMS
