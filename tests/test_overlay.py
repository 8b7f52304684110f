"""--overlay: files of the answer, laid over a temporary copy of the build context."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from cases import TRUE, buildkit
from conftest import error_of, outcome

import DockerfileEvaluator as de


@pytest.fixture
def folders(tmp_path):
    """Return a checkout and an overlay: name, content, or a link's target after "-> "."""

    def make(name, files):
        folder = tmp_path / name
        folder.mkdir()
        for path, content in files.items():
            place = folder / path
            place.parent.mkdir(parents=True, exist_ok=True)
            if content is None:
                place.mkdir(exist_ok=True)
            elif content.startswith("-> "):
                place.symlink_to(content[3:])
            else:
                place.write_text(content)
        return folder

    return make


def tree(folder):
    """Return the entries below a folder: content, link target, or None for a folder."""
    found = {}
    for path in sorted(Path(str(folder)).rglob("*")):
        name = str(path.relative_to(str(folder)))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(str(path))}"
        elif path.is_dir():
            found[name] = None
        else:
            found[name] = path.read_text()
    return found


def test_overlay_lies_over_a_copy_and_the_checkout_stays_as_it_is(folders, tmp_path):
    context = folders("context", {"a": "old", "dir/b": "old", "dir/c": "kept", ".git/x": "y"})
    overlay = folders("overlay", {"a": "new", "dir/b": "new", "more/d": "new"})
    before = tree(context)
    de.copy_context(str(context), str(overlay), str(tmp_path / "copy"))
    assert tree(tmp_path / "copy") == {
        ".git": None,
        ".git/x": "y",
        "a": "new",
        "dir": None,
        "dir/b": "new",
        "dir/c": "kept",
        "more": None,
        "more/d": "new",
    }
    assert tree(context) == before


def test_copy_has_hard_links_to_the_checkout(folders, tmp_path):
    context = folders("context", {"a": "x"})
    overlay = folders("overlay", {"b": "x"})
    de.copy_context(str(context), str(overlay), str(tmp_path / "copy"))
    assert os.path.samefile(str(context / "a"), str(tmp_path / "copy" / "a"))
    assert not os.path.samefile(str(overlay / "b"), str(tmp_path / "copy" / "b"))


def test_copy_without_hard_links_is_the_same(folders, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    context = folders("context", {"a": "x", "run": "#!/bin/sh", "link": "-> a"})
    (context / "run").chmod(0o755)
    de.copy_context(str(context), str(folders("overlay", {})), str(tmp_path / "copy"))
    assert tree(tmp_path / "copy") == tree(context)
    assert os.access(str(tmp_path / "copy" / "run"), os.X_OK)


# What the checkout has at a place, and what the overlay has there
REPLACED = [
    ({"x": "-> ../outside/file"}, {"x": "new"}, {"x": "new"}),
    ({"x": "-> ../outside"}, {"x/file": "new"}, {"x": None, "x/file": "new"}),
    ({"x": "old"}, {"x/file": "new"}, {"x": None, "x/file": "new"}),
    ({"x/file": "old"}, {"x": "new"}, {"x": "new"}),
    ({"x/file": "old"}, {"x": "-> /etc"}, {"x": "-> /etc"}),
]


@pytest.mark.parametrize(("below", "above", "expected"), REPLACED)
def test_nothing_is_written_through_a_link(folders, tmp_path, below, above, expected):
    outside = folders("outside", {"file": "outside"})
    context = folders("context", below)
    before = tree(context)
    de.copy_context(str(context), str(folders("overlay", above)), str(tmp_path / "copy"))
    assert tree(tmp_path / "copy") == expected
    assert tree(context) == before
    assert tree(outside) == {"file": "outside"}


CHANGES = {
    "a name": lambda folder: (folder / "a").rename(folder / "b"),
    "a content": lambda folder: (folder / "a").write_text("other"),
    "an executable bit": lambda folder: (folder / "a").chmod(0o755),
    "the target of a link": lambda folder: (
        (folder / "l").unlink(),
        (folder / "l").symlink_to("c"),
    ),
    "an empty folder": lambda folder: (folder / "new").mkdir(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_the_overlay_changes_its_hash(folders, change):
    folder = folders("overlay", {"a": "x", "l": "-> a"})
    before = de.folder_sha256(str(folder))
    assert de.folder_sha256(str(folder)) == before
    CHANGES[change](folder)
    assert de.folder_sha256(str(folder)) != before


@pytest.fixture
def overlaid(fake, evaluate, folders, tmp_path):
    """Evaluate with an overlay; the fake docker's build context is looked at by `look`."""
    overlay = folders("overlay", {"file": "new", ".dockerignore": "[\n"})

    def run(**options):
        return evaluate(["FROM x"], TRUE, overlay=str(overlay), **options)

    return run


def left_in_temporary_folder(tmp_path):
    return sorted(os.listdir(str(tmp_path / "tmp")))


def test_docker_gets_the_copy_which_is_removed_after_the_build(fake, overlaid, tmp_path):
    seen = []
    rmtree = shutil.rmtree

    def look(path, *more, **options):
        if os.path.isdir(path):
            seen.append(tree(path))
        return rmtree(path, *more, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(de.shutil, "rmtree", look)
        report = overlaid()
    assert outcome(report) == "passed"
    assert seen[0]["context/file"] == "new"
    assert seen[0]["context/Dockerfile"] == "FROM x\n"
    (words,) = fake.calls("build")
    assert words[-1].endswith("/context")
    assert str(tmp_path / "tmp") in words[-1]
    assert left_in_temporary_folder(tmp_path) == []


def test_copy_of_a_killed_run_is_removed_by_the_next(
    fake, start, arguments, evaluate, folders, tmp_path
):
    overlay = folders("overlay", {"file": "new"})
    fake.fault("build", "hang")
    process = start(*arguments(["FROM x"], TRUE, more=[f"--overlay={overlay}"]))
    while not fake.count("build"):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any(name.endswith(".files") for name in left_in_temporary_folder(tmp_path))
    fake.kill_all()
    fake.set(faults=[])
    evaluate(["FROM x"], TRUE)
    assert left_in_temporary_folder(tmp_path) == []


def test_resume_compares_the_overlay(fake, overlaid, folders, tmp_path):
    output = str(tmp_path / "report.json")
    first = overlaid(output=output)
    assert overlaid(output=output, resume=True) == first
    (tmp_path / "overlay" / "file").write_text("changed")
    assert overlaid(output=output, resume=True) != first


def test_broken_ignore_file_of_the_overlay_is_the_answers_fault(fake, overlaid):
    error = "ERROR: failed to build: failed to solve: syntax error in pattern"
    fake.fault("build", **buildkit(error=error))
    report = overlaid()
    kind, message = error_of(report)
    assert kind == "build"
    assert "overlay/.dockerignore" in message


def test_overlay_that_does_not_exist_is_an_input_error(fake, evaluate):
    with pytest.raises(de.EvaluationError, match="no such folder"):
        evaluate(["FROM x"], TRUE, overlay="/no/such")


# Answers that try to get around a zero, or at other files


@pytest.fixture
def evaluate_answer(rubric, tmp_path):
    """Evaluate the Dockerfile in an overlay with an empty context."""

    def run(overlay):
        context = tmp_path / "context"
        context.mkdir()
        dockerfile = str(overlay / "Dockerfile")
        return de.evaluate(
            dockerfile, "r", rubric(TRUE), context=str(context), overlay=str(overlay)
        )

    return run


@pytest.mark.parametrize("name", ["Dockerfile", "absent"])
def test_dockerfile_that_leads_out_of_the_overlay_is_not_built(
    fake, folders, evaluate_answer, name
):
    """It could be the reference solution, or another model's; on another machine it is absent."""
    outside = folders("outside", {"Dockerfile": "FROM x"})
    overlay = folders("overlay", {"Dockerfile": f"-> {outside}/{name}"})
    report = evaluate_answer(overlay)
    kind, message = error_of(report)
    assert kind == "build"
    assert message == "the Dockerfile is a link that leads out of the overlay"
    assert fake.count("build") == 0


def test_dockerfile_that_is_a_link_within_the_overlay_is_built(fake, folders, evaluate_answer):
    overlay = folders(
        "overlay", {"docker/Dockerfile": "FROM x", "Dockerfile": "-> docker/Dockerfile"}
    )
    report = evaluate_answer(overlay)
    assert outcome(report) == "passed"


def test_huge_overlay_is_the_answers_fault(fake, overlaid, tmp_path):
    with open(str(tmp_path / "overlay" / "sparse"), "wb") as file:
        file.truncate(2**43)
    kind, message = error_of(overlaid())
    assert kind == "build"
    assert "more than 1024 MiB" in message


IGNORE_FILES = {
    "a folder": lambda place: place.mkdir(),
    "a long line": lambda place: place.write_text("x" * 70_000),
    "a link to itself": lambda place: place.symlink_to(".dockerignore"),
}


@pytest.mark.parametrize("name", IGNORE_FILES)
def test_ignore_file_that_the_legacy_client_cannot_read(fake, overlaid, tmp_path, name):
    place = tmp_path / "overlay" / ".dockerignore"
    place.unlink()
    IGNORE_FILES[name](place)
    fake.fault("build", stderr="error reading .dockerignore")
    assert error_of(overlaid())[0] == "build"


def test_context_that_the_legacy_client_cannot_read_is_not_the_answers_fault(
    fake, overlaid, tmp_path
):
    (tmp_path / "overlay" / ".dockerignore").write_text("*.o\n")
    fake.fault("build", stderr="error checking context: can't stat 'pgdata'")
    assert error_of(overlaid())[0] == "usage"


def test_ignore_file_of_the_dockerfile_is_named(fake, folders, evaluate_answer):
    overlay = folders("overlay", {"Dockerfile": "FROM x", "Dockerfile.dockerignore": "["})
    error = "ERROR: failed to build: failed to solve: syntax error in pattern"
    fake.fault("build", **buildkit(error=error))
    report = evaluate_answer(overlay)
    kind, message = error_of(report)
    assert kind == "build"
    assert "overlay/Dockerfile.dockerignore" in message
