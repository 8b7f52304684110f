"""What tools print when they fail: why a person should look at it, and the line that says why.

tests/logs/outputs.json has the last lines of curl, apt, pip, npm and many others.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import DockerfileEvaluator as de

OUTPUTS = json.loads(Path(__file__).with_name("logs").joinpath("outputs.json").read_text("utf-8"))


@pytest.mark.parametrize("subject", ["network", "memory", "disk"])
def test_nine_in_ten_failures_of_the_host_are_suspicious(subject):
    missed = [
        lines for lines in OUTPUTS["suspicions"][subject] if de.suspicion(lines)[0] != subject
    ]

    assert len(missed) <= len(OUTPUTS["suspicions"][subject]) / 10, missed


OWN_SERVICE = ("refused", "hang up")  # which looks like a download that is refused


def test_one_in_thirty_failures_of_a_dockerfiles_own_is_suspicious():
    own = [
        lines
        for lines in OUTPUTS["suspicions"]["own"]
        if not any(words in line for line in lines for words in OWN_SERVICE)
    ]

    found = [lines for lines in own if de.suspicion(lines)[0]]

    assert len(found) <= len(own) / 30, found


@pytest.mark.parametrize("sample", OUTPUTS["reasons"], ids=lambda sample: sample["expected"][:40])
def test_line_that_says_why_is_shown(sample):
    shown = de.reason(sample["lines"])

    assert shown.startswith(sample["expected"])
