"""What builders and tools print where they fail, as seen, and what a person would quote of it."""

from __future__ import annotations

# Builds that fail, as the builders tell it

INSTALL = "RUN apt-get update && apt-get install -y --no-install-recommends build-essential libanl-dev"
ADVERTISING = """\
DEPRECATED: The legacy builder is deprecated and will be removed in a future release.
            Install the buildx component to build images with BuildKit:
            https://docs.docker.com/go/buildx/

"""
APT = """\
Get:1 http://deb.debian.org/debian bookworm InRelease [151 kB]
Reading package lists...
Building dependency tree...
E: Unable to locate package libanl-dev
"""
LEGACY = f"""\
Sending build context to Docker daemon  3.072kB\r\r
Step 1/6 : FROM debian:bookworm-slim
 ---> 1e5407c7d3d9
Step 2/6 : ENV A=1
 ---> Running in 2c1e2de8847e
Removing intermediate container 2c1e2de8847e
 ---> 449e803ba92f
Step 3/6 : {INSTALL}
 ---> Running in 7cdcc1ccac2d
{APT}Removing intermediate container 7cdcc1ccac2d
"""
LEGACY_END = f"The command '/bin/sh -c {INSTALL[4:]}' returned a non-zero code: 100"


def buildkit(first, error, end):
    """Return BuildKit's log of a step that fails, as it stands without a terminal."""
    printed = "\n".join(f"#5 0.655 {line}" for line in APT.splitlines())
    return f"""\
{first}#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 178B done
#1 DONE 0.0s

#4 [1/6] FROM docker.io/library/debian:bookworm-slim
#4 DONE 0.0s

#6 [internal] load build context
#6 transferring context: 539B done
#6 DONE 0.0s

#7 [2/6] WORKDIR /app
#7 DONE 0.0s

#5 [3/6] {INSTALL}
{printed}
#5 ERROR: {error}
------
 > [3/6] {INSTALL}:
{end}"""


OLD_ERROR = f"executor failed running [/bin/sh -c {INSTALL[4:]}]: exit code: 100"
NEW_ERROR = f'process "/bin/sh -c {INSTALL[4:]}" did not complete successfully: exit code: 100'
OLD_BUILDKIT = buildkit("", OLD_ERROR, f"------\n{OLD_ERROR}")
BUILDX = buildkit(
    '#0 building with "default" instance using docker driver\n\n',
    NEW_ERROR,
    f"""\
0.655 Building dependency tree...
0.655 E: Unable to locate package libanl-dev
------
Dockerfile:3
--------------------
   2 |     WORKDIR /app
   3 | >>> {INSTALL}
   4 |     COPY . /app
--------------------
ERROR: failed to solve: {NEW_ERROR}""",
)
FAILED_BUILDS = {
    "legacy": {"stdout": LEGACY, "stderr": ADVERTISING + LEGACY_END, "code": 100},
    "buildkit": {"stderr": OLD_BUILDKIT, "code": 1},
    "buildx": {"stderr": BUILDX, "code": 1},
}


COPY_LEGACY = """\
Sending build context to Docker daemon  3.072kB\r\r
Step 1/2 : FROM scratch
 --->\x20
Step 2/2 : COPY nosuch /app
"""
COPY_LEGACY_END = (
    "COPY failed: file not found in build context or excluded by .dockerignore: "
    "stat nosuch: file does not exist"
)
COPY_BUILDKIT = """\
#1 [internal] load build definition from Dockerfile
#1 DONE 0.1s

#4 [internal] load build context
#4 transferring context: 2B done
#4 DONE 0.0s

#3 [2/2] COPY nosuch /app
#3 ERROR: "/nosuch" not found: not found
------
 > [2/2] COPY nosuch /app:
------
failed to compute cache key: "/nosuch" not found: not found"""


BUILT = """\
Sending build context to Docker daemon  3.072kB\r\r
Step 1/6 : FROM debian:bookworm-slim
 ---> 1e5407c7d3d9
Step 2/6 : ENV A=1
 ---> Using cache
 ---> 449e803ba92f
Step 3/6 : RUN npm install
 ---> Running in 7cdcc1ccac2d
\x1b[91mnpm WARN\x1b[0m old
DEPRECATED: gulp-util
progress 1/9 :\r\x1b[Kprogress 9/9 :
Removing intermediate container 7cdcc1ccac2d
 ---> 067a0812583e
Step 4/6 : LABEL mine=yes
 ---> Using cache
 ---> 067a0812583f
Step 5/6 : COPY . /app
 ---> 067a0812583d
Step 6/6 : WORKDIR /app
 ---> 067a0812583c
Successfully built 067a0812583c
"""

COPIES = {
    "legacy": {"stdout": COPY_LEGACY, "stderr": ADVERTISING + COPY_LEGACY_END},
    "buildkit": {"stderr": COPY_BUILDKIT},
}

# Commands that fail, as real tools tell it: output, exit code, the beginning of what a person would quote

QUOTES = {
    "node, no module": (
        """\
node:internal/modules/cjs/loader:1143
  throw err;
  ^

Error: Cannot find module '/app/server.js'
    at Module._resolveFilename (node:internal/modules/cjs/loader:1140:15)
    at Module._load (node:internal/modules/cjs/loader:981:27)
    at node:internal/main/run_main_module:28:49 {
  code: 'MODULE_NOT_FOUND',
  requireStack: []
}

Node.js v18.20.4
""",
        1,
        ["Error: Cannot find module '/app/server.js'"],
    ),
    "node, type": (
        """\
/app/index.js:3
console.log(config.port.toString());
                        ^

TypeError: Cannot read properties of undefined (reading 'toString')
    at Object.<anonymous> (/app/index.js:3:25)
    at Module._compile (node:internal/modules/cjs/loader:1364:14)

Node.js v18.20.4
""",
        1,
        ["TypeError: Cannot read properties of undefined (reading 'toString')"],
    ),
    "python": (
        """\
Traceback (most recent call last):
  File "/app/main.py", line 1, in <module>
    import numpy as np
ModuleNotFoundError: No module named 'numpy'
""",
        1,
        ["ModuleNotFoundError: No module named 'numpy'"],
    ),
    "java": (
        """\
Exception in thread "main" java.lang.NoClassDefFoundError: org/example/App
\tat java.base/java.lang.ClassLoader.defineClass1(Native Method)
\tat java.base/java.lang.ClassLoader.defineClass(ClassLoader.java:1017)
\t... 13 more
""",
        1,
        ['Exception in thread "main" java.lang.NoClassDefFoundError: org/example/App'],
    ),
    "gcc under make": (
        """\
gcc -O2 -Wall   -c -o main.o main.c
main.c:3:10: fatal error: zlib.h: No such file or directory
    3 | #include <zlib.h>
      |          ^~~~~~~~
compilation terminated.
make: *** [<builtin>: main.o] Error 1
""",
        2,
        ["main.c:3:10: fatal error: zlib.h: No such file or directory"],
    ),
    "make in make": (
        """\
make[1]: Entering directory '/app/src'
./gen.sh: line 4: yacc: command not found
make[1]: *** [Makefile:12: parser.c] Error 127
make[1]: Leaving directory '/app/src'
make: *** [Makefile:3: all] Error 2
""",
        2,
        ["./gen.sh: line 4: yacc: command not found"],
    ),
    "make itself": (
        "make: *** No rule to make target 'check'.  Stop.\n",
        2,
        ["make: *** No rule to make target 'check'.  Stop."],
    ),
    "git": (
        """\
Cloning into 'lib'...
fatal: unable to access 'https://example.org/lib.git/': Could not resolve host: example.org
hint: See the manual for what to do next
""",
        128,
        ["fatal: unable to access 'https://example.org/lib.git/'"],
    ),
    "apt": (APT, 100, ["E: Unable to locate package libanl-dev"]),
    "npm, script": (
        """\
npm ERR! Missing script: "build"
npm ERR!\x20
npm ERR! To see a list of scripts, run:
npm ERR!   npm run

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        1,
        ['npm ERR! Missing script: "build"'],
    ),
    "npm, file": (
        """\
npm ERR! code ENOENT
npm ERR! syscall open
npm ERR! path /app/package.json
npm ERR! errno -2
npm ERR! enoent ENOENT: no such file or directory, open '/app/package.json'
npm ERR! enoent This is related to npm not being able to find a file.
npm ERR! enoent\x20

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        254,
        ["npm ERR! enoent ENOENT: no such file or directory, open '/app/package.json'"],
    ),
    "cargo": (
        """\
   Compiling app v0.1.0 (/app)
error[E0425]: cannot find value `x` in this scope
 --> src/main.rs:2:20
  |
2 |     println!("{}", x);
  |                    ^ not found in this scope

For more information about this error, try `rustc --explain E0425`.
error: could not compile `app` (bin "app") due to 1 previous error
warning: build failed, waiting for other jobs to finish...
""",
        101,
        ["error[E0425]: cannot find value `x` in this scope", "error: could not compile `app`"],
    ),
    "pytest": (
        """\
    def test_add():
>       assert add(1, 2) == 4
E       assert 3 == 4
E        +  where 3 = add(1, 2)

test_x.py:4: AssertionError
=========================== short test summary info ============================
FAILED test_x.py::test_add - assert 3 == 4
============================== 1 failed in 0.02s ===============================
""",
        1,
        ["FAILED test_x.py::test_add - assert 3 == 4", "E       assert 3 == 4"],
    ),
    "maven": (
        """\
[INFO] BUILD FAILURE
[INFO] ------------------------------------------------------------------------
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.11.0:compile on project app
[ERROR] /app/src/main/java/App.java:[3,8] cannot find symbol
[ERROR] -> [Help 1]
[ERROR]\x20
[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.
[ERROR] Re-run Maven using the -X switch to enable full debug logging.
[ERROR]\x20
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException
""",
        1,
        ["[ERROR] Failed to execute goal", "[ERROR] /app/src/main/java/App.java:[3,8] cannot find symbol"],
    ),
    "nothing that reads like an error": ("step one\nstep two\n\n", 3, ["step two"]),
    "no output": ("", 1, ["no output"]),
    "blank output": ("\n  \n", 1, ["no output"]),
}
