"""One notice on its way: what is tried again, what is not, and where it does not go."""

import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bgjob.watch import deliver
from bgjob.watch.deliver import Request, Undeliverable
from tests.support.requires import needs
from tests.support.webhooks import BROKEN, HELD, NO_HTTP, Desktop, Receiver, receiving


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "PAUSES_S", (0.0, 0.0, 0.0))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def request_to(url: str) -> Request:
    return {
        "way": "webhook",
        "target": url,
        "terminal_ctime_ns": 0,
        "headers": {"X-Token": "secret", "user-agent": "mine"},
        "environment": {},
        "title": "a title",
        "body": "a body",
        "payload": {"text": "grüße"},
    }


def failure(url: str) -> str:
    with pytest.raises(Undeliverable) as caught:
        deliver.deliver(request_to(url))
    return str(caught.value)


@pytest.mark.parametrize("status", [200, 201, 204])
def test_any_success_is_one(receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    deliver.deliver(request_to(receiver.url))
    (posted,) = receiver.posted
    assert posted.body == {"text": "grüße"}
    assert (posted.headers["x-token"], posted.headers["user-agent"]) == ("secret", "mine")


@pytest.mark.parametrize("trouble", [500, 503, 429, BROKEN])
def test_trouble_of_the_host_is_tried_again(receiver: Receiver, trouble: int) -> None:
    receiver.answers = [trouble, trouble, 200]
    deliver.deliver(request_to(receiver.url))
    assert len(receiver.posted) == 3


def test_but_not_for_ever(receiver: Receiver) -> None:
    receiver.answers = [503] * 10
    assert failure(receiver.url) == "it answered 503, 4 times"
    assert len(receiver.posted) == 4


@pytest.mark.parametrize("status", [400, 401, 404, 410, 303, 304])
def test_a_refusal_is_not_tried_again(receiver: Receiver, status: int) -> None:
    receiver.answers = [status]
    assert failure(receiver.url) == f"it answered {status}"
    assert len(receiver.posted) == 1


def test_a_host_that_takes_it_and_does_not_answer_is_not_sent_it_again(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "ANSWER_S", 0.2)
    receiver.answers = [HELD]
    assert failure(receiver.url).startswith("it did not answer within")
    receiver.wait_for(1)  # it may be read later than we gave it up
    assert len(receiver.posted) == 1


def test_where_none_listens_it_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        problem = failure(f"http://127.0.0.1:{taken.getsockname()[1]}/")
    assert problem == "it cannot be reached (Connection refused), 4 times"


def test_what_does_not_speak_http_is_told_so(receiver: Receiver) -> None:
    receiver.answers = [NO_HTTP]
    assert failure(receiver.url) == "it does not speak HTTP (BadStatusLine)"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_within_the_host_is_followed_by_the_same_post(receiver: Receiver, status: int) -> None:
    receiver.answers = [(status, "/there?y=2"), 200]
    deliver.deliver(request_to(receiver.url))
    first, second = receiver.posted
    assert (first.path, second.path) == ("/hook?x=1", "/there?y=2")
    assert (second.body, second.headers["x-token"]) == (first.body, "secret")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_a_redirect_to_another_server_is_not_followed(receiver: Receiver, name: str) -> None:
    with receiving() as other:
        receiver.answers = [(307, f"http://{name}:{other.port}/")]
        assert failure(receiver.url).startswith("it answered 307: it sends us to another host")
        assert other.posted == []


def test_a_redirect_without_end_has_one(receiver: Receiver) -> None:
    receiver.answers = [(308, "/again")] * 20
    assert failure(receiver.url) == "it answered 308 more than 3 times"
    assert len(receiver.posted) == 4


@pytest.mark.parametrize(
    ("here", "there", "is_followed"),
    [
        ("http://a.org/", "http://a.org/b", True),
        ("http://a.org/", "https://a.org/", True),
        ("http://a.org:80/", "https://a.org:443/", True),
        ("https://a.org/", "http://a.org/", False),
        ("http://a.org/", "http://a.org:8080/", False),
        ("http://a.org:8080/", "https://a.org/", False),
        ("http://a.org/", "http://b.a.org/", False),
        ("http://a.org/", "file:///etc/passwd", False),
        ("http://a.org/", "http://a.org:x/", False),
    ],
)
def test_which_redirects_are_followed(here: str, there: str, is_followed: bool) -> None:
    assert deliver.is_same_host(urlsplit(here), urlsplit(there)) == is_followed


@needs("openssl")
def test_https_needs_a_certificate_that_the_system_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(["openssl", *made.split(), *named], check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    with receiving(tls=tls) as receiver:
        assert failure(receiver.url).startswith("its certificate is not accepted")
        assert receiver.posted == []
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        deliver.deliver(request_to(receiver.url))
        assert len(receiver.posted) == 1


def test_a_program_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "PROGRAM_S", 0.2)
    desktop = Desktop(tmp_path / "desktop")
    desktop.act("exec sleep 1000")
    with pytest.raises(Undeliverable, match="notify-send did not end within"):
        deliver.deliver({**request_to(""), "way": "desktop", "environment": desktop.environment})
