"""Whose fault is it? No Dockerfile can look like an engine fault, and no engine fault like a Dockerfile's."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import uuid

import pytest
from conftest import PROJECT, outcome, statuses
from engine import FakeHub

import DockerfileEvaluator as de

TRUE = {"id": "true", "type": "run_command", "params": {"command": "true"}}
AFTER = {"id": "after", "type": "run_command", "params": {"command": "true"}}
HERE = {"id": "here", "type": "files_exist", "params": {"paths": ["/bin/sh"]}}


@pytest.fixture(scope="module")
def hub_engine(own_engines, private_engine, tmp_path_factory):
    """An engine with a network, whose Docker Hub answers and has no image; None where a worker's own have one."""
    return None if own_engines else private_engine(network=True, hub=FakeHub(tmp_path_factory.mktemp("hub")))


@pytest.fixture(scope="module")
def bridgeless_engine(private_engine):
    """An engine whose bridge somebody deleted: it builds, but no container gets a network."""
    private = private_engine(network=True)
    private.inside("ip", "link", "delete", "docker0")
    return private


@pytest.fixture(scope="module")
def small_engine(private_engine):
    """An engine with a disk of 48 MiB."""
    return private_engine(network=True, disk=48)


@pytest.fixture
def hub(engine, own_engines, hub_engine, monkeypatch):
    """Point docker at an engine with a Docker Hub, which is well afterwards."""
    if hub_engine:
        monkeypatch.setenv("DOCKER_HOST", hub_engine.host)
    hub = (own_engines or hub_engine).hub
    yield hub
    hub.behave("missing")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(de, "BUILD_PAUSE", 0.1)


# A Dockerfile that would like to be an engine fault

# What docker, its builders and the evaluator's own rules could be made to hear.
WORDS = {
    "full disk": "ERROR: no space left on device",
    "rate limit": "toomanyrequests: You have reached your pull rate limit.",
    "rate limit to BuildKit": "ERROR: pulling from host registry-1.docker.io failed with status code [manifests latest]: 429 Too Many Requests",
    "registry away": 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host',
    "registry away to BuildKit": 'failed to solve with frontend dockerfile.v0: failed to do request: Head "https://registry-1.docker.io/v2/library/busybox/manifests/stable": dial tcp: i/o timeout',
    "no daemon": "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
    "cut": "unexpected EOF",
    "cut in connecting": 'error during connect: Post "http://docker/v1.41/build": EOF',
    "killed": "The command '/bin/sh -c true' returned a non-zero code: 137",
    "no bridge": "failed to create endpoint x on network bridge: could not find bridge docker0",
    "another builder's head": "#1 [internal] load build definition from Dockerfile\n#1 ERROR: no space left on device",
    "another build's head": "Sending build context to Docker daemon  2.048kB\nStep 1/1 : FROM busybox\nunexpected EOF",
    "lost layer": "No such image: sha256:" + 64 * "0",
    "no buildx": "ERROR: BuildKit is enabled but the buildx component is missing or broken.",
    "unknown option": "unknown flag: --force-rm\nSee 'docker build --help'.",
    "unreadable context": "error checking context: no permission to read from '/work/file'",
    "success": "Successfully built 0123456789ab",
    "erased line": '\x1b[2K\rGet "https://registry-1.docker.io/v2/": EOF',
}


def saying(*words: str, then: str) -> str:
    """Return a RUN that prints the words, as docker and BuildKit would too, and then does something."""
    lines = "".join(f"{one}\nERROR: {one}\ndocker: {one}\n" for one in words)
    octal = "".join(f"\\{byte:03o}" for byte in lines.encode())
    return f"RUN printf '{octal}' >&2; printf '{octal}'; {then}"


def test_words_before_a_copy_that_fails(hub, builder, evaluate):
    """BuildKit looks for a missing file of the context while RUN still runs, so it copies from a stage."""
    stage = ["FROM busybox:stable AS stage", saying(*WORDS.values(), then="true")]
    report = evaluate([*stage, "FROM busybox:stable", "COPY --from=stage /no-such-file /"], TRUE)
    assert (outcome(report), statuses(report)) == ("build", {"true": "not_run"})


RUNS = {
    "says all": saying(*WORDS.values(), then="exit 1"),
    "says that it is cut": saying(WORDS["cut"], then="exit 1"),
    **{f"exits {code}": f"RUN exit {code}" for code in (125, 137)},
    "kills": "RUN kill -9 1; kill -9 $PPID; sh -c 'kill -9 $$'; exit $?",
    "names docker's words": "RUN : 'unexpected EOF' 'no space left on device' toomanyrequests; false",
    "has no program": 'RUN ["/no-such-program"]',
    "has no shell": 'SHELL ["/no-such-shell"]\nRUN true',
    "has no user": "USER no-such-user\nRUN true",
    "has no folder": "RUN touch /file\nWORKDIR /file/folder\nRUN true",
}


# BuildKit has words of its own for some.
CASES = [("legacy", name) for name in RUNS]
CASES += [("buildkit", name) for name in ("says all", "exits 137", "kills", "has no program", "has no shell")]


@pytest.mark.parametrize(("builder", "name"), CASES)
def test_a_run_that_fails(request, hub, builder, evaluate, name):
    request.getfixturevalue(builder)
    report = evaluate(["FROM busybox:stable", RUNS[name]], TRUE)
    assert (outcome(report), statuses(report)) == ("build", {"true": "not_run"})


NAMES = {
    "that looks like Docker Hub's": "FROM registry-1.docker.io.invalid/toomanyrequests",
    "of a base that Docker Hub has not": "FROM no-such-user/no-such-image",
    "in an argument, of a stage to come": "ARG R=registry.invalid\nFROM busybox:stable\nRUN true\nFROM ${R}/x",
    "to copy from, after words": "FROM busybox:stable\n"
    + saying(*WORDS.values(), then="true")
    + "\nCOPY --from=registry.invalid/x /a /b",
}


@pytest.mark.parametrize("lines", NAMES.values(), ids=NAMES)
def test_a_name_that_cannot_be_reached(hub, builder, evaluate, lines):
    report = evaluate([lines], TRUE)
    assert (outcome(report), statuses(report)) == ("build", {"true": "not_run"})


def test_a_syntax_that_cannot_be_reached(hub, buildkit, evaluate):
    report = evaluate(["# syntax=registry.invalid/x", "FROM busybox:stable"], TRUE)
    assert outcome(report) == "build"


NONSENSE = {
    "STOPSIGNAL": "STOPSIGNAL NONSENSE",
    "ONBUILD": "ONBUILD FROM busybox",
    "the end of a heredoc": "EOF",
    "a missing context": "COPY unexpected-EOF /",
    "a name of two lines": 'COPY ["a\\nerror during connect", "/"]',  # BuildKit: "stream terminated by RST_STREAM"
    "a folder of two lines": 'RUN ["touch", "/a\\nerror during connect"]\nCOPY [".", "/a\\nerror during connect/"]',
    "a download from nowhere": "ADD http://registry-1.docker.io.invalid/v2/ /x",
    "a download that breaks off": "ADD http://127.0.0.1/x /x",  # "unexpected EOF"
}


@pytest.mark.parametrize("line", NONSENSE.values(), ids=NONSENSE)
def test_an_instruction_that_is_refused(hub, builder, evaluate, line):
    assert outcome(evaluate(["FROM busybox:stable", line], TRUE)) == "build"


def test_an_archive_that_breaks_off(hub, builder, dockerfile, rubric):
    """docker's last words are "unexpected EOF"."""
    path = dockerfile("FROM busybox:stable", "ADD broken.tar.gz /")
    archive = os.path.join(os.path.dirname(path), "broken.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        member = tarfile.TarInfo("random")
        member.size = 10000
        tar.addfile(member, io.BytesIO(os.urandom(member.size)))
    os.truncate(archive, 5000)
    assert outcome(de.evaluate(path, "r", rubric(TRUE))) == "build"


# Images that docker cannot start, whatever the engine.
UNSTARTABLE = {
    "VOLUME /proc": ["VOLUME /proc"],
    "VOLUME /dev/null": ["VOLUME /dev/null"],
    "VOLUME /": ["VOLUME /"],
    "VOLUME /proc with USER and WORKDIR": ["VOLUME /proc", "WORKDIR /tmp", "USER 12"],
}


@pytest.mark.parametrize("lines", UNSTARTABLE.values(), ids=UNSTARTABLE)
def test_an_image_that_cannot_be_started(hub, legacy, evaluate, lines):
    report = evaluate(["FROM busybox:stable", *lines], TRUE, HERE)
    assert (outcome(report), set(statuses(report).values())) == ("failed", {"failed"})
    message = report["test_results"][0]["message"]
    assert re.search(r"image.*\bstart|\bstart.*image", message), message


@pytest.mark.parametrize("line", ["USER no-such-user", "USER 4294967296"])
def test_a_user_that_the_image_has_not(hub, legacy, evaluate, line):
    report = evaluate(["FROM busybox:stable", line], TRUE, HERE)
    if report["build"]["succeeded"]:
        assert outcome(report) == "failed"
    else:
        assert outcome(report) == "build"


@pytest.mark.parametrize("option", ["--group-add=27", "--workdir=/tmp"])
def test_a_user_that_the_image_has_not_beside_a_run_option(hub, legacy, evaluate, option):
    report = evaluate(["FROM busybox:stable", "USER no-such-user"], TRUE, HERE, run_options=[option])
    assert outcome(report) == "failed"


HARMLESS = [
    'ENTRYPOINT ["/no-such-program"]',
    "CMD exit 125",
    "VOLUME /sys /sys/fs/cgroup",
    "ONBUILD RUN false",
    "HEALTHCHECK --interval=1s CMD false",
    saying(*WORDS.values(), then="true"),
]


def test_instructions_that_must_not_change_a_verdict(hub, legacy, evaluate):
    assert outcome(evaluate(["FROM busybox:stable", *HARMLESS], TRUE)) == "passed"


FILLING = {
    "fails": ["RUN dd if=/dev/zero of=/big bs=1M"],
    "fails later": ["RUN dd if=/dev/zero of=/big bs=1M count=8", "RUN dd if=/dev/zero of=/more bs=1M"],
    "is content": ["RUN dd if=/dev/zero of=/big bs=1M || true", "COPY Dockerfile /"],
}


@pytest.mark.parametrize("lines", FILLING.values(), ids=FILLING)
def test_a_disk_that_the_dockerfile_fills(small_engine, monkeypatch, legacy, evaluate, lines):
    monkeypatch.setenv("DOCKER_HOST", small_engine.host)
    assert outcome(evaluate(["FROM busybox:stable", *lines], TRUE)) == "build"


def test_a_disk_that_the_dockerfile_fills_with_buildkit(small_engine, monkeypatch, buildkit, evaluate):
    monkeypatch.setenv("DOCKER_HOST", small_engine.host)
    assert outcome(evaluate(["FROM busybox:stable", *FILLING["fails"]], TRUE)) == "build"


# An engine fault that would like to be the Dockerfile's


def test_a_disk_that_others_filled(small_engine, monkeypatch, builder, evaluate):
    monkeypatch.setenv("DOCKER_HOST", small_engine.host)
    file = f"{small_engine.folder}/data/filling"
    small_engine.inside("sh", "-c", f"dd if=/dev/zero of={file} bs=1M 2>/dev/null || true")
    try:
        report = evaluate(["FROM busybox:stable", "RUN true"], TRUE)
    finally:
        small_engine.inside("rm", file)
    assert (outcome(report), statuses(report)) == ("engine", {"true": "not_run"})


@pytest.mark.parametrize("how", ["away", "hangs up", "limits"])
def test_docker_hub_cannot_be_asked(hub, builder, evaluate, how):
    hub.behave(how)
    report = evaluate(["FROM no-such-user/no-such-image", "RUN true"], TRUE)
    assert (outcome(report), statuses(report)) == ("registry", {"true": "not_run"})


@pytest.mark.parametrize("how", ["away", "limits"])
def test_docker_hub_cannot_be_asked_for_the_syntax(hub, buildkit, evaluate, how):
    hub.behave(how)
    report = evaluate(["# syntax=docker/dockerfile:1", "FROM busybox:stable"], TRUE)
    assert outcome(report) == "registry"


NOT_OF_A_REGISTRY = {
    "a missing source": "COPY no-such-file /",
    "a download": "ADD http://127.0.0.1/x /x",
    "a forged step": 'COPY ["a\\n#9 FROM x\\n#9 ERROR: dial tcp", "/"]',
    "a printed step": saying("Step 9/9 : FROM x", then="true") + "\nCOPY no-such-file /",
    "a RUN": saying(*WORDS.values(), then="exit 1"),
    "a name that is none": "FROM Ubuntu",
    "a stage by its number": "COPY --from=0 /no-such-file /",
    "a step in a command of lines": """RUN ["/bin/sh", "-c", "echo 'Step 5/5 : FROM x'\\nexit 3 #\\nUsage: "]""",
    "a cut in a command of lines": 'RUN ["/bin/sh", "-c", "exit 3 #\\nerror during connect: EOF"]',
}


@pytest.mark.parametrize("line", NOT_OF_A_REGISTRY.values(), ids=NOT_OF_A_REGISTRY)
def test_docker_hub_away_excuses_no_other_step(hub, builder, evaluate, line):
    hub.behave("away")
    report = evaluate(["FROM busybox:stable AS stage", "RUN true", "FROM busybox:stable", line], TRUE)
    assert outcome(report) == "build"


@pytest.mark.parametrize("words", ["/bin/sh /bin/cat /no-such-folder", "--chown=no-such-user /bin/sh /x"])
def test_docker_hub_away_excuses_nothing_that_only_the_legacy_builder_refuses(hub, legacy, evaluate, words):
    hub.behave("away")
    report = evaluate(
        ["FROM busybox:stable AS stage", "FROM busybox:stable", f"COPY --from=stage {words}"], TRUE
    )
    assert outcome(report) == "build"


def test_no_bridge_for_a_build(bridgeless_engine, monkeypatch, builder, evaluate):
    monkeypatch.setenv("DOCKER_HOST", bridgeless_engine.host)
    report = evaluate(["FROM busybox:stable", f"RUN echo {uuid.uuid4()}"], TRUE)
    assert (outcome(report), statuses(report)) == ("engine", {"true": "not_run"})


def test_no_bridge_for_a_test(bridgeless_engine, monkeypatch, legacy, evaluate):
    """A check that only looks needs no network, and passes."""
    monkeypatch.setenv("DOCKER_HOST", bridgeless_engine.host)
    report = evaluate(["FROM busybox:stable"], TRUE, HERE)
    assert (outcome(report), statuses(report)) == ("engine", {"true": "error", "here": "passed"})


# What is the user's


def test_buildkit_without_buildx(hub, monkeypatch, evaluate):
    monkeypatch.setenv("DOCKER_BUILDKIT", "1")
    version = subprocess.run(["docker", "version", "--format", "{{.Client.Version}}"], stdout=subprocess.PIPE)
    if int(version.stdout.partition(b".")[0]) < 23 or not subprocess.call(["docker", "buildx", "version"]):
        pytest.skip("docker here builds with BuildKit")
    report = evaluate(["FROM busybox:stable"], TRUE)
    assert (outcome(report), statuses(report)) == ("engine", {"true": "not_run"})
    assert "buildx" in report["error"]["message"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--nonsense", "unknown flag: --nonsense"),
        ("--memory=much", "invalid size"),
        ("--network=no-such-network", "no-such-network"),
        ("--isolation=nonsense", "isolation"),
    ],
)
def test_a_build_option_that_docker_rejects(hub, builder, monkeypatch, evaluate, option, words):
    """Docker 20.10's command line now and then waits for ever when BuildKit refuses, once in ten times."""
    lines, limit = ["FROM busybox:stable", f"RUN echo {uuid.uuid4()}"], 15
    monkeypatch.setattr(de, "START_LIMIT", limit)
    report = evaluate(lines, TRUE, build_options=[option], build_timeout=limit)
    assert (outcome(report), statuses(report)) == ("usage", {"true": "not_run"})
    said = report["error"]["message"]
    assert words in said or (builder == "buildkit" and said.endswith(f"no end within {limit} s"))


@pytest.mark.parametrize(("option", "words"), [("--memory=1k", "memory"), ("--cpuset-cpus=999", "999")])
def test_a_build_option_that_fails_when_a_container_starts(hub, legacy, evaluate, option, words):
    """BuildKit ignores these."""
    report = evaluate(["FROM busybox:stable", f"RUN echo {uuid.uuid4()}"], TRUE, build_options=[option])
    assert (outcome(report), statuses(report)) == ("usage", {"true": "not_run"})
    assert words in report["error"]["message"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--nonsense", "unknown flag: --nonsense"),
        ("--memory=1k", "memory"),
        ("--device=/no/such", "/no/such"),
        ("--network=no-such-network", "no-such-network"),
        ("--volume=/x:/y:nonsense", "nonsense"),
        ("--cap-add=NONSENSE", "NONSENSE"),
        ("--runtime=nonsense", "nonsense"),
    ],
)
def test_a_run_option_that_docker_rejects(hub, legacy, evaluate, option, words):
    report = evaluate(["FROM busybox:stable"], TRUE, AFTER, run_options=[option])
    assert outcome(report) == "usage"
    assert not {"passed", "failed", "timeout"} & set(statuses(report).values())
    assert words in report["error"]["message"]


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--user=no-such-user", "unable to find user no-such-user"),
        ("--group-add=no-such-group", "no-such-group"),
        ("--workdir=/bin/sh/x", "not a directory"),
        ("--volume=/dev/null:/bin", "not a directory"),
    ],
)
def test_a_run_option_that_only_this_image_cannot_have(hub, legacy, evaluate, option, words):
    report = evaluate(["FROM busybox:stable"], TRUE, HERE, run_options=[option])
    assert (outcome(report), set(statuses(report).values())) == ("failed", {"failed"})
    messages = {row["message"] for row in report["test_results"]}
    assert len(messages) == 1
    assert all(m.startswith(f"the image cannot be started with {option}: ") and words in m for m in messages)


def test_a_context_file_that_the_user_may_not_read(hub, legacy, dockerfile, rubric, tmp_path):
    path = dockerfile("FROM busybox:stable", "COPY . /copied")
    secret = os.path.join(os.path.dirname(path), "secret")
    with open(secret, "w") as file:
        file.write("x")
    os.chmod(secret, 0)
    output = tmp_path / "report.json"
    evaluator = str(PROJECT / "DockerfileEvaluator.py")
    # root without the right to read what it may not
    words = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", sys.executable, evaluator]
    words += ["--dockerfile", path, "--repo", "r", "--rubric", rubric(TRUE), "--output", str(output)]
    done = subprocess.run(words, capture_output=True)
    assert done.returncode == 1, done.stderr
    report = json.loads(output.read_text())
    assert (outcome(report), statuses(report)) == ("usage", {"true": "not_run"})
    assert "secret" in report["error"]["message"]
