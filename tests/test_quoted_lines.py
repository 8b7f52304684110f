"""The line that a person would quote of a tool's output.

The texts are what these tools print where no terminal is, slightly shortened; conda's are from its users'
reports. `said.py` has more, for whole evaluations.
"""

from __future__ import annotations

import time

import pytest
from cases import TRUE, run_command
from said import APT, LEGACY

import DockerfileEvaluator as de

# Output, and what is quoted of it
QUOTED = {
    "npm 6 ci, no lock file": (
        """\
npm ERR! cipm can only install packages with an existing package-lock.json or npm-shrinkwrap.json with lockfileVersion >= 1. Run an install with npm@5 or later to generate it, then try again.

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug.log
""",
        "npm ERR! cipm can only install packages with an existing package-lock.json or npm-shrinkwrap.json with lockfileVersion >= 1. Run an install with npm@5 or later to generate it, then try again.",
    ),
    "npm 10 ci, no lock file": (
        """\
npm error code EUSAGE
npm error
npm error The `npm ci` command can only install with an existing package-lock.json or
npm error npm-shrinkwrap.json with lockfileVersion >= 1. Run an install with npm@5 or
npm error later to generate a package-lock.json file, then try again.
npm error
npm error Clean install a project
npm error
npm error Usage:
npm error npm ci
npm error
npm error Options:
npm error [--install-strategy <hoisted|nested|shallow|linked>] [--legacy-bundling]
npm error [--global-style] [--omit <dev|optional|peer> [--omit <dev|optional|peer> ...]]
npm error [--include <prod|dev|optional|peer> [--include <prod|dev|optional|peer> ...]]
npm error [--strict-peer-deps] [--foreground-scripts] [--ignore-scripts] [--no-audit]
npm error [--no-bin-links] [--no-fund] [--dry-run]
npm error [-w|--workspace <workspace-name> [-w|--workspace <workspace-name> ...]]
npm error [-ws|--workspaces] [--include-workspace-root] [--install-links]
npm error
npm error aliases: clean-install, ic, install-clean, isntall-clean
npm error
npm error Run "npm help ci" for more info
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error code EUSAGE: The `npm ci` command can only install with an existing package-lock.json or",
    ),
    "npm 10 ci, lock file out of date": (
        """\
npm error code EUSAGE
npm error
npm error `npm ci` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync. Please update your lock file with `npm install` before continuing.
npm error
npm error Missing: is-even@1.0.0 from lock file
npm error Missing: is-odd@0.1.2 from lock file
npm error
npm error Clean install a project
npm error
npm error Usage:
npm error npm ci
npm error
npm error Options:
npm error
npm error aliases: clean-install, ic, install-clean, isntall-clean
npm error
npm error Run "npm help ci" for more info
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error code EUSAGE: `npm ci` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync. Please update your lock file with `npm install` before continuing.",
    ),
    "npm 10 install, ERESOLVE": (
        """\
npm error code ERESOLVE
npm error ERESOLVE unable to resolve dependency tree
npm error
npm error While resolving: app@1.0.0
npm error Found: react@18.3.1
npm error node_modules/react
npm error   react@"^18.0.0" from the root project
npm error
npm error Could not resolve dependency:
npm error peer react@"17.0.2" from react-dom@17.0.2
npm error node_modules/react-dom
npm error   react-dom@"^17.0.0" from the root project
npm error
npm error Fix the upstream dependency conflict, or retry
npm error this command with --force or --legacy-peer-deps
npm error to accept an incorrect (and potentially broken) dependency resolution.
npm error
npm error
npm error For a full report see:
npm error /root/.npm/_logs/2024-05-01T10_00_00_000Z-eresolve-report.txt
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        'npm error ERESOLVE unable to resolve dependency tree: peer react@"17.0.2" from react-dom@17.0.2',
    ),
    "npm 10 install, husky": (
        """\
> app@1.0.0 prepare
> husky install

sh: 1: husky: not found
npm error code 127
npm error path /app
npm error command failed
npm error command sh -c husky install
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "sh: 1: husky: not found",
    ),
    "npm 6 run, no such tool": (
        """\
> app@1.0.0 build /app
> tsc -p .

sh: 1: tsc: not found
npm ERR! code ELIFECYCLE
npm ERR! syscall spawn
npm ERR! file sh
npm ERR! errno ENOENT
npm ERR! app@1.0.0 build: `tsc -p .`
npm ERR! spawn ENOENT
npm ERR!\x20
npm ERR! Failed at the app@1.0.0 build script.
npm ERR! This is probably not a problem with npm. There is likely additional logging output above.

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug.log
""",
        "sh: 1: tsc: not found",
    ),
    "npm 10 run, OpenSSL": (
        """\
> app@1.0.0 build
> node build.js

node:internal/crypto/hash:101
  this[kHandle] = new _Hash(algorithm, xofLen, algorithmId, getHashCache());
                  ^

Error: error:0308010C:digital envelope routines::unsupported
    at new Hash (node:internal/crypto/hash:101:19)
    at Object.createHash (node:crypto:139:10)
    at node:internal/main/run_main_module:28:49 {
  opensslErrorStack: [
    'error:03000086:digital envelope routines::initialization error',
    'error:0308010C:digital envelope routines::unsupported'
  ],
  reason: 'unsupported',
  code: 'ERR_OSSL_EVP_UNSUPPORTED'
}

Node.js v20.20.2
""",
        "Error: error:0308010C:digital envelope routines::unsupported",
    ),
    "npm 6 run, nothing printed": (
        """\
> app@1.0.0 build /app
> node build.js

npm ERR! code ELIFECYCLE
npm ERR! errno 3
npm ERR! app@1.0.0 build: `node build.js`
npm ERR! Exit status 3
npm ERR!\x20
npm ERR! Failed at the app@1.0.0 build script.
npm ERR! This is probably not a problem with npm. There is likely additional logging output above.

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug.log
""",
        "> node build.js",
    ),
    "npm 6 run, its own words": (
        """\
> app@1.0.0 build /app
> echo Oops; exit 3

Oops
npm ERR! code ELIFECYCLE
npm ERR! errno 3
npm ERR! app@1.0.0 build: `echo Oops; exit 3`
npm ERR! Exit status 3
npm ERR!\x20
npm ERR! Failed at the app@1.0.0 build script.
npm ERR! This is probably not a problem with npm. There is likely additional logging output above.
npm WARN Local package.json exists, but node_modules missing, did you mean to install?

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug.log
""",
        "Oops",
    ),
    "npm 10 run, no such script": (
        """\
npm error Missing script: "nosuch"
npm error
npm error To see a list of scripts, run:
npm error   npm run
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        'npm error Missing script: "nosuch"',
    ),
    "npm 6 test, no test": (
        """\
> app@1.0.0 test /app
> echo "Error: no test specified" && exit 1

Error: no test specified
npm ERR! Test failed.  See above for more details.
""",
        "Error: no test specified",
    ),
    "npm 11 install, no such package": (
        """\
npm error code E404
npm error 404 Not Found - GET https://registry.example/nosuch-package
npm error 404
npm error 404  The requested resource 'nosuch-package@1.0.0' could not be found or you do not have permission to access it.
npm error 404
npm error 404 Note that you can also install from a
npm error 404 tarball, folder, http url, or git url.
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error 404  The requested resource 'nosuch-package@1.0.0' could not be found or you do not have permission to access it.",
    ),
    "npm 10 install, no such version": (
        """\
npm error code ETARGET
npm error notarget No matching version found for is-odd@99.0.0.
npm error notarget In most cases you or one of your dependencies are requesting
npm error notarget a package version that doesn't exist.
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error notarget No matching version found for is-odd@99.0.0.",
    ),
    "npm 10 install, no package.json": (
        """\
npm error code ENOENT
npm error syscall open
npm error path /app/package.json
npm error errno -2
npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/app/package.json'
npm error enoent This is related to npm not being able to find a file.
npm error enoent
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/app/package.json'",
    ),
    "npm 10 install, package.json is no JSON": (
        """\
npm error code EJSONPARSE
npm error path /app/package.json
npm error JSON.parse Expected double-quoted property name in JSON at position 14 while parsing "{\\"name\\":\\"app\\",}\\n"
npm error JSON.parse Failed to parse JSON data.
npm error JSON.parse Note: package.json must be actual JSON, not just JavaScript.
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        'npm error code EJSONPARSE: JSON.parse Expected double-quoted property name in JSON at position 14 while parsing "{\\"name\\":\\"app\\",}\\n"',
    ),
    "npm 10 install, Node too old": (
        """\
npm error code EBADENGINE
npm error engine Unsupported engine
npm error engine Not compatible with your version of node/npm: app@1.0.0
npm error notsup Not compatible with your version of node/npm: app@1.0.0
npm error notsup Required: {"node":">=99"}
npm error notsup Actual:   {"npm":"10.9.9","node":"v20.20.2"}
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error notsup Not compatible with your version of node/npm: app@1.0.0",
    ),
    "npm 10 install, no network": (
        """\
npm error code ECONNREFUSED
npm error syscall connect
npm error errno ECONNREFUSED
npm error FetchError: request to http://127.0.0.1:1/is-odd failed, reason: connect ECONNREFUSED 127.0.0.1:1
npm error }
npm error
npm error If you are behind a proxy, please make sure that the
npm error 'proxy' config is set properly.  See: 'npm help config'
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error FetchError: request to http://127.0.0.1:1/is-odd failed, reason: connect ECONNREFUSED 127.0.0.1:1",
    ),
    "npm 6 install, git": (
        """\
npm ERR! Error while executing:
npm ERR! /usr/bin/git ls-remote -h -t https://127.0.0.1:1/x.git
npm ERR!\x20
npm ERR! fatal: unable to access 'https://127.0.0.1:1/x.git/': Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server
npm ERR!\x20
npm ERR! exited with error code: 128

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug.log
""",
        "npm ERR! fatal: unable to access 'https://127.0.0.1:1/x.git/': Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
    ),
    "npm 10 install, node-gyp": (
        """\
npm error code 1
npm error path /app/node_modules/dep
npm error command failed
npm error command sh -c node-gyp rebuild
npm error make: Entering directory '/app/node_modules/dep/build'
npm error   CC(target) Release/obj.target/x/x.o
npm error make: Leaving directory '/app/node_modules/dep/build'
npm error gyp info it worked if it ends with ok
npm error gyp info spawn /usr/bin/python3
npm error gyp info spawn make
npm error ../x.c:1:1: error: expected declaration specifiers or \u2018...\u2019 at end of input
npm error     1 | int main(
npm error       | ^~~
npm error make: *** [x.target.mk:106: Release/obj.target/x/x.o] Error 1
npm error gyp ERR! build error\x20
npm error gyp ERR! stack Error: `make` failed with exit code: 2
npm error gyp ERR! stack at ChildProcess.<anonymous> (/usr/lib/node_modules/npm/node_modules/node-gyp/lib/build.js:219:23)
npm error gyp ERR! command "/usr/bin/node" "/usr/lib/node_modules/npm/node_modules/node-gyp/bin/node-gyp.js" "rebuild"
npm error gyp ERR! cwd /app/node_modules/dep
npm error gyp ERR! node -v v20.20.2
npm error gyp ERR! node-gyp -v v11.5.0
npm error gyp ERR! not ok
npm error A complete log of this run can be found in: /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug-0.log
""",
        "npm error ../x.c:1:1: error: expected declaration specifiers or \u2018...\u2019 at end of input",
    ),
    "npm 6 install, node-gyp": (
        """\
> dep@1.0.0 install /app/node_modules/dep
> node-gyp rebuild

gyp ERR! UNCAUGHT EXCEPTION\x20
gyp ERR! stack TypeError: Cannot assign to read only property 'cflags' of object '#<Object>'
gyp ERR! stack     at createConfigFile (/usr/lib/node_modules/npm/node_modules/node-gyp/lib/configure.js:118:21)
gyp ERR! stack     at /usr/lib/node_modules/npm/node_modules/node-gyp/lib/configure.js:85:9
gyp ERR! Node-gyp failed to build your package.
gyp ERR! Try to update npm and/or node-gyp and if it does not help file an issue with the package author.

npm ERR! code ELIFECYCLE
npm ERR! errno 7
npm ERR! dep@1.0.0 install: `node-gyp rebuild`
npm ERR! Exit status 7
npm ERR!\x20
npm ERR! Failed at the dep@1.0.0 install script.
npm ERR! This is probably not a problem with npm. There is likely additional logging output above.

npm ERR! A complete log of this run can be found in:
npm ERR!     /root/.npm/_logs/2024-05-01T10_00_00_000Z-debug.log
""",
        "gyp ERR! stack TypeError: Cannot assign to read only property 'cflags' of object '#<Object>'",
    ),
    "yarn": (
        """\
yarn run v1.22.22
$ echo Oops; exit 3
Oops
error Command failed with exit code 3.
info Visit https://yarnpkg.com/en/docs/cli/run for documentation about this command.
""",
        "Oops",
    ),
    "pnpm, script": (
        """\
> app@1.0.0 build /app
> tsc -p .

sh: 1: tsc: not found
\u2009ELIFECYCLE\u2009 Command failed.
""",
        "sh: 1: tsc: not found",
    ),
    "pnpm, no such version": (
        """\
\u2009ERR_PNPM_NO_MATCHING_VERSION\u2009 No matching version found for is-odd@99.0.0

This error happened while installing a direct dependency of /app

The latest release of is-odd is "3.0.1".

If you need the full list of all 7 published versions run "$ pnpm view is-odd versions".
""",
        "ERR_PNPM_NO_MATCHING_VERSION\u2009 No matching version found for is-odd@99.0.0",
    ),
    "node, ES module": (
        """\
node:internal/modules/esm/resolve:283
    throw new ERR_MODULE_NOT_FOUND(
          ^

Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/app/nosuch.js' imported from /app/m.mjs
    at finalizeResolution (node:internal/modules/esm/resolve:283:11)
    at moduleResolve (node:internal/modules/esm/resolve:952:10)
    at ModuleJob._link (node:internal/modules/esm/module_job:168:49) {
  code: 'ERR_MODULE_NOT_FOUND',
}

Node.js v20.20.2
""",
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/app/nosuch.js' imported from /app/m.mjs",
    ),
    "node, event": (
        """\
node:events:502
      throw er; // Unhandled 'error' event
      ^

Error: connect ECONNREFUSED 127.0.0.1:1
    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1611:16)
Emitted 'error' event on Socket instance at:
    at emitErrorNT (node:internal/streams/destroy:169:8)
    at emitErrorCloseNT (node:internal/streams/destroy:128:3)
    at process.processTicksAndRejections (node:internal/process/task_queues:82:21) {
  code: 'ECONNREFUSED',
}

Node.js v20.20.2
""",
        "Error: connect ECONNREFUSED 127.0.0.1:1",
    ),
    "node, error of another name": (
        """\
/app/a.js:2
throw new Oops("db down")
^

Oops: db down
    at Object.<anonymous> (/app/a.js:2:7)
    at Module._compile (node:internal/modules/cjs/loader:1521:14)

Node.js v20.20.2
""",
        "Oops: db down",
    ),
    "node, no error object": (
        """\
/app/a.js:1
throw "db down"
^
db down
(Use `node --trace-uncaught ...` to show where the exception was thrown)

Node.js v20.20.2
""",
        "db down",
    ),
    "node 18, OpenSSL": (
        """\
Error: error:0308010C:digital envelope routines::unsupported
    at new Hash (node:internal/crypto/hash:71:19) {
  opensslErrorStack: [ 'error:03000086:digital envelope routines::initialization error' ],
  library: 'digital envelope routines',
  reason: 'unsupported',
  code: 'ERR_OSSL_EVP_UNSUPPORTED'
}

Node.js v18.20.4
""",
        "Error: error:0308010C:digital envelope routines::unsupported",
    ),
    "gradle, dependency": (
        """\
:compileJava FAILED

FAILURE: Build failed with an exception.

* What went wrong:
Could not resolve all files for configuration ':compileClasspath'.
> Could not resolve org.nosuch:lib:1.0.
  Required by:
      project :
   > No cached version of org.nosuch:lib:1.0 available for offline mode.

* Try:
Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output.

BUILD FAILED in 2s
1 actionable task: 1 executed
""",
        "> Could not resolve org.nosuch:lib:1.0.",
    ),
    "gradle, dependency of a plugin": (
        """\
FAILURE: Build failed with an exception.

* What went wrong:
A problem occurred configuring project ':CordovaLib'.
> Could not resolve all files for configuration ':CordovaLib:classpath'.
   > Could not find com.android.tools.build:gradle:2.2.3.
     Searched in the following locations:
         https://jcenter.bintray.com/com/android/tools/build/gradle/2.2.3/gradle-2.2.3.pom
     Required by:
         project :CordovaLib

* Try:
Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output.

* Get more help at https://help.gradle.org

BUILD FAILED in 1m 2s
""",
        "> Could not find com.android.tools.build:gradle:2.2.3.",
    ),
    "gradle, task": (
        """\
:x FAILED

FAILURE: Build failed with an exception.

* Where:
Build file '/app/build.gradle' line: 1

* What went wrong:
Execution failed for task ':x'.
> no config

* Try:
Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output.

BUILD FAILED in 1s
1 actionable task: 1 executed
""",
        "> no config",
    ),
    "gradle, syntax": (
        """\
FAILURE: Build failed with an exception.

* Where:
Build file '/app/build.gradle' line: 2

* What went wrong:
Could not compile build file '/app/build.gradle'.
> startup failed:
  build file '/app/build.gradle': 2: unexpected token:  @ line 2, column 1.
  1 error

* Try:
Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output.

BUILD FAILED in 1s
""",
        "> startup failed: build file '/app/build.gradle': 2: unexpected token:  @ line 2, column 1.",
    ),
    "gradle, test": (
        """\
AppTest > adds FAILED
    java.lang.AssertionError at AppTest.java:1

1 test completed, 1 failed
:test FAILED

FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':test'.
> There were failing tests. See the report at: file:///app/build/reports/tests/test/index.html

* Try:
Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output.

BUILD FAILED in 3s
2 actionable tasks: 2 executed
""",
        "AppTest > adds FAILED",
    ),
    "gradle, Java too new": (
        """\
* What went wrong:
Could not open cp_init generic class cache for initialization script '/app/init.gradle' (/root/.gradle/caches/7.5.1).
> BUG! exception in phase 'semantic analysis' in source unit '_BuildScript_' Unsupported class file major version 63

* Try:
> Run with --scan to get full insights.

BUILD FAILED in 3s
""",
        "> BUG! exception in phase 'semantic analysis' in source unit '_BuildScript_' Unsupported class file major version 63",
    ),
    "gradle 4, compiler": (
        """\
:compileJava/app/src/main/java/App.java:1: error: cannot find symbol
public class App { int x = y; }
                           ^
  symbol:   variable y
  location: class App
1 error
 FAILED

FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':compileJava'.
> Compilation failed; see the compiler error output for details.

* Try:
Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output.

BUILD FAILED in 2s
1 actionable task: 1 executed
""",
        ":compileJava/app/src/main/java/App.java:1: error: cannot find symbol",
    ),
    "gradle 6, compiler": (
        """\
> Task :compileJava FAILED
/app/src/main/java/App.java:76: error: cannot find symbol
                        db = Storage.getInstance();
                             ^
  symbol:   variable Storage
  location: class App
1 error

FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':compileJava'.
> Compilation failed; see the compiler error output for details.

* Try:
Run with --stacktrace option to get the stack trace. Run with --info or --debug option to get more log output.

BUILD FAILED in 21s
1 actionable task: 1 executed
""",
        "/app/src/main/java/App.java:76: error: cannot find symbol",
    ),
    "gradle, Kotlin": (
        """\
> Task :compileKotlin FAILED
e: file:///app/src/main/kotlin/Main.kt:3:13 Unresolved reference: nosuch

FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':compileKotlin'.
> A failure occurred while executing org.jetbrains.kotlin.compilerRunner.GradleCompilerRunnerWithWorkers$GradleKotlinCompilerWorkAction
   > Compilation error. See log for more details

* Try:
> Run with --stacktrace option to get the stack trace.

BUILD FAILED in 9s
""",
        "e: file:///app/src/main/kotlin/Main.kt:3:13 Unresolved reference: nosuch",
    ),
    "gradle too old": (
        """\
FAILURE: Build failed with an exception.

* What went wrong:
A problem occurred configuring project ':app'.
> Minimum supported Gradle version is 7.5. Current version is 6.9.

* Try:
> Run with --stacktrace option to get the stack trace.

BUILD FAILED in 1s
""",
        "> Minimum supported Gradle version is 7.5. Current version is 6.9.",
    ),
    "gradle, its advice cut off": (
        """\
FAILURE: Build failed with an exception.

* What went wrong:
Execution failed for task ':compileJava'.
> Compilation failed; see the compiler error output for details.

BUILD FAILED in 21s
""",
        "Execution failed for task ':compileJava'.",
    ),
    "maven, modules": (
        """\
\x1b[0m[INFO] Scanning for projects...
[ERROR] COMPILATION ERROR :
[ERROR] /app/m/a/src/main/java/App.java:[1,28] cannot find symbol
  symbol:   variable y
  location: class App
[INFO] 1 error
[INFO] app ................................................ SUCCESS [  0.006 s]
[INFO] a .................................................. FAILURE [  1.969 s]
[INFO] b .................................................. SKIPPED
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.13.0:compile (default-compile) on project a: Compilation failure
[ERROR] /app/m/a/src/main/java/App.java:[1,28] cannot find symbol
[ERROR]   symbol:   variable y
[ERROR]   location: class App
[ERROR] -> [Help 1]
[ERROR]
[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.
[ERROR] Re-run Maven using the -X switch to enable full debug logging.
[ERROR]
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException
[ERROR]
[ERROR] After correcting the problems, you can resume the build with the command
[ERROR]   mvn <args> -rf :a
\x1b[0m
""",
        "[ERROR] /app/m/a/src/main/java/App.java:[1,28] cannot find symbol",
    ),
    "maven, release of Java": (
        """\
\x1b[0m[INFO] Scanning for projects...
[INFO] Building app 1.0
[INFO] BUILD FAILURE
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-compiler-plugin:3.13.0:compile (default-compile) on project app: Fatal error compiling: error: invalid target release: 99 -> [Help 1]
[ERROR]\x20
[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.
[ERROR] Re-run Maven using the -X switch to enable full debug logging.
[ERROR]\x20
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoExecutionException
\x1b[0m
""",
        "[ERROR] Failed to execute goal … on project app: Fatal error compiling: error: invalid target release: 99 -> [Help 1]",
    ),
    "maven, dependency, colored": (
        """\
\x1b[0m[ERROR] Failed to execute goal on project app: Could not resolve dependencies for project org.example:app:jar:1.0: Failed to collect dependencies at org.nosuch:lib:jar:1.0: Failed to read artifact descriptor for org.nosuch:lib:jar:1.0:\x20
[ERROR]\x20
[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.
[ERROR] Re-run Maven using the -X switch to enable full debug logging.
[ERROR]\x20
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/DependencyResolutionException
\x1b[0m
""",
        "[ERROR] Failed to execute goal on project app: Could not resolve dependencies for project org.example:app:jar:1.0: Failed to collect dependencies at org.nosuch:lib:jar:1.0: Failed to read artifact descriptor for org.nosuch:lib:jar:1.0:",
    ),
    "maven, test": (
        """\
[INFO] Running AppTest
[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.153 s <<< FAILURE! -- in AppTest
[ERROR] AppTest.adds -- Time elapsed: 0.077 s <<< FAILURE!
org.opentest4j.AssertionFailedError: expected: <3> but was: <2>
\tat org.junit.jupiter.api.AssertionFailureBuilder.build(AssertionFailureBuilder.java:151)
\tat org.junit.jupiter.api.AssertionFailureBuilder.buildAndThrow(AssertionFailureBuilder.java:132)

[INFO] Results:
[ERROR] Failures:\x20
[ERROR]   AppTest.adds:1 expected: <3> but was: <2>
[ERROR] Tests run: 1, Failures: 1, Errors: 0, Skipped: 0
[INFO] BUILD FAILURE
[ERROR] Failed to execute goal org.apache.maven.plugins:maven-surefire-plugin:3.2.5:test (default-test) on project app: There are test failures.
[ERROR]\x20
[ERROR] Please refer to /app/target/surefire-reports for the individual test results.
[ERROR] Please refer to dump files (if any exist) [date].dump, [date]-jvmRun[N].dump and [date].dumpstream.
[ERROR] -> [Help 1]
[ERROR]\x20
[ERROR] To see the full stack trace of the errors, re-run Maven with the -e switch.
[ERROR] Re-run Maven using the -X switch to enable full debug logging.
[ERROR]\x20
[ERROR] For more information about the errors and possible solutions, please read the following articles:
[ERROR] [Help 1] http://cwiki.apache.org/confluence/display/MAVEN/MojoFailureException
\x1b[0m
""",
        "[ERROR]   AppTest.adds:1 expected: <3> but was: <2>",
    ),
    "conda, builds": (
        """\
Collecting package metadata (repodata.json): ...working... done
Solving environment: ...working... failed

ResolvePackageNotFound:\x20
  - pyglet=1.5
  - box2d-py

""",
        "ResolvePackageNotFound: - pyglet=1.5",
    ),
    "conda, package": (
        """\
Solving environment: ...working... failed with initial frozen solve. Retrying with flexible solve.

PackagesNotFoundError: The following packages are not available from current channels:

  - python=3.8.5

Current channels:

  - https://repo.anaconda.com/pkgs/main/linux-aarch64

To search for alternate channels that may provide the conda package you're
looking for, navigate to

    https://anaconda.org

and use the search bar at the top of the page.
""",
        "PackagesNotFoundError: The following packages are not available from current channels: - python=3.8.5",
    ),
    "conda, conflict": (
        """\
Found conflicts! Looking for incompatible packages.
This can take several minutes.  Press CTRL-C to abort.
failed

UnsatisfiableError: The following specifications were found to be incompatible with each other:

  - fiona -> gdal[version='>=2.4.1,<2.5.0a0']
  - opencv=4.0.0 -> blas
""",
        "UnsatisfiableError: The following specifications were found to be incompatible with each other: - fiona -> gdal[version='>=2.4.1,<2.5.0a0']",
    ),
    "conda, libmamba": (
        """\
Solving environment: failed

LibMambaUnsatisfiableError: Encountered problems while solving:
  - nothing provides boost 1.78.0.* needed by oneclient-21.02.2-py39

Could not solve for environment specs
The following packages are incompatible
└─ oneclient   is uninstallable because there are no viable options
   ├─ oneclient [20.02.16.1|20.02.17|...|21.02.2] would require
   │  └─ boost 1.78.0.* , which does not exist (perhaps a missing channel);
""",
        "LibMambaUnsatisfiableError: Encountered problems while solving: - nothing provides boost 1.78.0.* needed by oneclient-21.02.2-py39",
    ),
    "micromamba": (
        """\
Encountered problems while solving:
  - nothing provides requested quarto

The environment can't be solved, aborting the operation
error    libmamba Could not solve for environment specs
critical libmamba UnsatisfiableError
""",
        "- nothing provides requested quarto",
    ),
    "conda, pip": (
        """\
Pip subprocess error:
ERROR: Could not find a version that satisfies the requirement nosuch==1.0 (from versions: none)
ERROR: No matching distribution found for nosuch==1.0

failed

CondaEnvException: Pip failed

""",
        "ERROR: No matching distribution found for nosuch==1.0",
    ),
    "conda, network": (
        """\
CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://conda.example/linux-64/repodata.json>
Elapsed: -

An HTTP error occurred when trying to retrieve this URL.
HTTP errors are often intermittent, and a simple retry will get you on your way.
""",
        "CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://conda.example/linux-64/repodata.json>",
    ),
    "pip, no such package": (
        """\
ERROR: Could not find a version that satisfies the requirement nosuch-package (from versions: none)
ERROR: No matching distribution found for nosuch-package
""",
        "ERROR: No matching distribution found for nosuch-package",
    ),
    "pip, conflict": (
        """\
Collecting requests==2.20.0 (from -r requirements.txt (line 1))
Collecting urllib3==2.0.0 (from -r requirements.txt (line 2))
ERROR: Cannot install -r requirements.txt (line 1) and urllib3==2.0.0 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested urllib3==2.0.0
    requests 2.20.0 depends on urllib3<1.25 and >=1.21.1

To fix this you could try to:
1. loosen the range of package versions you've specified
2. remove package versions to allow pip attempt to solve the dependency conflict

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/#dealing-with-dependency-conflicts
""",
        "ERROR: Cannot install -r requirements.txt (line 1) and urllib3==2.0.0 because these package versions have conflicting dependencies.",
    ),
    "pip 23, setup.py": (
        """\
Processing ./p
  Installing build dependencies: started
  Installing build dependencies: finished with status 'done'
  Getting requirements to build wheel: started
  Getting requirements to build wheel: finished with status 'error'
  error: subprocess-exited-with-error
 \x20
  \xd7 Getting requirements to build wheel did not run successfully.
  │ exit code: 1
  ╰─> [21 lines of output]
      Traceback (most recent call last):
        File "<string>", line 1, in <module>
      RuntimeError: pg_config executable not found.
      [end of output]
 \x20
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: subprocess-exited-with-error

\xd7 Getting requirements to build wheel did not run successfully.
│ exit code: 1
╰─> See above for output.

note: This error originates from a subprocess, and is likely not a problem with pip.
""",
        "RuntimeError: pg_config executable not found.",
    ),
    "pip 23, compiler": (
        """\
Processing ./p
Building wheels for collected packages: p
  Building wheel for p (pyproject.toml): started
  Building wheel for p (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error
 \x20
  \xd7 Building wheel for p (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [10 lines of output]
      running bdist_wheel
      running build
      running build_ext
      building 'p' extension
      gcc -Wsign-compare -DNDEBUG -g -fwrapv -O3 -Wall -fPIC -I/app/v/include -I/usr/include/python3.11 -c p.c -o build/temp.linux-x86_64-cpython-311/p.o
      p.c:1:10: fatal error: nosuch.h: No such file or directory
          1 | #include <nosuch.h>
            |          ^~~~~~~~~~
      compilation terminated.
      error: Command '['gcc', '-Wsign-compare', '-DNDEBUG', '-g', '-fwrapv', '-O3', '-Wall', '-fPIC', '-I/app/v/include', '-I/usr/include/python3.11', '-c', 'p.c', '-o', 'build/temp.linux-x86_64-cpyth
      [end of output]
 \x20
  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for p
Failed to build p
ERROR: Could not build wheels for p, which is required to install pyproject.toml-based projects
""",
        "p.c:1:10: fatal error: nosuch.h: No such file or directory",
    ),
    "pip, no gcc": (
        """\
      error: command 'gcc' failed: No such file or directory
      [end of output]

  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for psutil
Failed to build psutil
error: failed-wheel-build-for-install

\xd7 Failed to build installable wheels for some pyproject.toml based projects
╰─> psutil
""",
        "error: command 'gcc' failed: No such file or directory",
    ),
    "pip 22, setup.py": (
        """\
Processing ./q
  Preparing metadata (setup.py): started
  Preparing metadata (setup.py): finished with status 'error'
  error: subprocess-exited-with-error
 \x20
  \xd7 python setup.py egg_info did not run successfully.
  │ exit code: 1
  ╰─> [6 lines of output]
      Traceback (most recent call last):
        File "<string>", line 36, in <module>
        File "<pip-setuptools-caller>", line 34, in <module>
        File "/app/q/setup.py", line 2, in <module>
          if "egg_info" in sys.argv or "dist_info" in sys.argv: raise RuntimeError("pg_config executable not found.")
      RuntimeError: pg_config executable not found.
      [end of output]
 \x20
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: metadata-generation-failed

\xd7 Encountered error while generating package metadata.
╰─> See above for output.

note: This is an issue with the package mentioned above, not pip.
hint: See above for details.
""",
        "RuntimeError: pg_config executable not found.",
    ),
    "pip 22, no compiler": (
        """\
Processing ./p
  Preparing metadata (setup.py): started
  Preparing metadata (setup.py): finished with status 'done'
Using legacy 'setup.py install' for p, since package 'wheel' is not installed.
Installing collected packages: p
  Running setup.py install for p: started
  Running setup.py install for p: finished with status 'error'
  error: subprocess-exited-with-error
 \x20
  \xd7 Running setup.py install for p did not run successfully.
  │ exit code: 1
  ╰─> [9 lines of output]
      running install
      running build
      running build_ext
      building 'p' extension
      creating build
      creating build/temp.linux-x86_64-3.7
      nosuchcc -Wno-unused-result -Wsign-compare -DNDEBUG -g -fwrapv -O3 -Wall -fPIC -I/app/v/includ
      unable to execute 'nosuchcc': No such file or directory
      error: command 'nosuchcc' failed with exit status 1
      [end of output]
 \x20
  note: This error originates from a subprocess, and is likely not a problem with pip.
error: legacy-install-failure

\xd7 Encountered error while trying to install package.
╰─> p

note: This is an issue with the package mentioned above, not pip.
hint: See above for output from the failure.
""",
        "unable to execute 'nosuchcc': No such file or directory",
    ),
    "pip 26, no compiler": (
        """\
Processing ./p
Building wheels for collected packages: p
  Building wheel for p (pyproject.toml): started
  Building wheel for p (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error
 \x20
  \xd7 Building wheel for p (pyproject.toml) did not run successfully.
  │ exit code: 1
  ╰─> [6 lines of output]
      running bdist_wheel
      running build
      running build_ext
      building 'p' extension
      nosuchcc -fno-strict-overflow -Wsign-compare -DNDEBUG -g -O3 -Wall -fPIC -I/app/include -I/roo
      error: [Errno 2] No such file or directory: 'nosuchcc'
      [end of output]
 \x20
  note: This error originates from a subprocess, and is likely not a problem with pip.
  ERROR: Failed building wheel for p
Failed to build p
error: failed-wheel-build-for-install

\xd7 Failed to build installable wheels for some pyproject.toml based projects
╰─> p
""",
        "error: [Errno 2] No such file or directory: 'nosuchcc'",
    ),
    "pip 20, setup.py": (
        """\
Processing ./q
    ERROR: Command errored out with exit status 1:
     command: /app/v20/bin/python -c 'import sys, setuptools, tokenize; sys.argv[0] = '"'"'/tmp/pip-
         cwd: /tmp/pip-req-build-lxrkj7sf/
    Complete output (5 lines):
    Traceback (most recent call last):
      File "<string>", line 1, in <module>
      File "/tmp/pip-req-build-lxrkj7sf/setup.py", line 1, in <module>
        raise RuntimeError("pg_config executable not found.")
    RuntimeError: pg_config executable not found.
    ----------------------------------------
WARNING: Discarding file:///app/q. Command errored out with exit status 1: python setup.py egg_info\x20
ERROR: Command errored out with exit status 1: python setup.py egg_info Check the logs for full comm
""",
        "RuntimeError: pg_config executable not found.",
    ),
    "pip, Debian's Python": (
        """\
error: externally-managed-environment

\xd7 This environment is externally managed
╰─> To install Python packages system-wide, try apt install

note: If you believe this is a mistake, please contact your Python installation or OS distribution provider. You can override this, at the risk of breaking your Python installation or OS, by passing -
hint: See PEP 668 for the detailed specification.
""",
        "error: externally-managed-environment",
    ),
    "cargo, build script": (
        """\
   Compiling app v0.1.0 (/app)
error: failed to run custom build command for `app v0.1.0 (/app)`
note: To improve backtraces for build dependencies, set the CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG=true environment variable to enable debug information generation.

Caused by:
  process didn't exit successfully: `/app/target/debug/build/app-17eb751571e7872b/build-script-build` (exit status: 101)
  --- stdout
  cargo:rerun-if-changed=build.rs

  --- stderr

  thread 'main' (17294) panicked at build.rs:1:58:
  Could not find directory of OpenSSL installation
  note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
""",
        "Could not find directory of OpenSSL installation",
    ),
    "cargo, panic": (
        """\
   Compiling app v0.1.0 (/app)
    Finished `dev` profile [unoptimized + debuginfo] target(s) in 0.23s
     Running `target/debug/app`

thread 'main' (17202) panicked at src/main.rs:1:55:
index out of bounds: the len is 0 but the index is 3
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
""",
        "thread 'main' (17202) panicked at src/main.rs:1:55: index out of bounds: the len is 0 but the index is 3",
    ),
    "cargo, test": (
        """\
   Compiling app v0.1.0 (/app)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 0.18s
     Running unittests src/main.rs (target/debug/deps/app-29897a1f9d59ade5)

running 1 test
test adds ... FAILED

failures:

---- adds stdout ----

thread 'adds' (17264) panicked at src/main.rs:1:34:
assertion `left == right` failed
  left: 2
 right: 3
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace

failures:
    adds

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.07s

error: test failed, to rerun pass `--bin app`
""",
        "assertion `left == right` failed",
    ),
    "cargo, compiler": (
        """\
   Compiling app v0.1.0 (/app)
error[E0308]: mismatched types
 --> src/main.rs:1:26
  |
1 | fn main() { let s: u32 = "a"; }
  |                    ---   ^^^ expected `u32`, found `&str`
  |                    |
  |                    expected due to this

For more information about this error, try `rustc --explain E0308`.
error: could not compile `app` (bin "app") due to 1 previous error
""",
        "error[E0308]: mismatched types",
    ),
    "rustc": (
        """\
error[E0308]: mismatched types
 --> a.rs:1:26
  |
1 | fn main() { let s: u32 = "a"; }
  |                    ---   ^^^ expected `u32`, found `&str`
  |                    |
  |                    expected due to this

error: aborting due to 1 previous error

For more information about this error, try `rustc --explain E0308`.
""",
        "error[E0308]: mismatched types",
    ),
    "cargo, linker": (
        """\
   Compiling app v0.1.0 (/app)
error: linking with `cc` failed: exit status: 1
  |
  = note:  "cc" "-m64" "/app/target/debug/deps/rustc1/symbols.o" "<6 object file
  = note: some arguments are omitted. use `--verbose` to show all linker argumen
  = note: rust-lld: error: unable to find library -lnosuchlib
          collect2: error: ld returned 1 exit status
         \x20
error: could not compile `app` (bin "app") due to 1 previous error
""",
        "= note: rust-lld: error: unable to find library -lnosuchlib",
    ),
    "cargo, dependency": (
        """\
error: no matching package named `serde` found
location searched: crates.io index
required by package `app v0.1.0 (/app)`
As a reminder, you're using offline mode (--offline) which can sometimes cause surprising resolution failures, if this error is too confusing you may wish to retry without `--offline`.
""",
        "error: no matching package named `serde` found",
    ),
    "cargo, rustc too old": (
        """\
error: rustc 1.95.0 is not supported by the following package:
  app@0.1.0 requires rustc 1.99
""",
        "error: rustc 1.95.0 is not supported by the following package: app@0.1.0 requires rustc 1.99",
    ),
    "cargo, no network": (
        """\
    Updating crates.io index
error: failed to get `serde` as a dependency of package `app v0.1.0 (/app)`

Caused by:
  download of config.json failed

Caused by:
  failed to download from `https://registry.example/config.json`

Caused by:
  [7] Could not connect to server (Failed to connect to 127.0.0.1 port 1 after 0 ms: Could not connect to server)
""",
        "[7] Could not connect to server (Failed to connect to 127.0.0.1 port 1 after 0 ms: Could not connect to server)",
    ),
    "cmake, package": (
        """\
CMake Error at CMakeLists.txt:3 (find_package):
  By not providing "FindZLIBX.cmake" in CMAKE_MODULE_PATH this project has
  asked CMake to find a package configuration file provided by "ZLIBX", but
  CMake did not find one.

  Could not find a package configuration file provided by "ZLIBX" with any of
  the following names:

    ZLIBXConfig.cmake
    zlibx-config.cmake

  Add the installation prefix of "ZLIBX" to CMAKE_PREFIX_PATH or set
  "ZLIBX_DIR" to a directory containing one of the above files.  If "ZLIBX"
  provides a separate development package or SDK, be sure it has been
  installed.

-- Configuring incomplete, errors occurred!
See also "/app/b/CMakeFiles/CMakeOutput.log".
""",
        'Could not find a package configuration file provided by "ZLIBX" with any of',
    ),
    "cmake, module": (
        """\
CMake Error at /usr/share/cmake-3.25/Modules/FindPackageHandleStandardArgs.cmake:230 (message):
  Could NOT find Protobuf (missing: Protobuf_LIBRARIES Protobuf_INCLUDE_DIR)
Call Stack (most recent call first):
  /usr/share/cmake-3.25/Modules/FindPackageHandleStandardArgs.cmake:600 (_FPHSA_FAILURE_MESSAGE)
  /usr/share/cmake-3.25/Modules/FindProtobuf.cmake:650 (FIND_PACKAGE_HANDLE_STANDARD_ARGS)
  CMakeLists.txt:3 (find_package)

-- Configuring incomplete, errors occurred!
See also "/app/b/CMakeFiles/CMakeOutput.log".
""",
        "Could NOT find Protobuf (missing: Protobuf_LIBRARIES Protobuf_INCLUDE_DIR)",
    ),
    "cmake, pkg-config": (
        """\
-- Found PkgConfig: /usr/bin/pkg-config (found version "1.8.1")\x20
-- Checking for module 'gtk+-9.0'
--   Package 'gtk+-9.0', required by 'virtual:world', not found
CMake Error at /usr/share/cmake-3.25/Modules/FindPkgConfig.cmake:607 (message):
  A required package was not found
Call Stack (most recent call first):
  /usr/share/cmake-3.25/Modules/FindPkgConfig.cmake:829 (_pkg_check_modules_internal)
  CMakeLists.txt:4 (pkg_check_modules)

-- Configuring incomplete, errors occurred!
See also "/app/b/CMakeFiles/CMakeOutput.log".
""",
        "--   Package 'gtk+-9.0', required by 'virtual:world', not found",
    ),
    "cmake, version": (
        """\
CMake Error at CMakeLists.txt:1 (cmake_minimum_required):
  CMake 3.99 or higher is required.  You are running version 3.25.1

-- Configuring incomplete, errors occurred!
""",
        "CMake 3.99 or higher is required.  You are running version 3.25.1",
    ),
    "cmake, no compiler": (
        """\
-- The C compiler identification is unknown
CMake Error at CMakeLists.txt:2 (project):
  No CMAKE_C_COMPILER could be found.

  Tell CMake where to find the compiler by setting either the environment
  variable "CC" or the CMake cache entry CMAKE_C_COMPILER to the full path to
  the compiler, or to the compiler name if it is in the PATH.

-- Configuring incomplete, errors occurred!
See also "/app/b/CMakeFiles/CMakeOutput.log".
See also "/app/b/CMakeFiles/CMakeError.log".
""",
        "No CMAKE_C_COMPILER could be found.",
    ),
    "cmake, source": (
        """\
-- Configuring done
CMake Error at CMakeLists.txt:3 (add_executable):
  Cannot find source file:

    nosuch.c

  Tried extensions .c .C .c++ .cc .cpp .cxx .cu .mpp .m .M .mm .ixx .cppm .h
  .hh .h++ .hm .hpp .hxx .in .txx .f .F .for .f77 .f90 .f95 .f03 .hip .ispc

CMake Error at CMakeLists.txt:3 (add_executable):
  No SOURCES given to target: app

CMake Generate step failed.  Build files cannot be regenerated correctly.
""",
        "Cannot find source file: nosuch.c",
    ),
    "cmake, message": (
        """\
-- Looking for strlcpy
-- Looking for strlcpy - not found
CMake Error at CMakeLists.txt:6 (message):
  Please set DATA_DIR

-- Configuring incomplete, errors occurred!
See also "/app/b/CMakeFiles/CMakeOutput.log".
make: *** No rule to make target 'all'.  Stop.
""",
        "Please set DATA_DIR",
    ),
    "cmake, build": (
        """\
[ 50%] Building C object CMakeFiles/app.dir/main.c.o
/app/main.c:1:10: fatal error: nosuch.h: No such file or directory
    1 | #include <nosuch.h>
      |          ^~~~~~~~~~
compilation terminated.
gmake[2]: *** [CMakeFiles/app.dir/build.make:76: CMakeFiles/app.dir/main.c.o] Error 1
gmake[1]: *** [CMakeFiles/Makefile2:83: CMakeFiles/app.dir/all] Error 2
gmake: *** [Makefile:91: all] Error 2
""",
        "/app/main.c:1:10: fatal error: nosuch.h: No such file or directory",
    ),
    "ctest": (
        """\
Test project /app/b
    Start 1: a
1/1 Test #1: a ................................***Failed    0.00 sec

0% tests passed, 1 tests failed out of 1

Total Test time (real) =   0.00 sec

The following tests FAILED:
\t  1 - a (Failed)
Errors while running CTest
Output from these tests are in: /app/b/Testing/Temporary/LastTest.log
Use "--rerun-failed --output-on-failure" to re-run the failed cases verbosely.
""",
        "1 - a (Failed)",
    ),
    "go, compiler": (
        """\
# app
./main.go:6:14: undefined: x
./main.go:7:14: cannot use "a" (untyped string constant) as int value in variable declaration
""",
        './main.go:7:14: cannot use "a" (untyped string constant) as int value in variable declaration',
    ),
    "go, import": (
        """\
main.go:3:8: no required module provides package github.com/nosuch/lib; to add it:
\tgo get github.com/nosuch/lib
""",
        "main.go:3:8: no required module provides package github.com/nosuch/lib; to add it: go get github.com/nosuch/lib",
    ),
    "go, test": (
        """\
--- FAIL: TestAdd (0.00s)
    main_test.go:3: got 2, want 3
FAIL
FAIL\tapp\t0.002s
FAIL
""",
        "--- FAIL: TestAdd (0.00s): main_test.go:3: got 2, want 3",
    ),
    "go, test does not compile": (
        """\
# app [app.test]
./main_test.go:3:30: undefined: x
FAIL\tapp [build failed]
FAIL
""",
        "./main_test.go:3:30: undefined: x",
    ),
    "go, test panics": (
        """\
--- FAIL: TestAdd (0.00s)
panic: runtime error: index out of range [3] with length 0 [recovered]
\tpanic: runtime error: index out of range [3] with length 0

goroutine 18 [running]:
app.TestAdd(0x0?)
\t/app/main_test.go:3 +0x1a
FAIL\tapp\t0.005s
FAIL
""",
        "panic: runtime error: index out of range [3] with length 0",
    ),
    "unittest": (
        """\
F
======================================================================
FAIL: test_add (__main__.T.test_add)
----------------------------------------------------------------------
Traceback (most recent call last):
  File "/app/t.py", line 4, in test_add
    self.assertEqual(1 + 1, 3)
AssertionError: 2 != 3

----------------------------------------------------------------------
Ran 1 test in 0.001s

FAILED (failures=1)
""",
        "AssertionError: 2 != 3",
    ),
    "make": (
        """\
make: Entering directory '/app'
all went wrong
make: *** [Makefile:2: all] Error 1
make: Leaving directory '/app'
""",
        "all went wrong",
    ),
    "gcc": (
        """\
main.c:2:2: error: #error unsupported platform, error 3
    2 | #error unsupported platform, error 3
      |  ^~~~~
""",
        "main.c:2:2: error: #error unsupported platform, error 3",
    ),
    "ninja": (
        """\
[1/2] Building C object CMakeFiles/app.dir/main.c.o
FAILED: CMakeFiles/app.dir/main.c.o\x20
/usr/bin/cc -o CMakeFiles/app.dir/main.c.o -c /app/main.c
/app/main.c:1:10: fatal error: nosuch.h: No such file or directory
    1 | #include <nosuch.h>
      |          ^~~~~~~~~~
compilation terminated.
ninja: build stopped: subcommand failed.
""",
        "/app/main.c:1:10: fatal error: nosuch.h: No such file or directory",
    ),
    "apt, unmet dependencies": (
        """\
Some packages could not be installed. This may mean that you have
requested an impossible situation or if you are using the unstable
distribution that some required packages have not yet been created
or been moved out of Incoming.
The following information may help to resolve the situation:

The following packages have unmet dependencies:
 needs : Depends: libnosuch-dev (>= 2) but it is not installable
         Depends: bash (>= 99) but 5.2.15-2+b8 is to be installed
E: Unable to correct problems, you have held broken packages.
""",
        "The following packages have unmet dependencies: needs : Depends: libnosuch-dev (>= 2) but it is not installable",
    ),
    "apt, no candidate": (
        """\
Package libssl1.0-dev is not available, but is referred to by another package.
This may mean that the package is missing, has been obsoleted, or
is only available from another source

E: Package 'libssl1.0-dev' has no installation candidate
""",
        "E: Package 'libssl1.0-dev' has no installation candidate",
    ),
    "apt, broken before": (
        """\
You might want to run 'apt --fix-broken install' to correct these.
The following packages have unmet dependencies:
 needs : Depends: libnosuch-dev (>= 2) but it is not installable
         Depends: bash (>= 99) but 5.2.15-2+b8 is installed
E: Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a solution).
""",
        "The following packages have unmet dependencies: needs : Depends: libnosuch-dev (>= 2) but it is not installable",
    ),
    "apt, release gone": (
        """\
Ign:1 http://deb.debian.org/debian stretch InRelease
Err:2 http://deb.debian.org/debian stretch Release
E: The repository 'http://deb.debian.org/debian stretch Release' does not have a Release file.
""",
        "E: The repository 'http://deb.debian.org/debian stretch Release' does not have a Release file.",
    ),
    "apt, index files": (
        """\
W: The repository 'http://deb.debian.org/debian stretch Release' does not have a Release file.
E: Failed to fetch http://deb.debian.org/debian/dists/stretch/main/binary-amd64/Packages  404  Not Found
E: Some index files failed to download. They have been ignored, or old ones used instead.
""",
        "E: Failed to fetch http://deb.debian.org/debian/dists/stretch/main/binary-amd64/Packages  404  Not Found",
    ),
    "apt, package script": (
        """\
The following NEW packages will be installed:
  badpost
0 upgraded, 1 newly installed, 0 to remove and 134 not upgraded.
debconf: delaying package configuration, since apt-utils is not installed
Unpacking badpost (1.0) ...
Setting up badpost (1.0) ...
configure: no such user
dpkg: error processing package badpost (--configure):
 installed badpost package post-installation script subprocess returned error exit status 1
Errors were encountered while processing:
 badpost
E: Sub-process /usr/bin/dpkg returned an error code (1)
""",
        "installed badpost package post-installation script subprocess returned error exit status 1",
    ),
    "colors": ("\x1b[1;31mE: Unable to locate package x\x1b[0m\nbye\n", "E: Unable to locate package x"),
    "flags and paths are no errors": (
        "gcc -Wno-error -c a.c\n   Compiling error-chain v0.12.4\nread src/error and error.rs\nnothing works\n",
        "nothing works",
    ),
    "warnings are no errors": (
        (
            "npm warn could not read it\n[WARNING] no such file\nCMake Warning: not found\nWARNING: refused\n"
            "W: GPG error\ndebconf: unable to initialize frontend: Dialog\n"
            "invoke-rc.d: could not determine current runlevel\nnothing works\n=============\n"
        ),
        "nothing works",
    ),
    "what only begins like what sums up": (
        "ERROR: Could not bind to port 80\nThe environment variable PORT is not set\n",
        "ERROR: Could not bind to port 80",
    ),
    "what sums up, where all does": ("make: *** [all] Error 2\n", "make: *** [all] Error 2"),
    "what introduces nothing": ("error: these failed:\n", "error: these failed:"),
    "blank": (" \n\n", ""),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("name", QUOTED)
def test_the_line_that_names_the_cause_is_quoted(name):
    output, quoted = QUOTED[name]
    assert de.telling_line(output) == quoted


# npm 11 explains each option of a command that it refuses.
OPTION = (
    "npm error   --audit\nnpm error     When true, submit audit reports alongside the command\nnpm error\n"
)
REFUSED, ADVICE = QUOTED["npm 10 ci, no lock file"][0].split("npm error aliases")
EXPLAINED = f"{REFUSED}{OPTION * 25}npm error aliases{ADVICE}"
FAILED_STEP = "The command '/bin/sh -c npm ci' returned a non-zero code: 1"
CAUSE = "npm error code EUSAGE: The `npm ci` command can only install with an existing package-lock.json or"


def test_a_command_is_told_by_its_cause_however_much_advice_follows(fake, evaluate):
    (fake.root / "said.txt").write_text(EXPLAINED)
    (row,) = evaluate(["FROM x"], run_command("cat said.txt; exit 1"))["test_results"]
    assert row["message"] == f"exit code 1: {CAUSE}"


def test_a_build_is_told_by_its_cause_however_much_advice_follows(fake, evaluate):
    fake.fault("build", "fail", stdout=LEGACY.replace(APT, EXPLAINED), stderr=FAILED_STEP, code=1)
    assert evaluate(["FROM x"], TRUE)["build"]["message"].endswith(f": exit code 1: {CAUSE}")


@pytest.mark.parametrize(
    "piece",
    [
        *"a \n\t=:|>'\x1b",
        "a\n",
        f"{' ' * 499}x\n",
        f"npm error {'1' * 400}\n",
        "\x1b[",
        "= in 1s ",
        "CMake Error",
        "CMake Error:\n",
        "* What went wrong:\n* Try\n",
        "npm error ",
        "npm error code E\n",
        "There are test ",
        "Failed to execute goal x (",
        "error: command ''",
    ],
)
def test_the_time_grows_with_the_length_and_no_faster(piece):
    """As processor time: a thousandth of a second for most, some hundredths for many short lines."""
    text = piece * (64 * 1024 // len(piece))
    start = time.process_time()
    de.telling_line(text)
    assert time.process_time() - start < 2
