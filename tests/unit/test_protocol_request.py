"""Requests and the messages that answer them: sealed results, progress, subscriptions."""

from typing import Any

import pytest

from bgjob.mcp.caller import Caller
from bgjob.protocol import subscriptions
from bgjob.protocol.jsonrpc import Message, RpcError
from bgjob.protocol.methods import AN_HOUR_MS, COMPLETIONS, RESOURCES, TOOLS
from bgjob.protocol.request import Client, Request
from bgjob.protocol.revisions import HANDSHAKE, SERVER_KEY, SUBSCRIPTION_KEY
from bgjob.protocol.server import Server
from bgjob.protocol.subscriptions import MOST_RESOURCES, Wanted

SERVER = Server(
    name="s",
    title="S",
    version="1",
    instructions="",
    methods={**TOOLS, **RESOURCES, **COMPLETIONS},
    capabilities={},
)
INFO = {"name": "s", "title": "S", "version": "1"}


def a_request(method: str = "tools/call", revision: str = "2026-07-28", **params: Any) -> Request:
    return Request(7, method, params, revision, Client(), SERVER)


class TestSealing:
    @pytest.mark.parametrize(
        ("method", "kept"),
        [
            ("tools/list", {"ttlMs": AN_HOUR_MS, "cacheScope": "public"}),
            ("server/discover", {"ttlMs": AN_HOUR_MS, "cacheScope": "public"}),
            ("resources/templates/list", {"ttlMs": AN_HOUR_MS, "cacheScope": "public"}),
            ("resources/list", {"ttlMs": 0, "cacheScope": "private"}),
            ("resources/read", {"ttlMs": 0, "cacheScope": "private"}),
            ("tools/call", {}),
            ("completion/complete", {}),
        ],
    )
    def test_a_result_says_what_it_is_and_how_long_it_may_be_kept(
        self, method: str, kept: dict[str, Any]
    ) -> None:
        sealed = a_request(method).result({"a": 1})["result"]
        assert sealed == {"resultType": "complete", "a": 1, "_meta": {SERVER_KEY: INFO}, **kept}

    @pytest.mark.parametrize("revision", HANDSHAKE)
    def test_results_of_before_are_as_they_were(self, revision: str) -> None:
        assert a_request("tools/list", revision).result({"a": 1})["result"] == {"a": 1}

    def test_lists_that_rights_decide_are_kept_by_one_client_alone(self) -> None:
        private = a_request("tools/list")._replace(server=SERVER._replace(cache_scope="private"))
        assert private.result({})["result"]["cacheScope"] == "private"

    def test_what_the_application_says_stays(self) -> None:
        result = {"resultType": "input_required", "_meta": {"x": 1}}
        sealed = a_request("resources/read").result(result)["result"]
        assert sealed == {"resultType": "input_required", "_meta": {"x": 1, SERVER_KEY: INFO}}


class TestProgress:
    @pytest.mark.parametrize("token", [0, 5, "token", ""])
    def test_it_is_told_under_the_clients_token(self, token: object) -> None:
        told = a_request(_meta={"progressToken": token}).progress(1.5, "compiling")
        assert told == {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": token, "progress": 1.5, "message": "compiling"},
        }

    @pytest.mark.parametrize(
        "meta", [None, [], {}, {"progressToken": None}, {"progressToken": True}, {"progressToken": 1.5}]
    )
    def test_it_is_told_to_nobody_who_did_not_ask(self, meta: object) -> None:
        assert a_request(_meta=meta).progress(1, None) is None

    def test_a_wait_has_no_total(self) -> None:
        """A client would show it as a part of the time that the wait may take at most."""
        sent: list[Message] = []
        Caller(a_request(_meta={"progressToken": 1}), sent.append).tell(2.0, "a\x1bb")
        (told,) = sent
        assert "total" not in told["params"]
        assert "\x1b" not in told["params"]["message"]

    def test_nothing_is_told_about_what_was_cancelled(self) -> None:
        sent: list[Message] = []
        caller = Caller(a_request(_meta={"progressToken": 1}), sent.append)
        caller.cancel()
        caller.tell(2.0, "late")
        caller.send({"late": True})
        assert sent == []


class TestParams:
    def test_a_text_must_be_there(self) -> None:
        assert a_request(uri="x").text("uri") == "x"
        for params in ({}, {"uri": 5}, {"uri": None}):
            with pytest.raises(RpcError, match="needs uri, a text"):
                a_request(**params).text("uri")

    def test_an_object_may_be_left_out(self) -> None:
        assert a_request().mapping("arguments") == {}
        assert a_request(arguments=None).mapping("arguments") == {}
        for wrong in ("x", [1], 5, False):
            with pytest.raises(RpcError, match="arguments of tools/call must be an object"):
                a_request(arguments=wrong).mapping("arguments")


class TestSubscriptions:
    def listen(self, **notifications: Any) -> Request:
        return a_request("subscriptions/listen", notifications=notifications)

    def test_what_is_honoured_is_said_first(self) -> None:
        request = self.listen(resourceSubscriptions=["a", "b", "a"], resourcesListChanged=True, others=1)
        said = subscriptions.acknowledgement(request, Wanted.of(request))
        assert said["params"] == {
            "_meta": {SUBSCRIPTION_KEY: 7},
            "notifications": {"resourceSubscriptions": ["a", "b"], "resourcesListChanged": True},
        }

    def test_each_notification_names_its_subscription(self) -> None:
        request = self.listen()
        for message in (subscriptions.resource_updated("u", request), subscriptions.list_changed(request)):
            assert message["params"]["_meta"] == {SUBSCRIPTION_KEY: 7}
        assert subscriptions.resource_updated("u")["params"] == {"uri": "u"}
        assert subscriptions.closing_result(request)["_meta"][SUBSCRIPTION_KEY] == 7

    @pytest.mark.parametrize("uris", ["a", {"a": 1}, [1], ["a", None], ["u"] * (MOST_RESOURCES + 1)])
    def test_odd_or_too_many_resources_are_refused(self, uris: object) -> None:
        with pytest.raises(RpcError, match="resourceSubscriptions"):
            Wanted.of(self.listen(resourceSubscriptions=uris))

    @pytest.mark.parametrize("notifications", [None, [], "x"])
    def test_a_subscription_to_nothing_is_refused(self, notifications: object) -> None:
        with pytest.raises(RpcError, match="needs notifications, an object"):
            Wanted.of(a_request("subscriptions/listen", notifications=notifications))
