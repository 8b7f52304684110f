"""What docker, its builders and registries print: each alternative of each message is earned.

For each alternative, in its order, a real line that it must match, and one that it must not: most
of these quote the Dockerfile, which can write docker's words in names.
"""

from __future__ import annotations

import pytest

import DockerfileEvaluator as de

HEAD = 'Head "URL": '
META = "IMAGE: failed to resolve source metadata for IMAGE: "
SAMPLES = {
    "parse error": [
        (
            "dockerfile parse error on line 2: unknown instruction: RUNN",
            'mkdir "/dockerfile parse error line 2: "',
        ),
        ("failed to parse Dockerfile: ENV must have two arguments", "failed to parse platform : x"),
        (
            "resolving step {Value:env Next:0x0}: processing words: missing '}'",
            "RUN resolving step ",
        ),
        (
            'Syntax error - can\'t find = in "B". Must be of the form: name=value',
            'mkdir "/w/Syntax error - "',
        ),
        (
            'building at STEP "FOO ": Build error: Unknown instruction: "FOO"',
            'building at STEP "COPY a: Build error: Unknown instruction": x',
        ),
    ],
    "unknown flag": [
        ("dockerfile parse error line 2: Unknown flag: link", 'mkdir "/w/unknown flag: link"'),
        (
            "the --mount option requires BuildKit. Refer to https://docs.docker.com/go/buildkit/",
            "the --mount option",
        ),
    ],
    "maybe new": [
        (
            "failed to process \"${V#v}\": missing ':' in substitution",
            'failed to process "${V": syntax error',
        ),
        (
            "dockerfile parse error line 2: unexpected key 'env' in 'env=X'",
            "unexpected key 'invented' in 'invented=1'",
        ),
    ],
    "no target": [
        (
            'target stage "nosuch" could not be found',
            'COPY failed: stat "target stage x could not be found"',
        ),
        (
            "failed to reach build target nosuch in Dockerfile",
            "mkdir /failed to reach build target ",
        ),
        (
            'the target "nosuch" was not found in the provided Dockerfile',
            "the target was not found",
        ),
    ],
    "invalid from": [
        (
            "invalid reference format: repository name must be lowercase",
            "x: invalid reference format",
        ),
        (
            "invalid repository name (abab), cannot specify 64-byte hexadecimal strings",
            "x: invalid repository name (a)",
        ),
        ("unsupported digest algorithm", "x: unsupported digest algorithm"),
        ("base name (${X}) should not be blank", "database name (x)"),
        ('failed to process "${A:?": A: unset', 'lookup failed to process "x"'),
        (
            'failed to parse stage name "BusyBox": invalid reference format',
            "x: failed to parse stage name ",
        ),
        (
            'failed to parse platform bogus: "bogus": unknown operating system',
            "x: failed to parse platform ",
        ),
        (
            '"bogus": unknown operating system or architecture: invalid argument',
            "unknown operating system",
        ),
        (
            'unable to parse platform "bogus": invalid platform syntax',
            "x: unable to parse platform",
        ),
        (
            'creating build container: parsing reference "BusyBox": invalid',
            "creating build container: x",
        ),
        (
            "determining starting point for build: no FROM statement found",
            "determining starting point for build: x",
        ),
    ],
    "no source": [
        ('"/a": not found', 'mkdir "/a": not found'),
        (
            "failed to walk ./etc: lstat ./etc: no such file or directory",
            "lchown /var/lib/docker/x: no such file or directory",
        ),
        (
            "COPY failed: file not found in build context or excluded by .dockerignore: stat a: file does not exist",
            "COPY failed: error creating overlay mount",
        ),
        (
            'building at STEP "COPY a /x": checking on sources under "/c": copier: stat: "/a": no such file',
            'building at STEP "COPY a /x": 3 errors occurred',
        ),
    ],
    "no such image": [
        (HEAD + "denied: requested", "lookup denied.example: no such host"),
        ("error parsing HTTP 404 response body", "error parsing HTTP 500 response body"),
        ("failed to load cache key: IMAGE: not found", "IMAGE: EOF"),
        ("repository error404.example/x/y not found: name", "repository is away"),
        (
            "pull access for x, repository does not exist or may require a login",
            "file does not exist",
        ),
        (HEAD + "requested access to the resource is denied", "permission denied"),
        (META + "pull access denied, and no more", "permission denied: x"),
        ("manifest for x not found: manifest unknown: manifest tagged by latest", "unknown: x"),
        (
            "pulling from host quay.io failed with status code [manifests 1]: 403 Forbidden",
            "HTTP status: 503",
        ),
        (
            "unexpected status from GET request to URL 401 Unauthorized",
            "unexpected status: 429 Too Many Requests",
        ),
        (HEAD + "no basic auth credentials", "basic auth"),
        ("no matching manifest for linux/amd64 in the manifest list entries", "no route to host"),
        (
            'image operating system "windows" cannot be used on this platform: operating system is not supported',
            "lsetxattr: operation not supported",
        ),
        (
            "media type application/vnd.docker.distribution.manifest.v1+prettyjws is no longer supported since containerd v2.1",
            "no longer there",
        ),
        ("support Docker Image manifest version 2, schema 1 has been removed", "schema of x"),
        ("unsupported manifest media type and no default available: application/x", "media type"),
        (
            "encountered unknown type application/vnd.cncf.helm.config.v1+json; children may not be fetched",
            "unknown type text/html",
        ),
        ("invalid rootfs in image configuration", "rootfs: EOF"),
        (
            "mediaType in manifest should be 'application/x' not 'application/y'",
            "mediatype: EOF",
        ),
    ],
    "no such host": [
        ("dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host", "no host"),
        ("dial tcp 127.0.0.1:5000: connect: connection refused", "connection reset by peer"),
    ],
    "short name": [
        (
            'short-name "x" did not resolve to an alias and no unqualified-search registries are defined',
            "short-name x",
        ),
    ],
    "lost content": [
        ("content digest sha256:51f5: not found", "digest sha256:51f5"),
        ("failed to copy: httpReadSeeker: content at URL not found: not found", "content of URL"),
        ("blob sha256:1d expected at /x: blob not found: not found", "IMAGE: not found"),
        ("lease does not exist: not found", "repository does not exist"),
        ("parent snapshot sha256:1d does not exist: not found", "snapshot of x"),
    ],
    "engine trouble": [
        ("short read: expected 89 bytes but got 17: unexpected EOF", "mkdir /w/short read: x"),
        ("unexpected EOF", 'process "unexpected EOF"'),
        ("httpReadSeeker: failed open: unexpected status code", "mkdir /httpReadSeeker"),
        ("failed to copy: httpReadSeeker: failed open", "failed to copy files: lstat ./a"),
        ("failed to extract layer sha256:1d: write /x", "failed to extract x"),
        (
            "failed to set up container networking: network nosuch not found",
            "failed to create task for container",
        ),
        ("failed to create endpoint x on network bridge: adding interface", "mkdir /failed to"),
        ("failed to add the host (veth1) <=> sandbox (veth2) pair interfaces", "failed to add x"),
        (
            'building at STEP "RUN true": setup network: unable to find network with name or ID x: network not found',
            'building at STEP "RUN a: setup network: ": while running runtime: exit status 1',
        ),
        ("content digest sha256:1d: not found", "mkdir /content digest sha256:"),
        ("parent snapshot sha256:1d does not exist: not found", "mkdir /parent snapshot sha256:"),
        ("lease does not exist: not found", "mkdir /lease does not exist"),
        ("failed to get layer sha256:1d: layer does not exist", "failed to get x"),
    ],
    "runtime": [
        (
            'runc run failed: unable to start container process: exec: "": executable file not found in $PATH',
            "make: run failed",
        ),
        (
            'time="2026-11-28T02:05:56Z" level=error msg="did not get container create message from subprocess: EOF"',
            "subprocess: EOF",
        ),
    ],
}
OF_BUILDERS = {
    "buildkit step": [("#12 [2/2] RUN a", "0.1 #12 x")],
    "buildkit run_failed": [
        ('process "/bin/sh -c a" did not complete successfully: exit code: 3', "a: exit code: 3"),
        (
            'process "/bin/sh -c a" did not complete successfully: cannot allocate memory',
            "a: cannot allocate memory",
        ),
    ],
    "buildkit lost": [("context canceled", "context canceled: a")],
    "legacy step": [
        ("Step 2/3 : RUN a", "a Step 2/3 : RUN a"),
        ("# Executing 1 build trigger", "# Executing a"),
    ],
    "legacy run_failed": [
        ("The command '/bin/sh -c a' returned a non-zero code: 3", "returned a non-zero code: 3: a")
    ],
    "legacy own_line": [
        (" ---> 3a0b1f24e95c", "a ---> b"),
        ("Removing intermediate container 3a0b", "Removing a"),
    ],
    "legacy missing_from": [
        (
            "invalid from flag value nosuch/x: pull access denied",
            "mkdir invalid from flag value a: b",
        )
    ],
    "legacy lost": [
        (
            "error during connect: Post http://%2Fdocker.sock/v1.41/build: EOF",
            "error during connect: EOF: no such file or directory: unknown",
        ),
        (
            "Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?",
            "Cannot connect to the Docker daemon: no such file or directory",
        ),
        ("unexpected EOF", "COPY failed: unexpected EOF"),
    ],
    "legacy maybe_new": [
        ("FROM --platform=$BUILDPLATFORM x", "FROM --platform=$BUILDPLATFROM x"),
    ],
    "buildah step": [("[1/2] STEP 2/3: RUN a", "a STEP 2/3: RUN a")],
    "buildah run_failed": [
        ('building at STEP "RUN a": while running runtime: exit status 3', "exit status 3")
    ],
    "buildah own_line": [("--> 3a0b1f24e95c", "a --> b")],
    "buildah missing_from": [
        (
            "COPY --from=nosuch/x: no stage or image found with that name",
            "COPY --from=x /no stage or image found with that name: EOF",
        ),
    ],
}
TABLE = {**de.MESSAGES}
for builder in de.BUILDERS.values():
    for field in builder._fields:
        message = getattr(builder, field)
        if isinstance(message, de.Message) and message is not de.NEVER:
            TABLE[f"{builder.name} {field}"] = message
EXPECTED = {**SAMPLES, **OF_BUILDERS}


def test_each_message_has_real_lines():
    assert {name: len(message.alternatives) for name, message in TABLE.items()} == {
        name: len(lines) for name, lines in EXPECTED.items()
    }


@pytest.mark.parametrize("name", TABLE)
def test_message_matches_its_lines_and_nothing_that_quotes_it(name):
    wrong = [
        (right, other)
        for right, other in EXPECTED[name]
        if not TABLE[name].find(right) or TABLE[name].find(other)
    ]

    assert not wrong


@pytest.mark.parametrize("name", TABLE)
def test_each_alternative_of_a_message_is_needed(name):
    message = TABLE[name]
    unnecessary = []
    for at, alternative in enumerate(message.alternatives):
        others = (*message.alternatives[:at], *message.alternatives[at + 1 :])
        if de.Message(message.where, *(others or ["(?!)"])).find(EXPECTED[name][at][0]):
            unnecessary.append(alternative)

    assert not unnecessary
