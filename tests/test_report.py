"""Section 5, the report: fields and totals, no score, JUnit, and how files are written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

import pytest
from cases import FALSE, LOOK, TRUE, run_command
from conftest import error_of, make_report, schema

import DockerfileEvaluator as de


@pytest.fixture
def options(dockerfile, rubric, tmp_path):
    """Return the options of an evaluation."""
    output = str(tmp_path / "report.json")
    path = rubric({**TRUE, "category": "x"})
    return de.checked(de.Options(dockerfile("FROM x"), "example", path, output))


# Fields


SUITE = run_command("echo 118 passed; exit 4", id="part", score=2, category="x", timeout=9)
SUITE["params"].update(count=r"(\d+) passed", of=120)


def test_keys_of_the_seed_come_first_and_a_row_tells_how_a_test_ended(fake, evaluate):
    report = evaluate(["FROM x"], SUITE, LOOK)

    assert list(report)[:5] == ["repo", "dockerfile", "rubric", "summary", "test_results"]
    part, looked = report["test_results"]
    row = {
        "test_id": "part",
        "test_type": "run_command",
        "passed": False,
        "score": 1.966666,
        "message": "118 of 120, exit code 4",
        "execution_time": mock.ANY,
        "max_score": 2,
        "status": "failed",
        "exit_code": 4,
        "timeout": 9,
        "output": "118 passed\n",
        "category": "x",
        "params": SUITE["params"],
        "drawn": {},
        "counted": 118,
        "retried": False,
        "suspect": None,
    }
    assert list(part.items()) == list(row.items())
    no_command = dict.fromkeys(["exit_code", "output", "counted"])
    assert looked == {**looked, "passed": True, "status": "passed", "score": 1, **no_command}


ENVIRONMENT = {
    "evaluator_version": de.__version__,
    "docker_client": "28.2.2",
    "docker_server": "20.10.24",
    "builder": "legacy",
    "platform": "linux/amd64",
    "storage_driver": "overlay2",
    "security_options": ["name=rootless"],
    "engine_cpus": 4,
    "engine_memory": 2**32,
    "image_id": "sha256:" + "1d" * 32,
    "image_size": 1234,
    "image_platform": "linux/arm64",
    "image_starts": True,
    "kept_image": None,
    "context": "other",
    "overlay": None,
    "offline": False,
    "build_timeout": 9,
    "start_timeout": 120,
}


def test_environment_has_the_facts_of_the_engine_and_of_an_image_for_another_platform(
    fake, evaluate
):
    fake.set(info={"SecurityOptions": ["name=rootless"]}, image={"Architecture": "arm64"})

    os.mkdir("other")
    report = evaluate(["FROM x"], TRUE, context="other", build_timeout=9)

    assert report["environment"] == {**report["environment"], **ENVIRONMENT}
    assert report["warnings"] == ["the image is for linux/arm64, the engine for linux/amd64"]


PODMAN = {
    "info": {
        "host": {"cpus": 8, "memTotal": 9},
        "store": {"graphDriverName": "overlay"},
        **dict.fromkeys(["NCPU", "MemTotal", "Driver"]),
    },
    "version": {"Client": {"Version": "5", "OsArch": "linux/arm64"}, "Server": None},
}


def test_environment_has_the_facts_of_podman(fake):
    fake.set(**PODMAN)

    facts = de.engine_facts(de.Docker("docker"))

    assert list(facts.values()) == ["5", "5", "linux/arm64", "overlay", None, 8, 9, []]


SECRET = ["--env=TOKEN=s3cret", "-eTOKEN=s3cret", "--secret=id=s3cret\ns3cret"]
PUBLISHED = ["--env=…", "-e…", "--secret=…", "--memory=1g", "--init"]


def test_values_of_options_that_may_be_secrets_are_hidden(fake, evaluate):
    words, top = [*SECRET, "--memory=1g", "--init"], {"run_options": ["--cpus=2"]}

    report = evaluate(["FROM x"], TRUE, top=top, build_options=words, run_options=words)

    assert report["environment"]["build_options"] == PUBLISHED
    assert report["environment"]["run_options"] == ["--cpus=2", *PUBLISHED]


def test_schema_requires_every_field_and_knows_no_other():
    report = schema("report").schema
    parts = map(report["properties"].get, ("build", "environment", "error"))
    for part in (report, report["$defs"]["result"], *parts):
        optional = set(part["properties"]) - set(part["required"])

        of_evaluate_all = {"repeated", "is_second_try", "other_attempt", "parallel"}
        assert optional <= of_evaluate_all
        assert part["additionalProperties"] is False


# What all Dockerfiles of a run share


def test_build_context_that_only_its_owner_can_read_is_a_warning(fake, evaluate, dockerfile):
    context = Path(dockerfile("FROM x")).parent
    for name in ("private", "public"):
        (context / name).touch(0o644)
        (context / f"{name}-folder").mkdir(0o755)
    (context / "private").chmod(0o600)
    (context / "private-folder").chmod(0o751)
    (context / "link").symlink_to("/nowhere")
    (context / "Dockerfile").chmod(0o600)

    (warning,) = evaluate(["FROM x"], TRUE)["warnings"]

    assert "only the owner can read 'private', 'private-folder'" in warning


VOLUMES = {
    "--volume=/none/such:/hidden": True,
    "-v=/none/such:/hidden:ro": True,
    "-v/none/such:/hidden": True,
    "--volume=/etc:/hidden": False,
    "--volume=name:/hidden": False,
    "--mount=type=bind,source=/none/such,target=/hidden": False,
}


def test_volume_of_a_missing_folder_is_a_warning():
    found = {}
    for option in VOLUMES:
        options = de.Options("Dockerfile", "r", context="/no", run_options=[option])
        found[option] = ["/none/such is not on" in text for text in de.host_warnings(options)] == [
            True
        ]

    assert found == VOLUMES


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_dockerfile_in_utf_16_is_a_usage_error(fake, dockerfile, encoding):
    Path(dockerfile("FROM x")).write_bytes("\ufeffFROM x".encode(encoding))

    kind, message = error_of(de.evaluate("../context/Dockerfile", "r", {"tests": [TRUE]}))

    assert kind == "usage"
    assert "UTF-16" in message


def test_git_file_of_a_worktree_is_a_warning(fake, evaluate, dockerfile):
    Path(dockerfile("FROM x")).with_name(".git").touch(0o644)

    (warning,) = evaluate(["FROM x"], TRUE)["warnings"]

    assert ".git is a file" in warning


def test_proxies_that_docker_gives_to_containers_are_on_record_without_their_values(
    fake, evaluate, monkeypatch
):
    Path("config.json").write_text('{"proxies": {"default": {"httpProxy": "http://s3cret@x"}}}')
    monkeypatch.setenv("DOCKER_CONFIG", ".")

    report = evaluate(["FROM x"], TRUE)

    assert report["environment"]["proxies"] == ["httpProxy"]
    assert ["proxies" in warning for warning in report["warnings"]] == [True]
    assert "s3cret" not in str(report)


# Tests that a person should look at

SUSPECTS = {
    "echo 'curl: (6) Could not resolve host: example.org'; exit 1": "network",
    "echo 'Could not resolve host: example.org'; sleep 60": "network",
    "echo 'cc1plus: out of memory'; exit 1": "memory",
    "echo 'No space left on device'; exit 1": "disk",
    "curl() { exit 6; }; curl -s https://a.b/c": "network",
    "echo 'Could not resolve host: example.org'": None,
    "echo 'AssertionError: 1 != 2'; exit 1": None,
}


@pytest.mark.parametrize("command", SUSPECTS)
def test_failed_test_is_suspicious_if_its_output_mentions_the_host(fake, evaluate, command):
    report = evaluate(["FROM x"], run_command(command, timeout=2))

    assert report["test_results"][0]["suspect"] == SUSPECTS[command]


# Totals


TOTALS = ["total_tests", "passed_tests", "failed_tests", "total_score", "max_score"]


def test_points_are_summed_without_rounding_errors_in_all_and_by_category(fake, evaluate):
    """0.1 + 0.2 is 0.3; a part of the points counts."""
    tests = [{**TRUE, "score": score, "category": "x"} for score in (0.1, 0.2)]

    summary = evaluate(["FROM x"], *tests, SUITE, FALSE)["summary"]

    assert list(summary.items()) == [
        *zip(TOTALS, [4, 2, 2, 2.266666, 3.3]),
        ("success_rate", 2 / 4),
        ("total_execution_time", mock.ANY),
        ("by_category", {"x": dict(zip(TOTALS, [3, 2, 1, 2.266666, 2.3]))}),
        ("wall_time", mock.ANY),
    ]


PERCENTAGES = {(9999, 10000): "99.9%", (2, 3): "66.6%", (4.35, 10): "43.5%", (0, 0): "0.0%"}


def test_percentage_is_rounded_down():
    assert {points: de.percent(*points) for points in PERCENTAGES} == PERCENTAGES


# By kind of error
SCORES = {"build": 0, "build_timeout": 0, **dict.fromkeys(["engine", "registry", "usage"])}


@pytest.mark.parametrize("kind", SCORES)
def test_failed_build_has_the_score_0_and_other_errors_have_none(options, kind):
    report = make_report(kind, options)

    summary = report["summary"]
    totals = (summary["total_score"], summary["success_rate"])
    assert {*totals, summary["by_category"]["x"]["total_score"]} == {SCORES[kind]}
    assert report["test_results"][0]["status"] == "not_run"


def test_failed_build_has_its_log_and_builder_even_if_the_engine_is_lost_then(
    fake, evaluate, monkeypatch
):
    monkeypatch.setattr(de, "RECOVERY_TIMEOUT", 0.2)
    fake.fault("version", since=2)  # after the build

    report = evaluate(["FROM x", "RUN exit 3"], TRUE)

    assert report["error"]["kind"] == "engine"
    assert report["environment"]["builder"] == "legacy"
    assert "last words of the build" in report["build"]["log"]


# JUnit


OUTCOMES = [
    {**TRUE, "id": "good"},
    run_command("printf 'a\\001\\377]]>&<b>\\n'; false", id="bad"),
    run_command("echo begun; sleep 60", id="late", timeout=2),
    SUITE,
    {**TRUE, "id": "after", "requires": ["bad"]},
    {**TRUE, "id": "lost", "requires": ["none"]},
]
ELEMENTS = {
    "good": [],
    "bad": ["failure", "system-out"],
    "late": ["failure", "system-out"],
    "part": ["failure", "system-out"],
    "after": ["skipped"],
    "lost": ["error"],
}


def test_junit_has_a_testcase_for_each_test(fake, evaluate):
    evaluate(["FROM x"], *OUTCOMES, junit="deep/junit.xml")

    suite = ElementTree.parse("deep/junit.xml").getroot()
    found = {case.get("name"): [child.tag for child in case] for case in suite}
    assert found == ELEMENTS
    totals = {"tests": "6", "failures": "3", "errors": "1", "skipped": "1"}
    assert suite.attrib.items() >= totals.items()
    _, bad, _, part, *_ = suite
    assert bad[0].get("message").startswith("exit code 1, expected 0: ")
    assert bad[1].text == "a\ufffd\ufffd]]>&<b>\n"  # without what XML forbids
    assert part[0].get("message") == "118 of 120, exit code 4"


def test_junit_of_a_failed_build_has_the_model_and_an_error_in_each_testcase_and_the_log(options):
    report = make_report("build", options)
    report["dockerfile"] = "artifacts/atlas/app.dockerfile"
    report["build"]["log"] = "\x1b[91mthe log\x1b[0m"

    case, log = ElementTree.fromstring(de.as_junit(report))

    assert case.get("classname") == "artifacts/atlas/app.run_command"
    assert [(element.tag, element.text) for element in case] == [("error", "not run (build error)")]
    assert (log.tag, log.text) == ("system-out", "why\nthe log")


# Files


@pytest.mark.parametrize("option", ["output", "junit"])
def test_protected_folder_is_an_error_before_docker_is_started(fake, evaluate, monkeypatch, option):
    monkeypatch.setattr(os, "access", lambda *_: False)  # these tests may run as root

    with pytest.raises(de.EvaluationError):
        evaluate(["FROM x"], TRUE, **{option: "report"})

    assert fake.names() == []


def test_report_is_written_as_strict_json_in_a_new_folder(fake, evaluate):
    report = evaluate(["FROM x"], run_command("echo €"), output="deep/er/report.json")

    text = Path("deep/er/report.json").read_text(encoding="utf-8")
    assert json.loads(text) == report
    assert '"output": "€\\n"' in text


def test_failed_write_leaves_the_old_file_and_no_other(monkeypatch):
    Path("report.json").write_text("old")
    monkeypatch.setattr(os, "replace", mock.Mock(side_effect=OSError))

    with pytest.raises(de.EvaluationError):
        de.write_file("report.json", "new")

    assert Path("report.json").read_text() == "old"
    assert os.listdir(".") == ["report.json"]


def test_report_can_be_a_pipe():
    """Such as --output >(jq .summary)."""
    reader, writer = os.pipe()

    de.write_file(f"/dev/fd/{writer}", "text")

    assert os.read(reader, 9) == b"text"


def test_score_that_cannot_be_set_aside_is_not_replaced(options):
    de.write_reports(make_report([], options), options)
    os.makedirs(f"{options.output}.previous/x")

    problems = de.write_reports(make_report("engine", options), options)

    assert de.is_scored(de.read_report(options.output))
    assert len(problems) == 1


# A score is not lost


@pytest.mark.parametrize(
    ("there", "new", "is_kept"),
    [
        ([], "build", False),  # a failed build has a score
        ([], "engine", True),
        ("build", "interrupted", True),
        ("registry", "engine", False),
    ],
)
def test_report_without_a_score_moves_one_with_a_score_and_links_stay(options, there, new, is_kept):
    os.symlink("elsewhere.json", options.output)
    earlier, later = (make_report(each, options) for each in (there, new))

    for report in (earlier, later):
        de.write_reports(report, options)

    file = os.readlink(options.output)
    folder = os.path.dirname(options.output)
    assert de.read_report(f"{folder}/{file}.previous") == (earlier if is_kept else None)
    assert de.read_report(f"{folder}/{file}") == later


@pytest.mark.parametrize(("command", "is_warned"), [("false", True), ("true", False)])
def test_download_that_fails_in_a_build_that_succeeds_is_suspicious(
    fake, evaluate, command, is_warned
):
    log = "Step 1/1 : FROM x\ncurl: (6) Could not resolve host: a.b\n"
    fake.fault("build", "print", stdout=log)

    report = evaluate(["FROM x"], run_command(command))

    assert report["build"]["suspect"] == "network"
    assert ("resolve host: a.b" in str(report["warnings"])) is is_warned


IGNORED = {
    ("20.10.24", "COPY --chmod=+x a /"): True,
    ("27.5.1", "ADD --chmod=$MODE a /"): True,
    ("28.0.0", "COPY --chmod=+x a /"): False,
    ("20.10.24", "COPY --chmod=755 a /"): False,
    ("28.5.2", "RUN bash <<EOF\necho\nEOF"): True,
}


@pytest.mark.parametrize(("version", "lines"), IGNORED)
def test_what_an_older_builder_ignores_is_a_warning(version, lines):
    step = de.Step(de.INSTRUCTION, lines.partition("\n")[0])
    build = de.Build(0, builder=de.BUILDERS["legacy"], steps=[step])

    found = de.build_warnings(build, f"FROM x\n{lines}\n", {"docker_server": version})

    assert bool(found) is IGNORED[version, lines]
