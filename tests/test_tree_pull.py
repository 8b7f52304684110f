"""artifacts/evaluate_all.py --pull: what Dockerfiles start from, read, pulled and kept by digest."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import shutil
import socket
import subprocess
import threading
from types import SimpleNamespace

import pytest
from cases import run_command
from conftest import ENGINE_REQUIRED
from engine import docker, wait_for
from trees import ea, inventory, kind, write

pytest_plugins = ["trees"]

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64

# Reading


@pytest.mark.parametrize(
    ("text", "bases"),
    [
        ("FROM debian:12", ["debian:12"]),
        ("FROM debian", ["debian:latest"]),
        ("from debian:12 as build\nFROM build", ["debian:12"]),
        ("FROM debian:12 AS Build\nFROM scratch\nCOPY --from=build /a /b\nCOPY --from=0 /a /b", ["debian:12"]),
        ("FROM a:1\nFROM b:1\nFROM a:1", ["a:1", "b:1"]),
        ("FROM localhost:5000/x\nFROM r.io/a/b:1\nFROM a@" + ONE, ["localhost:5000/x:latest", "r.io/a/b:1", f"a@{ONE}"]),
        # build arguments
        ("ARG V=12\nFROM debian:$V", ["debian:12"]),
        ('ARG V="12" W=-slim\nFROM debian:${V}${W}', ["debian:12-slim"]),
        ("ARG R=debian\nARG I=$R:12\nFROM $I", ["debian:12"]),
        ("FROM debian:${V:-12}\nFROM alpine:${V-3}", ["debian:12", "alpine:3"]),
        ("ARG GIVEN=1\nFROM a:$GIVEN", ["a:2"]),
        ("ARG GIVEN\nFROM a:$GIVEN", ["a:2"]),
        ("FROM a:$GIVEN", []),  # it is not asked for
        ("ARG V\nFROM debian:$V", []),
        ("FROM a:1\nARG V=12\nFROM debian:$V", ["a:1"]),  # an argument of a stage is none of FROM's
        ("FROM ${V:+x}\nFROM ${V:-${W}}\nFROM a\\ b", []),
        # platforms
        ("FROM --platform=linux/amd64 a:1", ["a:1"]),
        ("FROM --platform=$TARGETPLATFORM a:1\nFROM --platform=${BUILDPLATFORM} b:1", ["a:1", "b:1"]),
        ("FROM --platform=linux/arm64 a:1\nFROM --platform=$NOSUCH b:1", []),
        # other sources
        ("FROM a:1\nCOPY --chown=1:1 --from=nginx:1 /a /b\nCOPY a --from=b c", ["a:1", "nginx:1"]),
        ("FROM a:1\nCOPY --from=$X /a /b", ["a:1"]),
        ("FROM a:1\nRUN --mount=type=bind,from=go:1,target=/x --mount=type=cache,target=/y make", ["a:1", "go:1"]),
        ("FROM a:1\nRUN echo --mount=from=b:1", ["a:1"]),
        ("FROM a:1 AS one\nRUN --mount=from=one,target=/x make", ["a:1"]),
        ("# syntax=docker/dockerfile:1\nFROM a:1", ["docker/dockerfile:1", "a:1"]),
        ("#syntax = docker/dockerfile:1.4\r\n# check=skip=all\r\nFROM a:1\r\n", ["docker/dockerfile:1.4", "a:1"]),
        ("# a comment\n# syntax=docker/dockerfile:1\nFROM a:1", ["a:1"]),
        ("\n# syntax=docker/dockerfile:1\nFROM a:1", ["a:1"]),
        # lines
        ("FROM \\\n  a:1 \\\n  AS x\nFROM x", ["a:1"]),
        ("RUN x \\\n# FROM b:1\n\n  y\nFROM a:1", ["a:1"]),
        ("RUN x \\  \nFROM b:1\nFROM a:1", ["a:1"]),
        ("# escape=`\nFROM `\na:1\nRUN dir c:\\\nFROM b:1", ["a:1", "b:1"]),
        ("  FROM\ta:1\n#FROM b:1\n   # FROM c:1", ["a:1"]),
        ("\ufeffFROM a:1", ["a:1"]),
        ("", []),
        # heredocs
        ("FROM a:1\nRUN <<EOF\nFROM b:1\nEOF\nFROM c:1", ["a:1", "c:1"]),
        ("FROM a:1\nRUN cat <<-'EOF' >x && cat <<\"TWO\"\n\tFROM b:1\n\tEOF\nFROM c:1\nTWO\nFROM d:1", ["a:1", "d:1"]),
        ("FROM a:1\nCOPY <<x <<y /\nFROM b:1\nx\nFROM c:1\ny\nFROM d:1", ["a:1", "d:1"]),
        ("FROM a:1\nRUN cat <<< word\nFROM b:1", ["a:1", "b:1"]),
        ("FROM a:1\nRUN echo '<<EOF' \"a <<EOF\"\nFROM b:1", ["a:1", "b:1"]),
        ("FROM a:1\nRUN <<EOF\nFROM b:1", ["a:1"]),
        # what docker could take for an option, or is no name
        ("FROM -x\nFROM a:1 AS --help\nFROM 'b:1'\nFROM é:1", ["a:1", "b:1"]),
    ],
)  # fmt: skip
def test_what_a_dockerfile_starts_from_is_read_from_its_text(text, bases):
    given = {"TARGETPLATFORM": "linux/amd64", "BUILDPLATFORM": "linux/amd64", "GIVEN": "2"}
    assert inventory.bases_of(text, given) == bases


def test_without_a_known_platform_what_names_one_is_left_to_the_build():
    assert inventory.bases_of("FROM --platform=linux/amd64 a:1\nFROM b:1", {}) == ["b:1"]


@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        (["--build-arg=A=1", "--build-arg", "B=x=y", "--pull"], {"A": "1", "B": "x=y"}),
        (["--platform=linux/arm64"], {"TARGETPLATFORM": "linux/arm64"}),
        (["--build-arg=HOST_SETS", "--build-arg=NOBODY_SETS"], {"HOST_SETS": "it", "NOBODY_SETS": ""}),
        (["--build-arg"], {"": ""}),
    ],
)
def test_build_arguments_are_those_of_the_options(monkeypatch, options, arguments):
    monkeypatch.setenv("HOST_SETS", "it")
    assert inventory.build_arguments(options) == arguments


# Having


class Docker:
    """A stand-in of docker's images: those that are there, by name, with digests, and a registry."""

    def __init__(self, images, registry):
        self.images, self.registry, self.calls = images, registry, []

    def ask(self, *words, limit=None):
        self.calls.append(" ".join(words))
        name, error = words[-1], ""
        if words[0] == "pull":
            digest = self.registry.get(name, "manifest unknown")
            if digest.startswith("sha256:"):
                repository = name.partition("@")[0].rpartition(":")[0] or name.partition("@")[0]
                self.images[name] = [f"{repository}@{digest}"]
            else:
                error = f"Error response from daemon: {digest}"
        elif words[:2] == ("image", "tag"):
            self.images[name] = self.images[words[2]]
        elif name not in self.images:
            error = "Error: No such image"
        digests = "\n".join(self.images.get(name, ()))
        return SimpleNamespace(returncode=int(bool(error)), stdout=digests, stderr=error)

    def did(self, *commands):
        return [call for call in self.calls if call.startswith(commands or ("pull", "image tag"))]


@pytest.mark.parametrize(
    ("name", "digest", "images", "did", "after"),
    [
        ("debian:12", "", {}, ["pull debian:12"], ONE),
        ("debian:12", "", {"debian:12": [f"debian@{TWO}"]}, [], TWO),
        ("debian:12", ONE, {"debian:12": [f"debian@{ONE}"]}, [], ONE),
        ("debian:12", ONE, {}, [f"pull debian@{ONE}", f"image tag debian@{ONE} debian:12"], ONE),
        (
            "debian:12",
            ONE,
            {"debian:12": [f"debian@{TWO}"]},
            [f"pull debian@{ONE}", f"image tag debian@{ONE} debian:12"],
            ONE,
        ),
        ("docker.io/library/debian:12", "", {"docker.io/library/debian:12": [f"debian@{TWO}"]}, [], TWO),
        (f"debian:12@{ONE}", "", {}, [f"pull debian@{ONE}"], ONE),
        ("mine:1", "", {"mine:1": [f"debian@{ONE}"]}, [], ""),  # a tag of somebody's own
    ],
)
def test_an_engine_takes_what_it_lacks_by_the_digest_once_that_is_known(name, digest, images, did, after):
    engine = Docker(images, {"debian:12": ONE, f"debian@{ONE}": ONE})
    base = inventory.Base(name, digest)
    told = base.supply(engine, [])
    assert (engine.did(), base.digest) == (did, after)
    assert told.startswith("pulled in ") == bool(did)


def test_an_image_without_a_digest_is_taken_as_it_is_and_named():
    engine = Docker({"debian:12": []}, {})
    base = inventory.Base("debian:12", "")
    assert (base.supply(engine, []), base.digest, engine.did()) == (
        "there without a digest, taken as it is",
        "",
        [],
    )


def test_the_platform_of_the_options_is_pulled():
    engine = Docker({}, {"a:1": ONE})
    inventory.Base("a:1", "").supply(engine, ["--platform=linux/arm64"])
    assert engine.did() == ["pull --platform=linux/arm64 a:1"]


@pytest.mark.parametrize(
    "answer",
    [
        "manifest for a:1 not found: manifest unknown: manifest unknown",
        "pull access denied for a, repository does not exist or may require 'docker login': denied",
        "unauthorized: authentication required",
        "no matching manifest for linux/amd64 in the manifest list entries",
    ],
)
def test_what_a_registry_does_not_have_is_the_builds_to_fail_by(answer):
    engine = Docker({}, {"a:1": answer})
    assert inventory.Base("a:1", "").supply(engine, []) == f"left to the build: {answer}"
    engine.registry[f"a@{ONE}"] = answer
    with pytest.raises(inventory.de.EngineError):  # but not where it had that digest once
        inventory.Base("a:1", ONE).supply(engine, [])


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        (
            "a:1",
            'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
        ),
        ("a:1", "toomanyrequests: You have reached your pull rate limit."),
        ("a:1", 'Get "https://r.io/v2/": net/http: TLS handshake timeout'),
        ("a:1", "received unexpected HTTP status: 503 Service Unavailable"),
        ("r.io/denied:1", "r.io/denied:1: dial tcp: i/o timeout"),
    ],
)
def test_a_registry_out_of_reach_or_at_its_limits_is_nobodys_fault(name, answer):
    with pytest.raises(inventory.de.EngineError, match="^" + answer[:10].replace("(", ".")):
        inventory.Base(name, "").supply(Docker({}, {name: answer}), [])


def test_a_digest_is_kept_for_every_later_start_and_the_first_one_counts(tmp_path):
    path = str(tmp_path / "reports" / "bases.json")
    first, second = inventory.Base("a:1", ONE), inventory.Base("a:1", TWO)
    assert inventory.keep(path, first)
    assert inventory.keep(path, inventory.Base("imported:1", ""))
    assert not inventory.keep(path, second)
    assert (second.digest, inventory.read_digests(path)) == (ONE, {"a:1": ONE})


# In a tree


@pytest.fixture
def engine_of(quick, monkeypatch):
    """Let each engine have a stand-in of docker's images, {engine: Docker}; there are no pauses."""
    dockers = {}
    make = ea.Engine.__init__

    def init(self, where, options):
        make(self, where, options)
        self.docker = dockers[where or ""]

    monkeypatch.setattr(ea.Engine, "__init__", init)
    monkeypatch.setattr(ea, "PAUSES", (0.0, 0.0, 0.0))
    return dockers


def test_all_engines_build_from_the_bytes_of_the_first(engine_of, project, tree, run):
    engine_of["one"] = Docker({}, {"a:1": ONE})
    engine_of["two"] = Docker({"a:1": [f"a@{TWO}"]}, {"a:1": TWO, f"a@{ONE}": ONE})
    tree({f"m/app{at}": "FROM a:1\n" for at in range(4)})
    code, out, errors = run("--pull", "--engine", "one", "--engine", "two")
    assert (code, errors) == (0, "")
    assert engine_of["one"].did() == ["pull a:1"]
    assert engine_of["two"].did() == [f"pull a@{ONE}", f"image tag a@{ONE} a:1"]
    assert json.loads((project / "reports/bases.json").read_text()) == {"a:1": ONE}
    assert "base a:1 on one: pulled in 0 s\n" in out


def test_a_later_start_takes_the_digest_that_was_kept(engine_of, project, tree, run):
    engine_of[""] = Docker({}, {"a:1": TWO, f"a@{ONE}": ONE})
    tree({"m/app": "FROM a:1\n"})
    write(project / "reports/bases.json", json.dumps({"a:1": ONE, "other:1": TWO}))
    assert run("--pull")[0] == 0
    assert engine_of[""].did() == [f"pull a@{ONE}", f"image tag a@{ONE} a:1"]
    assert json.loads((project / "reports/bases.json").read_text()) == {"a:1": ONE, "other:1": TWO}


def test_without_pull_nothing_is_pulled(engine_of, project, tree, run):
    engine_of[""] = Docker({}, {"a:1": ONE})
    tree({"m/app": "FROM a:1\n"})
    assert run()[0] == 0
    assert (engine_of[""].calls, (project / "reports/bases.json").exists()) == ([], False)


@pytest.mark.parametrize("text", ["{", "[]", '{"a:1": 3}'])
def test_a_file_of_digests_that_is_none_is_named(engine_of, project, tree, run, text):
    engine_of[""] = Docker({}, {"a:1": ONE})
    tree({"m/app": "FROM a:1\n"})
    write(project / "reports/bases.json", text)
    code, out, errors = run("--pull")
    assert (code, out) == (1, "")
    assert errors.startswith("error: reports/bases.json: ")
    (project / "reports/bases.json").unlink()


def test_those_whose_base_is_out_of_reach_are_named_and_only_these_wait(engine_of, project, tree, run):
    engine_of[""] = Docker({"good:1": []}, {"away:1": "dial tcp: no such host", "none:1": "manifest unknown"})
    texts = {"m/a": "FROM away:1\n", "n/a": "FROM good:1\nCOPY --from=away:1 /a /\n", "m/b": "FROM good:1\n"}
    reports = tree({**texts, "m/c": "FROM none:1\nRUN FAIL\n"})
    code, out, errors = run("--pull", "--no-repeat")
    assert (code, [kind(report) for report in reports]) == (1, ["none", "none", "whole", "build"])
    why = "base away:1 cannot be had: dial tcp: no such host"
    assert errors == f"error: {why}; left for the next start: 'm/a', 'n/a'\n"
    assert engine_of[""].did().count("pull away:1") == 3
    assert (
        f"evaluated 2, resumed 0, repeated 0, builds failed 1, left out 0, without a result 2\n  m/a, n/a: {why}\n"
        in out
    )
    assert "base none:1: left to the build: manifest unknown\n" in out
    engine_of[""].registry["away:1"] = ONE
    code, out, _ = run("--pull", "--no-repeat")
    assert (code, "evaluated 2, resumed 2," in out) == (0, True)


def test_twelve_bases_out_of_reach_cost_three_good_dockerfiles_nothing(
    engine_of, project, tree, run, monkeypatch
):
    """No try for a base that is away ends before the good ones are done, whatever the order."""
    engine_of[""] = Docker({"good:1": []}, {})
    good = tree({f"m/good{at}": "FROM good:1\n" for at in range(3)})
    tree({f"m/away{at:02}": f"FROM away{at}:1\n" for at in range(12)})
    supply = inventory.Base.supply

    def slow(base, *words):
        if base.name == "good:1":
            return supply(base, *words)
        wait_for(lambda: all(map(kind_or_none, good)))
        raise inventory.de.EngineError("dial tcp: i/o timeout")

    def kind_or_none(report):
        with contextlib.suppress(ValueError):  # half written
            return kind(report) == "whole"

    monkeypatch.setattr(inventory.Base, "supply", slow)
    code, out, errors = run("--pull", "--parallel", "1")
    assert (code, "evaluated 3, resumed 0, " in out, errors.count("cannot be had")) == (1, True, 12)


def test_an_engine_that_lacks_a_base_leaves_the_work_to_one_that_has_it(engine_of, project, tree, run):
    engine_of["one"] = Docker({}, {"a:1": "dial tcp: no such host"})
    engine_of["two"] = Docker({"a:1": [f"a@{TWO}"]}, {})
    reports = tree({f"m/app{at}": "FROM a:1\n# BREAKS ON one" for at in range(3)})
    code, _, errors = run("--pull", "--engine", "one", "--engine", "two", "--parallel", "2")
    assert (code, errors, {kind(report) for report in reports}) == (0, "", {"whole"})


def test_a_list_names_the_engines_that_have_a_base(engine_of, project, tree, run):
    engine_of["one"], engine_of["two"] = Docker({"a:1": []}, {}), Docker({"a:1": [], "b:1": []}, {})
    tree({"m/app": "FROM a:1\n", "n/app": "FROM a:1\nFROM b:1\nFROM c:1\n"})
    code, out, _ = run("--list", "--engine", "one", "--engine", "two")
    assert code == 0
    assert sorted(out.splitlines()[2:]) == [
        "base a:1, 2 Dockerfiles: on one, two",
        "base b:1, 1 Dockerfile: on two",
        "base c:1, 1 Dockerfile: on no engine",
    ]
    assert engine_of["one"].did() + engine_of["two"].did() == []


# With a real registry


class Registry:
    """Debian's docker-registry on an address of this machine, also inside an engine's own network."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.config = folder / "registry.yml"
        self.config.write_text(
            f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {folder}/registry}}}}\n"
            f"http: {{addr: '{self.address}'}}\nlog: {{level: error}}\n"
        )
        self.processes = []

    def start(self, *inside):
        words = [*inside, "docker-registry", "serve", str(self.config)]
        self.processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        if not inside:
            wait_for(self.answers, what="for the registry to start")

    def answers(self):
        host, port = self.address.split(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port))):
            return True

    def stop(self):
        for process in self.processes:
            process.terminate()
            process.wait(60)
        self.processes = []

    def push(self, name, content):
        """Push an image of busybox with a file that holds some content."""
        folder = self.config.parent / "pushed"
        folder.mkdir(exist_ok=True)
        (folder / "Dockerfile").write_text("FROM busybox:stable\nCOPY content /content\n")
        (folder / "content").write_text(content)
        docker("build", "--quiet", "--tag", f"{self.address}/{name}", str(folder))
        docker("push", "--quiet", f"{self.address}/{name}")
        docker("image", "rm", "--force", f"{self.address}/{name}")


@pytest.fixture
def registry(networked_engine, legacy, engine, tmp_path, monkeypatch):
    if not shutil.which("docker-registry") and ENGINE_REQUIRED and os.getuid() == 0:
        subprocess.run(["apt-get", "install", "-y", "-qq", "docker-registry"], stdout=subprocess.DEVNULL)
    if not shutil.which("docker-registry"):
        (pytest.fail if ENGINE_REQUIRED else pytest.skip)(
            "no docker-registry here; it is a package of Debian's"
        )
    monkeypatch.setattr(ea, "PAUSES", (0.1, 0.1, 0.0))
    before = set(docker("images", "--quiet").split())
    registry = Registry(tmp_path)
    registry.start()
    yield registry
    registry.stop()
    for image in set(docker("images", "--quiet").split()) - before:
        docker("image", "rm", "--force", image)


def says(content):
    return run_command(f"test \"$(cat /content)\" = '{content}'")


def passed(report):
    return json.loads(report.read_text())["summary"]["passed_tests"]


@pytest.mark.parametrize("builder", ["legacy", "buildkit"])
def test_an_image_that_changes_under_its_tag_between_two_starts_changes_nothing(
    registry, request, project, tree, run, builder
):
    request.getfixturevalue(builder)
    registry.push("base:1", "first")
    reports = tree({"a/app": f"FROM {registry.address}/base:1\n"}, says("first"))
    code, out, _ = run("--pull")
    assert (code, passed(reports[0])) == (0, 1), out
    registry.push("base:1", "second")
    docker("pull", "--quiet", f"{registry.address}/base:1")  # and the engine has the new one, too
    reports += tree({"b/app": f"FROM {registry.address}/base:1\n"}, says("first"))
    code, out, _ = run("--pull", "--fresh")
    assert (code, list(map(passed, reports))) == (0, [1, 1]), out
    assert f"base {registry.address}/base:1: pulled in " in out


def test_a_registry_that_dies_leaves_those_that_need_it_for_the_next_start(registry, project, tree, run):
    registry.push("base:1", "first")
    registry.push("other:1", "first")
    reports = tree({"a/app": f"FROM {registry.address}/base:1\n", "a/bat": "FROM busybox:stable\n"})
    assert run("--pull")[0] == 0
    registry.stop()
    reports += tree(
        {"b/app": f"FROM {registry.address}/base:1\n", "b/cat": f"FROM {registry.address}/other:1\n"}
    )
    code, _, errors = run("--pull")
    assert (code, [kind(report) for report in reports]) == (1, ["whole", "whole", "whole", "none"])
    assert f"error: base {registry.address}/other:1 cannot be had: Get " in errors
    assert "; left for the next start: 'b/cat'\n" in errors
    registry.start()
    code, out, _ = run("--pull")
    assert (code, "evaluated 1, resumed 3," in out) == (0, True)


def test_another_engine_takes_the_same_bytes(registry, private_engine, project, tree, run):
    private = private_engine(network=True)
    registry.start("nsenter", f"--target={private.process.pid}", "--net")
    registry.push("base:1", "first")
    tree({"a/app": f"FROM {registry.address}/base:1\n"}, says("first"))
    assert run("--pull")[0] == 0
    registry.push("base:1", "second")
    reports = tree({f"b/app{at}": f"FROM {registry.address}/base:1\n" for at in range(2)}, says("first"))
    code, out, _ = run("--pull", "--engine", private.host)
    assert (code, list(map(passed, reports))) == (0, [1, 1]), out


def test_a_registry_that_refuses_for_its_limits_is_tried_three_times(registry, project, tree, run):
    asked = []

    class Limits(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            body = b'{"errors": [{"code": "TOOMANYREQUESTS", "message": "pull rate limit"}]}'
            self.send_response(429)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - http.server looks for this name

        def log_message(self, *words):
            """Stay silent."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Limits) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        name = f"127.0.0.1:{server.server_address[1]}/base:1"
        reports = tree({"a/app": f"FROM {name}\n", "a/bat": "FROM busybox:stable\n"})
        code, _, errors = run("--pull")
        server.shutdown()
    assert (code, [kind(report) for report in reports]) == (1, ["none", "whole"])
    assert f"error: base {name} cannot be had: toomanyrequests: pull rate limit; left for" in errors
    assert asked.count("/v2/") == 3  # how each pull begins
