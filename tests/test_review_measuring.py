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


@pytest.fixture
def write(tmp_path):
    """Write a rubric; return its path."""

    def make(*tests, repo="r", name="rubric.json"):
        file = tmp_path / name
        file.write_text(json.dumps({**({"repo": repo} if repo else {}), "tests": tests}))
        return str(file)

    return make


# Measuring, by a stand-in for the evaluation


MEASURED = [
    {"id": "shell_there", "type": "command_exists", "params": {"name": "sh"}, "requires": ["tool_works"]},
    {"id": "readme_exists", "type": "files_exist", "params": {"paths": ["README"]}, "score": 2},
    {**command("cmake --version"), "id": "builds", "score": 2},
    {**command('tool && test "$ROUND" -ne 6', shell="/bin/sh"), "id": "tests_pass", "score": 4},
    {**command("if true; then tool"), "id": "broken"},
    {**command("tool | grep -q works"), "id": "tool_works", "score": 5},
]
EVERYTHING = {test["id"] for test in MEASURED}
BARE = {"shell_there"}
COPIED = BARE | {"readme_exists"}
SOLUTION = COPIED | {"tests_pass", "tool_works"}
TABLE = [
    "{}: 15 points      bare 1 (7 %)   copied 3 (20 %)   solution 12 of 15, {} times",
    "free      shell_there    1 point   passes on busybox:stable: asks for nothing that has to be set up",
    "given     readme_exists  2 points  passes once the files are copied",
    "unsolved  builds         2 points  the solution does not pass: exit code 127 (command not found): /bin/sh: cmake: not found",
    "flaky     tests_pass     4 points  passed {} of {} times",
]
NO_SYNTAX = r"no-syntax broken         1 point   sh does not accept it \(.*\), so it cannot run to its end; try it in a shell"


class Evaluations:
    """Plays evaluate(): answers from a list, and keeps what it was asked."""

    def __init__(self, *answers, shell=True):
        self.answers = list(answers)
        self.shell = shell
        self.asked = []

    def __call__(self, dockerfile, repo, rubric, output=None, *, context, jobs):
        with open(dockerfile) as file, open(rubric) as rubric_file:
            tests = json.load(rubric_file)["tests"]
            self.asked.append((file.read(), sorted(os.listdir(context)), jobs, tests))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        if isinstance(answer, dict):
            return answer
        rows = [self.row(test["id"], test["id"] in answer) for test in tests[1:]]
        assert tests[0]["params"] == {"command": "exit 0"}
        rows.insert(0, self.row(tests[0]["id"], self.shell))
        return {"error": None, "test_results": rows}

    @staticmethod
    def row(name, passed):
        message = "exit code 0" if passed else "exit code 127 (command not found): /bin/sh: cmake: not found"
        return {
            "test_id": name,
            "passed": passed,
            "status": "passed" if passed else "failed",
            "message": message,
        }


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

    def put(*answers, **more):
        stand_in = Evaluations(*answers, **more)
        monkeypatch.setattr(de, "evaluate", stand_in)
        return stand_in

    return put


def test_the_table_of_what_is_given_away(write, files, evaluations, capsys):
    stand_in = evaluations(BARE, COPIED, SOLUTION, SOLUTION - {"tests_pass"}, SOLUTION)
    rubric = write(*MEASURED)
    assert review.main([rubric, "--base", "busybox:stable", *files, "--repeat", "3"]) == 0
    out, err = capsys.readouterr()
    warning, *table, no_syntax = out.splitlines()
    assert warning.startswith(
        f"warning: {rubric}: no-syntax: tests[4].params.command 'broken': sh does not accept"
    )
    assert table == "\n".join(TABLE).format(rubric, 3, 2, 3).splitlines()
    assert re.fullmatch(NO_SYNTAX, no_syntax)
    assert err.splitlines() == [
        f"{rubric}: bare: 1 of 6 tests passed",
        f"{rubric}: copied: 2 of 6 tests passed",
        *[f"{rubric}: solution: {count} of 6 tests passed" for count in (4, 3, 4)],
    ]
    dockerfiles = [text for text, *_ in stand_in.asked]
    assert dockerfiles[:2] == [
        "FROM busybox:stable\nWORKDIR /srv/app\n",
        "FROM busybox:stable\nWORKDIR /srv/app\nCOPY . .\n",
    ]
    assert all("/bin/tool" in text for text in dockerfiles[2:])
    assert [(context, jobs) for _, context, jobs, _ in stand_in.asked] == [
        ([], 1),
        (["README"], 1),
        (["README"], 1),
        (["README"], 4),
        (["README"], 1),
    ]
    for *_, tests in stand_in.asked:  # as in the rubric, but each by itself
        assert [test["id"] for test in tests[1:]] == [test["id"] for test in MEASURED]
        assert [test["params"] for test in tests[1:]] == [test["params"] for test in MEASURED]
        assert not any("requires" in test for test in tests)


def test_a_measurement_as_json_and_markdown(write, files, evaluations, tmp_path, capsys):
    evaluations(BARE, COPIED, SOLUTION, SOLUTION - {"tests_pass"})
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
        ("solution", 12, 2),
    ]
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
        ("given", "readme_exists", 2),
        ("unsolved", "builds", 2),
        ("flaky", "tests_pass", 4),
        ("no-syntax", "broken", 1),
    ]
    rows = table.read_text().splitlines()
    assert rows[0] == "| rubric | tests | points | warnings | bare | copied | solution |"
    assert rows[2].endswith(" | 6 | 15 | 1 | 1 (7 %) | 3 (20 %) | 12 of 15, 2 times |")
    assert [row.split(" | ")[1:4] for row in rows[6:]] == [
        ["broken", "no-syntax", ""],
        ["shell\\_there", "free", "1"],
        ["readme\\_exists", "given", "2"],
        ["builds", "unsolved", "2"],
        ["tests\\_pass", "flaky", "4"],
    ]


ALL = [{**LOOK, "id": f"t{at}"} for at in range(10)]
TEN = {test["id"] for test in ALL}


@pytest.mark.parametrize(
    ("bare", "copied", "solution", "reasons"),
    [
        ({"t0"}, {"t0", "t1", "t2"}, [TEN, TEN], []),
        ({"t0", "t1"}, {"t0", "t1"}, [TEN, TEN], ["the bare image gets 20 %, more than a tenth"]),
        (set(), {"t0", "t1", "t2", "t3"}, [TEN, TEN], ["the copied image gets 40 %, more than a third"]),
        (set(), set(), [TEN - {"t3"}, TEN - {"t3"}], ["1 unsolved"]),
        (set(), set(), [TEN, TEN - {"t3", "t4"}], ["2 flaky"]),
    ],
)
def test_what_strict_has_against_a_rubric(write, files, evaluations, capsys, bare, copied, solution, reasons):
    rubric = write(*ALL)
    words = [rubric, "--base", "b", *files, "--repeat", "2"]
    evaluations(bare, copied, *solution)
    assert review.main(words) == 0
    evaluations(bare, copied, *solution)
    assert review.main([*words, "--strict"]) == (1 if reasons else 0)
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("strict")]
    assert said == [f"strict: {rubric}: {reason}" for reason in reasons]


def test_a_test_is_named_for_each_thing_that_is_wrong_with_it(write, files, evaluations, capsys):
    evaluations({"t0"}, {"t0"}, TEN - {"t0"})
    assert review.main([write(*ALL), "--base", "b", *files]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(": 10 points      bare 1 (10 %)   copied 1 (10 %)   solution 9 of 10, once")
    assert [line.split()[:2] for line in lines[1:]] == [["free", "t0"], ["unsolved", "t0"]]


def test_what_is_not_measured_is_said(write, evaluations, capsys):
    stand_in = evaluations({"t0"}, {"t0"})
    assert review.main([write(*ALL), "--base", "b"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(": 10 points      bare 1 (10 %)")
    assert lines[2] == "not measured: copied (no --context), solution (no --solution)"
    assert stand_in.asked[0][0] == "FROM b\nWORKDIR /workspace\n"
    assert review.main([write(*ALL), "--base", "b", "--workdir", "/my app"]) == 0
    assert stand_in.asked[1][0] == "FROM b\nWORKDIR /my app\n"


def test_several_rubrics_are_measured_on_the_base_alone(write, evaluations, capsys):
    evaluations({"t0"}, {"t0", "t1", "t2", "t3"})
    assert review.main([write(*ALL), write(*ALL, name="other.json"), "--base", "b"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "2 rubrics: 20 tests, 20 points, 0 warnings, bare 5 (25 %)"


def fault(kind):
    return {"error": {"kind": kind, "message": "the words"}, "test_results": []}


NO_VERDICT = {"test_id": "t0", "passed": False, "status": "error", "message": "the words"}


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ([fault("engine")], "the bare image was not measured (engine): the words"),
        ([set(), fault("usage")], "the copied image was not measured (usage): the words"),
        ([set(), set(), fault("build")], "the solution image cannot be built: the words"),
        ([set(), set(), TEN, fault("build_timeout")], "the solution image cannot be built: the words"),
        ([{"error": None, "test_results": [NO_VERDICT]}], "the bare image was not measured: t0: the words"),
        ([de.EvaluationError("the words")], "the words"),
    ],
)
def test_a_fault_while_measuring_is_no_measurement(
    write, files, evaluations, tmp_path, capsys, answers, says
):
    evaluations(*answers)
    rubric, output = write(*ALL), tmp_path / "review.json"
    assert review.main([rubric, "--base", "b", *files, "--repeat", "2", "--output", str(output)]) == 1
    out, err = capsys.readouterr()
    assert out == f"{rubric}: 10 tests, 10 points, 0 warnings\n"
    assert err.splitlines()[-1] == f"error: {says}"
    ((one),) = json.loads(output.read_text())["rubrics"]
    assert (one["error"], "measured" in one) == (says, False)


def test_a_base_on_which_no_command_runs_is_named(write, evaluations, capsys):
    evaluations(set(), shell=False)
    assert review.main([write(*ALL), "--base", "b"]) == 1
    said = capsys.readouterr().err
    assert (
        "error: the bare image was not measured: not even the command 'exit 0' succeeds: exit code 127"
        in said
    )


@pytest.mark.parametrize(
    ("lines", "folder"),
    [
        ("FROM x\n", "/workspace"),
        ("FROM x\nWORKDIR /a\n", "/a"),
        ("FROM x\n  workdir /a\nWORKDIR b/c\n", "/a/b/c"),
        ("FROM x\nWORKDIR /a\nFROM y\nWORKDIR '/my app'\n", "/my app"),
        ("FROM x\nWORKDIR a\n", "/a"),
        ("FROM x AS build\nWORKDIR /src\nFROM y\nWORKDIR app\n", "/app"),
        ("FROM x AS Build\nWORKDIR /src\nFROM --platform=linux/amd64 build\nWORKDIR app\n", "/src/app"),
        ("FROM x AS build\nWORKDIR /src\nFROM y\n", "/workspace"),
    ],
)
def test_the_workdir_is_the_solutions_last(tmp_path, lines, folder):
    file = tmp_path / "Dockerfile"
    file.write_text(lines)
    assert review.last_workdir(str(file)) == folder


def test_a_workdir_that_only_docker_knows_is_asked_for(write, tmp_path, evaluations, capsys):
    file = tmp_path / "Dockerfile"
    file.write_text("FROM x\nWORKDIR $HOME/app\n")
    words = [write(*ALL), "--base", "b", "--solution", str(file)]
    evaluations(set(), TEN)
    assert review.main(words) == 1
    assert "WORKDIR $HOME/app holds a variable; write it out with --workdir DIR" in capsys.readouterr().err
    assert review.main([*words, "--workdir", "/root/app"]) == 0
    assert review.main([*words[:-1], str(tmp_path / "missing")]) == 1
    assert "missing: no such Dockerfile" in capsys.readouterr().err


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
    """Tell each container the number of its evaluation, from 1: something that differs between them."""
    real, calls = de.evaluate, []

    def evaluate(*words, **options):
        calls.append(options["jobs"])
        return real(*words, **options, run_options=[f"--env=ROUND={len(calls)}"])

    monkeypatch.setattr(de, "evaluate", evaluate)
    return calls


def test_every_fault_of_a_rubric_is_measured(clean_engine, write, files, rounds, capsys):
    rubric = write(*MEASURED)
    assert review.main([rubric, "--base", "busybox:stable", *files, "--repeat", "6", "--strict"]) == 1
    out, err = capsys.readouterr()
    _, *table, no_syntax = out.splitlines()
    expected = "\n".join(TABLE).format(rubric, 6, 5, 6).splitlines()
    quoted = re.compile("(does not pass: exit code 127).*")  # how the evaluator quotes it is its own business
    assert [quoted.sub(r"\1", line) for line in table] == [quoted.sub(r"\1", line) for line in expected]
    assert "cmake" in table[3]
    assert re.fullmatch(NO_SYNTAX, no_syntax)
    assert rounds == [1, 1, 1, 4, 1, 4, 1, 4]
    assert [line for line in err.splitlines() if line.startswith("strict")] == [
        f"strict: {rubric}: {reason}" for reason in ("1 warning", "1 unsolved", "1 flaky")
    ]


def test_a_base_without_a_shell_is_told_plainly(clean_engine, write, capsys):
    assert review.main([write(LOOK), "--base", "scratch"]) == 1
    said = capsys.readouterr().err
    assert "the bare image was not measured: not even the command 'exit 0' succeeds: " in said
    assert "/bin/sh" in said
