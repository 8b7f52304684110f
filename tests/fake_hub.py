"""`fake_hub.py FOLDER` serves the public image registries of FakeHub (engine.py).

It ends with its parent process.
"""

from __future__ import annotations

import ctypes
import gzip
import hashlib
import http.server
import io
import json
import platform
import re
import signal
import ssl
import sys
import tarfile
import threading
from pathlib import Path
from urllib.parse import unquote

sys.path.append(str(Path(__file__).resolve().parent.parent))

import DockerfileEvaluator as de

FOLDER = Path(sys.argv[-1])
ADDRESS = "198.51.100.1"  # docker trusts every registry at 127.0.0.1, and falls back to http there
PR_SET_PDEATHSIG = 1  # prctl(2)


UNAUTHORIZED, UNKNOWN = (401, "UNAUTHORIZED"), (404, "MANIFEST_UNKNOWN")
ERRORS = {"limits": (429, "TOOMANYREQUESTS"), "forbidden": (403, "DENIED")}


# Registries that behave as they are named, such as limits.example
NAMED = [f"{how}.example" for how in (*ERRORS, "missing", "hangs-up")]
HOSTS = {name: name for name in [*de.CONTROL_IMAGES, *NAMED]}
HOSTS["registry-1.docker.io"] = "docker.io"


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


# The image that a registry has under each name
with io.BytesIO() as file:
    with tarfile.open(fileobj=file, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("hello"))
    ARCHIVE = file.getvalue()
LAYER = gzip.compress(ARCHIVE)
MACHINE = platform.machine().replace("x86_64", "amd64").replace("aarch64", "arm64")
CONFIG = b"""{
    "architecture": "%s", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["%s"]}
}""" % (MACHINE.encode(), digest(ARCHIVE).encode())
MANIFEST_TYPE = "application/vnd.docker.distribution.manifest.v2+json"
MANIFEST = f"""{{
    "schemaVersion": 2,
    "mediaType": "{MANIFEST_TYPE}",
    "config": {{
        "mediaType": "application/vnd.docker.container.image.v1+json",
        "size": {len(CONFIG)},
        "digest": "{digest(CONFIG)}"
    }},
    "layers": [{{
        "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "size": {len(LAYER)},
        "digest": "{digest(LAYER)}"
    }}],
    "annotations": {{"name": "NAME"}}
}}"""
BLOBS = {digest(CONFIG): CONFIG, digest(LAYER): LAYER}
CONTROLS = {image.partition(":")[0] for image in de.CONTROL_IMAGES.values()}


def behaviour(registry: str) -> str:
    """Return how a registry behaves now (FakeHub.behave())."""
    name, is_example, _ = registry.partition(".example")
    return name if is_example else (FOLDER / "behaviour").read_text()


OBJECT = "/v2/(?P<image>.+)/[a-z]+/(?P<object>[^?]+)"  # a path: of a manifest or a blob


class Server(http.server.BaseHTTPRequestHandler):
    """All registries and token endpoints; the Host header selects one."""

    def do_GET(self) -> None:
        # Unread content would reset the connection when it is closed.
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        name = HOSTS[self.headers["Host"]]
        if behaviour(name) != "hangs-up":
            self.answer_as(name, behaviour(name))

    do_HEAD = do_POST = do_GET  # noqa: N815 - http.server looks for this name

    def answer_as(self, name: str, how: str) -> None:
        """Answer as a registry; Docker Hub gives tokens, and says of any other image that it may
        be private."""
        path = unquote(self.path)
        token = f'Bearer realm="https://{self.headers["Host"]}/token",service="{name}"'
        found = re.search(OBJECT, path)
        is_hub = name == "docker.io"
        if path.startswith("/token"):
            self.answer(body=b'{"token": "t", "access_token": "t"}')
        elif is_hub and "Authorization" not in self.headers:
            self.answer(UNAUTHORIZED, token)
        elif not found:  # the path is /v2/
            self.answer(body=b"{}")
        elif how in ERRORS:
            self.answer(ERRORS[how])
        elif f"{name}/{found['image']}" in CONTROLS:
            manifest = MANIFEST.replace("NAME", found["image"]).encode()
            self.answer(body=BLOBS.get(found["object"], manifest))
        elif is_hub:
            self.answer(UNAUTHORIZED, f'{token},error="insufficient_scope"')
        else:
            self.answer(UNKNOWN)

    def answer(
        self, error: tuple[int, str] | None = None, challenge: str = "", body: bytes = b""
    ) -> None:
        """Send an error, or else a body."""
        status, code = error or (200, "")
        if code:  # without a detail docker prints only the code
            content = {"code": code, "message": code.lower(), "detail": {}}
            body = json.dumps({"errors": [content]}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if code else MANIFEST_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest(body))
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    server = http.server.ThreadingHTTPServer((ADDRESS, 443), Server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(FOLDER / "trusted.pem"))
    # The handshake is left to the thread of a connection.
    server.socket = context.wrap_socket(server.socket, True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever).start()
    (FOLDER / "ready").touch()


if __name__ == "__main__":
    main()
