"""One client of the protocol: eras decided per request, refusals, batches, notifications. Messages in, messages out."""

from typing import Any

import pytest

from bgjob.protocol.connection import Cancelled, Connection, Received, Response
from bgjob.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_REVISION
from bgjob.protocol.methods import RESOURCES, TOOLS, Method
from bgjob.protocol.request import Client, Request
from bgjob.protocol.revisions import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    HANDSHAKE,
    NEWEST_HANDSHAKE,
    REVISION_KEY,
)
from bgjob.protocol.server import Server

EXTENSION = "io.modelcontextprotocol/tasks"
STATELESS = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}, CLIENT_KEY: {"name": "new", "version": "2"}}
SERVER = Server(
    name="s",
    title="S",
    version="1",
    instructions="Do.",
    methods={**TOOLS, **RESOURCES, "tasks/get": Method(extension=EXTENSION)},
    capabilities={"tools": {}, "resources": {"subscribe": True}},
    extensions={EXTENSION: {}},
)


@pytest.fixture
def connection() -> Connection:
    return Connection(SERVER, can_notify=True)


def receive(connection: Connection, message: object) -> list[Received]:
    return list(connection.receive(message))


def one(connection: Connection, message: object) -> Received:
    (received,) = connection.receive(message)
    return received


def answer(connection: Connection, message: object) -> dict[str, Any]:
    received = one(connection, message)
    assert isinstance(received, Response)
    return received.message


def request(method: str, meta: object = None, **params: Any) -> dict[str, Any]:
    told = params if meta is None else {**params, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": told}


def shake_hands(connection: Connection, revision: str) -> dict[str, Any]:
    hello = request(
        "initialize", protocolVersion=revision, clientInfo={"name": "old"}, capabilities={"roots": {}}
    )
    return dict(answer(connection, hello)["result"])


def code_of(message: dict[str, Any]) -> int:
    return int(message["error"]["code"])


class TestEras:
    @pytest.mark.parametrize("revision", HANDSHAKE)
    def test_a_handshake_settles_the_revision_of_what_follows(
        self, connection: Connection, revision: str
    ) -> None:
        welcome = shake_hands(connection, revision)
        assert welcome["protocolVersion"] == revision
        assert welcome["serverInfo"] == {"name": "s", "title": "S", "version": "1"}
        assert "resultType" not in welcome
        listing = one(connection, request("tools/list"))
        assert isinstance(listing, Request)
        assert (listing.revision, listing.client.name) == (revision, "old")

    @pytest.mark.parametrize("asked", ["2026-07-28", "2099-01-01", "1.0", ""])
    def test_a_handshake_of_another_revision_is_answered_with_the_newest(
        self, connection: Connection, asked: str
    ) -> None:
        assert shake_hands(connection, asked)["protocolVersion"] == NEWEST_HANDSHAKE

    @pytest.mark.parametrize("asked", [None, 5, ["2025-11-25"]])
    def test_a_handshake_without_a_revision_is_refused(self, connection: Connection, asked: object) -> None:
        assert code_of(answer(connection, request("initialize", protocolVersion=asked))) == INVALID_PARAMS

    def test_a_request_before_any_handshake_is_of_the_newest(self, connection: Connection) -> None:
        listing = one(connection, request("tools/list"))
        assert isinstance(listing, Request)
        assert listing.revision == NEWEST_HANDSHAKE

    def test_both_eras_share_a_connection(self, connection: Connection) -> None:
        """Each request says which one it is of, and what it says of its client is not remembered."""
        shake_hands(connection, "2025-03-26")
        requests = [one(connection, request("tools/list", meta)) for meta in (None, STATELESS, None)]
        told = [(each.revision, each.client.name) for each in requests if isinstance(each, Request)]
        assert told == [("2025-03-26", "old"), ("2026-07-28", "new"), ("2025-03-26", "old")]

    @pytest.mark.parametrize(
        ("method", "meta"),
        [
            ("initialize", STATELESS),
            ("ping", STATELESS),
            ("resources/subscribe", STATELESS),
            ("server/discover", None),
            ("subscriptions/listen", None),
            ("tools/nonsense", None),
            ("tools/nonsense", STATELESS),
            ("notifications/cancelled", None),
        ],
    )
    def test_a_method_of_the_other_era_is_not_there(
        self, connection: Connection, method: str, meta: object
    ) -> None:
        assert code_of(answer(connection, request(method, meta))) == METHOD_NOT_FOUND

    def test_discovery_says_what_there_is(self, connection: Connection) -> None:
        found = answer(connection, request("server/discover", STATELESS))["result"]
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["capabilities"]["extensions"] == {EXTENSION: {}}
        assert found["resultType"] == "complete"

    @pytest.mark.parametrize("revision", ["2025-11-25", "2099-01-01", ""])
    def test_an_unknown_revision_is_told_the_known_ones(self, connection: Connection, revision: str) -> None:
        refused = answer(connection, request("tools/list", STATELESS | {REVISION_KEY: revision}))
        assert code_of(refused) == UNSUPPORTED_REVISION
        found = answer(connection, request("server/discover", STATELESS))["result"]
        told = {"supported": found["supportedVersions"], "requested": revision}
        assert refused["error"]["data"] == told

    @pytest.mark.parametrize(
        "meta",
        [
            {REVISION_KEY: "2026-07-28"},
            {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: []},
            {REVISION_KEY: 5, CAPABILITIES_KEY: {}},
            {REVISION_KEY: None, CAPABILITIES_KEY: {}},
        ],
    )
    def test_half_an_envelope_is_refused(self, connection: Connection, meta: object) -> None:
        assert code_of(answer(connection, request("tools/list", meta))) == INVALID_PARAMS

    @pytest.mark.parametrize("meta", [[], "text", 5, {}, {"progressToken": 1}])
    def test_other_meta_is_of_no_era(self, connection: Connection, meta: object) -> None:
        received = one(connection, request("tools/list", meta))
        assert isinstance(received, Request)
        assert not received.is_stateless


class TestMessages:
    @pytest.mark.parametrize("request_id", [0, -1, 2**70, "", "text", "1"])
    def test_an_id_is_text_or_a_whole_number(self, connection: Connection, request_id: object) -> None:
        assert answer(connection, {**request("ping"), "id": request_id})["id"] == request_id

    @pytest.mark.parametrize("request_id", [None, True, 1.5, [1], {}, float("inf")])
    def test_another_id_is_refused_and_not_repeated(self, connection: Connection, request_id: object) -> None:
        refused = answer(connection, {**request("ping"), "id": request_id})
        assert (code_of(refused), refused["id"]) == (INVALID_REQUEST, None)

    @pytest.mark.parametrize("message", [None, 17, "ping", True, 1.5, [], {}, {"jsonrpc": "2.0"}])
    def test_what_is_no_request_is_refused(self, connection: Connection, message: object) -> None:
        refused = answer(connection, message)
        assert (code_of(refused), refused["id"]) == (INVALID_REQUEST, None)

    @pytest.mark.parametrize(
        "change", [{"jsonrpc": "1.0"}, {"jsonrpc": None}, {"method": 5}, {"params": []}, {"params": "x"}]
    )
    def test_a_request_that_is_wrong_is_refused_by_its_id(
        self, connection: Connection, change: dict[str, Any]
    ) -> None:
        refused = answer(connection, {**request("ping"), **change})
        assert (code_of(refused), refused["id"]) == (INVALID_REQUEST, 1)

    def test_params_may_be_null_or_left_out(self, connection: Connection) -> None:
        for message in ({**request("ping"), "params": None}, {"jsonrpc": "2.0", "id": 1, "method": "ping"}):
            assert answer(connection, message)["result"] == {}

    @pytest.mark.parametrize(
        "message",
        [
            {"jsonrpc": "2.0", "id": 1, "result": {}},
            {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "method": "notifications/nonsense", "params": 5},
            {"jsonrpc": "2.0", "method": "notifications/cancelled"},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": None}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": True}},
            {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "kill_job"}},
        ],
    )
    def test_answers_and_notifications_are_not_answered(
        self, connection: Connection, message: object
    ) -> None:
        assert receive(connection, message) == []

    @pytest.mark.parametrize("request_id", [7, "7"])
    def test_a_cancellation_names_its_request(self, connection: Connection, request_id: object) -> None:
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
        assert one(connection, note) == Cancelled(request_id)  # type: ignore[arg-type]


class TestBatches:
    BATCH = (
        request("ping"),
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}},
        {**request("tools/list"), "id": 2},
        17,
    )

    def test_the_one_revision_that_has_them_takes_them(self, connection: Connection) -> None:
        shake_hands(connection, "2025-03-26")
        ping, cancelled, listing, refused = receive(connection, list(self.BATCH))
        assert isinstance(ping, Response)
        assert cancelled == Cancelled(9)
        assert isinstance(listing, Request)
        assert isinstance(refused, Response)
        assert code_of(refused.message) == INVALID_REQUEST

    @pytest.mark.parametrize("revision", [None, "2024-11-05", "2025-06-18", "2025-11-25"])
    def test_in_the_others_each_request_is_refused(
        self, connection: Connection, revision: str | None
    ) -> None:
        if revision:
            shake_hands(connection, revision)
        refused = [
            each.message for each in receive(connection, list(self.BATCH)) if isinstance(each, Response)
        ]
        assert [(code_of(each), each["id"]) for each in refused] == [
            (INVALID_REQUEST, 1),
            (INVALID_REQUEST, 2),
            (INVALID_REQUEST, None),
        ]

    def test_an_empty_batch_and_a_batch_in_a_batch_are_refused(self, connection: Connection) -> None:
        shake_hands(connection, "2025-03-26")
        for batch in ([], [[request("ping")]]):
            assert code_of(answer(connection, batch)) == INVALID_REQUEST


class TestCapabilities:
    @pytest.mark.parametrize("can_notify", [True, False])
    def test_a_client_may_subscribe_where_it_can_be_told(self, can_notify: bool) -> None:
        welcome = shake_hands(Connection(SERVER, can_notify=can_notify), "2025-11-25")
        assert welcome["capabilities"]["resources"]["subscribe"] is can_notify
        assert "extensions" not in welcome["capabilities"]

    def test_an_extension_is_for_clients_that_declare_it(self, connection: Connection) -> None:
        refused = answer(connection, request("tasks/get", STATELESS))
        assert code_of(refused) == -32021
        assert refused["error"]["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        declared = STATELESS | {CAPABILITIES_KEY: {"extensions": {EXTENSION: {}}}}
        assert isinstance(one(connection, request("tasks/get", declared)), Request)

    @pytest.mark.parametrize("info", [None, [], {"name": 5, "version": None}, "text"])
    def test_a_client_that_says_nonsense_of_itself_is_unknown(
        self, connection: Connection, info: object
    ) -> None:
        received = one(connection, request("tools/list", STATELESS | {CLIENT_KEY: info}))
        assert isinstance(received, Request)
        assert received.client == Client()
