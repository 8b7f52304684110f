"""What the tests of rubrics/review.py share: the program, and tests for rubrics."""

from __future__ import annotations

from conftest import PROJECT, load_program

PROGRAM = PROJECT / "rubrics" / "review.py"
review = load_program(PROGRAM)

LOOK = {"type": "files_exist", "params": {"paths": ["x"]}}


def command(text, **params):
    return {
        "type": "output_contains" if "contains" in params else "run_command",
        "params": {"command": text, **params},
    }


def names(warnings):
    return [name for name, _, _ in warnings]
