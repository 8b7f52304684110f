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
from test_leaderboard import run, write
from test_readme import command

import DockerfileEvaluator as de

SCHEMA = json.loads((PROJECT / "tests/every-eval-ever/eval.schema.json").read_text())
GOOD, BAD, EQUAL = [9, 8, 9, 8, 9, 8], [2, 1, 2, 1, 2, 1], [10] * 6


FACTS = {
    "started_at": "2026-10-01T08:00:00+00:00",
    "base_images": ["docker.io/library/debian:bookworm-slim@sha256:0"],
}


def export(*words, **models):
    """Export boards of DEVELOPER/MODEL; return exit code, stderr and the files by model."""
    folder = write(
        {
            f"{model.replace('__', '/')}/r{at}": {"outcome": outcome, **FACTS}
            for model, outcomes in models.items()
            for at, outcome in enumerate(outcomes)
        }
    )
    code, _, err = run(folder, "--eee", "data", "--organization", 'Lab "A"', *words)
    files = Path("data").rglob("*.json")
    return code, err, {file.parent.name: json.loads(file.read_text()) for file in files}


def test_each_model_is_a_valid_file():
    models = {"openai__gpt-5": GOOD, "meta__Llama.4": BAD, "x__equal": EQUAL}

    code, _, files = export("--title", "Env/Gym: 6", **models)

    assert (code, sorted(files)) == (0, ["Llama.4", "equal", "gpt-5"])
    for content in files.values():
        jsonschema.Draft7Validator(SCHEMA).validate(content)
    if importlib.util.find_spec("every_eval_ever"):
        words = shlex.split(command("every_eval_ever validate"))
        subprocess.run([sys.executable, "-m", *words], check=True)


# What is in a file: a path, and its value
CONTENT = f"""
evaluation_timestamp = "2026-10-01T08:00:00+00:00"
eval_library/version = "{de.__version__}"
eval_library/additional_details/build_timeout = "3600 s"
eval_library/additional_details/debian:bookworm-slim = "sha256:0"
source_metadata/source_name = "EnvGym"
source_metadata/source_organization_name = "Lab \\"A\\""
source_metadata/evaluator_relationship = "other"
evaluation_results/0/score_details/score = 0.85
evaluation_results/0/score_details/uncertainty/confidence_interval/lower = 0.7925
evaluation_results/0/score_details/uncertainty/confidence_interval/upper = 0.9075
evaluation_results/0/score_details/uncertainty/confidence_interval/confidence_level = 0.95
evaluation_results/0/score_details/uncertainty/num_samples = 6
"""


def test_file_has_score_interval_samples_and_conditions():
    code, err, files = export("--benchmark", "EnvGym", openai__gpt=GOOD, x__equal=EQUAL, flat=BAD)

    for line in CONTENT.strip().splitlines():
        path, value = line.split(" = ")
        found = files["gpt"]
        for key in path.split("/"):
            found = found[int(key) if key.isdigit() else key]
        assert found == pytest.approx(json.loads(value), abs=1e-4), path
    assert abs(time.time() - int(files["gpt"]["retrieved_timestamp"])) < 300
    assert "confidence_interval" not in str(files["equal"])
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
