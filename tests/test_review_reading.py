"""Reading a rubric: each warning where it belongs, and none where it would be wrong."""

from __future__ import annotations

import os
import re
import subprocess

import pytest
from reviews import LOOK, command, names, review

import DockerfileEvaluator as de

pytest_plugins = ["reviews"]


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
    "nosuch || rm -f /nosuch/x": "ends in '|| rm -f /nosuch/x'",
    "nosuch; rm -rf /nosuch/a /nosuch/b": "ends in '; rm -rf /nosuch/a /nosuch/b'",
    "nosuch; rm -r -f /nosuch/x 2>/dev/null": "ends in '; rm -r -f /nosuch/x'",
    "nosuch || printf '%s: 100 %% %b\\n' x y": "ends in '|| printf '%s: 100 %% %b\\n' x y'",
    "sleep 9 & kill $!; true": "ends in '; true'",
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
    "nosuch; rm /nosuch/force -- -f",
    "nosuch; rm -f / >/nosuch/x",
    "set -o nounset; echo $NOSUCH; true",
    "trap 'exit 3' EXIT; nosuch; true",
    "nosuch;\ttrap 'exit 3' EXIT; true",
    "  exec nosuch || true",
    "cd /;   . /nosuch; true",
    "\t. /nosuch; true",
    "if true; then   exec nosuch; fi; true",
    "for i in 1; do . /nosuch; done; true",
    "if nosuch; then true; else exec nosuch; fi; true",
    "VAR=1 . /nosuch; true",
    "A=1 B='2 3' exec nosuch; true",
    ": > /nosuch/FILE; true",
    "export X=1 > /nosuch/FILE; true",
    "shift 5; true",
    "eval 'exit 3'; true",
    "nosuch; : > /nosuch/FILE",
    "nosuch || echo $((10 / ${n:-0}))",
    "x=$((1 / 0)); true",
    "nosuch; printf '%d' x",
    'nosuch || printf "%s %d\\n" x y',
    "FORMAT=%d; nosuch || printf $FORMAT x",
    "kill $$; true",
    'kill -9 "$$" || true',
    "kill -s KILL $$; echo done",
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
        ("app | sort -k 2,2 -t ,", "| sort -k 2,2 -t ,", "app", LEAVE_OUT),
        ("app | cut -d ' ' -f 1", "| cut -d ' ' -f 1", "app", LEAVE_OUT),
        ("app | tail -n 5 > log", "| tail -n 5 > log", "app", LEAVE_OUT),
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
        "app | sed 's/x/y/;Q5'",
        "app | awk '{exit 1}'",
        "app | awk '{ exit 2 }'",
        "app | wc -l FILE",
        "app | cat - FILE",
        "app | head -n 5 FILE",
        "app | sort -k 2 FILE",
        "trap 'nosuch || exit 3' ERR; app | grep x",
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
    ("text", "word"),
    [
        ("[[ -f x ]]", "[["),
        ("test -d x && [[ $A == b* ]]", "[["),
        ("if [[ -f x ]]; then make; fi", "[["),
        ("! [[ -f x ]]", "[["),
        ("source venv/bin/activate && pytest", "source"),
        ("cd app;\n  source .env && make", "source"),
        ("A=1 source x && make", "source"),
    ],
)
def test_what_dash_does_not_have(found, text, word):
    ((name, place, says),) = found(command(text))
    assert (name, place) == ("bash-only", "tests[0].params.command 'run_command_1'")
    assert says.startswith(f"dash, Debian's /bin/sh, has no '{word}'; ")
    dash = subprocess.run(["dash", "-c", text], capture_output=True)
    assert dash.returncode != 0 or b"not found" in dash.stderr
    assert found(command(text, shell="/bin/bash")) == []


@pytest.mark.parametrize(
    "text",
    [
        "[ -f x ] && test x",
        "bash -c 'source x && [[ -f y ]]'",
        "grep '[[' file",
        "make source x",
        "cat <<END | bash\n[[ -f x ]]\nsource y\nEND",
        "./source x",
    ],
)
def test_what_dash_has(found, text):
    assert found(command(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        "python3 -m http.server",
        "cd app && python -m http.server 8000",
        "flask --app hello run --port 5000",
        "PORT=1 uvicorn app:app --host 0.0.0.0",
        "make; gunicorn app:app",
        "tail -f log",
        "sleep infinity",
        "redis-server",
        "php -S localhost:80",
        "bash -lc 'cd app && flask run'",
    ],
)
def test_a_server_that_can_only_time_out(found, text):
    ((name, place, says),) = found(command(text))
    assert (name, place) == ("never-ends", "tests[0].params.command 'run_command_1'")
    assert says.endswith("so this can only time out; start it with '&', and ask it in one go")


@pytest.mark.parametrize(
    "text",
    [
        "python3 -m http.server & sleep 1; curl -f localhost:8000",
        "timeout 5 flask run",
        "uvicorn --version",
        "gunicorn --check-config app:app",
        "redis-server -v",
        "redis-server --daemonize yes && redis-cli ping",
        "flask run || make",
        "tail -f log | head -1 | grep x",
        "if test -f x; then sleep infinity; fi",
        "(sleep infinity) & kill $! && make",
        "test -f tail -f",
        "which flask run",
        "python3 -m http.server --help",
        "pytest -k 'flask run'",
        "trap 'exit 0' TERM; sleep infinity",
    ],
)
def test_what_ends_or_may(found, text):
    assert "never-ends" not in names(found(command(text)))


@pytest.mark.parametrize(
    "text",
    ["cd build", "export PATH=/opt/bin:$PATH", "cd /app && export A=1", ". ./env.sh", "bash -lc 'cd app'"],
)
def test_state_of_a_shell_that_ends(found, text):
    ((name, place, says),) = found(command(text))
    assert (name, place) == ("lost-state", "tests[0].params.command 'run_command_1'")
    assert "changes its own shell alone" in says


@pytest.mark.parametrize(
    "text",
    [
        "pip install -r requirements.txt",
        "cd app && npm ci",
        "python3 -m pip install .",
        "apt-get update && apt-get install -y x",
        "mkdir -p build && cd build",
        "git clone https://example.com/x",
    ],
)
def test_what_one_test_makes_for_the_next(found, text):
    first, second = {**command(text), "id": "made"}, {**command("make"), "requires": ["made"]}
    ((name, place, says),) = found(first, second)
    assert (name, place) == ("lost-state", "tests[0].params.command 'made'")
    assert "is gone when the tests that require it run" in says
    assert found(first, command("make")) == []


@pytest.mark.parametrize(
    "text",
    [
        "cd build && make",
        "export A=1; make",
        "(cd build)",
        "cd build || make",
        "pip install x && pytest",
        "npm run build",
        "make",
        "pip install --dry-run x",
        "A=1 make",
    ],
)
def test_what_is_used_at_once(found, text):
    first, second = {**command(text), "id": "made"}, {**command("make"), "requires": ["made"]}
    assert found(first, second) == []


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


def test_needles_that_are_short_or_meant_as_patterns(found):
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


def test_a_short_timeout_a_score_of_0_and_a_missing_repo(found):
    assert names(found({**LOOK, "timeout": 0.5}, {**LOOK, "score": 0})) == ["short-timeout", "no-points"]
    assert names(found({**LOOK, "timeout": 1}, {**LOOK, "score": 0.1})) == []
    assert names(found(LOOK, repo=None)) == ["no-repo"]


def test_the_shortest_string_that_can_be_drawn(found):
    draw = {"a": [1, 1_000_000]}
    ((name, _, says),) = found(command("app {a}", contains=["{a}"], draw=draw))
    assert (name, says.split(":")[0]) == ("short-needle", "'1'")
    assert found(command("app {a}", contains=["= {a}"], draw=draw)) == []
    assert found(command("app {a}", contains=["{a}"], draw={"a": [100, 1_000_100]})) == []


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


@pytest.mark.long("megabytes of text")
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
        ";a=",
        "(:",
        "; kill $x",
        "|| printf '%",
        "; rm -",
        "| sort -a ",
        "; [[ ",
        "echo ",
    ],
)
def test_text_of_an_enemy_takes_no_time(found, text):
    before = sum(os.times()[:4])
    found(
        command(text * (8000 // len(text))),
        command(text * (100_000 // len(text))),
        command("sh -c '" + text * 9999 + "'"),
    )
    found(command("a | awk " + text * (100_000 // len(text))))
    assert sum(os.times()[:4]) - before < 10  # of a processor, ours and our children's
