"""Results by name and parts of a list (section 2), in the shells that images have.

Each case of a result file is tried in the shells of this host, and on a real engine in those of
its images.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from types import SimpleNamespace

import pytest
from cases import read_table
from engine import measured

import DockerfileEvaluator as de

# What is in the working folder before each test
FILL = r"""
echo '<s><testcase name="a"/><testcase name="b"/></s>' >good
echo '<s><testcase name="c"/><testcase name="d"/><testcase name="e"/></s>' >three
cp three old.xml
mkdir kept.xml folder folder/deep
ln -s three link.xml
ln -s folder folderlink
"""
# A command, how many of 9 are counted, and a part of the message
CASES = r"""
cp good r.xml -> 2
cp good r.xml; exit 3 -> 2
cp good r.xml; exit 4 -> 0
    exit_code: 0
    says: exit code 4, expected 0
cp good r.xml; exit 5 -> 2
    exit_code: 5
: -> 0
    says: no results in 'r.xml: no such file'
# What was there before
test ! -e old.xml -> 0
    junit: old.xml
    says: no results in 'old.xml: no such file'
test ! -h link.xml && test -f three && cp good link.xml -> 2
    junit: link.xml
cp good r.xml -> 2
    junit: *.xml
    says: no results in 'kept.xml: cannot be removed before the test'
rmdir kept.xml && cp good kept.xml -> 0
    junit: kept.xml
    says: no results in 'kept.xml: cannot be removed before the test'
rmdir kept.xml -> 0
    junit: kept.xml
    says: no results in 'kept.xml: cannot be removed before the test'
test ! -h folderlink && test -d folder && cp good folderlink -> 2
    junit: folder*k
# What is no regular file
ln -s three r.xml -> 0
    says: no results in 'r.xml: no regular file'
ln -s /nowhere r.xml -> 0
    says: no results in 'r.xml: no regular file'
mkfifo r.xml -> 0
    says: no results in 'r.xml: no regular file'
mkdir r.xml && cp three r.xml/r.xml -> 0
    says: no results in 'r.xml: no regular file'
cp good 1.xml; ln -s three 2.xml; mkfifo 3.xml -> 0
    junit: *[0-9].xml
    says: no such file
cp good r1.xml; ln -s three r2.xml; mkfifo r3.xml -> 2
    junit: r*.xml
    says: no results in 'r2.xml: no regular file', 'r3.xml: no regular file'
# Patterns
mkdir p q && cp good p/r.xml && cp three q/r.xml -> 5
    junit: */r.xml
cp good r.xml && cp three folder/deep/r.xml -> 0
    junit: */r.xml
    says: no results in '*/r.xml: no such file'
cp three .r.xml; cp good r.xml -> 2
    junit: *r.xml
cp good 'my results.xml'; cp three my -> 2
    junit: my results.xml
cp good 'my results.xml'; cp three my -> 2
    junit: *y res*.xml
cp three rx.xml; cp good 'r?.xml' -> 2
    junit: r?.xml
cp three r1.xml; cp good 'r[1].xml' -> 2
    junit: r[1].xml
cp three r1.xml; cp good 'r[1]2.xml' -> 2
    junit: r[1]*.xml
cp three rc.xml; cp good 'r\c.xml' -> 2
    junit: r\c.xml
cp three 'r\c.xml'; cp good 'r\n[.xml' -> 5
    junit: r\*.xml
cp good ./-r.xml -> 2
    junit: -r.xml
cp good ./-n -> 2
    junit: -n
cp good "it's" -> 2
    junit: it's
cp good '$(touch x)`touch x`;!' -> 2
    junit: $(touch x)`touch x`;!
cp good 'größe.xml' -> 2
    junit: größe*
cp good '~' -> 2
    junit: ~
cp good 'a%s.xml' -> 2
    junit: a%s.xml
cp good "$(printf 'a\nb.xml')" -> 0
    junit: a*
    says: no results in 'a: b.xml
# The working folder is that in which the command starts, whatever it does
cd folder && cp ../good r.xml && cp ../three ../r.xml -> 3
cd / && cp "$OLDPWD/good" "$OLDPWD/r.xml" -> 2
PATH=/nowhere IFS=x; set -f; set -e; cd /; kill -0 $$ -> 0
    says: no such file
# What it prints
echo c0de=F r.xml >&2; echo '<s><testcase name="a"/></s>c0de=G' >&2 -> 0
    says: no such file
cp good r.xml; exec 1>&- 2>&- -> 2
cp good r.xml; (while :; do echo '<s><testcase name="x"/></s>'; done) & sleep 0.1 -> 2
# Its size
head -c 100000000 /dev/zero >r.xml -> 0
    says: no results in 'r.xml: cannot be read, or too large (16 MiB together)'
cp good r1.xml; head -c 16777216 /dev/zero >r2.xml; cp three r3.xml -> 2
    junit: r*.xml
    says: no results in 'r2.xml: cannot be read, or too large (16 MiB together)', 'r3.xml:
(echo '<s><testcase name="a"/>'; head -c 16000000 /dev/zero; echo '</s>') >r.xml -> 1
# Its end
cp good r.xml; kill -9 $$ -> 0
    says: killed (exit code 137)
cp good r.xml; exit 137 -> 0
    exit_code: 137
    says: killed (exit code 137)
cp good r.xml; kill -9 0 -> 0
cp good r.xml; sleep 60 -> 0
    says: timed out after 2 s
"""
ROWS = read_table(CASES, junit="r.xml", says="", exit_code="null")


def as_test(row):
    params = {"command": row.when, "junit": row.junit, "of": 9}
    params["exit_code"] = json.loads(row.exit_code)
    timeout = 2 if "sleep 60" in row.when else 60
    return {"type": "run_command", "params": params, "score": 9, "timeout": timeout}


def differs(row, score, message):
    """Return what differs from the table, "" if nothing does."""
    is_right = (score, row.says in message) == (int(row.then), True)
    return "" if is_right else f"\n{row.when}: {score}, {message}"


# In the shells of this host, without docker


def run_in(shell, folder, test, **environment):
    """Return what happens if a shell runs the wrapper of a test."""
    check, capture = test.check, de.Capture()
    script = de._WRAPPER.replace("SCRIPT", check.script)
    arguments = [shell if word == "/bin/sh" else word for word in check.arguments]
    words = [shell, "-c", script, shell, capture.nonce, check.files, *arguments]
    with TemporaryFile() as out, TemporaryFile() as err:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=str(folder),
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            code = process.wait(test.timeout)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out.seek(0)
        err.seek(0)
        for data in iter(lambda: out.read(de.CHUNK), b""):
            capture.feed(data)
        files = de.result_files(err.read(de.MAX_FILES), capture.nonce)
    capture.finish()
    code = 128 - code if code and code < 0 else code
    return de.ContainerRun(capture.phase, code, capture.exit_code, capture.output.data(), files)


@pytest.fixture
def judged(shell, tmp_path):
    """Return a function that runs a test in a shell, and returns its points and its message."""

    def judge(content, **environment):
        folder = Path(tempfile.mkdtemp(dir=str(tmp_path)))
        subprocess.run(["sh", "-ec", FILL], cwd=str(folder), check=True)
        (test,) = de.read_rubric(json.dumps({"tests": [content]}).encode(), "r").tests
        result = de.verdict(test, run_in(shell, folder, test, **environment))
        points = de.points_of(test, result) if isinstance(result, de.Result) else 0
        return points, result.message

    return judge


def test_what_counts_in_each_shell(judged):
    assert "".join(differs(row, *judged(as_test(row))) for row in ROWS) == ""


def test_variables_of_the_image_stay_as_they_are(judged):
    values = {"file": "a", "size": "b", "total": "c"}
    command = "cp good r.xml; test $file$size$total = abc || exit 1; set -- $IFS; test $# = 0"
    params = {"command": command, "junit": "*.xml", "of": 2, "exit_code": 0}

    points, message = judged({"type": "run_command", "params": params}, **values)

    assert (points, message[:6]) == (1, "2 of 2")


@pytest.fixture
def programs(tmp_path):
    """Return a folder for programs of a PATH."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("cat", "cp", "rm", "wc"):
        (folder / name).symlink_to(shutil.which(name))
    return folder


LACKS = {  # what the image lacks, and what is counted of a new file and of one that was there
    "nothing": ("", 2, 2),
    "rm": ("rm", 2, 0),
    "wc": ("wc", 0, 0),
    "cat": ("cat", 0, 0),
}


@pytest.mark.parametrize(("program", "new", "old"), LACKS.values(), ids=LACKS)
def test_program_that_the_image_lacks(judged, programs, shell, program, new, old):
    if "busybox" in os.path.realpath(shell):  # It has all programs itself.
        new, old = 2, 2
    if program:
        (programs / program).unlink()
    for name, counted in (("r.xml", new), ("old.xml", old)):
        row = SimpleNamespace(when=f"cp good {name}", junit=name, exit_code="null")

        points, message = judged(as_test(row), PATH=str(programs))

        assert (points, "no results in" in message) == (counted, not counted)


def test_program_of_the_image_that_prints_no_size(judged, programs):
    """Then the shell may end, which proves nothing; in any case nothing is earned."""
    (programs / "wc").unlink()
    (programs / "wc").write_text("#!/bin/sh\necho 1 2 x\n")
    (programs / "wc").chmod(0o755)
    row = SimpleNamespace(when="cp good r.xml", junit="r.xml", exit_code="null")

    assert judged(as_test(row), PATH=f"{programs}:{os.environ['PATH']}")[0] in (0, 2)


# Part of a list


SHARES = r"""
commands_exist ["sh", "cat"] -> 2 of 2: found
commands_exist ["sh", "nosuch", "other"] -> 1 of 3: not found: nosuch; not found: other
commands_exist ["nosuch"] -> 0 of 1: not found: nosuch
commands_exist ["sh", "sh", "nosuch", "nosuch"] -> 2 of 4: not found: nosuch; not found: nosuch
commands_exist ["1", "0\n11", "\n\n111", "cat"] -> 1 of 4: not found: 1
commands_exist ["-v", "sh; echo 11", "$(echo sh)", "*"] -> 0 of 4: not found: -v
commands_exist ["in a line end"] -> 1 of 1: found
commands_exist ["in a line end", "nosuch", "nosuch", "nosuch"] -> 1 of 4:
files_exist ["good", "three", "nosuch", "folder"] -> 2 of 4: no such file
files_exist ["good", "\n1", "1\n11", "nosuch"] -> 1 of 4: no such file
files_exist ["link.xml", "\\c", "a\\c"] -> 1 of 3:
dirs_exist ["folder", "folder/deep", "good"] -> 2 of 3: a file, not a directory: good
file_contains ["testcase", "nosuch", "name"] -> 2 of 3: good contains none of 'nosuch'
file_contains ["testcase", "testcase"] -> good contains 'testcase'
output_contains ["a", "b", "z"] -> 2 of 3: the output contains none of 'z'
output_contains ["y", "z"] -> 0 of 2: the output contains none of 'y', 'z'
"""
LISTS = {"commands_exist": "names", "files_exist": "paths", "dirs_exist": "paths"}


@pytest.mark.parametrize("row", read_table(SHARES), ids=lambda row: row.when)
def test_part_of_a_list_earns_that_part_of_the_points(judged, tmp_path, row):
    """The names and the PATH of the image cannot add to it."""
    test_type, _, texts = row.when.partition(" ")
    params = {LISTS.get(test_type, "contains"): json.loads(texts), "match": "share"}
    more = {"file_contains": {"path": "good"}, "output_contains": {"command": "echo a b"}}
    params.update(more.get(test_type, {}))
    folder = tmp_path / "a\n1111\n\n1"
    folder.mkdir()
    (folder / "in a line end").symlink_to("/bin/sh")

    points, message = judged(
        {"type": test_type, "params": params, "score": 12}, PATH=f"{os.environ['PATH']}:{folder}"
    )

    found, _, number = row.then.partition(":")[0].partition(" of ")
    share = int(found) / int(number) if number else 1
    assert (points, message[: len(row.then)]) == (12 * share, row.then)


@pytest.mark.parametrize("command", ["echo a b; exit 3", "echo a b; kill -9 $$"])
def test_part_of_an_output_needs_the_exit_code(judged, command):
    params = {"command": command, "contains": ["a", "z"], "match": "share"}

    assert judged({"type": "output_contains", "params": params})[0] == 0


def test_points_of_a_part_are_rounded_down(judged):
    params = {"names": ["sh", "cat", "nosuch"], "match": "share"}

    assert judged({"type": "commands_exist", "params": params})[0] == 0.666666


# On a real engine


COPIES = [f"RUN mkdir /w && cd /w && {'; '.join(FILL.strip().splitlines())}", "WORKDIR /w"]
IMAGES = {
    "busybox": ["FROM busybox:stable", *COPIES],
    "dash": ["FROM debian:bookworm-slim", *COPIES],
    "bash": ["FROM debian:bookworm-slim", *COPIES, "RUN ln -sf bash /bin/sh"],
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.long("starts a container for each case")
def test_what_counts_on_a_real_engine(engine, evaluate, name):
    report = evaluate(IMAGES[name], *map(as_test, ROWS))

    rows = zip(ROWS, report["test_results"])
    assert "".join(differs(row, found["score"], found["message"]) for row, found in rows) == ""
    assert report["error"] is None


OWNED = [*IMAGES["busybox"], "RUN chmod 000 three", "USER 1000"]


def test_file_that_the_user_may_not_remove_or_read(engine, evaluate):
    rows = read_table(
        r"""
: -> 0
    says: no results in 'old.xml: cannot be removed before the test'
cat good 2>/dev/null >old.xml -> 0
    says: no results in 'old.xml: cannot be removed before the test'
cp good /tmp/r.xml -> 2
    junit: /tmp/r.xml
cp good /tmp/r.xml; chmod 000 /tmp/r.xml -> 0
    junit: /tmp/r.xml
    says: no results in '/tmp/r.xml: cannot be read, or too large
""",
        junit="old.xml",
        says="",
        exit_code="null",
    )

    report = evaluate(OWNED, *map(as_test, rows))

    found = zip(rows, report["test_results"])
    assert "".join(differs(row, each["score"], each["message"]) for row, each in found) == ""


SERVED = [*IMAGES["busybox"], "CMD httpd -f -p 8080"]


def test_results_beside_a_service(engine, evaluate):
    """There docker exec runs the test; the service's own files are those of another process."""
    rows = [row for row in ROWS if "kill" not in row.when and "while" not in row.when][:6]
    tests = [{**as_test(row), "service": 8080} for row in rows]

    report = evaluate(SERVED, *tests)

    found = zip(rows, report["test_results"])
    assert "".join(differs(row, each["score"], each["message"]) for row, each in found) == ""


def test_names_of_a_list_are_earned_one_by_one(engine, evaluate):
    params = {"command": "cp good r.xml; cp three s.xml; exit 1", "junit": "[rs]", "tests": ["a"]}
    params.update(junit="?.xml")
    by_name = {"command": "cp good r.xml; cp three s.xml; exit 1", "junit": "*s.xml"}
    by_name.update(tests=["c", "e", "x"])
    tests = [{"type": "run_command", "params": each, "score": 3} for each in (params, by_name)]

    report = evaluate(IMAGES["busybox"], *tests)

    rows = report["test_results"]
    assert [(row["score"], row["counted"]) for row in rows] == [(0, 0), (2, 2)]
    assert rows[1]["message"] == "2 of 3, exit code 1; no such test: 'x' (known: 'c', 'd', 'e')"


LIES = [
    *IMAGES["busybox"],
    r"RUN rm /bin/wc && printf '#!/bin/sh\necho 1\n' >/bin/wc && chmod +x /bin/wc",
]


def test_at_most_17_mib_are_kept_if_an_image_lies_about_a_size(engine, arguments, report):
    """Its wc says that a file of 100 MB has one byte."""
    command = "(echo '<s><testcase/>'; head -c 100000000 /dev/zero; echo '</s>') >r.xml"
    test = as_test(SimpleNamespace(when=command, junit="r.xml", exit_code="null"))

    small = measured(*arguments(LIES, {**test, "params": {**test["params"], "command": ":"}}))
    large = measured(*arguments(LIES, test))

    assert [row["score"] for row in report()["test_results"]] == [0]
    assert large.memory - small.memory < 100
