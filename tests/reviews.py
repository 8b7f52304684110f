"""What the tests of rubrics/review.py share: the program, and rubrics for it: a plugin of pytest.

Test modules name it in `pytest_plugins`, and import its helpers (PYTEST_DONT_REWRITE).
"""

from __future__ import annotations

import json

import pytest
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


@pytest.fixture
def write(tmp_path):
    """Write a rubric; return its path."""

    def make(*tests, repo="r", name="rubric.json"):
        file = tmp_path / name
        file.write_text(json.dumps({**({"repo": repo} if repo else {}), "tests": tests}))
        return str(file)

    return make


@pytest.fixture
def found(write):
    """Return name, place and sentence of each warning about a rubric of these tests."""
    return lambda *tests, **more: [warning[:3] for warning in review.read(write(*tests, **more)).warnings]
