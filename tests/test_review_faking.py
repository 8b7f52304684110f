"""What a cheat brings who knows the rubric: files, folders, variables and stubs, from the rubric alone."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile

import pytest
from reviews import command, review

import DockerfileEvaluator as de


@pytest.fixture
def faked(tmp_path):
    """Write the faked image of some tests; return its Dockerfile, and the names that are unpacked, each a stub."""

    def write(*tests, workdir="/app"):
        file = tmp_path / "rubric.json"
        file.write_text(json.dumps({"tests": tests}))
        dockerfile = review.write_faked(str(tmp_path), de.load_rubric(str(file)).tests, "FROM x\n", workdir)
        with tarfile.open(tmp_path / "stubs.tar") as tar:
            stub, *links = tar.getmembers()
            assert (stub.name, stub.mode) == ("usr/local/stub", 0o755)
            assert all(link.issym() and link.linkname == "/usr/local/stub" for link in links)
            (tmp_path / "stub").write_bytes(tar.extractfile(stub).read())
        return dockerfile, {link.name for link in links}

    return write


def names(kind, **params):
    return {"type": kind, "params": params}


@pytest.mark.parametrize(
    ("test", "stubs"),
    [
        (names("command_exists", name="java"), {"usr/local/bin/java"}),
        (names("commands_exist", names=["g++", "./gradlew"]), {"usr/local/bin/g++", "app/gradlew"}),
        (names("files_exist", paths=["a/b", "../up", "/opt/x y"]), {"app/a/b", "up", "opt/x y"}),
        (names("file_contains", path="a", contains=["x"]), {"app/a"}),
        (names("dirs_exist", paths=["src", "/opt/venv"]), {"app/src/.stub", "opt/venv/.stub"}),
        (command("cd build && ./run"), {"app/build/run", "app/run"}),
        (command("test -f Makefile"), {"app/Makefile"}),
        (command("[ -d docs ]"), {"app/docs/.stub"}),
        (command("/opt/bin/tool <input"), {"opt/bin/tool", "app/input"}),
    ],
)
def test_what_is_named_is_there(faked, test, stubs):
    assert stubs <= faked(test)[1]


def test_every_word_that_could_be_a_program_has_a_stub(faked):
    text = "A=1 make -C x && ! python3.11 -c 'import yaml' | grep -q \"$(node --version)\"; ./x | clang++ -"
    stubs = {
        name[len("usr/local/bin/") :] for name in faked(command(text))[1] if name.startswith("usr/local/bin/")
    }
    assert stubs >= {"make", "python3.11", "import", "yaml", "grep", "node", "clang++"}
    assert not any(name.startswith("-") for name in stubs)


def test_a_folder_of_the_systems_is_made_where_a_base_has_none(faked):
    assert {"lib/.stub", "etc/.stub"} <= faked(names("dirs_exist", paths=["/lib", "/etc/", "/proc/x"]))[1]


def test_a_file_that_is_also_a_folder_is_a_folder(faked):
    tests = [names("files_exist", paths=["a", "b", "c", "c/d"]), names("dirs_exist", paths=["a", "b/"])]
    assert faked(*tests)[1] == {"app/.stub", "app/a/.stub", "app/b/.stub", "app/c/d"}


@pytest.mark.parametrize(
    "path",
    ["/proc/x", "/sys/x", "/dev/x", "/proc", "/bin/sh", "/usr/bin/sh", "/bin/bash", "/bin/busybox", "/bin/cat", "/usr",
     "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/bin", "/etc", "/etc/passwd", "/", ".",
     "../../proc/x", "//proc/x", "x" * 256],
)  # fmt: skip
def test_what_the_base_needs_is_left_alone(faked, path):
    kept = names("files_exist", paths=["kept"])
    expected = faked(kept)[1]
    assert faked(kept, names("files_exist", paths=[path]))[1] == expected
    assert faked(kept, names("file_contains", path=path, contains=["x"]))[1] == expected


def test_a_file_that_a_command_itself_writes_is_left_to_it(faked):
    writes = command("echo x > /tmp/x.c && gcc -o /tmp/x /tmp/x.c && echo >/tmp/z; cd out && app ../made")
    stubs = faked(writes, command("echo x >made && echo y >>README"), names("files_exist", paths=["README"]))[
        1
    ]
    assert {"tmp/x", "app/README"} <= stubs
    assert not {"tmp/x.c", "tmp/z", "app/made"} & stubs


def test_variables_that_are_asked_for_are_set(faked):
    tests = [
        names("envvar_set", name="JAVA_HOME"),
        names("envvar_set", name="dotted.name"),
        names("envvar_set", name="PATH"),
        command('test -n "$VIRTUAL_ENV" && "${GOPATH}/bin/x" $HOME $PWD $x'),
    ]
    last = faked(*tests)[0].splitlines()[-1]
    assert last == (
        "ENV PATH=/usr/local/bin:${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin} "
        "GOPATH=/usr/local JAVA_HOME=/usr/local VIRTUAL_ENV=/usr/local dotted.name=/usr/local"
    )


@pytest.mark.parametrize("text", ["a@", "a/", "~", "$A", "cd ", ">a", "-f x ", ". ", "//"])
def test_text_of_an_enemy_takes_no_time(faked, text):
    before = sum(os.times()[:4])
    faked(command(text * (100_000 // len(text))))
    assert sum(os.times()[:4]) - before < 10  # of a processor, ours and our children's


STRINGS = ["it's", '"17.', "a\nb", "$HOME `x` \\n %s", "é€", "-n"]


def test_a_stub_prints_all_strings_and_holds_them(faked, tmp_path, shell):
    tests = [command("a {n}", contains=STRINGS[:3]), names("file_contains", path="f", contains=STRINGS[2:])]
    faked(*tests, command("b {n}", contains=["= {n*2}"], draw={"n": [0, 10**7]}))
    done = subprocess.run([*shell, str(tmp_path / "stub"), "-x"], capture_output=True, check=True)
    assert done.stdout.decode() == "\n".join([*STRINGS, "= {n*2}", ""])  # it cannot know the number
    content = (tmp_path / "stub").read_bytes()
    assert all(text.encode() in content for text in STRINGS)


def test_the_same_rubric_gives_the_same_image(faked, tmp_path):
    tests = [
        names("commands_exist", names=[f"c{at}" for at in range(20)]),
        names("dirs_exist", paths=["z", "y", "x"]),
        command("app {n} $A $B", contains=["{n}"], draw={"n": [0, 10**7]}),
    ]
    first = (*faked(*tests), (tmp_path / "stubs.tar").read_bytes())
    assert (*faked(*tests), (tmp_path / "stubs.tar").read_bytes()) == first
    with tarfile.open(tmp_path / "stubs.tar") as tar:  # in an order that hashes of strings do not decide
        _, *links = tar.getnames()
    assert links == sorted(links)
