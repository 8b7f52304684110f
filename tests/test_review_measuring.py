"""Measuring a rubric: what images without the work are given, and whether the solution gets all, each time."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from reviews import LOOK, PROGRAM, command, review

import DockerfileEvaluator as de

pytest_plugins = ["reviews"]


# Measuring, by a stand-in for the evaluation


MEASURED = [
    {"id": "shell_there", "type": "command_exists", "params": {"name": "sh"}, "requires": ["tool_works"]},
    {"id": "readme_exists", "type": "files_exist", "params": {"paths": ["README"]}, "score": 2},
    {**command("cmake --version"), "id": "builds", "score": 2},
    {**command('tool && test "$ROUND" -ne 2', shell="/bin/sh"), "id": "tests_pass", "score": 4},
    {**command("if true; then tool"), "id": "broken"},
    {**command("tool | grep -q works"), "id": "tool_works", "score": 5},
]
BARE = {"shell_there"}
COPIED = BARE | {"readme_exists"}
FAKED = COPIED | {"builds", "tool_works"}
SOLUTION = COPIED | {"tests_pass", "tool_works"}
TABLE = [
    "{}: 15 points      bare 1 (7 %)   copied 3 (20 %)   faked 10 (67 %)   solution 12 of 15, {} times",
    "free      shell_there    1 point   passes on busybox:stable: asks for nothing that has to be set up",
    "faked     builds         2 points  stub scripts that print the rubric's own strings pass",
    "faked     tool_works     5 points  stub scripts that print the rubric's own strings pass",
    "given     readme_exists  2 points  passes once the files are copied",
    "unsolved  builds         2 points  the solution does not pass: exit code 127 (command not found): /bin/sh: cmake: not found",
    "flaky     tests_pass     4 points  passed {} of {} times",
]
NO_SYNTAX = r"no-syntax broken         1 point   sh does not accept it \(.*\), so it cannot run to its end; try it in a shell"


class Evaluations:
    """Plays evaluate(): answers from lists, one for each image, and keeps what it was asked."""

    def __init__(self, answers, shell, workdir):
        self.answers = {
            image: list(all_) if isinstance(all_, list) else [all_] for image, all_ in answers.items()
        }
        self.shell, self.workdir = shell, workdir
        self.asked = []

    def __call__(self, dockerfile, repo, rubric, output=None, *, context, jobs=1, **options):
        image = os.path.basename(dockerfile).split(".")[0]
        image = image if image in ("bare", "copied", "faked") else "solution"
        with open(dockerfile) as file, open(rubric) as rubric_file:
            tests = json.load(rubric_file)["tests"]
            self.asked.append((image, file.read(), sorted(os.listdir(context)), jobs, tests, options))
        answer = self.answers[image].pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, dict):
            return answer
        rows = [self.row(test["id"], test["id"] in answer) for test in tests]
        assert tests[0]["params"] == {"command": "pwd", "exit_code": 1}
        rows[0].update(exit_code=0 if self.shell else 127, output=self.workdir + "\n")
        warnings = ["leftover: container x (the words)", "oddity: not this one's business"]
        return {"error": None, "test_results": rows, "warnings": warnings}

    @staticmethod
    def row(name, passed):
        message = "exit code 0" if passed else "exit code 127 (command not found): /bin/sh: cmake: not found"
        status = "passed" if passed else "failed"
        return {"test_id": name, "passed": passed, "status": status, "message": message}


@pytest.fixture
def files(tmp_path):
    """Make a folder with a project, and a solution beside it; return both paths."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "README").write_text("")
    solution = tmp_path / "solutions" / "solution.dockerfile"
    solution.parent.mkdir()
    solution.write_text(
        "FROM busybox:stable\nWORKDIR /srv\nworkdir app\nCOPY . .\n"
        "RUN printf '#!/bin/sh\\necho works\\n' >/bin/tool && chmod +x /bin/tool\n"
    )
    return ["--context", str(tmp_path / "project"), "--solution", str(solution)]


@pytest.fixture
def evaluations(monkeypatch):
    """Put a stand-in in the place of evaluate()."""

    def put(
        bare=frozenset(), copied=frozenset(), faked=frozenset(), solution=(), shell=True, workdir="/srv/app"
    ):
        answers = {"bare": bare, "copied": copied, "faked": faked, "solution": list(solution)}
        stand_in = Evaluations(answers, shell, workdir)
        monkeypatch.setattr(de, "evaluate", stand_in)
        return stand_in

    return put


def test_the_table_of_what_is_given_away(write, files, evaluations, capsys):
    stand_in = evaluations(BARE, COPIED, FAKED, [SOLUTION, SOLUTION - {"tests_pass"}, SOLUTION])
    rubric = write(*MEASURED)
    assert review.main([rubric, "--base", "busybox:stable", *files, "--repeat", "3"]) == 0
    out, err = capsys.readouterr()
    warning, *table, no_syntax, earned = out.splitlines()
    assert warning.startswith(
        f"warning: {rubric}: no-syntax: tests[4].params.command 'broken': sh does not accept"
    )
    assert table == "\n".join(TABLE).format(rubric, 3, 2, 3).splitlines()
    assert re.fullmatch(NO_SYNTAX, no_syntax)
    assert earned == "earned 4 of 15"
    assert [line for line in err.splitlines() if not line.startswith("leftover")] == [
        *[f"{rubric}: solution: {count} of 6 tests passed" for count in (4, 3, 4)],
        f"{rubric}: bare: 1 of 6 tests passed",
        f"{rubric}: copied: 2 of 6 tests passed",
        f"{rubric}: faked: 4 of 6 tests passed",
    ]
    assert err.count("leftover: container x (the words)\n") == 6
    assert [(image, context, jobs) for image, _, context, jobs, *_ in stand_in.asked] == [
        ("solution", ["README"], 1),
        ("solution", ["README"], 4),
        ("solution", ["README"], 1),
        ("bare", [], 1),
        ("copied", ["README"], 1),
        ("faked", ["stubs.tar"], 1),
    ]
    dockerfiles = {image: text for image, text, *_ in stand_in.asked}
    start = "FROM busybox:stable\nWORKDIR /srv/app\n"
    assert (dockerfiles["bare"], dockerfiles["copied"]) == (start, f"{start}COPY . .\n")
    assert dockerfiles["faked"].startswith(f"{start}ADD stubs.tar /\nENV PATH=/usr/local/bin:")
    assert "/bin/tool" in dockerfiles["solution"]
    for _, _, _, _, tests, _ in stand_in.asked:  # as in the rubric, but each by itself
        assert [test["id"] for test in tests[1:]] == [test["id"] for test in MEASURED]
        assert [test["params"] for test in tests[1:]] == [test["params"] for test in MEASURED]
        assert not any("requires" in test for test in tests)


def test_a_measurement_as_json_and_markdown(write, files, evaluations, tmp_path, capsys):
    evaluations(BARE, COPIED, FAKED, [SOLUTION, SOLUTION - {"tests_pass"}])
    rubric, output, table = write(*MEASURED), tmp_path / "new" / "review.json", tmp_path / "review.md"
    more = ["--output", str(output), "--markdown", str(table)]
    assert review.main([rubric, "--base", "busybox:stable", *files, "--repeat", "2", *more]) == 0
    ((one),) = json.loads(output.read_text())["rubrics"]
    assert (one["rubric"], one["repo"], one["tests"], one["points"], one["error"]) == (
        rubric,
        "r",
        6,
        15,
        None,
    )
    assert [(w["name"], w["test_id"]) for w in one["warnings"]] == [("no-syntax", "broken")]
    images = one["measured"]["images"]
    assert [(name, image["points"], image["times"]) for name, image in images.items()] == [
        ("bare", 1, 1),
        ("copied", 3, 1),
        ("faked", 10, 1),
        ("solution", 12, 2),
    ]
    assert one["measured"]["earned"] == 4
    assert images["solution"]["passed"] == {
        "shell_there": 2,
        "readme_exists": 2,
        "builds": 0,
        "tests_pass": 1,
        "broken": 0,
        "tool_works": 2,
    }
    why = "exit code 127 (command not found): /bin/sh: cmake: not found"
    assert {name: len(all_) for name, all_ in images["solution"]["failures"].items() if all_} == {
        "builds": 2,
        "tests_pass": 1,
        "broken": 2,
    }
    assert images["solution"]["failures"]["tests_pass"] == [why]
    assert [(row["kind"], row["test_id"], row["points"]) for row in one["measured"]["rows"]] == [
        ("free", "shell_there", 1),
        ("faked", "builds", 2),
        ("faked", "tool_works", 5),
        ("given", "readme_exists", 2),
        ("unsolved", "builds", 2),
        ("flaky", "tests_pass", 4),
        ("no-syntax", "broken", 1),
    ]
    rows = table.read_text().splitlines()
    assert rows[0] == "| rubric | tests | points | warnings | bare | copied | faked | solution | earned |"
    assert rows[2].endswith(" | 6 | 15 | 1 | 1 (7 %) | 3 (20 %) | 10 (67 %) | 12 of 15, 2 times | 4 of 15 |")
    assert [row.split(" | ")[1:4] for row in rows[6:]] == [
        ["broken", "no-syntax", ""],
        ["shell\\_there", "free", "1"],
        ["builds", "faked", "2"],
        ["tool\\_works", "faked", "5"],
        ["readme\\_exists", "given", "2"],
        ["builds", "unsolved", "2"],
        ["tests\\_pass", "flaky", "4"],
    ]


ALL = [{**LOOK, "id": f"t{at}"} for at in range(10)]
TEN = {test["id"] for test in ALL}


FIVE, SIX = ({f"t{at}" for at in range(count)} for count in (5, 6))


@pytest.mark.parametrize(
    ("bare", "copied", "faked", "solution", "reasons"),
    [
        ({"t0"}, {"t0", "t1", "t2"}, FIVE, [TEN, TEN], []),
        ({"t0", "t1"}, {"t0", "t1"}, set(), [TEN, TEN], ["the bare image gets 20 %, more than a tenth"]),
        (
            set(),
            {"t0", "t1", "t2", "t3"},
            set(),
            [TEN, TEN],
            ["the copied image gets 40 %, more than a third"],
        ),
        (set(), set(), SIX, [TEN, TEN], ["the faked image gets 60 %, more than a half"]),
        (set(), set(), set(), [TEN - {"t3"}, TEN - {"t3"}], ["1 unsolved"]),
        (set(), set(), set(), [TEN, TEN - {"t3", "t4"}], ["2 flaky"]),
    ],
)
def test_what_strict_has_against_a_rubric(
    write, files, evaluations, capsys, bare, copied, faked, solution, reasons
):
    rubric = write(*ALL)
    words = [rubric, "--base", "b", *files, "--repeat", "2"]
    evaluations(bare, copied, faked, solution)
    assert review.main(words) == 0
    evaluations(bare, copied, faked, solution)
    assert review.main([*words, "--strict"]) == (1 if reasons else 0)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("strict")]
    assert said == [f"strict: {rubric}: {reason}" for reason in reasons]


def test_a_test_is_named_for_each_thing_that_is_wrong_with_it(write, files, evaluations, capsys):
    evaluations({"t0"}, {"t0"}, {"t0", "t1"}, [TEN - {"t0"}])
    assert review.main([write(*ALL), "--base", "b", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    shares = "bare 1 (10 %)   copied 1 (10 %)   faked 2 (20 %)   solution 9 of 10, once"
    assert lines[0].endswith(f": 10 points      {shares}")
    assert [line.split()[:2] for line in lines[1:-1]] == [["free", "t0"], ["faked", "t1"], ["unsolved", "t0"]]
    assert lines[2].endswith("  stubs of these names pass")
    assert lines[-1] == "earned 8 of 10"


def test_what_is_not_measured_is_said(write, evaluations, capsys):
    stand_in = evaluations([{"t0"}, {"t0"}], faked=[{"t1"}, {"t1"}])
    assert review.main([write(*ALL), "--base", "b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(": 10 points      bare 1 (10 %)   faked 1 (10 %)")
    assert lines[-1] == "not measured: copied (no --context), solution (no --solution)"
    assert stand_in.asked[0][1] == "FROM b\nWORKDIR /workspace\n"
    assert review.main([write(*ALL), "--base", "b", "--workdir", "/my app"]) == 0
    assert stand_in.asked[2][1] == "FROM b\nWORKDIR /my app\n"


def test_the_workdir_is_that_of_the_solutions_image(write, files, evaluations):
    stand_in = evaluations(solution=[TEN], workdir="/srv/$x \\y")
    assert review.main([write(*ALL), "--base", "b", *files]) == 0
    assert stand_in.asked[1][1] == "FROM b\nWORKDIR /srv/\\$x \\\\y\n"
    stand_in = evaluations(solution=[TEN])
    assert review.main([write(*ALL), "--base", "b", *files, "--workdir", "/other"]) == 0
    assert stand_in.asked[1][1] == "FROM b\nWORKDIR /other\n"


@pytest.fixture
def benchmark(write, tmp_path):
    """Make two rubrics, a checkout and a solution of the first, and a checkout of the second; return words."""
    for name in ("one", "two"):
        (tmp_path / "checkouts" / name).mkdir(parents=True)
    (tmp_path / "solutions" / "one").mkdir(parents=True)
    (tmp_path / "solutions" / "one" / "Dockerfile").write_text("FROM x\n")
    (tmp_path / "checkouts" / "one" / "README").write_text("")
    paths = [
        "--context",
        f"{tmp_path}/checkouts/{{repo}}",
        "--solution",
        f"{tmp_path}/solutions/{{repo}}/Dockerfile",
    ]
    return [write(*ALL, name="one.json"), write(*ALL, name="two.json"), "--base", "b", *paths]


def test_one_command_measures_a_whole_benchmark(benchmark, evaluations, tmp_path, capsys):
    stand_in = evaluations([{"t0"}, set()], [{"t0"}, {"t0", "t1"}], [{"t2"}, FIVE], [TEN])
    assert review.main(benchmark) == 0
    out = capsys.readouterr().out.splitlines()
    assert [image for image, *_ in stand_in.asked] == [
        "solution",
        "bare",
        "copied",
        "faked",
        "bare",
        "copied",
        "faked",
    ]
    assert [context for image, _, context, *_ in stand_in.asked if image != "faked"] == [
        ["README"],
        [],
        ["README"],
        [],
        [],
    ]
    assert [line for line in out if line.startswith("not measured")] == [
        f"not measured: solution (no {tmp_path}/solutions/two/Dockerfile)"
    ]
    assert out[-1] == (
        "2 rubrics: 20 tests, 20 points, 0 warnings, bare 1 (5 %), copied 3 (15 %), faked 6 (30 %), "
        "solution 10 of 10, once, earned 8 of 10"
    )


def test_a_checkout_that_is_not_there_is_named_too(benchmark, evaluations, tmp_path, capsys):
    (tmp_path / "checkouts" / "two").rmdir()
    evaluations([set(), set()], [set()], [set(), set()], [TEN])
    assert review.main([*benchmark, "--solution-context", f"{tmp_path}/nosuch/{{repo}}"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("not measured")] == [
        f"not measured: solution (no {tmp_path}/nosuch/one)",
        f"not measured: copied (no {tmp_path}/checkouts/two), solution (no {tmp_path}/nosuch/two)",
    ]


def test_a_file_without_repo_in_its_path_must_be_there(write, tmp_path, capsys):
    for flag, what in (("--context", "folder"), ("--solution", "Dockerfile")):
        assert review.main([write(*ALL), "--base", "b", flag, str(tmp_path / "missing")]) == 1
        assert f"missing: no such {what}" in capsys.readouterr().err


def test_the_evaluators_options_reach_every_evaluation_and_faked_has_no_network(write, files, evaluations):
    stand_in = evaluations(solution=[TEN])
    network = ["--network=host", "--net=host", "--ip=10.0.0.2", "--network-alias=x", "--link=y"]
    more = ["--engine", "ssh://lab", "--docker", "podman", "--wait", "60", "--build-option=--no-cache"]
    words = [
        write(*ALL),
        "--base",
        "b",
        *files,
        *more,
        *(f"--run-option={word}" for word in (*network, "--memory=1g")),
    ]
    assert review.main(words) == 0
    same = {"engine": "ssh://lab", "docker": "podman", "wait": 60.0, "build_options": ["--no-cache"]}
    assert {image: options for image, *_, options in stand_in.asked} == {
        **{
            image: {**same, "run_options": [*network, "--memory=1g"]}
            for image in ("solution", "bare", "copied")
        },
        "faked": {**same, "run_options": ["--memory=1g", "--network=none"]},
    }


def fault(kind):
    return {"error": {"kind": kind, "message": "the words"}, "test_results": []}


NO_VERDICT = {"test_id": "t0", "passed": False, "status": "error", "message": "the words"}
PROBED = {
    "test_id": "where_it_is__",
    "passed": False,
    "status": "failed",
    "exit_code": 0,
    "output": "/",
    "message": "",
}


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({"bare": fault("engine")}, "the bare image was not measured (engine): the words"),
        ({"copied": fault("usage")}, "the copied image was not measured (usage): the words"),
        ({"faked": fault("registry")}, "the faked image was not measured (registry): the words"),
        ({"solution": [fault("build")]}, "the solution image cannot be built: the words"),
        ({"solution": [TEN, fault("build_timeout")]}, "the solution image cannot be built: the words"),
        (
            {"bare": {"error": None, "test_results": [PROBED, NO_VERDICT]}},
            "the bare image was not measured: t0: the words",
        ),
        ({"bare": [de.EvaluationError("the words")]}, "the words"),
    ],
)
def test_a_fault_while_measuring_is_no_measurement(
    write, files, evaluations, tmp_path, capsys, answers, says
):
    evaluations(**{"solution": [TEN, TEN], **answers})
    rubric, output = write(*ALL), tmp_path / "review.json"
    assert review.main([rubric, "--base", "b", *files, "--repeat", "2", "--output", str(output)]) == 1
    out, err = capsys.readouterr()
    assert out == f"{rubric}: 10 tests, 10 points, 0 warnings\n"
    assert err.splitlines()[-1] == f"error: {says}"
    ((one),) = json.loads(output.read_text())["rubrics"]
    assert (one["error"], "measured" in one) == (says, False)


def test_a_base_on_which_no_command_runs_is_named(write, evaluations, capsys):
    evaluations(shell=False)
    assert review.main([write(*ALL), "--base", "b"]) == 1
    said = capsys.readouterr().err
    assert (
        "error: the bare image was not measured: not even the command 'pwd' succeeds: exit code 127" in said
    )


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupt_cleans_up(fake, write, tmp_path, number, code):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    rubric = write(command("sleep 600"))
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), rubric, "--base", "x"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    deadline = time.monotonic() + 60
    while not fake.calls("run"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    program.send_signal(number)
    out, err = program.communicate(timeout=60)
    assert (program.returncode, out) == (code, b"")
    assert err.decode().splitlines()[-1] == "error: interrupted"
    assert fake.left() == []
    assert list(temporary.iterdir()) == []


# On a real engine


@pytest.fixture
def rounds(monkeypatch):
    """Tell each container of a solution its number, from 1: something that differs between them."""
    real, calls = de.evaluate, []

    def evaluate(dockerfile, *words, **options):
        calls.append(options.get("jobs", 1))
        more = [f"--env=ROUND={len(calls)}"] if dockerfile.endswith("solution.dockerfile") else []
        options["run_options"] = [*options["run_options"], *more]
        return real(dockerfile, *words, **options)

    monkeypatch.setattr(de, "evaluate", evaluate)
    return calls


@pytest.mark.long("five images")
def test_every_fault_of_a_rubric_is_measured(clean_engine, write, files, rounds, capsys):
    rubric = write(*MEASURED)
    assert review.main([rubric, "--base", "busybox:stable", *files, "--repeat", "2", "--strict"]) == 1
    out, err = capsys.readouterr()
    _, *table, no_syntax, earned = out.splitlines()
    assert table[0] == (
        f"{rubric}: 15 points      bare 1 (7 %)   copied 3 (20 %)   faked 5 (33 %)   solution 12 of 15, 2 times"
    )
    assert [line.split()[:2] for line in table[1:]] == [
        ["free", "shell_there"],
        ["faked", "builds"],
        ["given", "readme_exists"],
        ["unsolved", "builds"],
        ["flaky", "tests_pass"],
    ]
    assert re.match(r"unsolved +builds +2 points  the solution does not pass: exit code 127.*cmake", table[4])
    assert table[5].endswith("passed 1 of 2 times")
    assert re.fullmatch(NO_SYNTAX, no_syntax)
    assert earned == "earned 9 of 15"
    assert rounds == [1, 4, 1, 1, 1]
    assert [line for line in err.splitlines() if line.startswith("strict")] == [
        f"strict: {rubric}: {reason}" for reason in ("1 warning", "1 unsolved", "1 flaky")
    ]


DRAW = {"a": [1000, 9999], "b": [1000, 9999]}
ASKED = [
    {"type": "command_exists", "params": {"name": "java"}},
    {"type": "commands_exist", "params": {"names": ["make", "./gradlew", "g++"]}},
    {"type": "envvar_set", "params": {"name": "JAVA_HOME"}},
    {"type": "files_exist", "params": {"paths": ["src/main.c", "/opt/x/y", "/bin/made"]}},
    {"type": "dirs_exist", "params": {"paths": ["src", "/opt/x", "/lib", "tests/"]}},
    {
        "type": "file_contains",
        "params": {"path": "src/it's", "contains": ['it\'s "$x" \\n', "a\nb"], "match": "all"},
    },
    command("java -version", contains=['"17.', "it's"], match="all"),
    command("cd build && ./tool --check && test -f log/out"),
    command(
        '"$JAVA_HOME/bin/java" -version && test -d docs && test -s config.ini && /opt/venv/bin/python -c x'
    ),
    command("make test 2>&1 | jq -e .nosuch"),
    command("g++ -o /tmp/x x.cpp && /tmp/x"),
]
HELD = [
    command("java Product {a} {b}", contains=["{a*b}"], draw=DRAW),
    command("java nosuch", exit_code=3),
    command("test $(make -s count) -gt 5"),
    {"type": "files_exist", "params": {"paths": ["/proc/1/nosuch", "/dev/nosuch", "/sys/nosuch"]}},
]


@pytest.mark.parametrize(
    ("builder", "base"), [("legacy", "debian:bookworm-slim"), ("buildkit", "busybox:stable")]
)
def test_stubs_of_names_pass_what_asks_for_names(request, clean_engine, write, capsys, base, builder):
    request.getfixturevalue(builder)
    assert review.main([write(*ASKED, *HELD), "--base", base, "--run-option=--network=host"]) == 0
    lines = capsys.readouterr().out.splitlines()
    given = [line.split()[1] for line in lines if line.split()[0] in ("free", "faked")]
    assert given == [f"{test['type']}_{at}" for at, test in enumerate(ASKED, 1)]


def test_the_faked_image_has_no_network(bridge, clean_engine, write, capsys):
    network = [command("test ! -e /sys/class/net/eth0 && test -e /sys/class/net/lo")]
    assert review.main([write(*network), "--base", "busybox:stable", "--run-option=--network=bridge"]) == 0
    kinds = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert kinds[1] == "faked"


def test_a_base_without_a_shell_is_told_plainly(clean_engine, write, capsys):
    assert review.main([write(LOOK), "--base", "scratch"]) == 1
    said = capsys.readouterr().err
    assert "the bare image was not measured: not even the command 'pwd' succeeds: " in said
    assert "/bin/sh" in said
