"""Section 5, the report: fields and totals, no score, and how files are written."""

import json
import os
from pathlib import Path
from unittest import mock

import pytest
from cases import TRUE, run_command, table
from conftest import outcome, schema

import DockerfileEvaluator as de

# Fields


ENVIRONMENT = json.loads("""{
    "docker_client": "28.2.2", "docker_server": "20.10.24", "builder": "buildkit",
    "platform": "linux/amd64", "storage_driver": "overlay2", "security_options": ["name=rootless"],
    "engine_cpus": 4, "engine_memory": 4294967296, "image_size": 1234,
    "image_platform": "linux/arm64", "image_starts": true, "kept_image": null, "context": "other",
    "overlay": null, "offline": false, "build_timeout": 9, "start_timeout": 120
}""")
ENVIRONMENT.update(evaluator_version=de.__version__, image_id="sha256:" + "1d" * 32)


def test_environment_has_the_facts_of_the_engine_and_of_an_image_for_another_platform(fake, score):
    fake.set(info={"SecurityOptions": ["name=rootless"]}, image={"Architecture": "arm64"})

    os.mkdir("other")
    report = score(TRUE, context="other", build_timeout=9)

    assert report["environment"] == {**report["environment"], **ENVIRONMENT}
    assert report["warnings"] == ["the image is for linux/arm64, the engine for linux/amd64"]


PODMAN = json.loads("""{
    "info": {
        "host": {"cpus": 8, "memTotal": 9}, "store": {"graphDriverName": "overlay"},
        "NCPU": null, "MemTotal": null, "Driver": null
    },
    "version": {"Client": {"Version": "5", "OsArch": "linux/arm64"}, "Server": null}
}""")


def test_environment_has_the_facts_of_podman(fake):
    fake.set(**PODMAN)

    facts = de.engine_facts(de.Docker("docker"))

    assert list(facts.values()) == ["5", "5", "linux/arm64", "overlay", None, 8, 9, []]


def test_schema_requires_every_field_and_knows_no_other():
    report = schema("report").schema
    parts = map(report["properties"].get, ("build", "environment", "error"))
    for part in (report, report["$defs"]["result"], *parts):
        of_evaluate_all = {"repeated", "is_second_try", "other_attempt", "parallel"}
        assert {*part["properties"]} <= {*part["required"], *of_evaluate_all}
        assert part["additionalProperties"] is False


# Tests that a person should look at

SUSPECTS = """
echo 'curl: (6) Could not resolve host: example.org'; exit 1 -> network
echo 'Could not resolve host: example.org'; sleep 60 -> network
curl() { exit 6; }; curl -s https://a.b/c -> network
echo 'Could not resolve host: example.org' -> None
echo 'AssertionError: 1 != 2'; exit 1 -> None
"""


@table(SUSPECTS)
def test_failed_test_is_suspicious_if_its_output_mentions_the_host(fake, score, row):
    (found,) = score(run_command(row.when, timeout=2))["test_results"]

    assert str(found["suspect"]) == row.then


PERCENTAGES = """
999999999 1000000000 -> 99.9%
2 3 -> 66.6%
4.35 10 -> 43.5%
0 0 -> 0.0%
"""


@table(PERCENTAGES)
def test_percentage_is_rounded_down(row):
    assert de.percent(*map(float, row.when.split())) == row.then


def test_failed_build_has_its_log_and_builder_even_if_the_engine_is_lost_then(fake, evaluate):
    fake.inject("version since=2")  # after the build

    report = evaluate(["FROM x", "RUN exit 3"], TRUE)

    assert outcome(report) == "engine"
    assert report["environment"]["builder"] == "buildkit"
    assert "last words of the build" in report["build"]["log"]


# Files


def test_protected_folder_is_an_error_before_docker_is_started(fake, score, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # these tests may run as root

    with pytest.raises(de.EvaluationError):
        score(TRUE, output="report")

    assert fake.names() == []


def test_failed_write_leaves_the_old_file_and_no_other(monkeypatch):
    Path("report.json").write_text("old")
    monkeypatch.setattr(os, "replace", mock.Mock(side_effect=OSError))

    with pytest.raises(de.EvaluationError):
        de.write_file("report.json", "new")

    assert [Path(name).read_text() for name in os.listdir(".")] == ["old"]


def test_report_can_be_a_pipe():
    """Such as --output >(jq .summary)."""
    reader, writer = os.pipe()

    de.write_file(f"/dev/fd/{writer}", "text")

    assert os.read(reader, 9) == b"text"


# A score is not lost

# What fails in two evaluations, one after the other, and what becomes of the first report
ENDS = """
a score, then a failed build, which has one -> replaced
    second: build at='[2/2] RUN make' error=2
a score, then no engine -> kept
    second: version
a failed build, then no engine -> kept
    first: build at='[2/2] RUN make' error=2
    second: version
no score, then no engine -> replaced
    first: pull x='a.b: too many requests'
    second: version
"""


@pytest.fixture
def save(fake, score):
    """Return a function that evaluates, and writes the report to a file; return the report."""

    def run(fault, output="report.json"):
        fake.repair()
        fake.inject(fault)
        return score(TRUE, output=output)

    return run


@table(ENDS, first="", second="")
def test_report_without_a_score_moves_one_with_a_score_and_links_stay(save, row):
    os.mkdir("folder")
    os.symlink("folder/elsewhere.json", "report.json")

    earlier, later = save(row.first), save(row.second)

    kept = earlier if row.then == "kept" else None
    assert de.read_report("folder/elsewhere.json.previous") == kept
    assert de.read_report("folder/elsewhere.json") == later
    assert os.path.islink("report.json")


def test_score_that_cannot_be_set_aside_is_not_replaced(save):
    os.makedirs("report.json.previous/x")
    earlier = save("")

    with pytest.raises(de.EvaluationError):
        save("version")

    assert de.read_report("report.json") == earlier


def test_report_on_stdout_moves_no_file(save):
    os.symlink("report.json", "-")
    save("")

    save("version", output="-")

    assert os.path.exists("report.json")


# The version of the engine, an instruction and a line above FROM
IGNORED = """
20.10.24 COPY --chmod=+x a / -> a warning
27.5.1 add --from=b --chmod=$MODE a / -> a warning
28.0.0 COPY --chmod=+x a / -> none
20.10.24 COPY --chmod=755 a / -> none
20.10.24 RUN chmod +x --chmod=+x -> none
5.8.6 COPY --chmod=+x a / -> none
    log: STEP 1/2: FROM x\\nSTEP 2/2: COPY --chmod=+x a /
20.10.24 COPY --chmod=+x a / -> none
    log: #1 resolve image config for docker-image://docker.io/docker/dockerfile:1\\n#1 DONE 0.1s
"""


@table(IGNORED, log="#1 [1/1] FROM x")
def test_mode_that_an_older_builder_ignores_is_a_warning(fake, evaluate, row):
    version, instruction = row.when.split(" ", 1)
    fake.set(version={"Server": {"Version": version, "Os": "linux", "Arch": "amd64"}})
    fake.inject(f"build do=print stdout='{row.log}'")

    warnings = evaluate(["FROM x", instruction], TRUE)["warnings"]

    expected = f"docker before 28 ignores the mode in {instruction}"
    assert warnings == [expected] * (row.then == "a warning")


def test_host_without_threads_is_an_engine_error(fake, score, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(de, "ThreadPoolExecutor", refuse)

    report = score(TRUE)

    assert outcome(report) == "engine"
    assert report["error"]["message"] == "this host: can't start new thread"
