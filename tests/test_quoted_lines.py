"""The line that a person would quote of a tool's output.

The texts are in the files of tests/quoted: what these tools print where no terminal is, slightly shortened;
conda's are from its users' reports.
"""

from __future__ import annotations

import time

import pytest
from cases import TRUE, run_command
from said import APT, LEGACY, QUOTED

import DockerfileEvaluator as de


@pytest.mark.parametrize("name", QUOTED)
def test_the_line_that_names_the_cause_is_quoted(name):
    output, quoted = QUOTED[name]
    assert de.telling_line(output) == quoted


# npm 11 explains each option of a command that it refuses.
OPTION = (
    "npm error   --audit\nnpm error     When true, submit audit reports alongside the command\nnpm error\n"
)
REFUSED, ADVICE = QUOTED["npm 10 ci, no lock file"][0].split("npm error aliases")
EXPLAINED = f"{REFUSED}{OPTION * 25}npm error aliases{ADVICE}"
FAILED_STEP = "The command '/bin/sh -c npm ci' returned a non-zero code: 1"
CAUSE = "npm error code EUSAGE: The `npm ci` command can only install with an existing package-lock.json or"


def test_a_command_is_told_by_its_cause_however_much_advice_follows(fake, evaluate):
    (fake.root / "said.txt").write_text(EXPLAINED)
    (row,) = evaluate(["FROM x"], run_command("cat said.txt; exit 1"))["test_results"]
    assert row["message"] == f"exit code 1: {CAUSE}"


def test_a_build_is_told_by_its_cause_however_much_advice_follows(fake, evaluate):
    fake.fault("build", "fail", stdout=LEGACY.replace(APT, EXPLAINED), stderr=FAILED_STEP, code=1)
    assert evaluate(["FROM x"], TRUE)["build"]["message"].endswith(f": exit code 1: {CAUSE}")


@pytest.mark.parametrize(
    "piece",
    [
        *"a \n\t=:|>'\x1b",
        "a\n",
        f"{' ' * 499}x\n",
        f"npm error {'1' * 400}\n",
        "\x1b[",
        "= in 1s ",
        "CMake Error",
        "CMake Error:\n",
        "* What went wrong:\n* Try\n",
        "npm error ",
        "npm error code E\n",
        "There are test ",
        "Failed to execute goal x (",
        "error: command ''",
    ],
)
def test_the_time_grows_with_the_length_and_no_faster(piece):
    """As processor time: a thousandth of a second for most, some hundredths for many short lines."""
    text = piece * (64 * 1024 // len(piece))
    start = time.process_time()
    de.telling_line(text)
    assert time.process_time() - start < 2
