"""What tests and tools ask of a real engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def docker(*words: str) -> str:
    """Ask the real engine."""
    done = subprocess.run(["docker", *words], stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def census() -> dict[str, list[str]]:
    """List all that is on the real engine."""
    return {
        "containers": sorted(docker("ps", "--all", "--quiet", "--no-trunc").split()),
        "images": sorted(set(docker("images", "--all", "--quiet", "--no-trunc").split())),
        "tags": sorted(docker("images", "--format", "{{.Repository}}:{{.Tag}}").split()),
        "volumes": sorted(docker("volume", "ls", "--quiet").split()),
    }


def engine_answers() -> bool:
    if not shutil.which("docker"):
        return False
    done = subprocess.run(["docker", "version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return done.returncode == 0


def find_buildkit(folder: Path) -> str:
    """Return a docker command line that builds with BuildKit (by a plugin or itself), "" if none does."""
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
    for place in os.environ["PATH"].split(os.pathsep):
        candidate = os.path.join(place, "docker")
        if os.access(candidate, os.X_OK):
            words = [candidate, "build", "--force-rm", "--tag", "buildkit-tried", str(folder)]
            tried = subprocess.run(words, env=environment, capture_output=True)
            if tried.returncode == 0:
                docker("image", "rm", "buildkit-tried")
            if tried.returncode == 0 and b"#1 " in tried.stderr:
                return candidate
    return ""
