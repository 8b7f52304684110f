"""Services and HTTP on an engine: the client in images with one program each, unusual servers."""

import os
import shutil
import socket
import struct
import subprocess
import sys

import pytest
from cases import TRUE, run_command
from conftest import messages, outcome, statuses

import DockerfileEvaluator as de

BUSYBOX = "FROM busybox:stable"
DEBIAN = ["FROM debian:bookworm-slim", "COPY --from=busybox:stable /bin/busybox /opt/"]
# An image in which only one client is left
CLIENTS = {
    "nc": [BUSYBOX, "RUN mkdir -p /opt && cp /bin/busybox /opt/"],
    "bash": [*DEBIAN, "RUN rm -f /usr/bin/perl*"],
    "perl": [*DEBIAN, "RUN rm -f /bin/bash"],
}
# Paths of a server: what it prints, and does then
SERVER = r"""
IFS= read -r request
path=${request#GET }
printf 'HTTP/1.1 '
case ${path%% *} in
  /) printf '200 OK\r\n\r\nhello' ;;
  /moved) printf '302 Found\r\nLocation: /\r\n\r\nelsewhere' ;;
  /chunks) printf '200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n' ;;
  /open) printf '200 OK\r\nContent-Length: 5\r\n\r\nhello'; /opt/busybox sleep 60 ;;
  /late) /opt/busybox sleep 10; printf '200 OK\r\n\r\nhello' ;;
  /bytes) printf '200 OK\r\n\r\n\0\377\nhe\\llo\0' ;;
  /large) printf '200 OK\r\n\r\nhello'; /opt/busybox head -c 100000000 /dev/zero ;;
  *) printf '404 Not Found\r\n\r\n%s' "$request" ;;
esac
"""
QUOTES = "/'\"$(exit)`id`?a=%20&é\\"


def request(path, *contains, **more):
    params = {"path": path, "contains": list(contains) or None, "status": more.pop("status", None)}
    return {"type": "http_responds", "service": 8080, "params": params, **more}


REQUESTS = [
    request("/", "hello"),
    request("/moved", "elsewhere", status=302),
    request("/nothing", "GET /nothing HTTP/1.1", status=404),
    request(QUOTES, QUOTES, status=404),
    request("/chunks", "hello"),
    request("/open", "hello", timeout=5),
    request("/late", "hello"),
    request("/bytes", "\nhe\\llo"),
    request("/large", "hello"),
]


def serves():
    """Return instructions for a server that runs SERVER for each request."""
    script = SERVER.strip().replace("\\", "\\\\").replace("'", "'\\''").replace("\n", "\\n\\\n")
    return [
        f"RUN printf '#!/bin/sh\\n{script.replace('%', '%%')}\\n' >/serve && chmod +x /serve",
        "ENV http_proxy=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9",
        "ENV ALL_PROXY=http://127.0.0.1:9",
        'CMD ["/opt/busybox", "nc", "-ll", "-p", "8080", "-e", "/serve"]',
    ]


@pytest.fixture(params=["127.0.0.1", "::1", "::"])
def server(request):
    """Return a socket that listens."""
    with socket.socket(socket.AF_INET6 if ":" in request.param else socket.AF_INET) as server:
        try:
            server.bind((request.param, 0))
        except OSError:
            pytest.skip(f"no {request.param} on this machine")
        server.listen()
        yield server


@pytest.mark.parametrize("end", ["closes", "resets", "never closes"])
@pytest.mark.parametrize("client", ["bash", "perl", "python3", "curl"])
def test_each_client_sends_one_request_and_prints_all_bytes(
    tmp_path, monkeypatch, server, client, end
):
    for name in (client, "cat"):
        # python3 on the PATH may be a script.
        path = sys.executable if name == "python3" else shutil.which(name)
        path = path or pytest.skip(f"no {name} on this machine")
        (tmp_path / name).symlink_to(os.path.realpath(path))
    time_is_over, sleep = tmp_path / "over", tmp_path / "sleep"
    script = f"until test -e {time_is_over}; do {shutil.which('sleep')} 0.1; done"
    sleep.write_text(f"#!/bin/sh\n{script}\n")
    sleep.chmod(0o755)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("PATH", str(tmp_path))
    answer = b"HTTP/1.1 302 no\r\nLocation: /x\r\n\r\n" + bytes(range(256)) * 4
    port = str(server.getsockname()[1])
    request = "GET /?a=%20&é HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    words = ["/bin/sh", "-c", de._SEND_REQUEST, "sh", request, port, "1"]

    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        connection, _ = server.accept()
        asked = b""
        while b"\r\n\r\n" not in asked:  # bash sends it line by line
            asked += connection.recv(65536)
        connection.sendall(answer)
        output = process.stdout.read(len(answer))
        if end == "resets":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if end != "never closes":
            connection.close()
            output += process.stdout.read()
        time_is_over.touch()
        output += process.stdout.read()
    connection.close()

    assert output == answer
    assert asked.startswith(b"GET /?a=%20&")
    server.settimeout(0)
    with pytest.raises(BlockingIOError):
        server.accept()


def test_machine_without_a_client_says_so(tmp_path):
    words = ["/bin/sh", "-c", de._SEND_REQUEST, "sh", "GET / HTTP/1.1\r\n\r\n", "9", "1"]

    assert subprocess.call(words, env={"PATH": str(tmp_path)}) == de.NO_CLIENT


@pytest.mark.parametrize("client", CLIENTS)
def test_client_of_an_image_gets_what_a_server_sends(clean_engine, evaluate, client):
    report = evaluate([*CLIENTS[client], *serves()], *REQUESTS)

    assert outcome(report) == "passed", messages(report)


@pytest.mark.release
@pytest.mark.parametrize("package", ["python3-minimal", "curl"])
def test_client_of_a_package_gets_what_a_server_sends(networked_engine, evaluate, package):
    install = f"RUN apt-get update && apt-get install -y --no-install-recommends {package}"
    lines = [*DEBIAN, install, "RUN rm -f /bin/bash /usr/bin/perl*"]

    report = evaluate([*lines, *serves()], *REQUESTS)

    assert outcome(report) == "passed", messages(report)


def test_wait_ends_once_something_listens(server):
    script = de._WAIT_FOR_PORT.replace("PORT", f"{server.getsockname()[1]:04X}")

    assert subprocess.call(["/bin/sh", "-c", script], timeout=60) == 0


# What the image's own command does: the status of a test beside it, and its message
COMMANDS = {
    'CMD ["nosuch"]': ("failed", "nosuch"),
    "CMD echo why >&2; exit 3": ("failed", "ended with exit code 3: why"),
    "CMD yes | head -n 900000; exit 3": ("failed", "ended with exit code 3: y"),
    "CMD httpd -p 8080": ("failed", "ended with exit code 0"),
    "CMD httpd -f -p 8081": ("failed", "nothing listens on port 8080"),
    "CMD rm /bin/sh; exec httpd -f -p 8080": ("failed", "/bin/sh: no such file"),
    "CMD trap '' TERM; yes & sleep 2; httpd -f -p 8080": ("passed", ""),
    'ENTRYPOINT ["httpd", "-f"]\nCMD ["-p", "8080"]': ("passed", ""),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_own_command_decides_only_the_tests_beside_it(clean_engine, evaluate, command):
    service = {**run_command("sleep 1"), "service": 8080}

    report = evaluate([BUSYBOX, *command.split("\n")], service, TRUE, start_timeout=6)

    status, message = COMMANDS[command]
    assert [*statuses(report).values()] == [status, "passed"], messages(report)
    assert message in messages(report)[0]
