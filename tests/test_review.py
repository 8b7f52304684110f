"""Is a rubric any good: each warning where it belongs, and what images without the work are given."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from conftest import PROJECT, load_program
from engine import census

import DockerfileEvaluator as de

PROGRAM = PROJECT / "rubrics" / "review.py"
README = (PROJECT / "rubrics" / "README.md").read_text()
SHIPPED = sorted((PROJECT / "rubrics").glob("*.json"))


review = load_program(PROGRAM)


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


def command(text, **params):
    return {
        "type": "output_contains" if "contains" in params else "run_command",
        "params": {"command": text, **params},
    }


def names(warnings):
    return [name for name, _, _ in warnings]


# Reading


# Each is also run by the host's /bin/sh, where `nosuch` is no command: what the warning says is true.
CANNOT_FAIL = {
    "nosuch || true": "ends in '|| true'",
    "nosuch || :": "ends in '|| :'",
    "nosuch; true": "ends in '; true'",
    "nosuch\ntrue\n": "ends in '; true'",
    "nosuch; \\\ntrue ;": "ends in '; true'",
    "nosuch || true >/dev/null 2>&1": "ends in '|| true'",
    "nosuch || true # whatever": "ends in '|| true'",
    "nosuch || true\n# the end": "ends in '|| true'",
    "nosuch && b || true": "ends in '|| true'",
    "nosuch || b || echo 'no such || thing'": "ends in '|| echo 'no such || thing''",
    "nosuch && echo found || echo missing": "ends in '|| echo missing'",
    "nosuch; exit 0": "ends in '; exit 0'",
    "nosuch; echo done": "ends in '; echo done'",
    "nosuch; printf 'x\\n'": "ends in '; printf 'x\\n''",
    "nosuch | cat || true": "ends in '|| true'",
    "nosuch || echo $(nosuch | cat)": "ends in '|| echo $(nosuch | cat)'",
    'nosuch "it\'s || false" || true': "ends in '|| true'",
    "nosuch 2>&1 &": "ends in '&'",
    "cd /tmp & PID=$!; sleep 0.1; kill $PID || true; wait $PID 2>/dev/null || true": "ends in '|| true'",
    "bash -lc 'nosuch || true'": "ends in '|| true'",
    'timeout 60 sh -c "nosuch \\"a; b\\" || echo failed"': "ends in '|| echo failed'",
    "find . -exec nosuch {} \\; || true": "ends in '|| true'",
    "true": "'true' tests nothing",
    "echo hello": "'echo hello' tests nothing",
}


@pytest.mark.parametrize("text", CANNOT_FAIL)
def test_an_ending_that_cannot_fail(found, text):
    ((name, place, says),) = found(command(text))
    assert (name, place) == ("cannot-fail", "tests[0].params.command 'run_command_1'")
    start = f"{CANNOT_FAIL[text]}: the exit code is always 0, so this passes on any image; "
    advice = (
        "test something of the image" if says.split(":")[0].endswith("nothing") else "leave the ending out"
    )
    assert says == start + advice
    assert subprocess.run(["sh", "-c", text], stderr=subprocess.DEVNULL).returncode == 0


# Each can fail; those with `nosuch` do on any host.
CAN_FAIL = [
    "nosuch",
    "nosuch || nosuch2",
    "nosuch || (echo no; exit 1)",
    "nosuch || { echo no; exit 1; }",
    "nosuch || echo no && exit 1",
    "nosuch || true && nosuch",
    "nosuch && echo ok",
    "nosuch &&\necho ok",
    "nosuch && # why\n  echo ok",
    "nosuch && (nosuch || true)",
    "set -e; nosuch; true",
    "set -x -e; nosuch; true",
    "set -o errexit; nosuch; true",
    "set -u; echo $NOSUCH; true",
    "set -e; nosuch; sleep 1 &",
    "nosuch || exit 1; sleep 1 &",
    'echo "${NOSUCH:?}"',
    ": ${NOSUCH:?}; true",
    "nosuch || exit 1; echo done",
    "nosuch || exit; echo ok",
    'nosuch || exit "1"; echo ok',
    "{ nosuch || exit 1; } || true",
    "if ! nosuch; then exit 3; fi || true",
    "for i in 1 2; do nosuch || exit 4; done || echo bad",
    "exec nosuch || true",
    "exec 3</nosuch; true",
    ". /nosuch/activate && python3 -c 'import x' || echo no",
    ". /nosuch/nvm.sh; node --version || true",
    'test -n "$(nosuch || true >/dev/null)"',
    "nosuch -c 'a or b; true'",
    "nosuch -c \"print('x || true')\"",
    "if nosuch; then true; else false; fi",
    "for i in 1 2; do nosuch || true; done; nosuch",
    "case $x in a) true ;; *) false ;; esac",
    "nosuch # || true",
    "nosuch 2>&1",
    "cat <<END | nosuch\nx || true\nEND",
    "nosuch 'a || true' file",
    "sh -ec 'nosuch; true'",
    "bash -euo pipefail -c 'nosuch; echo ok'",
    "sh -c 'nosuch \"$1; true\"' sh x",
    "nosuch-echo || echo-nosuch",
    "nosuch || rm -r /nosuch/x",
    "nosuch || echo x >/nosuch/dir/y",
    "true >/nosuch/x",
    "! true",
]


@pytest.mark.parametrize("text", CAN_FAIL)
def test_endings_that_can_fail(found, text):
    assert "cannot-fail" not in names(found(command(text)))
    done = subprocess.run(["sh", "-c", text], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert done.returncode != 0


def test_an_ending_that_hides_the_exit_code_where_strings_decide(found):
    ((name, _, says),) = found(command("java -version || true", contains=["17.0"]))
    assert name == "cannot-fail"
    assert 'only the strings decide; leave the ending out, or write "exit_code": "any"' in says
    ((_, _, says),) = found(command("java &", contains=["17.0"]))
    assert "ends in '&': the exit code is always 0, and only the strings decide" in says
    ((_, _, says),) = found(command("java -version || echo 'version \"17'", contains=["version", "x.y"]))
    assert "so this passes on any image" in says
    both = {"contains": ["version", "x.y"], "match": "all"}
    ((_, _, says),) = found(command("java -version || echo 'version \"17'", **both))
    assert "only the strings decide" in says
    ((_, _, says),) = found(command("echo hello", contains=["hello"]))
    assert says.startswith(
        "'echo hello' tests nothing: the exit code is always 0, so this passes on any image"
    )


@pytest.mark.parametrize(
    "text", ["echo $LANG", "cd src; echo $PATH", 'make\necho "$(cat log)"', "nosuch; echo `x`"]
)
def test_an_echo_whose_words_are_the_test(found, text):
    assert found(command(text, contains=["UTF-8"])) == []
    assert names(found(command(text))) == ["cannot-fail"]


def test_an_exit_code_that_cannot_come_and_one_that_always_does(found):
    ((_, _, says),) = found(command("a || true", exit_code=3))
    assert says == "ends in '|| true': the exit code is always 0, never 3, so this cannot pass"
    place = "tests[0].params.exit_code 'run_command_1'"
    assert found(command("a", exit_code="any")) == [
        ("cannot-fail", place, "'any' lets every exit code pass; name one")
    ]
    assert found(command("a || true", exit_code="any", contains=["17.0"])) == []


LEAVE_OUT = "leave that out (a report keeps output short), or end in a test of what it prints"
TEST_IT = "end in a test of what it prints"


@pytest.mark.parametrize(
    ("text", "end", "source", "advice"),
    [
        ("app --help | head -n 5", "| head -n 5", "app --help", LEAVE_OUT),
        ("find . -name '*.js' | wc -l", "| wc -l", "find . -name '*.js'", TEST_IT),
        ("ls | wc -l", "| wc -l", "ls", LEAVE_OUT),
        ("app 2>&1 | tail -1 2>/dev/null", "| tail -1", "app", LEAVE_OUT),
        ("app | cut -d' ' -f1", "| cut -d' ' -f1", "app", LEAVE_OUT),
        ("app | tee log", "| tee log", "app", LEAVE_OUT),
        ("app | tr a b", "| tr a b", "app", LEAVE_OUT),
        ("cd x && app | sort | uniq", "| uniq", "app | sort", LEAVE_OUT),
        ("app | sort", "| sort", "app", LEAVE_OUT),
        ("[ -d x ] && app | sed s/a/b/", "| sed s/a/b/", "app", LEAVE_OUT),
        ("(app | head -5) || (other | head -5)", "| head -5", "other", LEAVE_OUT),
        ("bash -lc 'app | cat'", "| cat", "app", LEAVE_OUT),
        ("app | /usr/bin/head", "| /usr/bin/head", "app", LEAVE_OUT),
        ("{ make; } | tail -5", "| tail -5", "{ make; }", LEAVE_OUT),
        ("make |\n  tail -5", "| tail -5", "make", LEAVE_OUT),
        ("app | awk '{if ($1 < 3) exit 1}'", "| awk '{if ($1 < 3) exit 1}'", "app", TEST_IT),
        ("app | awk '{print $1}'", "| awk '{print $1}'", "app", LEAVE_OUT),
        ("app | sed 's/quit/x/'", "| sed 's/quit/x/'", "app", LEAVE_OUT),
    ],
)
def test_a_pipe_that_hides_the_status(found, text, end, source, advice):
    ((name, _, says),) = found(command(text))
    assert name == "hidden-status"
    assert says == f"the exit code is that of '{end}', so '{source}' may fail unseen; {advice}"


@pytest.mark.parametrize(
    "text",
    [
        "app | grep -q x",
        "app | head -1 | grep x",
        "app | head | xargs test -n",
        "app | awk 'END {exit NR < 3}'",
        "app | tee log && grep -q ok log",
        "app | head -1 && other",
        "! app | head",
        "app | head.sh",
        "app | sed -n '/x/q1'",
        "echo x | tee file",
        'test "$(app | wc -l)" -gt 0',
        "test 3 -lt $(app | wc -l)",
        "app | python3 -c 'import sys'",
        "bash -o pipefail -c 'app | head'",
        "bash -c 'set -o pipefail; app | head'",
        "app | xargs -r false",
        "app '| head'",
        "app || head file",
        "app; cat log",
        "app & until curl -sf localhost; do sleep 1; done; echo up",
        "app & while ! curl -sf localhost; do sleep 1; done; echo up",
        'test -n "$(bash -lc "source x; echo $JAVA_HOME")"',
    ],
)
def test_pipes_that_hide_nothing(found, text):
    assert found(command(text)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"echo 'int main() { printf(\"x\n\"); }' | gcc -xc -", r"expands '\n' in"),
        (r"(echo 'a\tb' >f) && make", r"expands '\t' in"),
        ("echo -e 'a' >f && make", "prints the '-e' of"),
        (r"if a; then echo -en 'x'; fi", "prints the '-en' of"),
    ],
)
def test_an_echo_on_which_shells_differ(found, text, words):
    ((name, _, says),) = found(command(text))
    assert name == "echo-escape"
    assert says.startswith(f"dash {words} echo, bash does not; ")


@pytest.mark.parametrize(
    "test",
    [
        command(r"printf 'a\nb' >f && make"),
        command(r"echo 'a\"b' >f && make"),
        command(r"echo -n x >f && make"),
        command(r"echo 'a\nb' >f && make", shell="/bin/bash"),
        command(r"bash -c 'echo -e \"a\nb\" >f && make'"),
        command(r"grep 'echo a\nb' file"),
        command(r'''/bin/bash -c "echo -e 'a\nb' && make"'''),
        command(r"echo a\nb && make"),
        command(r'echo "\\$HOME" && make'),
        command(r"""echo "$(grep '\bfoo' f)" && make"""),
    ],
)
def test_an_echo_on_which_shells_agree(found, test):
    assert found(test) == []


@pytest.mark.parametrize(
    "text",
    [
        "if true; then echo ok",
        "echo 'never closed || true",
        "a && ",
        "(a; true",
        "touch here; }",
        "a | | head",
        "case x in",
    ],
)
def test_what_no_shell_accepts(found, text):
    ((name, place, says),) = found(command(text))
    assert (name, place) == ("no-syntax", "tests[0].params.command 'run_command_1'")
    assert re.fullmatch(
        r"sh does not accept it \(.*(yntax error|unexpected|nterminated).*\), so it cannot run to its end; try it in a shell",
        says,
    )
    assert subprocess.run(["sh", "-c", text], capture_output=True).returncode != 0
    assert "no-syntax" not in names(found(command(text, shell="/bin/bash")))


def test_a_shell_reads_the_syntax_and_runs_nothing(found, tmp_path):
    trace = tmp_path / "trace"
    tests = [
        f"touch {trace}; :",
        f": $(touch {trace})",
        f"trap 'touch {trace}' EXIT; a",
        f"set +n; touch {trace}",
        f"- >{trace}",
    ]
    assert "no-syntax" not in names(found(*map(command, tests)))
    assert not trace.exists()


@pytest.mark.parametrize("body", ["sleep 60", "kill -9 $$", ""])
def test_a_host_whose_shell_does_not_answer_is_no_word_against_a_rubric(found, monkeypatch, tmp_path, body):
    monkeypatch.setattr(review, "SYNTAX_LIMIT", 0.5)
    sh = tmp_path / "programs" / "sh"
    sh.parent.mkdir()
    if body:
        sh.write_text(f"#!/bin/bash\nexec {body}\n".replace("exec kill", "kill"))
        sh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sh.parent}:{os.environ['PATH']}" if body else str(sh.parent))
    assert found(command("if make")) == []


def test_needles(found):
    assert found(command("java -version", contains=["17.0.", "8", "21"])) == [
        (
            "short-needle",
            "tests[0].params.contains 'output_contains_1'",
            "'8', '21': so short a string is in many texts ('8' in '17.0.18'); write more of what is meant",
        )
    ]
    assert names(found({"type": "file_contains", "params": {"path": "x", "contains": ["ok"]}})) == [
        "short-needle"
    ]
    for pattern in ("v5.*", r"v5\.3", "v[0-9]"):
        ((name, _, says),) = found(command("perl -v", contains=[pattern]))
        assert name == "literal-needle"
        assert says.startswith(f"'{de.shown(pattern)}': strings are looked for as they stand")
    assert found(command("perl -v", contains=["v5.36", "^this", "[x]", "a*b"])) == []
    assert found(command("cat Main.java", contains=["import java.util.*;"])) == []


@pytest.mark.parametrize("kind", ["commands_exist", "command_exists"])
def test_a_name_that_is_a_whole_command(found, kind):
    params = {"names": ["perl", "perl -v"]} if kind == "commands_exist" else {"name": "perl -v"}
    ((name, place, says),) = found({"type": kind, "params": params})
    assert (name, place) == ("literal-name", f"tests[0].params.{next(iter(params))} '{kind}_1'")
    assert says == "'perl -v' has a space, and is looked for as one name; write the name alone"


@pytest.mark.parametrize("path", ["$HOME/x", "src/*.py", "~/x", "~root"])
def test_a_path_that_nothing_expands(found, path):
    ((name, place, _),) = found({"type": "files_exist", "params": {"paths": ["x", path]}})
    assert (name, place) == ("literal-path", "tests[0].params.paths[1] 'files_exist_1'")
    ((name, place, _),) = found({"type": "file_contains", "params": {"path": path, "contains": ["text"]}})
    assert (name, place) == ("literal-path", "tests[0].params.path 'file_contains_1'")
    assert found({"type": "dirs_exist", "params": {"paths": ["a~b", "/x y", "[z]"]}}) == []
    assert found({"type": "files_exist", "params": {"paths": ["out/Outer$Inner.class"]}}) == []


@pytest.mark.parametrize("name", ["PATH", "HOME", "HOSTNAME"])
def test_a_variable_that_docker_sets(found, name):
    ((kind, place, _),) = found({"type": "envvar_set", "params": {"name": name}})
    assert (kind, place) == ("set-by-docker", "tests[0].params.name 'envvar_set_1'")
    assert found({"type": "envvar_set", "params": {"name": "JAVA_HOME"}}) == []


LOOK = {"type": "files_exist", "params": {"paths": ["x"]}}


def test_fields_of_a_test(found):
    assert names(found({**LOOK, "timeout": 0.5}, {**LOOK, "score": 0})) == ["short-timeout", "no-points"]
    assert names(found({**LOOK, "timeout": 1}, {**LOOK, "score": 0.1})) == []
    assert names(found(LOOK, repo=None)) == ["no-repo"]


def test_tests_that_can_never_run(found):
    warnings = found(
        {**LOOK, "id": "a", "requires": ["nobody"]},
        {**LOOK, "id": "b", "requires": ["b"]},
        {**LOOK, "id": "c", "requires": ["d"]},
        {**LOOK, "id": "d", "requires": ["c"]},
        {**LOOK, "id": "e", "requires": ["a"]},
    )
    assert [warning[:2] for warning in warnings] == [
        ("unresolvable", f"tests[{at}].requires '{name}'") for at, name in enumerate("abcd")
    ]
    assert "nobody" in warnings[0][2]
    assert warnings[0][2].endswith(", so this can never run; require other tests")


@pytest.mark.parametrize(
    "text",
    [
        "'",
        '"',
        "`",
        "$(",
        "((((",
        "))))",
        "<<a\n",
        "a=",
        "a= ",
        "timeout 1 ",
        "|| true ",
        "if ",
        "\\",
        "\n",
        "\"'\\",
        "set -a ",
        "END ",
        "awk END ",
        "|awk END ",
        "echo ",
    ],
)
def test_text_of_an_enemy_takes_no_time(found, text):
    started = time.monotonic()
    found(
        command(text * (8000 // len(text))),
        command(text * (100_000 // len(text))),
        command("sh -c '" + text * 9999 + "'"),
    )
    found(command("a | awk " + text * (100_000 // len(text))))
    assert time.monotonic() - started < 10


# The command line


def run(*words, **environment):
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        timeout=600,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_a_line_for_each_warning_a_summary_for_each_rubric_and_the_sum(write):
    good = write(LOOK, {**LOOK, "score": 2.5}, name="good.json")
    bad = write(command("make || true"), command("make | tail -1"), {**LOOK, "score": 0}, name="bad.json")
    expected = (
        f"{good}: 2 tests, 3.5 points, 0 warnings\n"
        f"warning: {bad}: cannot-fail: tests[0].params.command 'run_command_1': ends in '|| true': the exit code "
        "is always 0, so this passes on any image; leave the ending out\n"
        f"warning: {bad}: hidden-status: tests[1].params.command 'run_command_2': the exit code is that of "
        "'| tail -1', so 'make' may fail unseen; leave that out (a report keeps output short), or end in a test "
        "of what it prints\n"
        f"warning: {bad}: no-points: tests[2].score 'files_exist_3': 0: whether it passes changes no score\n"
        f"{bad}: 3 tests, 2 points, 3 warnings\n"
    )
    last = "2 rubrics: 5 tests, 5.5 points, 3 warnings (1 cannot-fail, 1 hidden-status, 1 no-points)\n"
    assert run(good, bad) == (0, expected + last, "")
    assert run(good, bad, "--strict") == (1, expected + last, f"strict: {bad}: 3 warnings\n")
    assert run(good, "--strict") == (0, f"{good}: 2 tests, 3.5 points, 0 warnings\n", "")


def test_a_rubric_that_the_evaluator_refuses_is_named_and_the_others_are_read(write, tmp_path):
    good, bad, missing = write(LOOK), tmp_path / "bad.json", tmp_path / "missing.json"
    bad.write_text(json.dumps({"tests": [{"type": "files_exist", "params": {"path": ["x"]}}]}))
    code, out, err = run(bad, missing, good)
    assert code == 1
    assert out == f"{good}: 1 test, 1 point, 0 warnings\n3 rubrics: 1 test, 1 point, 0 warnings, 2 refused\n"
    assert f"error: {bad}: tests[0].params: unknown key 'path' (did you mean 'paths'?)\n" in err
    assert f"error: {missing}: no such rubric" in err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "the following arguments are required: RUBRIC"),
        (["x", "--context", "."], "--context needs --base IMAGE"),
        (["x", "--solution", "f"], "--solution needs --base IMAGE"),
        (["x", "--repeat", "2"], "--repeat needs --base IMAGE"),
        (["x", "--base", "b", "--repeat", "2"], "need --solution DOCKERFILE"),
        (
            ["x", "--base", "b", "--solution", "f", "--repeat", "0"],
            "--repeat: expected a whole number of at least 1",
        ),
        (["x", "y", "--base", "b", "--context", "."], "--context and --solution belong to one rubric"),
        (["x", "--base", "b\nRUN y"], "expected one word"),
        (["x", "--base", "b", "--workdir", "/x\nRUN y"], "expected one word"),
    ],
)
def test_wrong_usage(words, says):
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert says in err.replace("\n", " ")


def test_what_is_to_be_read_is_not_overwritten(write, tmp_path):
    rubric = write(LOOK)
    before = (tmp_path / "rubric.json").read_text()
    code, _, err = run(rubric, "--output", rubric)
    assert (code, "would be overwritten" in err) == (1, True)
    assert (tmp_path / "rubric.json").read_text() == before
    out = tmp_path / "out"
    code, _, err = run(rubric, "--output", out, "--markdown", out)
    assert (code, "are the same file" in err) == (1, True)
    code, _, err = run(rubric, "--output", tmp_path)
    assert (code, "Traceback" in err) == (1, False)
    assert "error: " in err


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_screen_that_is_full_loses_nothing(write, tmp_path, stream):
    bad = write(command("make || true"))
    words = [sys.executable, str(PROGRAM), bad, "--strict", "--output", str(tmp_path / "o.json")]
    with open("/dev/full", "w") as full:
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: full}
        assert subprocess.run(words, **streams).returncode == 1
    assert len(json.loads((tmp_path / "o.json").read_text())["rubrics"][0]["warnings"]) == 1


def test_a_report_on_stdout_follows_the_lines(write, tmp_path):
    with open(tmp_path / "out", "w") as out:
        words = [sys.executable, str(PROGRAM), write(LOOK), "--output", "/dev/stdout"]
        subprocess.run(words, stdout=out, check=True)
    first, _, rest = (tmp_path / "out").read_text().partition("\n")
    assert first.endswith("1 test, 1 point, 0 warnings")
    assert json.loads(rest)["rubrics"][0]["points"] == 1


def test_text_of_a_rubric_cannot_steer_the_screen_or_the_table(write, tmp_path):
    evil = "\x1b[2J::error::|`<b>\n"
    rubric = write({**command(f"make '{evil}' | head", contains=["\x1b"]), "id": evil})
    table = tmp_path / "table.md"
    code, out, err = run(rubric, "--markdown", table)
    assert (code, err) == (0, "")
    assert "\x1b" not in out + table.read_text()
    rows = table.read_text().splitlines()
    assert all(row == "" or (row.startswith("|") and row.endswith("|")) for row in rows)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows[3:]} == {6, 0} - {0} | (
        {0} if "" in rows[3:] else set()
    )
    assert "<b>" not in table.read_text()


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


# What the README says


SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL))
READ, MEASURE = (
    re.search(
        r"^    (python3 (?:.*\\\n)*.*)\n\n```\n(.*?)```", SECTIONS[title], re.MULTILINE | re.DOTALL
    ).groups()
    for title in ("Read it", "Measure it")
)
PAIRS = [file.stem for file in SHIPPED]


def rows(title, columns):
    """Return the cells of the rows of a section's table."""
    found = []
    for line in SECTIONS[title].splitlines():
        cells = [cell.strip(" ").replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == columns and cells[0].startswith("`"):
            found.append([cell.strip("`") for cell in cells])
    return found


def test_the_readmes_example_of_each_type_raises_no_warning(found):
    table = rows("Write it", 3)
    assert sorted(kind for kind, _, _ in table) == sorted(de.CHECKS)
    for kind, _, example in table:
        assert json.loads(example)["type"] == kind
        assert found(json.loads(example)) == []


HOLDERS = {
    "short-needle": lambda value: command("a", contains=[value]),
    "literal-needle": lambda value: command("a", contains=[value]),
    "literal-name": lambda value: {"type": "command_exists", "params": {"name": value}},
    "literal-path": lambda value: {"type": "files_exist", "params": {"paths": [value]}},
    "set-by-docker": lambda value: {"type": "envvar_set", "params": {"name": value}},
    "unresolvable": lambda value: {**LOOK, "requires": json.loads(value)},
    "short-timeout": lambda value: {**LOOK, "timeout": json.loads(value)},
    "no-points": lambda value: {**LOOK, "score": json.loads(value)},
}
WARNINGS = {name: (bad, good) for name, _, bad, good in rows("Read it", 4)}


def test_the_readme_explains_every_warning():
    source = PROGRAM.read_text()
    used = set(re.findall(r'(?:yield |RubricWarning\(|found\.append\(\()"([a-z-]+)"', source))
    assert set(WARNINGS) == used
    assert len(used) == 13


@pytest.mark.parametrize("name", WARNINGS)
def test_the_readmes_example_of_a_warning_raises_it_and_its_advice_does_not(found, name):
    java = {**LOOK, "id": "java"}
    results = []
    for value in WARNINGS[name]:
        if name == "no-repo":
            results.append(names(found(java, repo=json.loads(value))))
        else:
            results.append(names(found(HOLDERS.get(name, command)(value), java)))
    assert results == [[name], []]


def test_the_readme_names_every_flag():
    flags = {
        word for action in review._parser()._actions for word in action.option_strings if word[:2] == "--"
    }
    assert flags - {"--help"} == {row[0].split()[0] for row in rows("Measure it", 2)}


def sh(line, environment=None):
    done = subprocess.run(
        ["sh", "-c", line], cwd=str(PROJECT), capture_output=True, env=environment, timeout=3000
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_readmes_command_that_reads_prints_what_stands_there():
    assert sh(READ[0].replace("python3", sys.executable, 1)) == (0, READ[1], "")


@pytest.fixture(scope="module")
def measured(networked_engine, buildkit_program, tmp_path_factory):
    """Measure the worked pairs by the README's command, two at a time: exit, output and errors of each."""
    programs = tmp_path_factory.mktemp("programs")
    os.symlink(buildkit_program, programs / "docker")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    line = MEASURE[0].replace("python3", sys.executable, 1) + " --strict"
    before = census()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        lines = [line.replace("example_cpp", name) for name in PAIRS]
        done = pool.map(lambda one: sh(one, {**os.environ, "PATH": path, "DOCKER_BUILDKIT": "1"}), lines)
        results = dict(zip(PAIRS, done))
    assert census() == before
    return results


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", PAIRS)
def test_a_worked_pair_gives_little_for_little_and_all_for_the_work(measured, name):
    code, out, err = measured[name]
    assert code == 0, err  # by --strict at most a tenth, at most a third, nothing unsolved or flaky
    (row,) = [row for row in rows("Worked pairs", 6) if row[0] == name]
    _, _, points, bare, copied, solution = row
    first = f"rubrics/{name}.json: {points} points      bare {bare}   copied {copied}   solution {solution}"
    assert out.splitlines()[0] == first
    assert solution == f"{points} of {points}, 3 times"


@pytest.mark.usefixtures("engine")
def test_the_readmes_command_that_measures_a_worked_pair_prints_what_stands_there(measured):
    assert measured["example_cpp"][1] == MEASURE[1]


def test_shipped_rubrics_raise_no_warning():
    assert len(SHIPPED) == 4
    for file in SHIPPED:
        assert review.read(str(file)).warnings == []
