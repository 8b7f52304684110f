"""What tools print when they fail: why a person should look at it, and the line that says why.

tests/logs/outputs.json has real lines of curl, apt, pip, npm and many others, and for each pattern
one that needs it. tests/logs/good has logs of builds that succeeded.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import DockerfileEvaluator as de

LOGS = Path(__file__).with_name("logs")
OUTPUTS = json.loads((LOGS / "outputs.json").read_text("utf-8"))
# What is missed, or marked for nothing: its last line, and why
KNOWN = {
    "network": {
        "ERROR: No matching distribution found for flask": "pip's words for a 503 and for a typo",
        "at java.base/sun.security.ssl.SSLSocketImpl.connect(SSLSocketImpl.java:304)": "frames",
        "tar: Error is not recoverable: exiting now": "gzip got a page, usually a 404",
    },
    "memory": {"ninja: build stopped: subcommand failed.": "ninja does not say what killed it"},
    "own": {"urllib.error.URLError: <urlopen error [Errno 111] Connection refused>": "no host"},
}


@pytest.mark.parametrize("subject", OUTPUTS["suspicions"])
def test_each_real_output_is_marked_as_what_it_is(subject):
    expected = None if subject == "own" else subject
    samples = OUTPUTS["suspicions"][subject]

    wrong = {lines[-1] for lines in samples if de.suspicion(lines)[0] != expected}

    assert wrong == set(KNOWN.get(subject, ()))


def test_one_in_forty_builds_that_succeeded_is_suspicious():
    logs = {path.name: path.read_text("utf-8").splitlines() for path in LOGS.glob("good/*.log")}

    found = {name: de.suspicion(lines) for name, lines in logs.items()}

    assert len(logs) == 40
    assert len([name for name, (suspect, _) in found.items() if suspect]) <= 1, found


WORDS = {**de._SUSPICIONS, "own": de._OWN_TROUBLE}
LINES = {**OUTPUTS["alternatives"], "own": OUTPUTS["own_alternatives"]}


@pytest.mark.parametrize("kind", WORDS)
def test_each_word_is_needed_for_its_line(monkeypatch, kind):
    """A word of own trouble, for a line that otherwise is suspicious."""
    right = None if kind == "own" else kind
    wrong = [line for line in LINES[kind].values() if de.suspicion_kind(line) != right]
    for word, line in LINES[kind].items():
        others = "|".join(other for other in WORDS[kind] if other != word)
        if kind == "own":
            monkeypatch.setattr(de, "_OWN", f"(?i){others}")
        else:
            monkeypatch.setitem(de._KINDS, kind, f"(?<!/)(?:{others})")
        wrong += [word] * (de.suspicion_kind(line) == right)

    assert wrong == []
    assert set(LINES[kind]) == set(WORDS[kind])


@pytest.mark.parametrize("sample", OUTPUTS["reasons"], ids=lambda sample: sample["expected"][:40])
def test_line_that_says_why_is_shown(sample):
    shown = de.reason(sample["lines"])

    assert shown.startswith(sample["expected"])
