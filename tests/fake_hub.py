"""`fake_hub.py FOLDER` serves the public image registries of FakeHub (engine.py) until its parent process ends."""

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

FOLDER = Path(sys.argv[-1])
ADDRESS = "198.51.100.1"  # docker trusts every registry at 127.0.0.1, and falls back to http there
PR_SET_PDEATHSIG = 1  # prctl(2)

UNAUTHORIZED = (401, "UNAUTHORIZED", "authentication required")
EXPIRED = (401, "UNAUTHORIZED", "incorrect username or password")
LIMITS = (429, "TOOMANYREQUESTS", "You have reached your pull rate limit. You may increase the limit by authenticating and upgrading: https://www.docker.com/increase-rate-limit")  # fmt: skip
# Each registry's error for an image that does not exist, its token endpoint, and whether that endpoint returns the error
REGISTRIES = {
    "docker.io": (UNAUTHORIZED, "https://auth.docker.io/token", False),
    "ghcr.io": ((403, "DENIED", "requested access to the resource is denied"), "https://ghcr.io/token", True),
    "quay.io": ((401, "UNAUTHORIZED", "access to the requested resource is not authorized"), "https://quay.io/v2/auth", False),
    "gcr.io": ((403, "DENIED", 'Unauthenticated request. Unauthenticated requests do not have permission "artifactregistry.repositories.downloadArtifacts" on resource "projects/x/locations/us/repositories/gcr.io" (or it may not exist)'), "https://gcr.io/v2/token", True),
    "mcr.microsoft.com": ((404, "MANIFEST_UNKNOWN", 'manifest tagged by "latest" is not found'), "", False),
    "nvcr.io": (UNAUTHORIZED, "https://nvcr.io/proxy_auth", True),
    "public.ecr.aws": ((404, "NAME_UNKNOWN", "The repository with name 'x' does not exist in the registry with id 'y'"), "https://public.ecr.aws/token/", False),
    "registry.k8s.io": ((404, "MANIFEST_UNKNOWN", 'Failed to fetch "latest"'), "", False),
    "registry.gitlab.com": ((403, "DENIED", "access forbidden"), "https://gitlab.com/jwt/auth", True),
}  # fmt: skip
HOSTS = {"registry-1.docker.io": "docker.io", **{name: name for name in REGISTRIES}}
HOSTS.update(
    {token_url.split("/")[2]: name for name, (_, token_url, _) in REGISTRIES.items() if token_url}
)

# The image that a "broken" registry has under every name
LAYER = "sha256:" + 64 * "1"
MACHINE = {"architecture": {"aarch64": "arm64"}.get(platform.machine(), "amd64"), "os": "linux"}
CONFIG = json.dumps({**MACHINE, "rootfs": {"type": "layers", "diff_ids": [LAYER]}}).encode()
TYPE = "application/vnd.docker."
MANIFEST = json.dumps({
    "schemaVersion": 2,
    "mediaType": TYPE + "distribution.manifest.v2+json",
    "config": {"mediaType": TYPE + "container.image.v1+json", "size": len(CONFIG), "digest": "sha256:" + hashlib.sha256(CONFIG).hexdigest()},
    "layers": [{"mediaType": TYPE + "image.rootfs.diff.tar.gzip", "size": 1000, "digest": LAYER}],
}).encode()  # fmt: skip


def behaviour(registry: str) -> str:
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
        self.rfile.read(
            int(self.headers.get("Content-Length", 0))
        )  # or closing resets the connection
        host = self.headers["Host"]
        name, how = HOSTS[host], behaviour(HOSTS[host])
        missing, token_url, refuses_token = REGISTRIES[name]
        errors = {
            "limits": LIMITS,
            "expired": EXPIRED,
            "authentication": UNAUTHORIZED,
            "missing": missing,
        }
        challenge = f'Bearer realm="{token_url}",service="{host}"'
        if how == "hangs up":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif how == "unavailable":
            self.answer(b"", 503)
        elif f"https://{host}{self.path}".partition("?")[0] == token_url:
            refused = how == "expired" or (how == "missing" and refuses_token)
            self.refuse(errors[how]) if refused else self.answer(
                b'{"token": "t", "access_token": "t"}'
            )
        elif token_url and "Authorization" not in self.headers:
            self.refuse(UNAUTHORIZED, ("WWW-Authenticate", challenge))
        elif self.path == "/v2/":
            self.answer(b"{}")
        elif (name, how) == ("docker.io", "missing"):
            scope = f"repository:{self.path[4:].partition('/manifests/')[0]}:pull"
            challenge += f',scope="{scope}",error="insufficient_scope"'
            self.refuse(missing, ("WWW-Authenticate", challenge))
        elif how in errors:
            self.refuse(errors[how])
        elif "/manifests/" in self.path:
            self.answer(MANIFEST, 200, ("Content-Type", TYPE + "distribution.manifest.v2+json"))
        else:
            super().do_GET() if self.path.endswith(LAYER) else self.answer(CONFIG)

    do_HEAD = do_POST = do_GET  # noqa: N815 - http.server looks for this name

    def refuse(self, error: tuple[int, str, str], *headers: tuple[str, str]) -> None:
        detail = (
            ', "detail": {}' if error[0] == 401 else ""
        )  # without it docker prints only the code
        body = (
            f'{{"errors": [{{"code": "{error[1]}", "message": {json.dumps(error[2])}{detail}}}]}}'
        )
        self.answer(body.encode(), error[0], *headers)


class Mirror(BrokenDownload):
    """A mirror of Docker Hub that answers each request with the status in the file "mirror"."""

    def do_GET(self) -> None:
        if self.path == "/v2/":
            self.answer(b"{}")
        else:
            self.answer(b"<html></html>", int((FOLDER / "mirror").read_text()))

    do_HEAD = do_GET  # noqa: N815


class NameServer(socketserver.BaseRequestHandler):
    """Knows the hosts, except those that are "away" (RFC 1035, section 4). Go caches a hosts file for five seconds."""

    def handle(self) -> None:
        query, client = self.request
        end = query.index(b"\0", 12)
        host = re.sub(
            "[\0-\x1f]", ".", query[13:end].decode("latin-1").lower()
        )  # lengths become dots
        registry = HOSTS.get(host)
        known = registry and behaviour(registry) != "away"
        flags = b"\x81\x80" if known else b"\x81\x83"  # no such name
        has_address = known and query[end + 1 : end + 3] == b"\0\x01"
        answer = (
            b"\xc0\x0c\0\x01\0\x01\0\0\0\0\0\x04" + socket.inet_aton(ADDRESS)
            if has_address
            else b""
        )
        counts = b"\0\x01" + bytes([0, bool(answer)]) + b"\0\0\0\0"
        client.sendto(
            query[:2] + flags + counts + query[12 : end + 5] + answer, self.client_address
        )


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
