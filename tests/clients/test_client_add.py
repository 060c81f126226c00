"""`bgjob client add` with the real clients, installed by npm: each then knows bgjob by its own account."""

from pathlib import Path

import pytest

from bgjob.clients.table import CLIENTS
from tests.clients.client_user import BGJOB, SHOWS, User
from tests.support.npm_packages import installing_takes_long
from tests.support.requires import linux_only

pytestmark = [linux_only, installing_takes_long]


@pytest.mark.parametrize("client", SHOWS)
class TestARealClient:
    def test_it_has_bgjob_after_one_command_and_a_second_one_changes_nothing(
        self, user: User, client: str
    ) -> None:
        add = (BGJOB, "client", "add", client, "--env", "MCP_BG_MAX_JOBS=7", "--env", "NOTE=a b")
        added = user(*add)
        assert "has bgjob now, in" in added
        assert added.endswith("exit code 0")
        assert BGJOB in user(client, *SHOWS[client])
        assert "has bgjob already, in" in user(*add)

    def test_it_has_what_is_printed_if_it_is_put_where_it_is_said(self, user: User, client: str) -> None:
        printed = user(BGJOB, "client", "add", client, "--print")
        heading, _, text = printed.partition("put this into ")[2].partition("\n\n")
        path = Path(heading)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.removesuffix("\nexit code 0"))
        assert BGJOB in user(client, *SHOWS[client])
        assert "has bgjob already, in" in user(BGJOB, "client", "add", client)

    def test_another_server_of_that_name_is_replaced_as_the_error_says(self, user: User, client: str) -> None:
        assert "has bgjob now" in user(BGJOB, "client", "add", client)
        refused = user(BGJOB, "client", "add", client, "--env", "A=b")
        assert "it has other variables" in refused
        if remove := CLIENTS[client].remove:
            assert user(*remove.split(), "bgjob").endswith("exit code 0")
            assert "has bgjob now" in user(BGJOB, "client", "add", client, "--env", "A=b")
