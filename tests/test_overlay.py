"""--overlay: files of the answer, laid over a temporary copy of the build context."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

import pytest
from cases import TRUE, buildkit
from conftest import error_of, outcome
from engine import wait_for

import DockerfileEvaluator as de


class Link(NamedTuple):
    """In place of the content of a file: a symbolic link."""

    target: str


FOLDER = None  # in place of the content of a file


@pytest.fixture
def make_folder(tmp_path):
    """Return a function that makes a folder of files: path, and content, Link or FOLDER."""

    def make(name, files):
        folder = tmp_path / name
        folder.mkdir()
        for path, content in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if content is FOLDER:
                place.mkdir(exist_ok=True)
            elif isinstance(content, Link):
                place.symlink_to(content.target)
            else:
                place.write_text(content)
        return folder

    return make


def files_of(folder):
    """Return what `make_folder` would make a folder from."""
    found = {}
    for path in sorted(Path(str(folder)).rglob("*")):
        name = str(path.relative_to(str(folder)))
        if path.is_symlink():
            found[name] = Link(os.readlink(str(path)))
        elif path.is_dir():
            found[name] = FOLDER
        else:
            found[name] = path.read_text()
    return found


@pytest.fixture
def copy(tmp_path):
    """Return a function that copies a context with an overlay, and returns the copy."""

    def run(context, overlay):
        target = tmp_path / "copy"
        de.copy_context(str(context), str(overlay), str(target))
        return target

    return run


def test_overlay_lies_over_a_copy_and_the_checkout_stays_as_it_is(make_folder, copy):
    files = {
        ".git": FOLDER,
        ".git/x": "y",
        "a": "old",
        "dir": FOLDER,
        "dir/b": "old",
        "dir/c": "kept",
    }
    context = make_folder("context", files)
    overlay = make_folder("overlay", {"a": "new", "dir/b": "new", "more/d": "new"})

    target = copy(context, overlay)

    assert files_of(target) == {
        ".git": FOLDER,
        ".git/x": "y",
        "a": "new",
        "dir": FOLDER,
        "dir/b": "new",
        "dir/c": "kept",
        "more": FOLDER,
        "more/d": "new",
    }
    assert files_of(context) == files


def test_copy_has_hard_links_to_the_checkout(make_folder, copy):
    context = make_folder("context", {"a": "x"})
    overlay = make_folder("overlay", {"b": "x"})

    target = copy(context, overlay)

    assert os.path.samefile(str(context / "a"), str(target / "a"))
    assert not os.path.samefile(str(overlay / "b"), str(target / "b"))


def test_copy_without_hard_links_is_the_same(make_folder, copy, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    context = make_folder("context", {"a": "x", "run": "#!/bin/sh", "link": Link("a")})
    (context / "run").chmod(0o755)

    target = copy(context, make_folder("overlay", {}))

    assert files_of(target) == files_of(context)
    assert os.access(str(target / "run"), os.X_OK)


class Replaced(NamedTuple):
    """What a checkout and an overlay have at the same place, and what the copy has there."""

    what: str
    checkout: dict
    overlay: dict
    copy: dict


REPLACED = [
    Replaced(
        "a link to a file by a file",
        checkout={"x": Link("../outside/file")},
        overlay={"x": "new"},
        copy={"x": "new"},
    ),
    Replaced(
        "a link to a folder by a folder",
        checkout={"x": Link("../outside")},
        overlay={"x/file": "new"},
        copy={"x": FOLDER, "x/file": "new"},
    ),
    Replaced(
        "a file by a folder",
        checkout={"x": "old"},
        overlay={"x/file": "new"},
        copy={"x": FOLDER, "x/file": "new"},
    ),
    Replaced(
        "a folder by a file",
        checkout={"x/file": "old"},
        overlay={"x": "new"},
        copy={"x": "new"},
    ),
    Replaced(
        "a folder by a link",
        checkout={"x/file": "old"},
        overlay={"x": Link("/etc")},
        copy={"x": Link("/etc")},
    ),
]


@pytest.mark.parametrize("row", REPLACED, ids=lambda row: row.what)
def test_nothing_is_written_through_a_link(make_folder, copy, row):
    outside = make_folder("outside", {"file": "outside"})
    context = make_folder("context", row.checkout)
    before = files_of(context)

    target = copy(context, make_folder("overlay", row.overlay))

    assert files_of(target) == row.copy
    assert files_of(context) == before
    assert files_of(outside) == {"file": "outside"}


@pytest.fixture
def folder(make_folder):
    return make_folder("overlay", {"a": "x", "link": Link("a")})


def sha256(folder):
    return de.folder_sha256(str(folder))


def test_name_changes_the_hash_of_an_overlay(folder):
    before = sha256(folder)

    (folder / "a").rename(folder / "b")

    assert sha256(folder) != before


def test_content_changes_the_hash_of_an_overlay(folder):
    before = sha256(folder)

    (folder / "a").write_text("other")

    assert sha256(folder) != before


def test_executable_bit_changes_the_hash_of_an_overlay(folder):
    before = sha256(folder)

    (folder / "a").chmod(0o755)

    assert sha256(folder) != before


def test_target_of_a_link_changes_the_hash_of_an_overlay(folder):
    before = sha256(folder)

    (folder / "link").unlink()
    (folder / "link").symlink_to("c")

    assert sha256(folder) != before


def test_empty_folder_changes_the_hash_of_an_overlay(folder):
    before = sha256(folder)

    (folder / "new").mkdir()

    assert sha256(folder) != before


def test_pipe_does_not_change_the_hash_of_an_overlay(folder):
    """docker leaves out pipes; what follows them is part of the hash all the same."""
    before = sha256(folder)

    os.mkfifo(str(folder / "0"))
    assert sha256(folder) == before

    (folder / "a").write_text("other")
    assert sha256(folder) != before


@pytest.fixture
def overlaid(fake, evaluate, make_folder):
    """Evaluate with an overlay, whose ignore file is broken."""
    overlay = make_folder("overlay", {"file": "new", ".dockerignore": "[\n"})

    def run(**options):
        return evaluate(["FROM x"], TRUE, overlay=str(overlay), **options)

    return run


def left_in_temporary_folder(tmp_path):
    return sorted(os.listdir(str(tmp_path / "tmp")))


def test_docker_gets_the_copy_which_is_removed_after_the_build(
    fake, overlaid, tmp_path, monkeypatch
):
    removed = []
    rmtree = shutil.rmtree

    def look(path, *more, **options):
        if os.path.isdir(path):
            removed.append(files_of(path))
        return rmtree(path, *more, **options)

    monkeypatch.setattr(de.shutil, "rmtree", look)

    report = overlaid()

    assert outcome(report) == "passed"
    assert removed[0]["context/file"] == "new"
    assert removed[0]["context/Dockerfile"] == "FROM x\n"
    (words,) = fake.calls("build")
    assert words[-1].startswith(str(tmp_path / "tmp"))
    assert words[-1].endswith("/context")
    assert left_in_temporary_folder(tmp_path) == []


def test_copy_of_a_killed_run_is_removed_by_the_next(
    fake, start, arguments, evaluate, make_folder, tmp_path
):
    overlay = make_folder("overlay", {"file": "new"})
    fake.fault("build", "hang")
    process = start(*arguments(["FROM x"], TRUE, more=[f"--overlay={overlay}"]))
    wait_for(lambda: fake.count("build"), what="for the build")
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any(name.endswith(".files") for name in left_in_temporary_folder(tmp_path))
    fake.kill_all()
    fake.set(faults=[])

    evaluate(["FROM x"], TRUE)

    assert left_in_temporary_folder(tmp_path) == []


def test_resume_compares_the_overlay(fake, overlaid, tmp_path):
    output = str(tmp_path / "report.json")
    first = overlaid(output=output)
    assert overlaid(output=output, resume=True) == first

    (tmp_path / "overlay" / "file").write_text("changed")

    assert overlaid(output=output, resume=True) != first


SYNTAX_ERROR = buildkit(error="ERROR: failed to build: failed to solve: syntax error in pattern")


def test_broken_ignore_file_of_the_overlay_is_the_answers_fault(fake, overlaid):
    fake.fault("build", **SYNTAX_ERROR)

    kind, message = error_of(overlaid())

    assert kind == "build"
    assert "overlay/.dockerignore" in message


def test_overlay_that_does_not_exist_is_an_input_error(fake, evaluate):
    with pytest.raises(de.EvaluationError, match="no such folder") as caught:
        evaluate(["FROM x"], TRUE, overlay="/no/such")

    assert caught.value.kind == "input"


# Answers that try to get around a zero, or at other files


@pytest.fixture
def evaluate_answer(fake, rubric, make_folder):
    """Evaluate the Dockerfile in an overlay with an empty context."""

    def run(files):
        context = str(make_folder("context", {}))
        overlay = str(make_folder("overlay", files))
        dockerfile = os.path.join(overlay, "Dockerfile")
        return de.evaluate(dockerfile, "r", rubric(TRUE), context=context, overlay=overlay)

    return run


@pytest.mark.parametrize("name", ["Dockerfile", "absent"])
def test_dockerfile_that_leads_out_of_the_overlay_is_not_built(
    fake, make_folder, evaluate_answer, name
):
    """It could be the reference solution, or another model's; on another machine it is absent."""
    outside = make_folder("outside", {"Dockerfile": "FROM x"})

    report = evaluate_answer({"Dockerfile": Link(f"{outside}/{name}")})

    kind, message = error_of(report)
    assert kind == "build"
    assert message == "the Dockerfile is a link that leads out of the overlay"
    assert fake.count("build") == 0


def test_dockerfile_that_is_a_link_within_the_overlay_is_built(evaluate_answer):
    report = evaluate_answer(
        {"docker/Dockerfile": "FROM x", "Dockerfile": Link("docker/Dockerfile")}
    )

    assert outcome(report) == "passed"


def test_huge_overlay_is_the_answers_fault(overlaid, tmp_path):
    with open(str(tmp_path / "overlay" / "sparse"), "wb") as file:
        file.truncate(2**43)

    kind, message = error_of(overlaid())

    assert kind == "build"
    assert "more than 1024 MiB" in message


IGNORE_FILES = {
    "a folder": FOLDER,
    "a long line": "x" * 70_000,
    "a link to itself": Link(".dockerignore"),
}


@pytest.mark.parametrize("what", IGNORE_FILES)
def test_ignore_file_that_the_legacy_client_cannot_read(fake, evaluate_answer, what):
    content = IGNORE_FILES[what]
    fake.fault("build", stderr="error reading .dockerignore")

    report = evaluate_answer({"Dockerfile": "FROM x", ".dockerignore": content})

    kind, _ = error_of(report)
    assert kind == "build"


def test_context_that_the_legacy_client_cannot_read_is_not_the_answers_fault(fake, evaluate_answer):
    fake.fault("build", stderr="error checking context: can't stat 'pgdata'")

    report = evaluate_answer({"Dockerfile": "FROM x", ".dockerignore": "*.o\n"})

    kind, _ = error_of(report)
    assert kind == "usage"


def test_ignore_file_of_the_dockerfile_is_named(fake, evaluate_answer):
    fake.fault("build", **SYNTAX_ERROR)

    report = evaluate_answer({"Dockerfile": "FROM x", "Dockerfile.dockerignore": "["})

    kind, message = error_of(report)
    assert kind == "build"
    assert "overlay/Dockerfile.dockerignore" in message
