"""`fake_hub.py FOLDER` serves the public image registries of FakeHub (engine.py).

It ends with its parent process.
"""

from __future__ import annotations

import ctypes
import hashlib
import http.server
import json
import platform
import re
import signal
import socket
import socketserver
import ssl
import sys
import threading
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(sys.argv[-1])
ADDRESS = "198.51.100.1"  # docker trusts every registry at 127.0.0.1, and falls back to http there
PR_SET_PDEATHSIG = 1  # prctl(2)


class Error(NamedTuple):
    """What a registry answers instead of a manifest."""

    status: int
    code: str
    message: str

    def body(self) -> bytes:
        error: dict[str, object] = {"code": self.code, "message": self.message}
        if self.status == 401:
            error["detail"] = {}  # without it docker prints only the code
        return json.dumps({"errors": [error]}).encode()


UNAUTHORIZED = Error(401, "UNAUTHORIZED", "authentication required")
EXPIRED = Error(401, "UNAUTHORIZED", "incorrect username or password")
LIMITS = Error(
    429,
    "TOOMANYREQUESTS",
    "You have reached your pull rate limit. You may increase the limit by authenticating and "
    "upgrading: https://www.docker.com/increase-rate-limit",
)


class Registry(NamedTuple):
    """How the real registry behaves."""

    missing: Error  # for an image that does not exist
    token_url: str = ""  # of what a client must get first
    refuses_token: bool = False  # the token endpoint returns the error, too


REGISTRIES = {
    "docker.io": Registry(UNAUTHORIZED, token_url="https://auth.docker.io/token"),
    "ghcr.io": Registry(
        Error(403, "DENIED", "requested access to the resource is denied"),
        token_url="https://ghcr.io/token",
        refuses_token=True,
    ),
    "quay.io": Registry(
        Error(401, "UNAUTHORIZED", "access to the requested resource is not authorized"),
        token_url="https://quay.io/v2/auth",
    ),
    "gcr.io": Registry(
        Error(
            403,
            "DENIED",
            "Unauthenticated request. Unauthenticated requests do not have permission "
            '"artifactregistry.repositories.downloadArtifacts" on resource '
            '"projects/x/locations/us/repositories/gcr.io" (or it may not exist)',
        ),
        token_url="https://gcr.io/v2/token",
        refuses_token=True,
    ),
    "mcr.microsoft.com": Registry(
        Error(404, "MANIFEST_UNKNOWN", 'manifest tagged by "latest" is not found')
    ),
    "nvcr.io": Registry(
        UNAUTHORIZED,
        token_url="https://nvcr.io/proxy_auth",
        refuses_token=True,
    ),
    "public.ecr.aws": Registry(
        Error(
            404,
            "NAME_UNKNOWN",
            "The repository with name 'x' does not exist in the registry with id 'y'",
        ),
        token_url="https://public.ecr.aws/token/",
    ),
    "registry.k8s.io": Registry(Error(404, "MANIFEST_UNKNOWN", 'Failed to fetch "latest"')),
    "registry.gitlab.com": Registry(
        Error(403, "DENIED", "access forbidden"),
        token_url="https://gitlab.com/jwt/auth",
        refuses_token=True,
    ),
}
# The registry that each host belongs to
HOSTS = {"registry-1.docker.io": "docker.io", **{name: name for name in REGISTRIES}}
HOSTS.update(
    (registry.token_url.split("/")[2], name)
    for name, registry in REGISTRIES.items()
    if registry.token_url
)

# The image that a "broken" registry has under every name
LAYER = "sha256:" + 64 * "1"
MACHINE = {"architecture": {"aarch64": "arm64"}.get(platform.machine(), "amd64"), "os": "linux"}
CONFIG = json.dumps({**MACHINE, "rootfs": {"type": "layers", "diff_ids": [LAYER]}}).encode()
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {
            "mediaType": "application/vnd.docker.container.image.v1+json",
            "size": len(CONFIG),
            "digest": "sha256:" + hashlib.sha256(CONFIG).hexdigest(),
        },
        "layers": [
            {
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "size": 1000,
                "digest": LAYER,
            }
        ],
    }
).encode()


def behaviour(registry: str) -> str:
    """Return how a registry behaves now (FakeHub.behave())."""
    how, where = (FOLDER / "behaviour").read_text().splitlines()
    return how if where in ("everywhere", registry) else "missing"


class BrokenDownload(http.server.BaseHTTPRequestHandler):
    """Closes the connection after 17 of 1000 bytes; a client that resumes gets no more."""

    def do_GET(self) -> None:
        if "Range" in self.headers:
            self.answer(b"", 206, ("Content-Length", "983"), ("Content-Range", "bytes 17-999/1000"))
        else:
            self.answer(b"no more than this", 200, ("Content-Length", "1000"))

    def answer(self, body: bytes, status: int = 200, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        standard = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for header, value in {**standard, **dict(headers)}.items():
            self.send_header(header, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class RegistryServer(BrokenDownload):
    """All registries and token endpoints; the Host header selects one."""

    def do_GET(self) -> None:
        # Unread content would reset the connection when it is closed.
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        host = self.headers["Host"]
        name = HOSTS[host]
        how = behaviour(name)
        registry = REGISTRIES[name]
        errors = {
            "limits": LIMITS,
            "expired": EXPIRED,
            "authentication": UNAUTHORIZED,
            "missing": registry.missing,
        }
        url = f"https://{host}{self.path}".partition("?")[0]
        challenge = f'Bearer realm="{registry.token_url}",service="{host}"'
        if how == "hangs up":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif how == "unavailable":
            self.answer(b"", 503)
        elif url == registry.token_url:
            if how == "expired" or (how == "missing" and registry.refuses_token):
                self.refuse(errors[how])
            else:
                self.answer(b'{"token": "t", "access_token": "t"}')
        elif registry.token_url and "Authorization" not in self.headers:
            self.refuse(UNAUTHORIZED, challenge)
        elif self.path == "/v2/":
            self.answer(b"{}")
        elif name == "docker.io" and how == "missing":
            image = self.path[len("/v2/") :].partition("/manifests/")[0]
            scope = f"repository:{image}:pull"
            challenge += f',scope="{scope}",error="insufficient_scope"'
            self.refuse(registry.missing, challenge)
        elif how in errors:
            self.refuse(errors[how])
        elif "/manifests/" in self.path:
            self.answer(MANIFEST, 200, ("Content-Type", MANIFEST_TYPE))
        elif self.path.endswith(LAYER):
            super().do_GET()
        else:
            self.answer(CONFIG)

    do_HEAD = do_POST = do_GET  # noqa: N815 - http.server looks for this name

    def refuse(self, error: Error, challenge: str = "") -> None:
        headers = [("WWW-Authenticate", challenge)] if challenge else []
        self.answer(error.body(), error.status, *headers)


class Mirror(BrokenDownload):
    """A mirror of Docker Hub that answers each request with the status in the file "mirror"."""

    def do_GET(self) -> None:
        if self.path == "/v2/":
            self.answer(b"{}")
        else:
            self.answer(b"<html></html>", int((FOLDER / "mirror").read_text()))

    do_HEAD = do_GET  # noqa: N815


class NameServer(socketserver.BaseRequestHandler):
    """Knows the hosts, except those that are "away" (RFC 1035, section 4).

    A hosts file would not do: Go caches it for five seconds.
    """

    def handle(self) -> None:
        query, client = self.request
        end = query.index(b"\0", 12)  # of the name; its kind and its class follow
        question = query[12 : end + 5]
        labels = query[13:end].decode("latin-1").lower()
        host = re.sub("[\0-\x1f]", ".", labels)  # the length of a label stands before it
        registry = HOSTS.get(host)
        is_known = registry is not None and behaviour(registry) != "away"
        asks_for_address = query[end + 1 : end + 3] == b"\0\x01"

        flags = b"\x81\x80" if is_known else b"\x81\x83"  # no such name
        answer = b""
        if is_known and asks_for_address:
            name_of_question, address, seconds = b"\xc0\x0c", b"\0\x01\0\x01", b"\0\0\0\0"
            answer = name_of_question + address + seconds + b"\0\x04" + socket.inet_aton(ADDRESS)
        counts = b"\0\x01" + bytes([0, bool(answer)]) + b"\0\0\0\0"
        response = query[:2] + flags + counts + question + answer
        client.sendto(response, self.client_address)


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    names = socketserver.ThreadingUDPServer(("127.0.0.1", 53), NameServer)
    downloads = http.server.ThreadingHTTPServer(("127.0.0.1", 80), BrokenDownload)
    mirror = http.server.ThreadingHTTPServer(("127.0.0.1", 8081), Mirror)
    registries = http.server.ThreadingHTTPServer((ADDRESS, 443), RegistryServer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(FOLDER / "cert.pem"), str(FOLDER / "key.pem"))
    registries.socket = context.wrap_socket(registries.socket, True, do_handshake_on_connect=False)
    for server in (names, downloads, mirror, registries):
        threading.Thread(target=server.serve_forever).start()
    (FOLDER / "ready").touch()


if __name__ == "__main__":
    main()
