"""The rare arguments of execute_command over MCP: in `options`, and wherever models put them."""

from typing import Any

import pytest

from tests.support.gate import Gate
from tests.support.server import Server, StartServer, ToolError

WAYS: dict[str, dict[str, Any]] = {
    "in options": {
        "options": {"silence_s": 50, "open_files": 64, "restart": "on-failure", "max_restarts": 7}
    },
    "beside": {"silence_s": 50, "open_files": 64, "restart": "on-failure", "max_restarts": 7},
    "in limits": {
        "limits": {"silence_s": 50, "open_files": 64},
        "restart": "on-failure",
        "options": {"max_restarts": 7},
    },
    "as texts": {
        "options": {"silence_s": "50", "open_files": "64", "restart": "on-failure"},
        "max_restarts": "7",
    },
    "what is in options counts": {
        "silence_s": 1,
        "restart": "no",
        "options": {"silence_s": 50, "open_files": 64, "restart": "on-failure", "max_restarts": 7},
    },
}


@pytest.fixture
def server(start_server: StartServer) -> Server:
    return start_server(MCP_BG_MAX_JOBS="1", MCP_BG_GROUPS="gpu=1")


@pytest.mark.parametrize("way", WAYS)
def test_options_are_understood_wherever_they_stand(server: Server, gate: Gate, way: str) -> None:
    job_id = server.execute(f"{gate.reach}; cat", **WAYS[way])
    gate.wait_until_reached()
    status = server.status(job_id)
    assert (status["limits"], status["restarts"]) == ({"silence_s": 50.0, "open_files": 64}, 0)


def test_limits_restarts_and_the_queue_are_answered_for(server: Server, gate: Gate) -> None:
    first = server.execute(gate.pause)
    gate.wait_until_reached()
    behind = server.execute(
        "exit 3", queue=True, options={"restart": "on-failure", "max_restarts": 1, "backoff_s": 0.1}
    )
    after = server.execute("true", after=[behind], options={"group": "gpu", "priority": 5})
    place = server.status(after)
    assert (place["status"], place["position"], place["priority"]) == ("queued", 1, 5)
    assert place["reason"] == f"it waits: job {behind}, after which it is to run, is queued itself"
    gate.open()
    server.call("wait_for_job", job_ids=[first, behind, after], mode="all", timeout_s=60)
    ended = server.status(behind)
    assert (ended["exit_code"], ended["restarts"], [run["exit_code"] for run in ended["runs"]]) == (3, 1, [3])
    refused = server.status(after)
    assert (refused["status"], refused["cause"]) == ("failed", "never_started")
    assert refused["reason"].startswith(f"it was to run after the success of job {behind}")


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"options": {"colour": 1}}, "Unknown option 'colour'. Accepted: memory, cpu_s"),
        ({"memory": "much"}, "memory='much' is not valid. Accepted: a size such as 512MB"),
        ({"restart": True}, "restart=True is not valid. Accepted: no, on-failure or always."),
        ({"options": {"group": "cpu"}}, "group='cpu' is not in MCP_BG_GROUPS. Accepted: gpu."),
        ({"options": "memory=1GB", "priority": 1}, "Invalid argument options="),
    ],
)
def test_a_wrong_option_is_named_with_what_is_accepted(
    server: Server, given: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ToolError) as error:
        server.execute("true", **given)
    assert complaint in str(error.value)
    assert server.call("list_jobs")["jobs"] == []
