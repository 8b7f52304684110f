"""HTTP: requests of a rubric, answers, the script that sends one, when it is sent again."""

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys

import pytest
from cases import TRUE, read_tests, run_command, table
from conftest import messages, outcome

import DockerfileEvaluator as de


def http(timeout=30, **params):
    return {"type": "http_responds", "service": 8080, "timeout": timeout, "params": params}


# What a rubric describes, and what is sent

REQUESTS = r"""
nothing -> GET / HTTP/1.1|Host: localhost:8080|Connection: close||
    params: {}
a path -> GET /é%20?a=b&c HTTP/1.1|Host: localhost:8080|Connection: close||
    params: {"path": "/é%20?a=b&c"}
a HEAD -> HEAD / HTTP/1.1|Host: localhost:8080|Connection: close||
    params: {"method": "HEAD"}
a body -> POST / HTTP/1.1|Host: localhost:8080|Connection: close|Content-Length: 4||é"\
    params: {"body": "é\"\\"}
a POST without a body -> POST / HTTP/1.1|Host: localhost:8080|Connection: close|Content-Length: 0||
    params: {"method": "POST"}
a GET with one -> GET / HTTP/1.1|Host: localhost:8080|Connection: close|Content-Length: 1||x
    params: {"method": "GET", "body": "x"}
headers -> GET / HTTP/1.1|Host: localhost:8080|Connection: close|X-A: b: "c"|Accept: */*||
    params: {"headers": {"X-A": "b: \"c\"", "Accept": "*/*", "_why": "a comment"}}
another host -> GET / HTTP/1.1|hOST: example.org|Connection: close||
    params: {"headers": {"hOST": "example.org"}}
"""


@table(REQUESTS, params={})
def test_request_of_a_rubric(row):
    (test,) = read_tests(http(**row.params))

    assert test.check.arguments == (row.then.replace("|", "\r\n"),)


def test_body_may_have_64_kib():
    assert read_tests(http(body="é" * 32 * 1024))
    with pytest.raises(de.EvaluationError, match="expected at most 65536 bytes"):
        read_tests(http(body="é" * 32 * 1024 + "x"))


def test_drawn_numbers_stand_in_path_body_and_contains():
    draw = {"a": [1, 9], "b": [1, 1000000]}

    (test,) = read_tests(http(path="/{a}", body="{b*2}", contains=["{a+b}"], draw=draw))

    a, b = test.check.drawn.values()
    (request,) = test.check.arguments
    assert re.fullmatch(f"(?s)POST /{a} .*\r\n\r\n{b * 2}", request)
    assert test.check.judge(0, de.Printed(b"HTTP/1.1 200 OK\r\n\r\n<%d>" % (a + b)))[0]


# Answers

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-Encoding: Chunked\r\n\r\n"
LARGE = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 3 * 1024 * 1024
HEADERS = b"".join(b"X-%d: y\r\n" % number for number in range(200))
TO_HTTPS = b"Client sent an HTTP request to an HTTPS server.\n"
ANSWERS = {  # what a service sends: its status, its first line, its body, and what may explain it
    b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nx\r\n\r\ny": (200, "HTTP/1.1 200 OK", b"x\r\n\r\ny", ""),
    b"HTTP/1.0 404 Not Found\n\nx": (404, "HTTP/1.0 404 Not Found", b"x", ""),
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy": (200, "HTTP/1.1 200 OK", b"x", ""),
    b"HTTP/1.1 200 \x1b[1m\x07\xff\r\n\r\n": (200, "HTTP/1.1 200 \\x07\ufffd", b"", ""),
    # Interim answers are skipped; 101 is none.
    b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 102 P\n\nHTTP/1.0 201 C\r\n\r\nx": (
        *(201, "HTTP/1.0 201 C", b"x", ""),
    ),
    b"HTTP/1.1 103 Early\r\nLink: x\r\n": (103, "HTTP/1.1 103 Early", b"", ""),
    b"HTTP/1.1 101 Switching\r\n\r\nx": (101, "HTTP/1.1 101 Switching", b"", ""),
    # Chunks are joined, as far as they are right.
    CHUNKED + b"3;x=y\r\nnee\r\n00A\r\ndle\r\n01234\r\n0\r\nTrailer: x\r\n\r\n": (
        *(200, "HTTP/1.1 200 OK", b"needle\r\n01234", ""),
    ),
    CHUNKED + b"9\r\ncut": (200, "HTTP/1.1 200 OK", b"cut", ""),
    CHUNKED + b"f" * 20 + b"\r\nabc": (200, "HTTP/1.1 200 OK", b"", ""),
    # More headers than Python reads; more bytes than are read
    b"HTTP/1.1 200 OK\r\n" + HEADERS + b"\r\nx": (200, "HTTP/1.1 200 OK", b"", ""),
    LARGE: (200, "HTTP/1.1 200 OK", LARGE[19 : de.MAX_ANSWER], ""),
    # What explains it
    b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nLocation: /\r\n\r\nx": (
        *(200, "HTTP/1.1 200 OK", b"x", " (Location: /, Content-Encoding: gzip)"),
    ),
    b"HTTP/1.0 400 Bad Request\r\n\r\n" + TO_HTTPS: (
        *(400, "HTTP/1.0 400 Bad Request", TO_HTTPS, " (TLS)"),
    ),
    b"HTTP/1.0 404 Not Found\r\n\r\n" + TO_HTTPS: (404, "HTTP/1.0 404 Not Found", TO_HTTPS, ""),
    b"\x15\x03\x01\x00\x02\x02\x46": (0, "no HTTP response (7 bytes)", b"", " (TLS)"),
    b"\0\0\x12\x04\0\0\0\0\0": (0, "no HTTP response (9 bytes)", b"", " (HTTP/2)"),
    b"": (0, "no HTTP response (0 bytes)", b"", " (nobody answered, or TLS)"),
    # No status: Python takes +200 for a number.
    b"HTTP/1.1 +200 OK\r\n\r\nx": (0, "no HTTP response (21 bytes)", b"x", ""),
    b"\r\nHTTP/1.1 200 OK\r\n\r\nx": (0, "no HTTP response (22 bytes)", b"", ""),
}


def test_answer_of_a_service():
    assert {data: de.read_http(data) for data in ANSWERS} == ANSWERS


HELLO = b"HTTP/1.1 200 OK\r\n\r\nhello, world"
GZIP = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n?"
MOVED = b"HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\nhello"
PART = {"contains": ["x", "hello", "world"], "match": "share"}
JUDGEMENTS = [  # params, an answer, what it earns, and the message
    ({}, HELLO, 1, "HTTP/1.1 200 OK"),
    ({}, MOVED, 0, "HTTP/1.1 301 Moved, expected status 200 (Location: /x)"),
    ({"status": 301}, MOVED, 1, "HTTP/1.1 301 Moved"),
    ({"contains": ["x", "hello"]}, HELLO, 1, "the body contains 'hello'"),
    ({"contains": ["OK"]}, HELLO, 0, "the body contains none of 'OK'"),
    ({"contains": ["x"]}, GZIP, 0, "the body contains none of 'x' (Content-Encoding: gzip)"),
    (PART, HELLO, 2, "2 of 3: the body lacks 'x'"),
    (PART, b"", 0, "no HTTP response (0 bytes), expected status 200 (nobody answered, or TLS)"),
]


def test_judgement_of_an_answer():
    for params, answer, *expected in JUDGEMENTS:
        (test,) = read_tests(http(**params))
        assert [*test.check.judge(0, de.Printed(answer))] == expected


# The script that sends a request, on this machine


ANSWER = b"HTTP/1.1 302 no\r\nLocation: /x\r\n\r\n" + bytes(range(255)) * 4  # curl drops a 255


def listen(address, port=0):
    """Return a socket that listens; with :: only for IPv6."""
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        if ":" in address:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address == "::")
        server.bind((address, port))
    except OSError:
        server.close()
        pytest.skip(f"no {address} on this machine")
    server.listen()
    server.settimeout(60)
    return server


@pytest.fixture(params=["bash", "perl", "python3", "curl", "nc"])
def client(request, tmp_path, monkeypatch):
    """Let only one client be on the PATH, after a shell was found there."""
    if "shell" in request.fixturenames:
        request.getfixturevalue("shell")
    name = request.param
    if name == "nc":
        path = request.getfixturevalue("busybox")
    else:  # python3 on the PATH may be a script.
        path = sys.executable if name == "python3" else shutil.which(name)
    path = path or pytest.skip(f"no {name} on this machine")
    folder = tmp_path / "programs"
    folder.mkdir()
    for program in (path, shutil.which("cat"), shutil.which("sleep")):
        link = folder / (name if program == path else os.path.basename(program))
        link.symlink_to(os.path.realpath(program))
    monkeypatch.setenv("PATH", str(folder))


def send(shell, server, text, seconds=60):
    """Start the script that sends a request."""
    port = str(server.getsockname()[1])
    words = [shell, "-c", de._SEND_REQUEST, "sh", text, port, str(seconds), "127.0.0.1 ::1"]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def exchange(shell, server, text="GET /", end="closes"):
    """Send a request to a server that answers; return what it got, and what is printed."""
    seconds = 10 if end == "never closes" else 60
    with send(shell, server, text, seconds) as process, server.accept()[0] as connection:
        asked = connection.recv(len(text.encode()), socket.MSG_WAITALL)
        connection.settimeout(0.3)
        with pytest.raises(socket.timeout):  # A server may take a half close for an end.
            connection.recv(1)
        connection.sendall(ANSWER)
        printed = process.stdout.read(len(ANSWER))
        if end == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if end != "never closes":
            connection.close()
        return asked.decode(), printed + process.stdout.read()


WAITS = pytest.param("never closes", marks=pytest.mark.long("the client's time ends"))


@pytest.mark.parametrize("end", ["closes", "resets", WAITS])
@pytest.mark.usefixtures("client")
def test_each_client_sends_one_request_and_prints_the_answer(monkeypatch, tmp_path, shell, end):
    (tmp_path / "startup").write_text("echo Now using node v18\n")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "startup"))
    monkeypatch.setenv("PERL_UNICODE", "SDA")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    body = 'é"\\ {}\n$(id) `id` 100% \\n\x01\x7f' * 2000
    text = f"POST /?a=%20&é HTTP/1.1\r\nHost: localhost\r\n\r\n{body}"
    with listen("127.0.0.1") as server:
        assert exchange(shell, server, text, end) == (text, ANSWER)

        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.usefixtures("client")
def test_each_client_knows_ipv6():
    with listen("::1") as server, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", server.getsockname()[1]))  # Others may listen there.
        assert exchange("/bin/sh", server) == ("GET /", ANSWER)


@pytest.mark.parametrize("client", ["python3"], indirect=True)
def test_another_shell_with_the_name_of_bash_is_no_client(tmp_path, shell, client):
    (tmp_path / "programs" / "bash").symlink_to(os.path.realpath(shell))
    with listen("127.0.0.1") as server:
        assert exchange("/bin/sh", server) == ("GET /", ANSWER)


def test_machine_without_a_client_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with listen("127.0.0.1") as server, send("/bin/sh", server, "GET /") as process:
        assert process.wait(60) == de.NO_CLIENT


# The script that waits, on this machine

LISTENERS = {  # addresses: what is printed of them
    ("127.0.0.1",): ["127.0.0.1:"],
    ("127.1.2.3",): ["127.0.0.1:"],
    ("::1",): ["[::1]:"],
    ("::ffff:127.0.0.1",): ["127.0.0.1:"],
    ("127.0.0.1", "::1"): ["127.0.0.1:", "[::1]:"],
    ("127.0.0.11",): [],  # docker's name server
    ("0.0.0.0",): [""],
    ("::",): [""],
    ("127.0.0.1", "::"): ["127.0.0.1:", ""],
}


@pytest.mark.parametrize("addresses", LISTENERS, ids=" ".join)
def test_look_at_what_listens(shell, addresses):
    port = 0
    with contextlib.ExitStack() as servers:
        for address in addresses:
            port = servers.enter_context(listen(address, port)).getsockname()[1]
        # One look, of this process alone
        script = de._WAIT_FOR_PORT.replace("sleep 0.1 || sleep 1", "exit")
        words = [shell, "-c", script.replace("PORT", f"{port:04X}")]
        printed = subprocess.run(words, stdout=subprocess.PIPE, timeout=60).stdout.decode()

    found = [line for line in printed.split() if line.endswith(str(port))]
    assert found == [f"{host}{port}" for host in LISTENERS[addresses]]


# When a request is sent, and when it is sent again: on the fake engine


def answers(fake, *texts, code=0):
    """Let a service give these answers one after another, the last one for ever."""
    for number, text in enumerate(texts, 1):
        (fake.root / str(number)).write_text(text)
    fake.shell(
        'echo "$4=B"; echo "$9" >>hosts',
        f"n=$(wc -l <hosts); test $n -le {len(texts)} || n={len(texts)}",
        f'cat "$n"; echo "$4=E {code}"; exit {code}',
    )


def asked(fake):
    """Return the hosts of each request."""
    return (fake.root / "hosts").read_text().splitlines()


TEXTS = {
    "ok": "HTTP/1.1 200 OK\n\nhello",
    "other": "HTTP/1.1 200 OK\n\nbye",
    "away": "HTTP/1.1 503 Service Unavailable\n\n",
    "lost": "HTTP/1.1 404 Not Found\n\n",
    "none": "",
}
REPETITIONS = """
GET ok -> passed 1
GET away none lost other ok -> passed 5
POST ok -> passed 1
POST away none ok -> passed 3
POST lost ok -> failed 1
POST other ok -> failed 1
POST away lost ok -> failed 2
"""


@table(REPETITIONS)
def test_request_is_sent_again_until_the_answer_fits_or_a_post_was_taken(fake, evaluate, row):
    method, *texts = row.when.split()
    answers(fake, *map(TEXTS.get, texts))

    report = evaluate(["FROM x"], http(contains=["hello"], method=method))

    assert f"{outcome(report)} {len(asked(fake))}" == row.then, messages(report)


def test_last_answer_counts(fake, evaluate):
    answers(fake, *(f"HTTP/1.1 {status} x\n\n" for status in range(500, 600)))

    (row,) = evaluate(["FROM x"], http(status=599, timeout=9))["test_results"]

    last = len(asked(fake))
    assert row["message"] == f"HTTP/1.1 {499 + last} x, expected status 599"
    assert 2 < last <= 10
    assert row["execution_time"] > 7


SUSPECTS = {
    "<title>503 Service Temporarily Unavailable</title>": None,
    "curl: (6) Could not resolve host: example.org": "network",
}


@pytest.mark.parametrize("body", SUSPECTS)
def test_status_of_a_service_is_not_suspicious_and_what_it_says_may_be(fake, evaluate, body):
    answers(fake, TEXTS["away"] + body)

    (row,) = evaluate(["FROM x"], http(timeout=2))["test_results"]

    assert row["suspect"] == SUSPECTS[body]


def test_image_without_a_client_fails_at_once(fake, evaluate):
    answers(fake, "", code=de.NO_CLIENT)

    report = evaluate(["FROM x"], http())

    assert messages(report)[0].startswith("the image has none of bash, perl, python3, nc")
    assert len(asked(fake)) == 1


NETWORKS = r"""
one network -> 172.17.0.2
    networks: {"bridge": {"IPAddress": "172.17.0.2", "GlobalIPv6Address": ""}}
IPv6, too -> 172.17.0.2 fd00::2
    networks: {"bridge": {"IPAddress": "172.17.0.2", "GlobalIPv6Address": "fd00::2"}}
only IPv6 -> fd00::2
    networks: {"bridge": {"IPAddress": "", "GlobalIPv6Address": "fd00::2"}}
none -> 127.0.0.1 ::1
    networks: {"bridge": {"IPAddress": "", "GlobalIPv6Address": ""}}
"""


@table(NETWORKS, networks={})
def test_request_goes_to_the_address_that_others_reach(fake, evaluate, row):
    fake.set(networks=row.networks)
    answers(fake, TEXTS["ok"])

    report = evaluate(["FROM x"], http())

    assert outcome(report) == "passed", messages(report)
    assert asked(fake) == [row.then]


# What the wait prints, and the message of a request. A command beside the service uses localhost.
LISTENS = r"""
nothing listens -> nothing listens on port 8080 in time (see --start-timeout)
    listens: false
another port -> nothing listens on port 8080 in time; it listens on 8081 (see --start-timeout)
    listens: false
    printed: "\n\n8081\n\n8081\n\n"
more -> nothing listens on port 8080 in time; it listens on 80, 127.0.0.1:9 (see --start-timeout)
    listens: false
    printed: "80\n127.0.0.1:9\n80\n\n"
on all addresses -> HTTP/1.1 200 OK
    printed: "\n8080\n\n"
on both -> HTTP/1.1 200 OK
    printed: "127.0.0.1:8080\n8080\n\n"
on 127.0.0.1 only -> it listens on 127.0.0.1:8080 only: nobody outside of the container can reach it
    printed: "80\n127.0.0.1:8080\n\n"
on ::1 only -> it listens on [::1]:8080 only: nobody outside of the container can reach it
    printed: "[::1]:8080\n127.0.0.1:80\n\n"
on 127.0.0.1 without a network -> HTTP/1.1 200 OK
    printed: "127.0.0.1:8080\n\n"
    networks: {"none": {"IPAddress": ""}, "bridge": {}}
"""


@table(LISTENS, printed=["\n\n\n"], listens=True, networks={})
def test_service_that_nobody_reaches_fails_its_tests_and_says_where_it_listens(fake, evaluate, row):
    fake.set(listens=row.listens, listeners="".join(row.printed), networks=row.networks)
    answers(fake, TEXTS["ok"])

    rows = evaluate(["FROM x"], http(), {**TRUE, "service": 8080}, TRUE)["test_results"]

    request, beside, other = (each["message"] for each in rows)
    assert request == row.then
    assert beside == (other if row.listens else row.then)
    assert not any(each["retried"] for each in rows)


# A `docker exec` that proves nothing: its faults, and what becomes of the test beside the service
NO_BEGIN = "the container started, but the test did not begin in time (see --start-timeout)"
EXECS = f"""
exec nth=1 do=hang -> passed
exec nth=2 do=hang -> passed
exec given=/bin/sh do=hang -> {NO_BEGIN}
exec nth=2 do=hang; exec nth=4 do=hang -> {NO_BEGIN}
exec given=/bin/sh code=0 -> docker exec: exit code 0
exec do=hang -> test 'beside': {NO_BEGIN}
"""


@table(EXECS)
@pytest.mark.parametrize("test", [http(), TRUE], ids=["HTTP", "a command"])
def test_exec_that_proves_nothing_fails_no_other_test(fake, evaluate, row, test):
    answers(fake, TEXTS["ok"])
    fake.inject(row.when)

    report = evaluate(["FROM x"], {**test, "id": "beside", "service": 8080}, TRUE)

    beside, other = report["test_results"]
    if report["error"]:
        assert (report["error"]["kind"], report["error"]["message"]) == ("engine", row.then)
    else:
        assert row.then in (beside["status"], beside["message"])
        assert beside["retried"]
        assert other["passed"]


def test_command_that_ends_its_own_shell_beside_a_service_fails(fake, evaluate):
    test = {**run_command("kill -9 $PPID"), "service": 8080}

    report = evaluate(["FROM x"], test, TRUE)

    assert outcome(report) == "failed passed"
    assert messages(report)[0].startswith("the test ended without proof (exit code")
