"""What builders and tools print where they fail, as seen, and what a person would quote of it."""

from __future__ import annotations

import re
from pathlib import Path

# Builds that fail, as the builders tell it

INSTALL = "RUN apt-get update && apt-get install -y --no-install-recommends build-essential libanl-dev"
ADVERTISING = """\
DEPRECATED: The legacy builder is deprecated and will be removed in a future release.
            Install the buildx component to build images with BuildKit:
            https://docs.docker.com/go/buildx/

"""
APT = """\
Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]
Reading package lists...
Building dependency tree...
E: Unable to locate package libanl-dev
"""
LEGACY = f"""\
Sending build context to Docker daemon  3.072kB\r\r
Step 1/6 : FROM debian:bookworm-slim
 ---> 1e5407c7d3d9
Step 2/6 : ENV A=1
 ---> Running in 2c1e2de8847e
Removing intermediate container 2c1e2de8847e
 ---> 449e803ba92f
Step 3/6 : {INSTALL}
 ---> Running in 7cdcc1ccac2d
{APT}Removing intermediate container 7cdcc1ccac2d
"""
LEGACY_END = f"The command '/bin/sh -c {INSTALL[4:]}' returned a non-zero code: 100"


def buildkit(first, error, end):
    """Return BuildKit's log of a step that fails, as it stands without a terminal."""
    printed = "\n".join(f"#5 0.655 {line}" for line in APT.splitlines())
    return f"""\
{first}#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 178B done
#1 DONE 0.0s

#4 [1/6] FROM docker.io/library/debian:bookworm-slim
#4 DONE 0.0s

#6 [internal] load build context
#6 transferring context: 539B done
#6 DONE 0.0s

#7 [2/6] WORKDIR /app
#7 DONE 0.0s

#5 [3/6] {INSTALL}
{printed}
#5 ERROR: {error}
------
 > [3/6] {INSTALL}:
{end}"""


OLD_ERROR = f"executor failed running [/bin/sh -c {INSTALL[4:]}]: exit code: 100"
NEW_ERROR = f'process "/bin/sh -c {INSTALL[4:]}" did not complete successfully: exit code: 100'
OLD_BUILDKIT = buildkit("", OLD_ERROR, f"------\n{OLD_ERROR}")
BUILDX = buildkit(
    '#0 building with "default" instance using docker driver\n\n',
    NEW_ERROR,
    f"""\
0.655 Building dependency tree...
0.655 E: Unable to locate package libanl-dev
------
Dockerfile:3
--------------------
   2 |     WORKDIR /app
   3 | >>> {INSTALL}
   4 |     COPY . /app
--------------------
ERROR: failed to solve: {NEW_ERROR}""",
)
FAILED_BUILDS = {
    "legacy": {"stdout": LEGACY, "stderr": ADVERTISING + LEGACY_END, "code": 100},
    "buildkit": {"stderr": OLD_BUILDKIT, "code": 1},
    "buildx": {"stderr": BUILDX, "code": 1},
}


COPY_LEGACY = """\
Sending build context to Docker daemon  3.072kB\r\r
Step 1/2 : FROM scratch
 --->\x20
Step 2/2 : COPY nosuch /app
"""
COPY_LEGACY_END = (
    "COPY failed: file not found in build context or excluded by .dockerignore: "
    "stat nosuch: file does not exist"
)
COPY_BUILDKIT = """\
#1 [internal] load build definition from Dockerfile
#1 DONE 0.1s

#4 [internal] load build context
#4 transferring context: 2B done
#4 DONE 0.0s

#3 [2/2] COPY nosuch /app
#3 ERROR: "/nosuch" not found: not found
------
 > [2/2] COPY nosuch /app:
------
failed to compute cache key: "/nosuch" not found: not found"""


BUILT = """\
Sending build context to Docker daemon  3.072kB\r\r
Step 1/6 : FROM debian:bookworm-slim
 ---> 1e5407c7d3d9
Step 2/6 : ENV A=1
 ---> Using cache
 ---> 449e803ba92f
Step 3/6 : RUN npm install
 ---> Running in 7cdcc1ccac2d
\x1b[91mnpm WARN\x1b[0m old
DEPRECATED: gulp-util
progress 1/9 :\r\x1b[Kprogress 9/9 :
Removing intermediate container 7cdcc1ccac2d
 ---> 067a0812583e
Step 4/6 : LABEL mine=yes
 ---> Using cache
 ---> 067a0812583f
Step 5/6 : COPY . /app
 ---> 067a0812583d
Step 6/6 : WORKDIR /app
 ---> 067a0812583c
Successfully built 067a0812583c
"""

COPIES = {
    "legacy": {"stdout": COPY_LEGACY, "stderr": ADVERTISING + COPY_LEGACY_END},
    "buildkit": {"stderr": COPY_BUILDKIT},
}

# Commands that fail, as real tools tell it


def quoted() -> dict[str, tuple[str, str]]:
    """Return, for each case of the files in tests/quoted, the output, and what a person would quote of it.

    A case begins with two lines: "@ NAME" and "= WHAT IS QUOTED".
    """
    files = sorted(Path(__file__).with_name("quoted").glob("*.txt"))
    text = "".join(file.read_bytes().decode() for file in files)
    cases = re.findall(r"^@ (.*)\n=(?: (.*))?\n((?:(?!@ ).*\n)*)", text, re.MULTILINE)
    return {name: (output, line) for name, line, output in cases}


QUOTED = quoted()
