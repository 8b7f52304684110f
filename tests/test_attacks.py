r"""Dockerfiles that try to escape their zero, or to harm the evaluation, on a real engine.

A stanza is "== the outcome: what the Dockerfile tries", then the Dockerfile. Each needs an
experiment or two: nothing that it writes decides anything.
"""

import re

import pytest
from cases import TRUE
from conftest import outcome

import DockerfileEvaluator as de

pytestmark = pytest.mark.no_podman

BUILDS = r"""
== build: raw line ends after docker's error, which look like another step that failed
FROM busybox:stable
RUN touch /w
COPY ["Dockerfile","/w/x\n#1 ERROR: foo\na\nb\nc\nd\ne\nf\ng\nh\nERROR: foo/y"]
== build: an old builder
FROM busybox:stable
RUN touch /w
ADD ["Dockerfile","/w/x\n#90 ERROR: dockerfile parse error line 3: Unknown flag: link\na/y"]
== build: an image that a registry lost
FROM busybox:stable
RUN touch /w
COPY ["Dockerfile","/w/x\n#9 [internal] load metadata for x\n#9 ERROR: lease does not exist/y"]
== build: docker's store, after its error
FROM busybox:stable
RUN touch /w
COPY ["Dockerfile","/w/x\na\nb\nc\nd\ne\nf\ng\nfailed to x: short read: y\nERROR: short read: y/y"]
== build: the same in a source of another stage
FROM busybox:stable AS a
FROM busybox:stable
COPY --from=a ["/x\n#3 ERROR: short read: y\nERROR: unexpected EOF","/"]
== build: a RUN in JSON form, which docker 20.10 does not quote
FROM busybox:stable
RUN ["/bin/sh","-c","exit 137\n#3 ERROR: "]
== build: the same with a step
FROM busybox:stable
RUN ["/bin/sh","-c","exit 137\n#9 [internal] load metadata for x\n#9 ERROR: short read: y\n# "]
== build: a required variable that writes docker's error
FROM busybox:stable
COPY ["${A:?x\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\nERROR: short read: y}","/"]
== build: the same for another fault
FROM busybox:stable
VOLUME ["${A:?x\na\nb\nc\nd\ne\nf\ng\nh\ni\nj\nERROR: target stage x could not be found}"]
== build: the same with a step before it
FROM busybox:stable
COPY ["${A:?x\n#2 ERROR: short read: y\na\nb\nc\nd\ne\nf\ng\nh\nERROR: short read: y}","/"]
== build: the same in the words of docker 20.10
FROM busybox:stable
ADD ["${A:?x\nfailed to solve with frontend dockerfile.v0: unexpected EOF}","/"]
== build: an address, which docker 20.10 prints as it is
FROM busybox:stable
ADD ["http://127.0.0.1:1/x\n#2 ERROR: short read: y","/"]
== build: the same with a step, and a digest
FROM busybox:stable
ARG Z=00000000000000000000000000000000
ADD ["http://127.0.0.1:1/x\n#5 sha256:$Z$Z\n#9 [internal] load metadata for x\n#9 ERROR: lease","/"]
== build: the same in a variable, beside a RUN that fails
FROM busybox:stable
ADD ["${A:-http://127.0.0.1:1/x\nERROR: target stage x could not be found}","/"]
RUN exit 3
== build: a build that was canceled
FROM busybox:stable
WORKDIR ${A:?context canceled}
== build: the same elsewhere
FROM busybox:stable
LABEL a=${A:?context canceled}
== build: a connection that broke off
FROM busybox:stable
ENV A=${A:?failed to receive status: rpc error: code = Unavailable desc = error reading: EOF}
== build: a source with the words of docker
FROM busybox:stable
COPY ["Error: short read: x","/"]
== build: steps that a RUN prints
FROM busybox:stable
RUN yes '#99 [9/9] FROM x' | head -100000; echo '#99 ERROR: short read'; exit 1
== build: two stages that fail at once
FROM busybox:stable AS a
RUN echo '#9 [internal] load metadata for x'; sleep 1; exit 1
FROM busybox:stable
RUN echo '#9 ERROR: short read: x'; sleep 1; exit 1
COPY --from=a / /
== build: its own failure in a trigger
FROM busybox:stable AS a
ONBUILD RUN exit 1
FROM a
== build: no stage, but a comment
# FROM busybox:stable
ARG A=1
== build: no stage, but a directive
# escape=`
ARG A=1
"""


# What takes long is a zero after --build-timeout, too. Docker 28.5 refuses settings that grow.
TIMES = r"""
== build_timeout: a sparse file, whose export takes hours
FROM busybox:stable
RUN truncate -s 2000G /x
== build_timeout: the same in another stage, which is copied
FROM busybox:stable AS a
RUN dd of=/x bs=1 count=0 seek=2000G
FROM busybox:stable
COPY --from=a /x /
== build_timeout or build: settings that grow
FROM busybox:stable
ENV A=xxxxxxxxxxxxxxxx
GROW
COPY Dockerfile /
RUN false
== build_timeout or build: labels that grow
FROM busybox:stable
ARG A=xxxxxxxxxxxxxxxx
GROW
LABEL a=$A
RUN false
== build_timeout: a trigger that never ends
FROM busybox:stable AS a
ONBUILD RUN sleep 999
FROM a
"""


def stanzas(text):
    """Give a test `then` and `lines` of a stanza at a time."""
    found = re.findall(r"== (.*?): (.*)\n((?:(?!==).+\n)+)", text)
    rows = [pytest.param(then, lines, id=what) for then, what, lines in found]
    return pytest.mark.parametrize(("then", "lines"), rows)


@stanzas(BUILDS)
@pytest.mark.usefixtures("clean_engine")
def test_dockerfile_cannot_write_an_excuse(evaluate, then, lines):
    report = evaluate(lines.splitlines(), TRUE)

    assert outcome(report) == then, report["error"]


# They build; another parser than docker's may lose their stage, or find a continued line.
AS_DOCKER_READS_THEM = [
    "FROM\\\n busybox:stable",
    "ARG A=x\\\\\nFROM busybox:stable",
    "  # escape=`\nFROM busybox:stable\nRUN echo `\n a",
    "FROM busybox:stable\nENV A=x\\\f\nRUN true",
    "ARG A=x\\\u00a0\nFROM busybox:stable",
    "ARG A=x\\\u0085\n\u2028FROM busybox:stable",
    "\ufefffrom\tbusybox:stable",
]


@pytest.mark.parametrize("text", AS_DOCKER_READS_THEM)
def test_docker_alone_decides_what_a_dockerfile_says(clean_engine, evaluate, text):
    assert outcome(evaluate([text], TRUE)) == "passed"


@pytest.fixture
def private(private_engine, monkeypatch):
    """Return an engine that the test may keep busy: it is killed."""
    private = private_engine()
    monkeypatch.setenv("DOCKER_HOST", private.host)
    yield private
    private.kill()


@stanzas(TIMES)
def test_time_that_the_dockerfile_takes_is_its_own(private, monkeypatch, evaluate, then, lines):
    monkeypatch.setattr(de, "EXPERIMENT_TIMEOUT", 20.0)
    lines = lines.replace("GROW", "ENV A=$A$A\n" * 20)

    report = evaluate(lines.split("\n"), TRUE, build_timeout=5)

    assert outcome(report) in then.split(" or "), report["error"]
