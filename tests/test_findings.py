"""What is doubtful about a rubric: each warning where it belongs, and none where it does not."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from conftest import PROJECT

import DockerfileEvaluator as de

README = (PROJECT / "README.md").read_text()


@pytest.fixture
def found(tmp_path):
    """Return what is found in a rubric of these tests."""

    def review(*tests, repo="r"):
        file = tmp_path / "rubric.json"
        file.write_text(json.dumps({**({"repo": repo} if repo else {}), "tests": tests}))
        return list(de.findings(de.load_rubric(str(file), de.CHECKS)))

    return review


def command(text, **params):
    return {
        "type": "output_contains" if "contains" in params else "run_command",
        "params": {"command": text, **params},
    }


def names(findings):
    return [finding.name for finding in findings]


@pytest.mark.parametrize(
    "text",
    [
        "mvn -version || true",
        "mvn -version || :",
        "mvn -version; true",
        "mvn -version\ntrue\n",
        "mvn -version || true >/dev/null 2>&1",
        "a && b || true",
        "a || b || echo 'no such thing'",
        "make || rm -rf build",
        "make; exit 0",
        "make; echo done",
        "(make || true)",
        "{ make || true; }",
        "bash -lc 'make || true'",
        "timeout 60 sh -ec 'make || echo failed'",
        "server &",
        "cd x & PID=$!; sleep 2; kill $PID || true; wait $PID 2>/dev/null || true",
        "cat <<'END' >x\nit's || false\nEND\nmake || true",
        "true",
        "echo hello",
    ],
)
def test_an_ending_that_cannot_fail(found, text):
    (finding,) = found(command(text))
    assert (finding.name, finding.place) == ("cannot-fail", "tests[0].params.command")
    assert "the exit code is always 0, so this passes on any image" in finding.text


@pytest.mark.parametrize(
    "text",
    [
        "mvn -version",
        "a || b",
        "a || (echo no; exit 1)",
        "a || { echo no; exit 1; }",
        "a || echo no && exit 1",
        "a || true && b",
        "set -e; a; true",
        "a || exit 1; echo done",
        'test -n "$(a || true)"',
        "python3 -c 'a or b; true'",
        "python3 -c \"print('x || true')\"",
        "if a; then true; else false; fi",
        "for i in 1 2; do a || true; done; b",
        "case $x in a) true ;; *) false ;; esac",
        "a # || true",
        "a 2>&1",
        "cat <<END | b\nx || true\nEND",
        "grep -q 'a || true' file",
    ],
)
def test_endings_that_can_fail(found, text):
    assert found(command(text)) == []


def test_an_ending_that_hides_the_exit_code_where_strings_decide(found):
    (finding,) = found(command("java -version || true", contains=["17.0"]))
    assert finding.name == "cannot-fail"
    assert 'only the strings decide; leave the ending out, or write "exit_code": "any"' in finding.text
    assert found(command("java -version || true", contains=["17.0"], exit_code="any")) == []
    assert found(command("echo $LANG", contains=["UTF-8"])) == []


def test_an_exit_code_that_cannot_come_and_one_that_always_does(found):
    (finding,) = found(command("a || true", exit_code=3))
    assert "always 0, never 3, so this cannot pass" in finding.text
    (finding,) = found(command("a", exit_code="any"))
    assert finding == (
        "cannot-fail",
        "tests[0].params.exit_code",
        "'any' lets every exit code pass; name one",
    )


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("app --help | head -n 5", "| head -n 5"),
        ("find . -name '*.js' | wc -l", "| wc -l"),
        ("app 2>&1 | tail -1", "| tail -1"),
        ("app | cut -d' ' -f1", "| cut -d' ' -f1"),
        ("app | tee log", "| tee log"),
        ("cd x && app | sort | head", "| head"),
        ("[ -d x ] && app | sed s/a/b/", "| sed s/a/b/"),
        ("(app | head -5) || (other | head -5)", "| head -5"),
        ("bash -c 'app | cat'", "| cat"),
    ],
)
def test_a_pipe_that_hides_the_status(found, text, end):
    (finding,) = found(command(text))
    assert (finding.name, finding.place) == ("hidden-status", "tests[0].params.command")
    assert f"the exit code is that of '{end}'" in finding.text


@pytest.mark.parametrize(
    "text",
    [
        "app | grep -q x",
        "app | head -1 | grep x",
        "app | head | xargs test -n",
        "app | awk '{exit $1 < 3}'",
        "app | sed -n '/x/q1'",
        "echo x | tee file",
        'test "$(app | wc -l)" -gt 0',
        "app | python3 -c 'import sys'",
        "bash -o pipefail -c 'app | head'",
        "app '| head'",
        "app || head file",
    ],
)
def test_pipes_that_hide_nothing(found, text):
    assert found(command(text)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (r"echo 'int main() { printf(\"x\n\"); }' | gcc -xc -", r"expands '\n'"),
        (r"(echo 'a\tb' >f) && make", r"expands '\t'"),
        ("echo -e 'a' >f && make", "prints the '-e'"),
    ],
)
def test_an_echo_on_which_shells_differ(found, text, words):
    (finding,) = found(command(text))
    assert finding.name == "echo-escape"
    assert words in finding.text


@pytest.mark.parametrize(
    "test",
    [
        command(r"printf 'a\nb' >f && make"),
        command(r"echo 'a\"b' >f && make"),
        command(r"echo -n x >f && make"),
        command(r"echo 'a\nb' >f && make", shell="/bin/bash"),
        command(r"bash -c 'echo -e \"a\nb\" >f && make'"),
        command(r"grep 'echo a\nb' file"),
    ],
)
def test_an_echo_on_which_shells_agree(found, test):
    assert found(test) == []


def test_needles(found):
    (finding,) = found(command("java -version", contains=["17.0.", "8", "21"]))
    assert finding == (
        "short-needle",
        "tests[0].params.contains",
        "'8', '21': so short a string is in many texts ('8' in '17.0.18'); write more of what is meant",
    )
    (finding,) = found({"type": "file_contains", "params": {"path": "x", "contains": ["ok"]}})
    assert finding.name == "short-needle"
    (finding,) = found(command("cd x && git --version", contains=["git"]))
    assert (finding.name, finding.place) == ("needle-in-error", "tests[0].params.contains")
    assert "'/bin/sh: 1: git: not found'), so that only the exit code tells the two apart" in finding.text
    (finding,) = found(command("git --version", contains=["git"], exit_code="any"))
    assert "so that it passes where there is none" in finding.text
    assert found(command("git --version", contains=["git version"])) == []
    assert found(command("echo $PATH", contains=["/opt/conda"])) == []


@pytest.mark.parametrize("path", ["$HOME/x", "src/*.py", "~/x", "~root"])
def test_a_path_that_nothing_expands(found, path):
    (finding,) = found({"type": "files_exist", "params": {"paths": ["x", path]}})
    assert (finding.name, finding.place) == ("literal-path", "tests[0].params.paths[1]")
    (finding,) = found({"type": "file_contains", "params": {"path": path, "contains": ["text"]}})
    assert (finding.name, finding.place) == ("literal-path", "tests[0].params.path")
    assert found({"type": "dirs_exist", "params": {"paths": ["a~b", "/x y", "[z]"]}}) == []


@pytest.mark.parametrize("name", ["PATH", "HOME", "HOSTNAME"])
def test_a_variable_that_docker_sets(found, name):
    (finding,) = found({"type": "envvar_set", "params": {"name": name}})
    assert (finding.name, finding.place) == ("set-by-docker", "tests[0].params.name")
    assert found({"type": "envvar_set", "params": {"name": "JAVA_HOME"}}) == []


LOOK = {"type": "files_exist", "params": {"paths": ["x"]}}


def test_fields_of_a_test(found):
    assert names(found({**LOOK, "timeout": 0.5}, {**LOOK, "score": 0})) == ["short-timeout", "no-points"]
    assert names(found({**LOOK, "timeout": 1}, {**LOOK, "score": 0.1})) == []
    assert names(found(LOOK, repo=None)) == ["no-repo"]


def test_tests_that_can_never_run(found):
    findings = found(
        {**LOOK, "id": "a", "requires": ["nobody"]},
        {**LOOK, "id": "b", "requires": ["b"]},
        {**LOOK, "id": "c", "requires": ["d"]},
        {**LOOK, "id": "d", "requires": ["c"]},
        {**LOOK, "id": "e", "requires": ["a"]},
    )
    assert [(finding.name, finding.place) for finding in findings] == [
        ("unresolvable", f"tests[{at}].requires") for at in range(4)
    ]
    assert (
        findings[0].text == "requires unknown test 'nobody', so this can never run; name a test that there is"
    )


@pytest.mark.parametrize(
    ("maker", "user", "made"),
    [
        ("cargo build --release", "target/release/bat --help", "'target'"),
        ("mkdir -p build && cd build && cmake ..", "cd build && cmake --build .", "'build'"),
        ("gcc -o /tmp/hello x.c", "/tmp/hello | grep Hello", "'/tmp/hello'"),
        ("cd src && app >log.txt 2>&1", "grep -q done src/log.txt", "'src/log.txt'"),
        ("npm ci", "npm run build", "'node_modules'"),
        ("git clone https://x.org/a/thing.git", "cd thing && make", "'thing'"),
        ("python3 -m venv .venv", "./.venv/bin/pip list", "'.venv'"),
        ("pip install flask-x", "flask-x run --help", "command flask-x"),
        ("npm install -g typescript tsc", "tsc --version", "command tsc"),
        ("wget -q https://x.org/y -O y.json", "jq . y.json", "'y.json'"),
    ],
)
def test_what_an_earlier_test_made_is_gone(found, maker, user, made):
    findings = found(command(maker), command(user))
    assert [(finding.name, finding.place) for finding in findings] == [("made-elsewhere", "tests[1]")]
    assert f"{made} is made by tests[0] in a container of its own" in findings[0].text
    assert found(command(user), command(maker)) == []


def test_looking_for_what_an_earlier_test_made(found):
    look = {"type": "files_exist", "params": {"paths": ["target/debug/app"]}}
    assert names(found(command("cargo build"), look)) == ["made-elsewhere"]
    read = {"type": "file_contains", "params": {"path": "out/log", "contains": ["fine"]}}
    assert names(found(command("mkdir out && app >out/log"), read)) == ["made-elsewhere"]
    exists = {"type": "command_exists", "params": {"name": "tsc"}}
    assert names(found(command("npm install -g tsc"), exists)) == ["made-elsewhere"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mkdir -p build && cd build && cmake ..", "mkdir -p build && cd build && make"),
        ("app >/dev/null 2>&1", "app >/dev/null"),
        ("echo x >/tmp/a && app /tmp/a", "app /tmp/b"),
        ("cargo build", "cargo test"),
        ("cd a && touch x", "cat x"),
    ],
)
def test_tests_that_make_what_they_use(found, first, second):
    assert found(command(first), command(second)) == []


def test_shipped_rubrics_raise_no_doubt():
    for file in sorted((PROJECT / "rubrics").glob("*.json")):
        assert list(de.findings(de.load_rubric(str(file), de.CHECKS))) == []


def test_rubrics_of_users_are_read_without_a_fault():
    """Where the checkout has them beside it."""
    for file in sorted(Path(PROJECT, "..", "shared", "real-rubrics").glob("*.json")):
        for finding in de.findings(de.load_rubric(str(file), de.CHECKS)):
            assert re.fullmatch(r"[a-z-]+: tests\[\d+\]\S*: .+", str(finding))


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
        "gcc -o ",
        "|| true ",
        "if ",
        "\\",
    ],
)
def test_text_of_an_enemy_takes_no_time(found, text):
    started = time.monotonic()
    found(command(text * (8000 // len(text))), command(text * (100_000 // len(text))))
    assert time.monotonic() - started < 5


def test_the_readme_explains_every_warning():
    source = (PROJECT / "DockerfileEvaluator.py").read_text()
    used = set(re.findall(r'Finding\(\s*"([a-z-]+)"', source))
    section = README.split("\n### Check a rubric")[1].split("\n## ")[0]
    table = set(re.findall(r"^\| `([a-z-]+)` \| ", section, re.MULTILINE))
    assert table | {"telling-variable", "cached-layers", "no-pids-limit"} == used
    assert all(f"`{name}`" in section for name in used)
