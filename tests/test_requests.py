"""Services on an engine: each client alone in an image, own commands, networks, signals."""

import pytest
from cases import TRUE, run_command, table
from conftest import messages, outcome

BUSYBOX = "FROM busybox:stable"
DEBIAN = ["FROM debian:bookworm-slim", "COPY --from=busybox:stable /bin/busybox /opt/"]
# An image in which only one client is left
CLIENTS = {
    "nc": [BUSYBOX, "RUN mkdir -p /opt && cp /bin/busybox /opt/"],
    "bash": [*DEBIAN, "RUN rm -f /usr/bin/perl*"],
    "perl": [*DEBIAN, "RUN rm -f /bin/bash"],
}
# A server, which is started for each request: what it answers to a path
SERVER = r"""
IFS= read -r request
n=$(cat /tmp/n; echo x); echo "$n" >/tmp/n; n=$(echo "$n" | wc -l)
end=$(printf '\r')
while IFS= read -r line && test "$line" != "$end"; do
  line=${line%$end}
  case $line in
    Content-Length:*) length=${line#*: } ;;
    X-Test:*) header=${line#*: } ;;
  esac
done
path=${request#* }
printf 'HTTP/1.1 '
case ${path%% *} in
  /) printf '200 OK\r\n\r\nhello' ;;
  /late) /opt/busybox sleep 4; printf '200 OK\r\n\r\nhello' ;;
  /large) printf '200 OK\r\n\r\nhello'; /opt/busybox head -c 100000000 /dev/zero ;;
  /echo) printf '200 OK\r\n\r\n%s <%s> <' "$request" "$header"; /opt/busybox head -c "$length"
    printf '> %s' "$n" ;;
  *) printf '404 Not Found\r\n\r\n%s' "$request" ;;
esac
"""
QUOTES = "/'\"$(exit)`id`?a=%20&é\\"


def request(path, timeout=30, **params):
    params["path"] = path
    return {"type": "http_responds", "service": 8080, "timeout": timeout, "params": params}


BODY = QUOTES * 1000 + "\n"
ECHO = f'POST /echo HTTP/1.1\r <a "b"> <{BODY}> 1'
REQUESTS = [
    request("/", contains=["hello"]),
    request(QUOTES, contains=[f"GET {QUOTES} HTTP/1.1"], status=404),
    request("/late", contains=["hello"]),
    request("/large", contains=["hello"]),
    request("/echo", contains=[ECHO], body=BODY, headers={"X-Test": 'a "b"'}),
]


def serves():
    """Return instructions for a server that runs SERVER for each request."""
    script = SERVER.strip().replace("\\", "\\\\").replace("'", "'\\''").replace("\n", "\\n\\\n")
    return [
        f"RUN printf '#!/bin/sh\\n{script.replace('%', '%%')}\\n' >/serve && chmod +x /serve",
        "RUN : >/tmp/n",
        "ENV http_proxy=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9",
        "ENV ALL_PROXY=http://127.0.0.1:9",
        'CMD ["/opt/busybox", "nc", "-ll", "-p", "8080", "-e", "/serve"]',
    ]


@pytest.mark.parametrize("client", CLIENTS)
def test_client_of_an_image_gets_what_a_server_sends(clean_engine, evaluate, client):
    report = evaluate([*CLIENTS[client], *serves()], *REQUESTS)

    assert outcome(report) == "passed", messages(report)


# What the image's own command does, and the message of a test beside it
COMMANDS = r"""
CMD ["nosuch"] -> nosuch
CMD echo why >&2; exit 3 -> ended with exit code 3: why
CMD yes | head -n 900000; exit 3 -> ended with exit code 3: y
CMD httpd -p 8080 -> ended with exit code 0 (it must stay in the foreground;
CMD httpd -f -p 8081 -> nothing listens on port 8080 in time; it listens on 8081
CMD rm /bin/sh; exec httpd -f -p 8080 -> /bin/sh: no such file
CMD trap '' TERM; yes & sleep 2; httpd -f -p 8080 -> exit code 0
CMD httpd -f -p 127.0.0.1:8080 -> exit code 0
ENTRYPOINT ["httpd", "-f"]\nCMD ["-p", "8080"] -> exit code 0
"""


@table(COMMANDS)
def test_own_command_decides_only_the_tests_beside_it(clean_engine, evaluate, row):
    beside = {**run_command("sleep 1"), "service": 8080}

    report = evaluate([BUSYBOX, *row.when.split(r"\n")], beside, TRUE, start_timeout=6)

    found, other = report["test_results"]
    assert row.then in found["message"]
    assert found["passed"] is (row.then == "exit code 0")
    assert other["passed"]


# A service, the network of its container, and what a request finds. The last one is set up first.

ADDRESSES = """
httpd -f -p 8080 -> HTTP/1.1 404 Not Found
httpd -f -p 127.0.0.1:8080 -> it listens on 127.0.0.1:8080 only: nobody outside of the container
httpd -f -p 127.0.0.1:8080 -> HTTP/1.1 404 Not Found
    network: --network=none
timeout 3 httpd -f -p 127.0.0.1:8080; httpd -f -p 8080 -> HTTP/1.1 404 Not Found
"""


@table(ADDRESSES, network="")
def test_request_comes_from_outside(clean_engine, evaluate, row):
    lines = [BUSYBOX, f"CMD {row.when}"]

    report = evaluate(lines, request("/", status=404), run_options=row.network.split())

    assert messages(report)[0].startswith(row.then)


# Signals: a command has the verdict that it has without a service


SIGNALS = """
kill 0
trap '' TERM; kill 0; echo done
trap 'exit 3' USR1; kill -USR1 0; sleep 1
trap 'exit 0' TERM; kill 0; exit 5
kill -HUP 0; exit 5
kill -INT 0; exit 5
kill -QUIT 0; exit 5
kill -PIPE 0; exit 5
kill -ALRM 0; exit 5
kill -WINCH 0; exit 5
sleep 60 & kill 0; wait
kill $PPID; exit 5
kill -9 $$
timeout 1 sleep 5
"""


@pytest.mark.parametrize("image", [BUSYBOX, DEBIAN[0]])
def test_signals_have_the_same_effect_beside_a_service(clean_engine, evaluate, image):
    alone = [run_command(command) for command in SIGNALS.strip().split("\n")]
    beside = [{**test, "service": True} for test in alone]

    rows = evaluate([image, "CMD sleep 600"], *alone, *beside)["test_results"]

    verdicts = [(row["status"], row["exit_code"], row["message"]) for row in rows]
    assert verdicts[: len(alone)] == verdicts[len(alone) :]
