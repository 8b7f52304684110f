"""Real logs of failed builds, in tests/logs: one file per Dockerfile, with a part per program that built it.

A file begins with the Dockerfile, each line after "> ". A part begins with "== PROGRAM: exit code N"; its lines
begin with 1 (stdout) or 2 (stderr). Data folders are called /var/lib/docker, build contexts /context.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterator, NamedTuple

import DockerfileEvaluator as de

FOLDER = Path(__file__).with_name("logs")


class Log(NamedTuple):
    """What one program printed for a Dockerfile."""

    name: str  # of the file
    program: str
    dockerfile: str
    exit_code: int
    stdout: str
    stderr: str

    def build(self) -> de.Build:
        """Return the build as the evaluator sees it."""
        log = de.BuildLog(de.Console(None))
        log.feed("stdout", self.stdout.encode())
        log.feed("stderr", self.stderr.encode())
        log.close()
        return de.Build(self.exit_code, log.output.builder, log.text(), log.output.failure())


def read(file: Path) -> Iterator[Log]:
    """Yield the parts of a file."""
    text, *parts = re.split("(?m)^== ", file.read_bytes().decode())  # with its carriage returns
    dockerfile = "".join(f"{line[2:]}\n" for line in text.split("\n")[:-1])
    for part in parts:
        title, *lines = part.split("\n")[:-1]
        program, _, code = title.partition(": exit code ")
        streams = {"1": "", "2": ""}
        for line in lines:
            streams[line[0]] += f"{line[2:]}\n"
        yield Log(file.stem, program, dockerfile, int(code), streams["1"], streams["2"])


LOGS = [log for file in sorted(FOLDER.iterdir()) for log in read(file)]
