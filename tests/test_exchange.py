"""leaderboard.py --eee: files that Every Eval Ever takes, and recipes for other formats.

The schema and its licence are those of `every-eval-ever` 0.3.0 of PyPI, which needs Python 3.12.
If it is installed (extra `exchange`), its own validation reads the files, too.
"""

import importlib.util
import json
import shlex
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest
from conftest import PROJECT
from test_leaderboard import GOOD, run, write_outcomes
from test_readme import command

import DockerfileEvaluator as de

SCHEMA = json.loads((PROJECT / "tests/every-eval-ever/eval.schema.json").read_text())
BAD, EQUAL = [2, 1] * 3, [10] * 6
FACTS = {
    "started_at": "2026-10-01T08:00:00+00:00",
    "base_images": ["docker.io/library/debian:bookworm-slim@sha256:0"],
}


def export(*words, **models):
    """Export boards of DEVELOPER/MODEL; return exit code, stderr and the files by model."""
    folder = write_outcomes(FACTS, **models)
    code, _, err = run(folder, "--eee", "data", "--organization", 'Lab "A"', *words)
    files = Path("data").rglob("*.json")
    return code, err, {file.parent.name: json.loads(file.read_text()) for file in files}


# What is in a file: a path, and its value
CONTENT = f"""
evaluation_timestamp = "2026-10-01T08:00:00+00:00"
eval_library/version = "{de.__version__}"
eval_library/additional_details/build_timeout = "3600 s"
eval_library/additional_details/debian:bookworm-slim = "sha256:0"
source_metadata/source_name = "Env/Gym: 6"
source_metadata/source_organization_name = "Lab \\"A\\""
source_metadata/evaluator_relationship = "other"
score_details/score = 0.85
score_details/uncertainty/confidence_interval/lower = 0.7925
score_details/uncertainty/confidence_interval/upper = 0.9075
score_details/uncertainty/confidence_interval/confidence_level = 0.95
score_details/uncertainty/num_samples = 6
"""


def test_file_is_valid_and_has_score_interval_samples_and_conditions():
    models = {"openai__gpt": GOOD, "x__Equal.4": EQUAL, "flat": BAD}

    code, err, files = export("--title", "Env/Gym: 6", **models)

    for content in files.values():
        jsonschema.Draft7Validator(SCHEMA).validate(content)
    if importlib.util.find_spec("every_eval_ever"):
        words = shlex.split(command("every_eval_ever validate"))
        subprocess.run([sys.executable, "-m", *words], check=True)
    for line in CONTENT.strip().splitlines():
        path, value = line.split(" = ")
        found = {**files["gpt"], **files["gpt"]["evaluation_results"][0]}
        for key in path.split("/"):
            found = found[key]
        assert found == pytest.approx(json.loads(value), abs=1e-4), path
    assert abs(time.time() - int(files["gpt"]["retrieved_timestamp"])) < 300
    assert "confidence_interval" not in str(files["Equal.4"])
    # A transcript shows a model that is incomplete.
    assert "left out of data: flat: not in a folder DEVELOPER/MODEL\n" in err
    assert (code, len(files)) == (1, 2)


def test_file_of_a_model_is_replaced_and_none_leaves_the_folder():
    for outcomes in (GOOD, BAD):
        export("--benchmark", "../../x", a__b=outcomes)

    (file,) = Path("data").rglob("*.json")
    assert file.parts[:-1] == ("data", "-x", "a", "b")


def test_organization_is_needed():
    assert run(".", "--eee", "data")[::2] == (2, "error: --eee needs --organization\n")
