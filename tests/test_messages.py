"""What the report says: the line that a person would quote, and all that is needed to read it."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess

import pytest
from cases import LOOK, TRUE, run_command
from conftest import PROGRAM, schema, statuses
from said import ADVERTISING, APT, BUILT, COPIES, FAILED_BUILDS, INSTALL, QUOTED

import DockerfileEvaluator as de

# Builds


@pytest.mark.parametrize("builder", sorted(FAILED_BUILDS))
def test_a_failed_build_is_told_by_its_step_its_exit_code_and_its_cause(fake, evaluate, builder):
    fake.fault("build", "fail", **FAILED_BUILDS[builder])
    report = evaluate(["FROM x"], TRUE, LOOK)
    step = r"step 3 of 6 \(RUN apt-get update && [^)]*\)"
    message = report["build"]["message"]
    assert re.fullmatch(f"{step}: exit code 100: E: Unable to locate package libanl-dev", message)
    assert report["error"]["kind"] == "build"
    assert message in report["error"]["message"]
    assert [row["message"] for row in report["test_results"]] == ["not run: the build failed"] * 2


def test_a_failed_build_on_podmans_engine_is_told_by_dockers_command_line_too(fake, evaluate):
    """The head is the legacy builder's, the steps are podman's: seen with docker 28.2 and podman 4.3."""
    steps = f"STEP 1/9: FROM x\nSTEP 2/9: ENV A=1\n--> 449e803ba92\nSTEP 3/9: {INSTALL}\n{APT}"
    out = f"Sending build context to Docker daemon  3.072kB\r\r\n{steps}"
    end = f'building at STEP "{INSTALL}": while running runtime: exit status 100'
    fake.fault("build", "fail", stdout=out, stderr=end)
    message = evaluate(["FROM x"], TRUE)["build"]["message"]
    assert re.match(r"step 3 of \d \(RUN apt-get update && ", message)
    assert message.endswith(": exit code 100: E: Unable to locate package libanl-dev")


def test_a_long_step_is_cut_and_its_cause_is_not(fake, evaluate):
    log = FAILED_BUILDS["legacy"]
    long = f"RUN {'apt-get install -y something && ' * 40}false"
    texts = {
        key: log[key].replace(INSTALL, long).replace(INSTALL[4:], long[4:]) for key in ("stdout", "stderr")
    }
    fake.fault("build", "fail", **texts, code=100)
    message = evaluate(["FROM x"], TRUE)["build"]["message"]
    assert re.match(r"step 3 of 6 \(RUN apt-get install -y something && .*…\): exit code 100: ", message)
    assert message.endswith(": E: Unable to locate package libanl-dev")
    assert len(message) < 300


@pytest.mark.parametrize("builder", sorted(COPIES))
def test_a_missing_source_is_told_with_its_step_and_the_context(fake, evaluate, builder):
    fake.fault("build", "fail", **COPIES[builder])
    report = evaluate(["FROM x"], TRUE)
    message = report["build"]["message"]
    assert message.startswith("step 2 of 2 (COPY nosuch /app): ")
    assert re.search("(stat |/)nosuch.*(not found|does not exist)", message)
    assert "/context" in message
    assert "--context" in message
    assert report["error"]["kind"] == "build"


PARSE_ERROR = "dockerfile parse error line 2: unknown instruction: RUNN"


def test_a_dockerfile_that_is_none_is_told_in_dockers_words(fake, evaluate):
    words = f"{ADVERTISING}Error response from daemon: {PARSE_ERROR}"
    fake.fault("build", "fail", stdout="Sending build context to Docker daemon  3.072kB\r\r\n", stderr=words)
    report = evaluate(["FROM x"], TRUE)
    assert report["error"]["kind"] == "build"
    assert report["build"]["message"].endswith(PARSE_ERROR)
    assert "step" not in report["build"]["message"]
    assert report["test_results"][0]["message"] == "not run: the build failed"


def test_the_log_is_free_of_advertising_and_of_colors(fake, evaluate):
    fake.fault("build", "say", stdout=BUILT, stderr=ADVERTISING)
    report = evaluate(["FROM x"], TRUE)
    log = report["build"]["log"]
    assert statuses(report) == {"run_command_1": "passed"}
    assert re.findall(r"^Step (\d+/\d+) : (\w+)", log, re.MULTILINE) == [
        ("1/6", "FROM"),
        ("2/6", "ENV"),
        ("3/6", "RUN"),
        ("4/6", "LABEL"),
        ("5/6", "COPY"),
        ("6/6", "WORKDIR"),
    ]
    assert "npm WARN old\nDEPRECATED: gulp-util\n" in log
    for gone in ("\x1b", "legacy builder", "go/buildx"):
        assert gone not in log


CAUSE = "ModuleNotFoundError: No module named 'numpy'"
ADVICE = [f"hint: {number:03} {'try something else ' * 20}" for number in range(80)]
LEGACY_STEPS = (
    "Step 1/3 : FROM x\nStep 2/3 : RUN echo of another step\nof another step\nStep 3/3 : RUN ./make\n"
)
BUILDKIT_STEPS = "#4 [1/3] FROM x\n#5 [2/3] RUN echo\n#5 0.1 of another step\n#6 [3/3] RUN ./make\n"


@pytest.mark.parametrize("builder", ["legacy", "buildkit"])
def test_the_log_keeps_the_head_of_the_step_that_failed_where_advice_follows_it(fake, evaluate, builder):
    if builder == "legacy":
        text = "\n".join([CAUSE, *ADVICE])
        end = "The command '/bin/sh -c ./make' returned a non-zero code: 1"
        fake.fault("build", "fail", stdout=f"{LEGACY_STEPS}{text}\n", stderr=end)
    else:
        text = "\n".join(f"#6 0.2 {line}" for line in [CAUSE, *ADVICE])
        end = 'failed to solve: process "/bin/sh -c ./make" did not complete successfully: exit code: 1'
        log = f"#1 [internal] load build definition\n{BUILDKIT_STEPS}{text}\n#6 ERROR: x\nERROR: {end}"
        fake.fault("build", "fail", stderr=log)
    log = evaluate(["FROM x"], TRUE)["build"]["log"]
    head, _, tail = log.partition("[…]")
    assert CAUSE in head
    assert "of another step" not in log
    assert ADVICE[-1] in tail
    assert end in tail
    assert len(log) < 20_000


def test_a_short_log_is_not_told_twice(fake, evaluate):
    fake.fault("build", "fail", stdout=f"{LEGACY_STEPS}{CAUSE}\n", stderr="returned a non-zero code: 1")
    log = evaluate(["FROM x"], TRUE)["build"]["log"]
    assert (log.count(CAUSE), "[…]" in log) == (1, False)


# Commands


def test_a_failed_command_is_told_by_the_line_that_a_person_would_quote(fake, evaluate):
    """However much it printed, and in whatever pieces it came."""
    tests = []
    for at, (name, (output, _)) in enumerate(QUOTED.items()):
        (fake.root / f"{at}.txt").write_text(output)
        tests.append({"id": name, "type": "run_command", "params": {"command": f"cat {at}.txt; exit 7"}})
    rows = evaluate(["FROM x"], *tests)["test_results"]
    told = {row["test_id"]: row["message"][:100] for row in rows}
    lines = {name: line.replace("\u2009", "\\u2009") or "no output" for name, (_, line) in QUOTED.items()}
    assert told == {name: f"exit code 7: {line}"[:100] for name, line in lines.items()}


SYNTAX = "(a syntax error in the rubric's command)"


@pytest.mark.parametrize(
    ("text", "params", "blamed"),
    [
        ("if", {}, True),
        ("echo 'open", {}, True),
        ("if", {"shell": "/bin/bash"}, True),
        ("cat made.txt; exit 2", {}, False),
        ("echo 'x.c:1:1: error: syntax error before if'; exit 2", {}, False),
        ("python3 -c 'if'; exit 2", {}, False),
        ("sh ./broken.sh", {}, False),
        ("echo before; eval if", {}, False),
    ],
)
def test_a_syntax_error_is_the_rubrics_only_by_the_shells_own_and_only_words(
    fake, evaluate, text, params, blamed
):
    (fake.root / "made.txt").write_text(
        "parse.y:3: syntax error, unexpected IDENT\nmake: *** [all] Error 1\n"
    )
    (fake.root / "broken.sh").write_text("if\n")
    row = evaluate(["FROM x"], ("run_command", {"command": text, **params}))["test_results"][0]
    assert (row["exit_code"], SYNTAX in row["message"]) == (2, blamed), row["message"]


# Rows, environment, first line


def test_each_row_has_its_params_as_the_rubric_gives_them(fake, evaluate):
    tests = [
        ("run_command", {"command": "exit 3", "exit_code": "any", "shell": "/bin/sh"}),
        ("output_contains", {"command": "echo größe", "contains": ["größe"], "match": "all"}),
        ("files_exist", {"paths": ["/etc/passwd", "/no"]}),
        {"type": "run_command", "params": {"command": "true"}, "requires": ["nobody"]},
    ]
    report = evaluate(["FROM x"], *tests)
    params = [test[1] if isinstance(test, tuple) else test["params"] for test in tests]
    assert [row["params"] for row in report["test_results"]] == params
    failed = evaluate(["FROM x", "RUN FAIL"], *tests)
    assert [row["params"] for row in failed["test_results"]] == params


def test_a_command_that_was_retried_alone_says_so(fake, evaluate, tmp_path):
    late = f"echo run >>{tmp_path}/log; if test $(wc -l <{tmp_path}/log) = 1; then sleep 600; fi"
    tests = [
        {"id": "late", "type": "run_command", "params": {"command": late}, "timeout": 2},
        {"id": "beside", "type": "run_command", "params": {"command": "sleep 4"}},
        {**LOOK, "id": "look"},
    ]
    report = evaluate(["FROM x"], *tests, jobs=2)
    rows = {row["test_id"]: (row["status"], row["retried"]) for row in report["test_results"]}
    assert rows == {"late": ("passed", True), "beside": ("passed", False), "look": ("passed", False)}


def test_a_command_that_timed_out_with_no_other_beside_it_was_not_retried(fake, evaluate, short_limits):
    slow = {"type": "run_command", "params": {"command": "sleep 60"}, "timeout": 1}
    (row,) = evaluate(["FROM x"], slow)["test_results"]
    assert (row["status"], row["retried"]) == ("timeout", False)


def test_the_environment_tells_what_was_asked_for_and_what_was_built(fake, evaluate, dockerfile):
    fake.write("config", {"Env": ["PATH=/bin"]})
    context = os.path.dirname(dockerfile("FROM x"))
    options = {"build_options": ["--network=host", "--no-cache"], "run_options": ["--memory=2g", "-u0"]}
    report = evaluate(["FROM x"], TRUE, context=os.path.relpath(context), **options)
    environment = report["environment"]
    assert environment["context"] == os.path.relpath(context)
    assert environment["build_options"] == ["--network=host", "--no-cache"]
    assert environment["run_options"] == ["--memory=2g", "-u0"]
    assert environment["image_id"] == "sha256:" + "1d" * 32
    assert environment["layers"] == ["sha256:" + "5a" * 32, "sha256:" + "6b" * 32]


def test_of_options_that_can_hold_secrets_the_report_has_no_value(fake, evaluate):
    build = ["--build-arg=TOKEN=s3cret", "--secret=id=s3cret,src=/s3cret"]
    build += ["--cache-to=type=s3,secret_access_key=s3cret", "--creds=me:s3cret"]
    run = ["--env=TOKEN=s3cret", "-eTOKEN=s3cret", "-e=s3cret", "--env-file=/s3cret", "-PeTOKEN=s3cret"]
    report = evaluate(["FROM x"], TRUE, build_options=build, run_options=run)
    assert set(build) < set(fake.calls("build")[0])
    assert "s3cret" not in json.dumps(report)
    environment = report["environment"]
    shown = [*environment["build_options"], *environment["run_options"]]
    flags = ["--build-arg", "--secret", "--cache-to", "--creds", "--env", "-e", "-e", "--env-file", "-Pe"]
    assert [word.startswith(flag) for word, flag in zip(shown, flags)] == [True] * len(flags)


def test_the_first_line_says_what_is_built_while_it_is_built(fake, dockerfile, rubric):
    path = dockerfile("FROM x", "RUN SLEEP")
    words = ["--dockerfile", path, "--rubric", rubric(TRUE), "--repo", "r"]
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    fake_build = os.path.join(str(fake.folder), "calls")
    try:
        first = read_line(process, seconds=20)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert first.startswith("building ")
    assert path in first
    assert os.path.exists(fake_build)


def read_line(process, seconds):
    """Return a line as soon as it is there, "" where none comes."""
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    return process.stdout.readline().decode() if ready else ""


def test_the_schema_asks_for_all_that_is_promised(fake, evaluate):
    report = evaluate(["FROM x"], TRUE, ("run_command", {"command": "false"}))
    places = [report, report["build"], report["environment"], report["test_results"][0]]
    for place in places:
        for key in list(place):
            value = place.pop(key)
            assert not schema("report").is_valid(report), key
            place[key] = value
    promised = {"context", "build_options", "run_options", "options_sha256", "image_id", "layers"}
    assert promised | {"engine_cpus", "engine_memory"} < set(report["environment"])
    assert {"params", "retried"} < set(report["test_results"][0])
    for kind in ("build", "build_timeout", "engine", "registry", "usage", "interrupted"):
        report["error"] = {"kind": kind, "message": "x"}
        schema("report").validate(report)
    report["error"] = {"kind": "another", "message": "x"}
    assert not schema("report").is_valid(report)


# Faults of a rubric


def faults(file, capsys):
    assert de.main(["--check", "--rubric", file]) == 1
    start = f"error: {file}: "
    lines = capsys.readouterr().err.splitlines()
    return [line[len(start) :] for line in lines if line.startswith(start)]


def test_a_fault_names_the_place_and_the_id(rubric, capsys):
    wrong = [
        TRUE,
        {"id": "java_home", "type": "envvar_set", "params": {"nam": "JAVA_HOME"}},
        {"id": "late", "type": "run_command", "params": {"command": "true", "exit_code": 300}, "timeout": 0},
        {"id": "files", "type": "files_exists", "params": {"paths": []}},
        {"id": "paths", "type": "files_exist", "params": {"paths": ["a", ""]}},
        {"id": "java_home", "type": "envvar_set", "params": {"name": "X"}},
        {"type": "run_command", "params": {"command": "true"}, "score": -1},
    ]
    found = faults(rubric(*wrong), capsys)
    for start in (
        "tests[1] 'java_home'.params.name: missing",
        "tests[1] 'java_home'.params: unknown key 'nam' (did you mean 'name'?)",
        "tests[2] 'late'.timeout: expected a number of seconds over 0",
        "tests[2] 'late'.params.exit_code: expected a whole number",
        "tests[3] 'files'.type: unknown test type 'files_exists' (did you mean 'files_exist'?)",
        "tests[4] 'paths'.params.paths[1]: expected a string",
        "tests[5] 'java_home'.id: 'java_home' is the id of tests[1] too",
        "tests[6].score: expected a number",
    ):
        assert [fault for fault in found if fault.startswith(start)], (start, found)
    assert len(found) == 8


def test_a_fault_says_where_a_misplaced_key_belongs(rubric, capsys):
    wrong = [
        {"id": "beside", "type": "run_command", "command": "true"},
        {"id": "both", "type": "run_command", "params": {"command": "true"}, "exit_code": 3},
        {"id": "inside", "type": "run_command", "params": {"command": "true", "timeout": 3}},
    ]
    found = faults(rubric(*wrong), capsys)
    for place, key in (("tests[0] 'beside'", "command"), ("tests[1] 'both'", "exit_code")):
        assert [f for f in found if f.startswith(place) and f"'{key}'" in f and "belongs into params" in f], (
            found
        )
    (inside,) = [fault for fault in found if fault.startswith("tests[2] 'inside'")]
    assert "'timeout'" in inside
    assert "belongs" in inside


def test_an_unknown_id_in_requires_gets_the_nearest_one(fake, evaluate, rubric, capsys):
    tests = [
        {"id": "java_home", "type": "envvar_set", "params": {"name": "PATH"}},
        {"id": "compiles", "type": "run_command", "params": {"command": "true"}, "requires": ["java_hom"]},
    ]
    row = evaluate(["FROM x"], *tests)["test_results"][1]
    assert row["status"] == "unresolvable"
    assert "'java_hom'" in row["message"]
    assert "did you mean 'java_home'?" in row["message"]
    de.main(["--check", "--rubric", rubric(*tests)])
    out, err = capsys.readouterr()
    assert "did you mean 'java_home'?" in out + err


def test_numbers_and_lines_without_end_are_no_trouble(fake, evaluate):
    fake.write("config", {"Env": ["A=a\x85b"]})
    digits = "9" * 5000
    fake.fault("build", "say", stdout=f"Step 1/1 : FROM x\nStep 1/{digits} : RUN x\n")
    slow = "= " + "in 1s " * 20_000 + "=====x"
    tests = [run_command(f"echo '{slow}'; false"), run_command("true")]
    report = evaluate(["FROM x"], *tests)
    assert list(statuses(report).values()) == ["failed", "passed"]
    judged = de.CHECKS["files_exist"](de.Fields({"paths": ["x"]}, "", [])).judge(
        de.Run(de.FINISHED, status=1, output=f"missing {digits}\nbad {digits}\n")
    )
    assert judged.status == "failed"
