"""HTTP: requests of a rubric, answers, the script that sends one, when it is sent again."""

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from unittest import mock

import pytest
from cases import TRUE, as_bytes, read_tests, table
from conftest import PIPES, messages, outcome

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
    body = "é" * 2**15

    assert read_tests(http(body=body))
    with pytest.raises(de.EvaluationError, match="expected at most 65536 bytes"):
        read_tests(http(body=f"{body}x"))


def test_drawn_numbers_stand_in_path_body_and_contains():
    draw = {"a": [7, 7], "z": [0, 10**6]}

    (test,) = read_tests(http(path="/{a}?{z}", body="{a*2}", contains=["{a+1}"], draw=draw))

    assert re.match(r"(?s)POST /7\?\d+ .*\r\n\r\n14$", *test.check.arguments)
    assert test.check.judge(0, de.Printed(b"HTTP/1.1 200 OK\r\n\r\n8"))[0]


# Answers


# What a service sends -> its status | its first line | its body | and what may explain it
ANSWERS = r"""
HTTP/1.1 200 OK\r\nA: b\r\n\r\nx\r\n\r\ny -> 200|HTTP/1.1 200 OK|x\r\n\r\ny|
HTTP/1.0 404 Not Found\n\nx -> 404|HTTP/1.0 404 Not Found|x|
HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy -> 200|HTTP/1.1 200 OK|x|
HTTP/1.1 200 \x1b[1m\x07\xff\r\n\r\n -> 200|HTTP/1.1 200 \\x07\ufffd||
# Interim answers are skipped; 101 is none.
HTTP/1.1 103 E\r\nA: x\r\n\r\nHTTP/1.1 102 P\n\nHTTP/1.0 201 C\r\n\r\nx -> 201|HTTP/1.0 201 C|x|
HTTP/1.1 103 Early\r\nLink: x\r\n -> 103|HTTP/1.1 103 Early||
HTTP/1.1 101 Switching\r\n\r\nx -> 101|HTTP/1.1 101 Switching||
# Chunks are joined, as far as they are right.
CHUNKED3;x=y\r\nab\n\r\n00A\r\nc\r\n0123456\r\n0\r\nA:\r\n\r\n -> 200|HTTP/1.1 200|ab\nc\r\n0123456|
CHUNKED9\r\ncut -> 200|HTTP/1.1 200|cut|
CHUNKEDffffffffffffffffffff\r\nabc -> 200|HTTP/1.1 200||
# What explains it
HTTP/1.1 200\r\nLocation: a\r\nLocation: b\r\n\r\n -> 200|HTTP/1.1 200|| (Location: a, Location: b)
HTTP/1.0 400 Bad\r\n\r\nto an HTTPS server -> 400|HTTP/1.0 400 Bad|to an HTTPS server| (TLS)
HTTP/1.0 404 No\r\n\r\nto an HTTPS server -> 404|HTTP/1.0 404 No|to an HTTPS server|
\x15\x03\x01\x00\x02\x02\x46 -> 0|no HTTP response (7 bytes)|| (TLS)
\0\0\x12\x04\0\0\0\0\0 -> 0|no HTTP response (9 bytes)|| (HTTP/2)
# No status: Python takes +200 for a number.
HTTP/1.1 +200 OK\r\n\r\nx -> 0|no HTTP response (21 bytes)|x|
\r\nHTTP/1.1 200 OK\r\n\r\nx -> 0|no HTTP response (22 bytes)||
"""
CHUNKED = r"HTTP/1.1 200\r\ntransfer-Encoding: Chunked\r\n\r\n"


@table(ANSWERS)
def test_answer_of_a_service(row):
    answer = de.read_http(as_bytes(row.when.replace("CHUNKED", CHUNKED)))

    expected = row.then.encode().decode("unicode_escape")
    assert f"{answer.status}|{answer.line}|{answer.body.decode()}|{answer.hint}" == expected


def test_answer_is_read_up_to_a_limit_of_headers_and_of_bytes():
    start = b"HTTP/1.1 200 OK\r\n"

    assert de.read_http(start + b"X: y\r\n" * 200 + b"\r\nx").body == b""
    assert len(de.read_http(start + b"\r\n" + b"x" * 2**22).body) == de.MAX_ANSWER - 19


def test_server_that_hangs_up_may_expect_tls():
    assert de.read_http(b"").hint == " (nobody answered, or TLS)"


# What a service sends -> what it earns, and the message
JUDGEMENTS = r"""
HTTP/1.1 200 OK\r\n\r\nhello, world -> 1 HTTP/1.1 200 OK
HTTP/1.1 301 To\r\nLocation: /x\r\n\r\n -> 0 HTTP/1.1 301 To, expected status 200 (Location: /x)
HTTP/1.1 301 To\r\nLocation: /x\r\n\r\n -> 1 HTTP/1.1 301 To
    params: {"status": 301}
HTTP/1.1 200 OK\r\n\r\nhello, world -> 1 the body contains 'hello'
    params: {"contains": ["x", "hello"]}
HTTP/1.1 200 OK\r\n\r\nhello, world -> 0 the body contains none of 'OK'
    params: {"contains": ["OK"]}
HTTP/1.1 200\r\nContent-Encoding: b\r\n\r\n -> 0 the body contains none of 'x' (Content-Encoding: b)
    params: {"contains": ["x"]}
HTTP/1.1 200 OK\r\n\r\nhello, world -> 2 2 of 3: the body lacks 'x'
    params: {"contains": ["x", "hello", "world"], "match": "share"}
? -> 0 no HTTP response (1 bytes), expected status 200
    params: {"contains": ["x", "hello", "world"], "match": "share"}
"""


@table(JUDGEMENTS, params={})
def test_judgement_of_an_answer(row):
    (test,) = read_tests(http(**row.params))

    earned, message = test.check.judge(0, de.Printed(as_bytes(row.when)))

    assert f"{earned} {message}" == row.then


# The script that sends a request, on this machine


ANSWER = b"HTTP/1.1 302 no\r\nLocation: /x\r\n\r\n" + bytes(range(255)) * 4  # curl drops a 255


def listen(address, port=0):
    """Return a socket that listens; with :: only for IPv6."""
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        if address == "::":
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        server.bind((address, port))
    except OSError:
        pytest.skip(f"no {address} on this machine")
    server.listen()
    server.settimeout(60)
    return server


@pytest.fixture(params=["bash", "perl", "python3", "curl", "nc"])
def client(request, shell, tmp_path, monkeypatch):
    """Let only one client be on the PATH, after a shell was found there."""
    name = request.param
    programs = {each: shutil.which(each) for each in ("cat", "sleep", name)}
    if name == "nc":
        programs[name] = request.getfixturevalue("busybox")
    elif name == "python3":  # That on the PATH may be a script.
        programs[name] = sys.executable
    folder = tmp_path / "programs"
    folder.mkdir()
    for each, path in programs.items():
        file = os.path.realpath(path or pytest.skip(f"no {each} on this machine"))
        (folder / each).symlink_to(file)
    monkeypatch.setenv("PATH", str(folder))


def exchange(shell, server, text="GET /", end="closes"):
    """Send a request to a server that answers; return what it got, and what is printed."""
    port = str(server.getsockname()[1])
    words = [shell, "-c", de._SEND_REQUEST, "sh", text, port, "10", "127.0.0.1 ::1"]
    with subprocess.Popen(words, **PIPES) as process, server.accept()[0] as connection:
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
def test_each_client_knows_ipv6(shell):
    with listen("::1") as server, socket.socket() as nobody:
        nobody.bind(("127.0.0.1", server.getsockname()[1]))  # Others may listen there.
        assert exchange(shell, server) == ("GET /", ANSWER)


@pytest.mark.parametrize("client", ["python3"], indirect=True)
def test_another_shell_with_the_name_of_bash_is_no_client(tmp_path, shell, client):
    (tmp_path / "programs" / "bash").symlink_to(os.path.realpath(shell))
    with listen("127.0.0.1") as server:
        assert exchange(shell, server) == ("GET /", ANSWER)


# The script that waits, on this machine

# Addresses -> what is printed of them
LISTENERS = """
127.0.0.1 -> 127.0.0.1:PORT
127.1.2.3 -> 127.0.0.1:PORT
::1 -> [::1]:PORT
::ffff:127.0.0.1 -> 127.0.0.1:PORT
127.0.0.1 ::1 -> 127.0.0.1:PORT [::1]:PORT
# docker's name server
127.0.0.11 -> nothing
0.0.0.0 -> PORT
:: -> PORT
127.0.0.1 :: -> 127.0.0.1:PORT PORT
"""


@table(LISTENERS)
def test_look_at_what_listens(shell, row):
    port = 0
    with contextlib.ExitStack() as servers:
        for address in row.when.split():
            port = servers.enter_context(listen(address, port)).getsockname()[1]
        # One look, of this process alone
        script = de._WAIT_FOR_PORT.replace("sleep 0.1 || sleep 1", "exit")
        words = [shell, "-c", script.replace("PORT", f"{port:04X}")]
        printed = subprocess.run(words, stdout=subprocess.PIPE, timeout=60).stdout.decode()

    # While sockets come and go, the kernel may list one twice.
    found = dict.fromkeys(line for line in printed.split() if line.endswith(str(port)))
    assert (" ".join(found) or "nothing") == row.then.replace("PORT", str(port))


# When a request is sent, and when it is sent again: on the fake engine


def answers(fake, *texts):
    """Let a service give these answers one after another, the last one for ever."""
    for number, text in enumerate(texts, 1):
        (fake.root / str(number)).write_text(text)
    fake.shell(
        'echo "$4=B"; echo "$9" >>hosts',
        f"n=$(wc -l <hosts); test $n -le {len(texts)} || n={len(texts)}",
        'cat "$n"; echo "$4=E 0"',
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
def test_request_is_sent_again_until_the_answer_fits_or_a_post_was_taken(fake, score, row):
    method, *texts = row.when.split()
    answers(fake, *map(TEXTS.get, texts))

    report = score(http(contains=["hello"], method=method))

    assert f"{outcome(report)} {len(asked(fake))}" == row.then, messages(report)


@pytest.mark.parametrize(("method", "limit"), [("GET", de.ATTEMPT_TIMEOUT), ("POST", 60)])
def test_request_has_15_seconds_and_a_post_all_the_time_of_its_test(
    fake, score, monkeypatch, method, limit
):
    send = mock.Mock(side_effect=de.run_wrapped)
    monkeypatch.setattr(de, "run_wrapped", send)
    answers(fake, TEXTS["ok"])

    score(http(method=method, timeout=60))

    assert send.call_args[0][4] == pytest.approx(limit, abs=1)


def test_last_answer_counts(fake, score):
    answers(fake, *(f"HTTP/1.1 {status} x\n\n" for status in range(500, 600)))

    (row,) = score(http(status=599, timeout=9))["test_results"]

    last = len(asked(fake))
    assert row["message"] == f"HTTP/1.1 {499 + last} x, expected status 599"
    assert 2 < last <= 10
    assert row["execution_time"] > 7


SUSPECTS = """
<title>503 Service Temporarily Unavailable</title> -> None
curl: (6) Could not resolve host: example.org -> network
"""


@table(SUSPECTS)
def test_status_of_a_service_is_not_suspicious_and_what_it_says_may_be(fake, score, row):
    answers(fake, TEXTS["away"] + row.when)

    (found,) = score(http(timeout=2))["test_results"]

    assert str(found["suspect"]) == row.then


def test_image_without_a_client_fails_at_once(fake, score):
    fake.set(environment={"PATH": "/no/client"})

    (row,) = score(http())["test_results"]

    assert row["message"].startswith("the image has none of bash, perl, python3, nc")
    assert row["execution_time"] < 1


# What the wait prints, the message of a request, and the addresses to which it goes. A command
# beside the service uses localhost.
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
    hosts: 172.17.0.2
on both -> HTTP/1.1 200 OK
    printed: "127.0.0.1:8080\n8080\n\n"
    hosts: 172.17.0.2
on 127.0.0.1 only -> it listens on 127.0.0.1:8080 only: nobody outside of the container can reach it
    printed: "80\n127.0.0.1:8080\n\n"
on ::1 only -> it listens on [::1]:8080 only: nobody outside of the container can reach it
    printed: "[::1]:8080\n127.0.0.1:80\n\n"
on 127.0.0.1 without a network -> HTTP/1.1 200 OK
    printed: "127.0.0.1:8080\n\n"
    networks: {"none": {"IPAddress": ""}, "bridge": {}}
    hosts: 127.0.0.1 ::1
IPv6, too -> HTTP/1.1 200 OK
    networks: {"bridge": {"IPAddress": "172.17.0.2", "GlobalIPv6Address": "fd00::2"}}
    hosts: 172.17.0.2 fd00::2
only IPv6 -> HTTP/1.1 200 OK
    networks: {"bridge": {"IPAddress": "", "GlobalIPv6Address": "fd00::2"}}
    hosts: fd00::2
"""


@table(LISTENS, printed=["\n\n\n"], listens=True, networks={}, hosts="")
def test_service_that_nobody_reaches_fails_its_tests_and_says_where_it_listens(fake, score, row):
    fake.set(listens=row.listens, listeners="".join(row.printed), networks=row.networks)
    answers(fake, TEXTS["ok"])

    rows = score(http(), {**TRUE, "service": 8080}, TRUE)["test_results"]

    request, beside, other = (each["message"] for each in rows)
    assert request == row.then
    assert row.hosts in asked(fake)
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
def test_exec_that_proves_nothing_fails_no_other_test(fake, score, row, test):
    answers(fake, TEXTS["ok"])
    fake.inject(row.when)

    report = score({**test, "id": "beside", "service": 8080}, TRUE)

    beside, other = report["test_results"]
    assert row.then in (beside["status"], (report["error"] or beside)["message"])
    assert outcome(report) == "engine" or (beside["retried"] and other["passed"])
