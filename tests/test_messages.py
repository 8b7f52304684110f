"""What docker, its builders and registries print: messages, and lines that only quote them.

For each message real lines that it must match; after each one that it must not: most of these quote
the Dockerfile, which can write docker's words in names.
"""

import re

import pytest

import DockerfileEvaluator as de

SAMPLES = r"""
parse error
    dockerfile parse error on line 2: unknown instruction: RUNN
    not: mkdir "/dockerfile parse error line 2: "
    resolving step {Value:env Next:0x0}: processing words: missing '}'
    not: RUN resolving step x
    building at STEP "FOO ": Build error: Unknown instruction: "FOO"
    not: building at STEP "COPY a: Build error: Unknown instruction": x
unknown flag
    dockerfile parse error line 2: Unknown flag: link
    not: mkdir "/w/unknown flag: link"
maybe new
    failed to process "${V#v}": missing ':' in substitution
    not: failed to process "${V": syntax error
    dockerfile parse error line 2: unexpected key 'size' in 'size=1g'
newer
    dockerfile parse error line 2: unexpected key 'env' in 'env=X'
    not: unexpected key 'invented' in 'invented=1'
no target
    target stage "nosuch" could not be found
    not: mkdir "/w/target stage x could not be found"
    the target "nosuch" was not found in the provided Dockerfile
    not: the target was not found
invalid from
    invalid reference format: repository name must be lowercase
    not: x: invalid reference format
    invalid repository name (abab), cannot specify 64-byte hexadecimal strings
    not: x: invalid repository name (a)
    unsupported digest algorithm
    not: x: unsupported digest algorithm
    base name (${X}) should not be blank
    not: database name (x)
    failed to process "${A:?": A: unset
    not: lookup failed to process "x"
    failed to parse stage name "BusyBox": invalid reference format
    not: x: failed to parse stage name x
    creating build container: parsing reference "BusyBox": invalid
    not: creating build container: x
    determining starting point for build: no FROM statement found
    not: determining starting point for build: x
no source
    "/a": not found
    not: mkdir "/a": not found
    failed to walk ./etc: lstat ./etc: no such file or directory
    not: lchown /var/lib/docker/x: no such file or directory
    building at STEP "COPY a /x": checking on sources under "/c": copier: stat: "/a": no such file
    not: building at STEP "COPY a /x": 3 errors occurred
no such image
    Head "URL": denied: requested
    not: lookup denied.example: no such host
    error parsing HTTP 404 response body
    not: error parsing HTTP 500 response body
    failed to load cache key: IMAGE: not found
    not: IMAGE: EOF
    repository error404.example/x/y not found: name
    not: repository is away
    pull access for x, repository does not exist or may require a login
    not: file does not exist
    Head "URL": requested access to the resource is denied
    not: permission denied
    IMAGE: failed to resolve source metadata for IMAGE: pull access denied, and no more
    not: permission denied: x
    manifest for x not found: manifest unknown: manifest tagged by latest
    not: unknown: x
    pulling from host quay.io failed with status code [manifests 1]: 403 Forbidden
    not: HTTP status: 503
    unexpected status from GET request to URL 401 Unauthorized
    not: unexpected status: 429 Too Many Requests
    Head "URL": no basic auth credentials
    not: basic auth
    no matching manifest for linux/amd64 in the manifest list entries
    not: no route to host
    image operating system "windows" cannot be used on this platform: operating system is not supported
    not: lsetxattr: operation not supported
    media type application/vnd.docker.distribution.manifest.v1+prettyjws is no longer supported since containerd v2.1
    not: no longer there
    support Docker Image manifest version 2, schema 1 has been removed
    not: schema of x
    unsupported manifest media type and no default available: application/x
    not: media type
    encountered unknown type application/vnd.cncf.helm.config.v1+json; children may not be fetched
    not: unknown type text/html
    invalid rootfs in image configuration
    not: rootfs: EOF
    mediaType in manifest should be 'application/x' not 'application/y'
    not: mediatype: EOF
no such host
    dial tcp: lookup registry.invalid on 10.0.0.1:53: no such host
    not: no host
    dial tcp 127.0.0.1:5000: connect: connection refused
    not: connection reset by peer
short name
    short-name "x" did not resolve to an alias and no unqualified-search registries are defined
    not: short-name x
lost content
    content digest sha256:51f5: not found
    not: digest sha256:51f5
    failed to copy: httpReadSeeker: content at URL not found: not found
    not: content of URL
    blob sha256:1d expected at /x: blob not found: not found
    not: IMAGE: not found
    lease does not exist: not found
    not: repository does not exist
    parent snapshot sha256:1d does not exist: not found
    not: snapshot of x
engine trouble
    short read: expected 89 bytes but got 17: unexpected EOF
    not: mkdir /w/short read: x
    unexpected EOF
    not: process "unexpected EOF"
    httpReadSeeker: failed open: unexpected status code
    not: mkdir /httpReadSeeker
    failed to copy: httpReadSeeker: failed open
    not: failed to copy files: lstat ./a
    failed to extract layer sha256:1d: write /x
    not: failed to extract x
    failed to set up container networking: network nosuch not found
    not: failed to create task for container
    failed to create endpoint x on network bridge: adding interface
    not: mkdir /failed to
    failed to add the host (veth1) <=> sandbox (veth2) pair interfaces
    not: failed to add x
    building at STEP "RUN true": setup network: unable to find network with name or ID x: network not found
    not: building at STEP "RUN a: setup network: ": while running runtime: exit status 1
    content digest sha256:1d: not found
    not: mkdir /content digest sha256:
    blob sha256:1d not found
    not: mkdir /blob sha256:1d not found
    parent snapshot sha256:1d does not exist: not found
    not: mkdir /parent snapshot sha256:
    lease does not exist: not found
    not: mkdir /lease does not exist
    failed to get layer sha256:1d: layer does not exist
    not: failed to get x
    failed to read dockerfile: open D: no such file or directory
    not: mkdir /failed to read dockerfile: x
no git
    unknown scheme git: not found
    not: mkdir /w/unknown scheme git: not found
runtime
    runc run failed: unable to start container process: exec: "": executable file not found in $PATH
    not: make: run failed
    time="2026-11-28T02:05:56Z" level=error msg="did not get container create message from subprocess: EOF"
    not: subprocess: EOF
"""
LINES = [  # by message: pairs of lines
    (name, *pair)
    for name, lines in re.findall(r"(?m)^(\S.*)\n((?:    .*\n)+)", SAMPLES)
    for pair in re.findall(r"    (.*)\n    not: (.*)\n", lines)
]


@pytest.mark.parametrize(("name", "line", "other"), LINES)
def test_message_is_found_in_its_line_and_in_no_line_that_quotes_it(name, line, other):
    assert de.says(line, name)
    assert not de.says(other, name)
