"""A real dev server, which watches its stdin and is not stuck. Installs vite by npm: run it where that is wanted."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bgjob.api import Jobs
from bgjob.api.prompt import sits_at_prompt, waits_for_input
from tests.support.requires import linux_only, needs
from tests.support.waiting import wait_until

pytestmark = [linux_only, needs("npm")]

INSTALL_S = 300
READY_S = 45
VITE = "vite@5"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("vite")
    (project / "package.json").write_text('{"name": "demo", "private": true}')
    (project / "index.html").write_text("<h1>demo</h1>")
    npm = shutil.which("npm")
    assert npm
    install = [npm, "install", "--no-audit", "--no-fund", VITE]
    try:
        subprocess.run(install, cwd=project, check=True, capture_output=True, timeout=INSTALL_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"npm cannot install {VITE}: {problem}")
    return project


@pytest.fixture
def dev_server(jobs: Jobs, project: Path) -> Callable[[bool], str]:
    def start(pty: bool) -> str:
        command = "exec node_modules/.bin/vite --host 127.0.0.1 --port 0"
        job_id = jobs.execute(command, cwd=str(project), pty=pty, env={"CI": ""}).id
        (waited,) = jobs.wait_for([job_id], pattern="ready in", timeout_s=READY_S)
        assert waited.met, waited.output
        return job_id

    return start


@pytest.mark.parametrize("pty", [False, True])
def test_a_dev_server_that_is_ready_does_not_sit_at_a_prompt(
    jobs: Jobs, dev_server: Callable[[bool], str], pty: bool
) -> None:
    job_id = dev_server(pty)
    job = jobs.store.load(job_id)
    if pty:  # there it listens for keys
        wait_until(lambda: waits_for_input(jobs.context, job) == "yes")
    jobs.wait_for([job_id], silence_s=1.5, timeout_s=READY_S)
    (waited,) = jobs.wait_for([job_id], timeout_s=3)
    assert waited.came is None
    assert sits_at_prompt(jobs.context, job, is_quiet=True) is False
    assert jobs.status(job_id).waits_for_input is False
    assert jobs.events("0.0", job_ids=[job_id], kinds=["input"]).events == []
