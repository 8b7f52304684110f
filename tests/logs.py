"""Real logs of failed builds, in tests/logs: a file per Dockerfile, with a part per builder.

A file begins with the Dockerfile, each line after "> ". A part begins with
"== PROGRAM: exit code N"; each of its lines begins with 1 (stdout) or 2 (stderr). In all of them
the engine's data folder is called /var/lib/docker, and the build context /context.
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
        return de.Build(
            exit_code=self.exit_code,
            builder=log.output.builder,
            log=log.text(),
            failure=log.output.failure(),
        )


def read(file: Path) -> Iterator[Log]:
    """Yield the parts of a file."""
    text = file.read_bytes().decode()  # read_text() would remove the carriage returns
    quoted_dockerfile, *parts = re.split("(?m)^== ", text)
    dockerfile = "".join(f"{line[2:]}\n" for line in quoted_dockerfile.split("\n")[:-1])
    for part in parts:
        title, *lines = part.split("\n")[:-1]
        program, _, code = title.partition(": exit code ")
        streams = {"1": "", "2": ""}
        for line in lines:
            streams[line[0]] += f"{line[2:]}\n"
        yield Log(
            name=file.stem,
            program=program,
            dockerfile=dockerfile,
            exit_code=int(code),
            stdout=streams["1"],
            stderr=streams["2"],
        )


LOGS = [log for file in sorted(FOLDER.iterdir()) for log in read(file)]
