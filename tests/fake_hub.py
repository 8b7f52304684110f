"""A Docker Hub for an engine without a network: `fake_hub.py FOLDER` serves until its parent ends.

On port 80 every download breaks off.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.server
import signal
import socket
import socketserver
import ssl
import sys
import threading
from pathlib import Path

FOLDER = Path(sys.argv[1])
PR_SET_PDEATHSIG = 1  # prctl(2)
HUB = (b"\x0aregistry-1\x06docker\x02io\0", b"\x04auth\x06docker\x02io\0")
ADDRESS = b"\0\x01"


class Registry(http.server.BaseHTTPRequestHandler):
    """Says what registry-1.docker.io says, and has no image."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        behaviour = (FOLDER / "behaviour").read_text()
        self.close_connection = True  # a connection that stays open would outlive a change of mind
        if behaviour == "hangs up":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif behaviour == "limits":
            self.answer(429, b'{"errors":[{"code":"TOOMANYREQUESTS","message":"You have reached your pull rate limit. You may increase the limit by authenticating and upgrading: https://www.docker.com/increase-rate-limit"}]}')  # fmt: skip
        elif self.path == "/v2/":
            self.answer(200, b"{}")
        else:
            self.answer(401, b'{"errors":[{"code":"DENIED","message":"requested access to the resource is denied"}]}')  # fmt: skip

    do_HEAD = do_GET  # noqa: N815 - http.server looks for this name

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Connection", "close")
        self.send_header("Content-Type", "application/json")
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        """Stay silent."""


class BrokenOff(http.server.BaseHTTPRequestHandler):
    """Begins each answer, and ends the connection long before it is over."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"no more than this")

    def log_message(self, *words: object) -> None:
        """Stay silent."""


class Names(socketserver.BaseRequestHandler):
    """A name server that knows Docker Hub, at 127.0.0.1, unless that is away (RFC 1035, section 4).

    Not a hosts file: Go looks at that every five seconds only.
    """

    def handle(self) -> None:
        query, answer_by = self.request
        end = query.index(b"\0", 12) + 5
        name, kind = query[12 : end - 4].lower(), query[end - 4 : end - 2]
        known = (FOLDER / "behaviour").read_text() != "away" and name in HUB
        answer = b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04\x7f\0\0\x01" if known and kind == ADDRESS else b""
        flags = b"\x81\x80" if known else b"\x81\x83"  # no such name
        counts = b"\0\x01" + bytes([0, bool(answer)]) + b"\0\0\0\0"
        answer_by.sendto(query[:2] + flags + counts + query[12:end] + answer, self.client_address)


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    names = socketserver.ThreadingUDPServer(("127.0.0.1", 53), Names)
    threading.Thread(target=names.serve_forever, daemon=True).start()
    downloads = http.server.ThreadingHTTPServer(("127.0.0.1", 80), BrokenOff)
    threading.Thread(target=downloads.serve_forever, daemon=True).start()
    registry = http.server.ThreadingHTTPServer(("127.0.0.1", 443), Registry)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(FOLDER / "cert.pem"), str(FOLDER / "key.pem"))
    registry.socket = context.wrap_socket(registry.socket, server_side=True, do_handshake_on_connect=False)
    (FOLDER / "ready").touch()
    with contextlib.suppress(OSError):
        registry.serve_forever()


if __name__ == "__main__":
    main()
