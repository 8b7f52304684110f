"""What is doubtful about a rubric: each warning where it belongs, and none where it does not."""

from __future__ import annotations

import json
import re
import subprocess
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


# Each is also run by the host's /bin/sh, where `nosuch` is no command: what the warning says is true.
CANNOT_FAIL = [
    "nosuch || true",
    "nosuch || :",
    "nosuch; true",
    "nosuch\ntrue\n",
    "nosuch; \\\ntrue",
    "nosuch || true >/dev/null 2>&1",
    "nosuch || true # whatever",
    "nosuch || true\n# the end",
    "nosuch && b || true",
    "nosuch || b || echo 'no such thing'",
    "nosuch || echo a && echo b",
    "nosuch || rm -rf /tmp/nosuch/build",
    "nosuch; rm -f /tmp/nosuch/x",
    "nosuch; exit 0",
    "nosuch; echo done",
    "nosuch || { echo failed; }",
    "nosuch || (true)",
    "nosuch || sh -c true",
    "(nosuch || true)",
    "(nosuch || exit 3); true",
    "{ nosuch || true; }",
    "bash -lc 'nosuch || true'",
    "timeout 60 sh -c 'nosuch || echo failed'",
    "nosuch &",
    "cd /tmp & PID=$!; sleep 0.1; kill $PID || true; wait $PID 2>/dev/null || true",
    "cat <<'END' >/tmp/nosuch.txt\nit's || false\nEND\nnosuch || true",
    "true",
    "FOO=1 true",
    "echo hello",
]


@pytest.mark.parametrize("text", CANNOT_FAIL)
def test_an_ending_that_cannot_fail(found, text):
    (finding,) = found(command(text))
    assert finding[:2] == ("cannot-fail", "tests[0].params.command 'run_command_1'")
    assert "the exit code is always 0, so this passes on any image" in finding.text
    assert subprocess.run(["sh", "-c", text], stderr=subprocess.DEVNULL).returncode == 0


# Each can fail; those with `nosuch` do on any host.
CAN_FAIL = [
    "nosuch",
    "nosuch || nosuch2",
    "nosuch || (echo no; exit 1)",
    "nosuch || { echo no; exit 1; }",
    "nosuch || echo no && exit 1",
    "nosuch || true && nosuch",
    "set -e; nosuch; true",
    "set -x -e; nosuch; true",
    "set -o errexit; nosuch; true",
    "set -u; echo $NOSUCH; true",
    ': "${NOSUCH:?}"; echo ok',
    "nosuch || exit 1; echo done",
    "nosuch || exit; echo ok",
    'nosuch || exit "1"; echo ok',
    "{ nosuch || exit 1; } || true",
    "if ! nosuch; then exit 3; fi || true",
    "for i in 1 2; do nosuch || exit 4; done || echo bad",
    "nosuch || exit 1 && make || true",
    "exec nosuch || true",
    "exec 3</nosuch; true",
    ". /nosuch/activate && python3 -c 'import x' || echo no",
    ". /nosuch/nvm.sh; node --version || true",
    "readonly X=1; X=2; true",
    "trap 'exit 4' EXIT; true",
    "nosuch || kill $$; true",
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
    "nosuch-echo || echo-nosuch",
    "nosuch || rm.nosuch",
    "nosuch || rm -r /nosuch/x",
    "nosuch || echo x >/nosuch/dir/y",
    "true >/nosuch/x",
    "nosuch || echo $((1/0))",
    "printf '%d' abc",
]


@pytest.mark.parametrize("text", CAN_FAIL)
def test_endings_that_can_fail(found, text):
    assert [finding for finding in found(command(text)) if finding.name == "cannot-fail"] == []
    done = subprocess.run(["sh", "-c", text], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert done.returncode != 0


def test_an_ending_that_hides_the_exit_code_where_strings_decide(found):
    (finding,) = found(command("java -version || true", contains=["17.0"]))
    assert finding.name == "cannot-fail"
    assert 'only the strings decide; leave the ending out, or write "exit_code": "any"' in finding.text
    assert found(command("java -version || true", contains=["17.0"], exit_code="any")) == []
    assert found(command("echo $LANG", contains=["UTF-8"])) == []
    (finding,) = found(command("java -version || echo 'version \"17'", contains=["version"]))
    assert "so this passes on any image" in finding.text
    (finding,) = found(command("echo hello", contains=["hello"]))
    assert (
        "'echo hello' tests nothing: the exit code is always 0, so this passes on any image" in finding.text
    )


def test_an_exit_code_that_cannot_come_and_one_that_always_does(found):
    (finding,) = found(command("a || true", exit_code=3))
    assert "always 0, never 3, so this cannot pass" in finding.text
    (finding,) = found(command("a", exit_code="any"))
    assert finding == (
        "cannot-fail",
        "tests[0].params.exit_code 'run_command_1'",
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
        ("app | /usr/bin/head", "| /usr/bin/head"),
        ("app | awk '{if ($1 < 3) exit 1}'", "| awk '{if ($1 < 3) exit 1}'"),
        ("app | sed 's/quit/x/'", "| sed 's/quit/x/'"),
        ("make || rm -r build", "|| rm -r build"),
    ],
)
def test_a_pipe_that_hides_the_status(found, text, end):
    (finding,) = found(command(text))
    assert finding.name == "hidden-status"
    assert f"the exit code is that of '{end}'" in finding.text


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
        "app | python3 -c 'import sys'",
        "bash -o pipefail -c 'app | head'",
        "app | xargs -r false",
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
        command(r'''/bin/bash -c "echo -e 'a\nb' && make"'''),
        command(r"echo a\nb && make"),
        command(r'echo "\\$HOME" && make'),
        command(r"""echo "$(grep '\bfoo' f)" && make"""),
    ],
)
def test_an_echo_on_which_shells_agree(found, test):
    assert found(test) == []


def test_needles(found):
    (finding,) = found(command("java -version", contains=["17.0.", "8", "21"]))
    assert finding == (
        "short-needle",
        "tests[0].params.contains 'output_contains_1'",
        "'8', '21': so short a string is in many texts ('8' in '17.0.18'); write more of what is meant",
    )
    (finding,) = found({"type": "file_contains", "params": {"path": "x", "contains": ["ok"]}})
    assert finding.name == "short-needle"
    for pattern in ("v5.*", r"v5\.3", "v[0-9]"):
        (finding,) = found(command("perl -v", contains=[pattern]))
        assert finding.name == "literal-needle"
    assert found(command("perl -v", contains=["v5.36", "^this", "[x]", "a*b"])) == []


def test_needles_that_an_error_holds(found):
    (finding,) = found(command("cd x && git --version", contains=["git"]))
    assert finding.name == "needle-in-error"
    assert "'/bin/sh: 1: git: not found'), so that only the exit code tells the two apart" in finding.text
    (finding,) = found(command("git --version", contains=["git"], exit_code="any"))
    assert "so that it passes where there is none" in finding.text
    findings = found(command("git --version 2>&1 | head -1", contains=["git"]))
    assert names(findings) == ["hidden-status", "needle-in-error"]
    assert "so that it passes where there is none" in findings[1].text
    assert found(command("git --version", contains=["git version"])) == []
    assert found(command("git --version", contains=["git", "2.39"], match="all")) == []
    assert found(command("git --version 2>/dev/null", contains=["git"])) == []
    assert found(command("echo $PATH", contains=["/opt/conda"])) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("source venv/bin/activate && make", "source"),
        ("[[ -f x ]]", "[["),
        ("(shopt -s globstar && make)", "shopt"),
        ("set -euo pipefail; make", "set -o pipefail"),
    ],
)
def test_what_only_bash_knows(found, text, word):
    (finding,) = found(command(text))
    assert finding.name == "bashism"
    assert f"'{word}' is bash's, and unknown to dash" in finding.text
    assert found(command(text, shell="/bin/bash")) == []
    assert found(command(f'bash -c "{text}"')) == []


def test_a_name_that_is_a_whole_command(found):
    (finding,) = found({"type": "commands_exist", "params": {"names": ["perl", "perl -v"]}})
    assert (finding.name, finding.place) == ("literal-name", "tests[0].params.names 'commands_exist_1'")


@pytest.mark.parametrize("path", ["$HOME/x", "src/*.py", "~/x", "~root"])
def test_a_path_that_nothing_expands(found, path):
    (finding,) = found({"type": "files_exist", "params": {"paths": ["x", path]}})
    assert (finding.name, finding.place) == ("literal-path", "tests[0].params.paths[1] 'files_exist_1'")
    (finding,) = found({"type": "file_contains", "params": {"path": path, "contains": ["text"]}})
    assert (finding.name, finding.place) == ("literal-path", "tests[0].params.path 'file_contains_1'")
    assert found({"type": "dirs_exist", "params": {"paths": ["a~b", "/x y", "[z]"]}}) == []


@pytest.mark.parametrize("name", ["PATH", "HOME", "HOSTNAME"])
def test_a_variable_that_docker_sets(found, name):
    (finding,) = found({"type": "envvar_set", "params": {"name": name}})
    assert (finding.name, finding.place) == ("set-by-docker", "tests[0].params.name 'envvar_set_1'")
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
        ("unresolvable", f"tests[{at}].requires '{name}'") for at, name in enumerate("abcd")
    ]
    assert findings[0].text == "requires unknown test 'nobody', so this can never run; require other tests"


@pytest.mark.parametrize(
    ("maker", "user", "made"),
    [
        ("cargo build --release", "target/release/bat --help", "'target/'"),
        ("mkdir -p build && cd build && cmake ..", "cd build && cmake --build .", "'build'"),
        ("g++ -o /tmp/hello x.cpp", "/tmp/hello | grep Hello", "'/tmp/hello'"),
        ("cd src && app >log.txt 2>&1", "grep -q done src/log.txt", "'src/log.txt'"),
        ("npm ci >/dev/null 2>&1", "npm run build", "'node_modules/'"),
        ("git clone https://x.org/a/thing.git", "cd thing && make", "'thing/'"),
        ("python3 -m venv .venv", "./.venv/bin/pip list", "'.venv/'"),
        ("pip install flaskx", "flaskx run --help", "command flaskx"),
        ("npm install -g typescript tsc", "tsc --version", "command tsc"),
        (
            "go install google.org/x/protoc-gen-go@latest",
            "which protoc && protoc-gen-go",
            "command protoc-gen-go",
        ),
        ("wget -q https://x.org/y -O y.json", "jq . y.json", "'y.json'"),
        ("cmake -S . -B out", "cmake --build out", "'out/'"),
    ],
)
def test_what_an_earlier_test_made_is_gone(found, maker, user, made):
    findings = found(command(maker), command(user))
    assert names(findings) == ["made-elsewhere"]
    assert findings[0].place == "tests[1] 'run_command_2'"
    assert f"{made} is made by tests[0] 'run_command_1' in a container of its own" in findings[0].text
    assert found(command(user), command(maker)) == []


def test_many_tests_that_ask_for_the_same_are_one_warning(found):
    findings = found(command("cargo build"), *[command(f"target/debug/app {n}") for n in range(4)])
    assert names(findings) == ["made-elsewhere"]
    assert (
        "and is not here, nor for 3 more of the tests after it, unless the image has it" in findings[0].text
    )


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
        ("cargo build", "cargo test && target/debug/app"),
        ("cargo build", "rustup target list"),
        ("cargo build --help", "ls target"),
        ("cd a && touch x", "cat x"),
        ("npm --version", "npm run build"),
        ("mkdir -p build && app", "npm run build && ./gradlew build"),
        ("mkdir test && app", "go test ./... && test -f x"),
        ("make >log && app", "git log -1"),
        ("pip install -e .", ". venv/bin/activate && make"),
        ("pip install --upgrade pip", "pip --version"),
        ("pip install -r requirements.txt", "requirements.txt"),
        ("npm ci", "npm install left-pad && npx left-pad"),
        ("gcc -o /tmp/t x.c", "cp main.c /tmp/t && cat /tmp/t"),
        ("meson setup out", "meson setup out && cd out && ninja"),
        ("make hello", "make hello && ./hello"),
        ("touch /tmp/t.c && app", "rm -f /tmp/t.c && test ! -e /tmp/t.c"),
        ("mkdir -p /app && app", "cat /app/main.py"),
        ("grep -c '>' seqs.fasta", "cat seqs.fasta"),
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
            assert re.fullmatch(r"[a-z-]+: tests\[\d+\]\S* '\S+': .+", str(finding))


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
