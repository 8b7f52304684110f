"""Results by name and parts of a list (section 2), in the shells that images have.

Each case of a result file is tried in the shells of this host, and on a real engine in those of
its images.
"""

import json
import os
import shutil

import pytest
from cases import read_table, run_command
from engine import measured

# What is in the working folder before each test
FILL = r"""
echo '<s><testcase name="a"/><testcase name="b"/></s>' >good
echo '<s><testcase name="c"/><testcase name="d"/><testcase name="e"/></s>' >three
cp three old.xml
mkdir kept.xml folder folder/deep
ln -s three link.xml
ln -s folder folderlink
"""
# The rows: a command, and how many of 9 tests are counted
#     junit: the files
#     says: a part of the message
#     exit_code: that of the test, null if it has none
CASES = r"""
cp good r.xml -> 2
cp good r.xml; exit 3 -> 2
cp good r.xml; exit 4 -> 0
    exit_code: 0
    says: exit code 4, expected 0
cp good r.xml; exit 5 -> 2
    exit_code: 5
: -> 0
    says: no results in r.xml: no such file
# What was there before
test ! -e old.xml -> 0
    junit: old.xml
    says: no results in old.xml: no such file
test ! -h link.xml && test -f three && cp good link.xml -> 2
    junit: link.xml
cp good r.xml -> 2
    junit: *.xml
    says: no results in kept.xml: cannot be removed before the test
rmdir kept.xml && cp good kept.xml -> 0
    junit: kept.xml
    says: no results in kept.xml: cannot be removed before the test
rmdir kept.xml -> 0
    junit: kept.xml
    says: no results in kept.xml: cannot be removed before the test
test ! -h folderlink && test -d folder && cp good folderlink -> 2
    junit: folder*k
# What is no regular file
ln -s three r.xml -> 0
    says: no results in r.xml: no regular file
ln -s /nowhere r.xml -> 0
    says: no results in r.xml: no regular file
mkfifo r.xml -> 0
    says: no results in r.xml: no regular file
mkdir r.xml && cp three r.xml/r.xml -> 0
    says: no results in r.xml: no regular file
cp good 1.xml; ln -s three 2.xml; mkfifo 3.xml -> 0
    junit: *[0-9].xml
    says: no such file
cp good r1.xml; ln -s three r2.xml; mkfifo r3.xml -> 2
    junit: r*.xml
    says: no results in r2.xml: no regular file, r3.xml: no regular file
# Patterns
mkdir p q && cp good p/r.xml && cp three q/r.xml -> 5
    junit: */r.xml
cp good r.xml && cp three folder/deep/r.xml -> 0
    junit: */r.xml
    says: no results in */r.xml: no such file
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
    says: no results in a: b.xml
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
# Variables of the image stay as they are.
cp good r.xml; test "$file$size$total" = abc && test -n "$IFS" || exit 1 -> 2
    exit_code: 0
# Its size
head -c 20000000 /dev/zero >r.xml -> 0
    says: no results in r.xml: cannot be read, or too large (16 MiB together)
cp good r1.xml; head -c 16777216 /dev/zero >r2.xml; cp three r3.xml -> 2
    junit: r*.xml
    says: no results in r2.xml: cannot be read, or too large (16 MiB together), r3.xml:
(echo '<s><testcase name="a"/>'; head -c 16000000 /dev/zero; echo '</s>') >r.xml -> 1
# Its end
cp good r.xml; kill -9 $$ -> 0
    says: killed (exit code 137)
cp good r.xml; exit 137 -> 0
    exit_code: 137
    says: killed (exit code 137)
cp good r.xml; kill -9 0 -> 0
"""


def rows_of(text):
    return read_table(text, junit="r.xml", says="", exit_code=None)


ROWS = rows_of(CASES)


def suite(command, junit, exit_code=None):
    test = run_command(command, score=9, timeout=60)
    test["params"].update(junit=junit, of=9, exit_code=exit_code)
    return test


def as_test(row):
    return suite(row.when, row.junit, row.exit_code)


def wrong(rows, report):
    """Return what differs from a table."""
    return [
        (row.when, found["score"], found["message"])
        for row, found in zip(rows, report["test_results"])
        if found["score"] != int(row.then) or row.says not in found["message"]
    ]


# In the shells of this host, on the fake engine


@pytest.fixture
def folders(fake, shell):
    """Let each container start in a new folder, with the shell under test."""
    fake.set(environment={"file": "a", "size": "b", "total": "c"})
    fake.shell(
        "if [ ! -e .filled ]; then",
        'path=$PATH PATH=/usr/bin:/bin; cd "$(mktemp -d "$PWD/XXXXXX")"; touch .filled',
        FILL,
        "PATH=$path; fi",
        f'exec {shell} "$@"',
    )


def test_what_counts_in_each_shell(folders, score):
    assert wrong(ROWS, score(*map(as_test, ROWS))) == []


# What the image lacks, and what a new file and one that was there earn
LACKS = {"nothing": [2, 2], "rm": [2, 0], "wc": [0, 0], "cat": [0, 0]}


@pytest.mark.parametrize("program", LACKS)
def test_program_that_the_image_lacks(fake, tmp_path, folders, shell, score, program):
    for name in {"cat", "cp", "rm", "wc"} - {program}:
        (tmp_path / name).symlink_to(shutil.which(name))
    fake.set(environment={"PATH": str(tmp_path)})
    has_all = "busybox" in os.path.realpath(shell)  # inside

    report = score(*(suite(f"cp good {name}", name) for name in ("new", "old.xml")))

    points = [row["score"] for row in report["test_results"]]
    assert points == LACKS["nothing" if has_all else program]


# Part of a list


SHARES = r"""
commands_exist {"names": ["sh", "cat"]} -> 1.00 2 of 2: found
commands_exist {"names": ["sh", "nosuch", "other"]} -> 0.33 1 of 3: not found: nosuch; not found: o
commands_exist {"names": ["nosuch"]} -> 0.00 0 of 1: not found: nosuch
commands_exist {"names": ["sh", "sh", "nosuch", "nosuch"]} -> 0.50 2 of 4: not found: nosuch
commands_exist {"names": ["1", "0\n11", "\n\n111", "cat"]} -> 0.25 1 of 4: not found: 1
commands_exist {"names": ["-v", "sh; echo 11", "$(echo sh)", "*"]} -> 0.00 0 of 4: not found: -v
commands_exist {"names": ["in a line end"]} -> 1.00 1 of 1: found
commands_exist {"names": ["in a line end", "nosuch", "nosuch", "nosuch"]} -> 0.25 1 of 4:
files_exist {"paths": ["good", "three", "nosuch", "folder"]} -> 0.50 2 of 4: no such file
files_exist {"paths": ["good", "\n1", "1\n11", "nosuch"]} -> 0.25 1 of 4: no such file
files_exist {"paths": ["link.xml", "\\c", "a\\c"]} -> 0.33 1 of 3:
dirs_exist {"paths": ["folder", "folder/deep", "good"]} -> 0.67 2 of 3: a file, not a directory: goo
file_contains {"path": "good", "contains": ["testcase", "nosuch", "name"]} -> 0.67 2 of 3: good lack
file_contains {"path": "good", "contains": ["testcase", "testcase"]} -> 1.00 good contains 'testcase
output_contains {"command": "echo a b", "contains": ["a", "b", "z"]} -> 0.67 2 of 3: the output lack
output_contains {"command": "echo a b", "contains": ["y", "z"]} -> 0.00 0 of 2: the output lacks
output_contains {"command": "echo a b; exit 3", "contains": ["a", "z"]} -> 0.00 exit code 3, expecte
output_contains {"command": "echo a b; kill -9 $$", "contains": ["a", "z"]} -> 0.00 exit code 137
"""


def test_part_of_a_list_earns_that_part_of_the_points(fake, folders, score, tmp_path):
    """The names and the PATH of the image cannot add to it."""
    folder = tmp_path / "a\n1111\n\n1"
    folder.mkdir()
    (folder / "in a line end").symlink_to("/bin/sh")
    fake.set(environment={"PATH": f"{os.environ['PATH']}:{folder}"})
    rows = read_table(SHARES)
    tests = [(*row.when.split(" ", 1),) for row in rows]

    report = score(*((kind, {**json.loads(params), "match": "share"}) for kind, params in tests))

    for row, found in zip(rows, report["test_results"]):
        assert f"{found['score']:.2f} {found['message']}".startswith(row.then)


# On a real engine


COPIES = [f"RUN mkdir /w && cd /w && {'; '.join(FILL.strip().splitlines())}", "WORKDIR /w"]
COPIES.append("ENV file=a size=b total=c")
IMAGES = {
    "busybox": ["FROM busybox:stable", *COPIES],
    "dash": ["FROM debian:bookworm-slim", *COPIES],
    "bash": ["FROM debian:bookworm-slim", *COPIES, "RUN ln -sf bash /bin/sh"],
}


OTHERS = [pytest.param(name, marks=pytest.mark.release) for name in ("dash", "bash")]


@pytest.mark.parametrize("name", ["busybox", *OTHERS])
@pytest.mark.long("starts a container for each case")
def test_what_counts_on_a_real_engine(engine, evaluate, name):
    assert wrong(ROWS, evaluate(IMAGES[name], *map(as_test, ROWS))) == []


OWNED = [*IMAGES["busybox"], "RUN chmod 000 three", "USER 1000"]
OF_OTHERS = rows_of(r"""
: -> 0
    junit: old.xml
    says: no results in old.xml: cannot be removed before the test
cat good 2>/dev/null >old.xml -> 0
    junit: old.xml
    says: no results in old.xml: cannot be removed before the test
cp good /tmp/r.xml -> 2
    junit: /tmp/r.xml
cp good /tmp/r.xml; chmod 000 /tmp/r.xml -> 0
    junit: /tmp/r.xml
    says: no results in /tmp/r.xml: cannot be read, or too large
""")


def test_file_that_the_user_may_not_remove_or_read(engine, evaluate):
    assert wrong(OF_OTHERS, evaluate(OWNED, *map(as_test, OF_OTHERS))) == []


def test_results_beside_a_service(engine, evaluate):
    """There docker exec runs the test; the service's own files are those of another process."""
    tests = [{**as_test(row), "service": 8080} for row in ROWS[:6]]

    assert wrong(ROWS, evaluate([*IMAGES["busybox"], "CMD httpd -f -p 8080"], *tests)) == []


LIES = [
    *IMAGES["busybox"],
    r"RUN rm /bin/wc && printf '#!/bin/sh\necho 1\n' >/bin/wc && chmod +x /bin/wc",
]
LARGE = """
: -> 0
(echo '<s><testcase/>'; head -c 100000000 /dev/zero; echo '</s>') >r.xml -> 0
"""


def test_at_most_17_mib_are_kept_if_an_image_lies_about_a_size(engine, arguments, report):
    """Its wc says that a file of 100 MB has one byte."""
    rows = rows_of(LARGE)

    small, large = (measured(*arguments(LIES, as_test(row))) for row in rows)

    assert wrong(rows[1:], report()) == []
    assert large.memory - small.memory < 100
