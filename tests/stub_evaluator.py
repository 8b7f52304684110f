"""Plays the evaluator for artifacts/evaluate_all.py: a word in the Dockerfile selects the report.

FAIL is a failed build, SLOW a build that timed out, LATE a test that timed out, NOSTART an image
that does not start, and SLEEP an evaluation that goes on; the words of errors are below. "A THEN B"
is A at first and B when it is repeated, and "A ONCE" passes then. Without a word all tests pass.

It notes each evaluation in the file `calls`, as MODEL/REPO from the Dockerfile's first line.
"""

import hashlib
import json
import os
import signal
import sys
import time

# The kind of error by the word in the Dockerfile.
ERRORS = {
    "FAIL": "build",
    "SLOW": "build_timeout",
    "OTHERS": "interrupted",
    "DEAD": "engine",
    "ENGINE": "engine",
    "REGISTRY": "registry",
    "USAGE": "usage",
}
CACHE_NAMESPACE = "--build-arg=BUILDKIT_CACHE_MOUNT_NS="

options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:] if "=" in word)
build_options = [word[15:] for word in sys.argv if word.startswith("--build-option=")]
is_repetition = "--no-cache" in build_options
with open(options["dockerfile"]) as file:
    dockerfile = file.read()


def sha256(name):
    with open(options[name], "rb") as content:
        return hashlib.sha256(content.read()).hexdigest()


def end(word):
    """Print the report that a word stands for."""
    kind = ERRORS.get(word)
    status = {"LATE": "timeout", "NOSTART": "failed"}.get(word, "not_run" if kind else "passed")
    passed = int(status == "passed")
    error = None
    if kind:
        error = {"kind": kind, "message": "why", "engine_failed": word == "DEAD"}
    report = {
        "repo": options["repo"],
        "dockerfile": options["dockerfile"],
        "rubric": options["rubric"],
        "summary": {
            "total_tests": 1,
            "passed_tests": passed,
            "total_score": passed,
            "max_score": 1,
            "total_execution_time": 0,
        },
        "test_results": [
            {
                "test_id": "t",
                "test_type": "x",
                "status": status,
                "message": "m",
                "output": "",
                "execution_time": 0,
            }
        ],
        "build": {"execution_time": 0, "log": ""},
        "error": error,
        "warnings": [],
        "environment": {
            "evaluator_version": "2.1.0",
            "context": options["context"],
            "overlay": options.get("overlay"),
            "overlay_sha256": None,
            "dockerfile_sha256": sha256("dockerfile"),
            "rubric_sha256": sha256("rubric"),
            "build_options": [word for word in build_options if word.startswith("--pull")],
            "run_options": [],
            "options_key": None,
            "image_starts": word != "NOSTART",
            "started_at": "",
            "build_timeout": float(options["build-timeout"]),
            "start_timeout": 120.0,
            "offline": False,
        },
    }
    json.dump(report, sys.stdout)
    sys.exit(1 if error else 0)


def note(text):
    """Add a line to the file `calls`."""
    name = dockerfile.splitlines()[0][2:]
    with open("calls", "a") as calls:
        calls.write(f"{name}{text}\n")


def on_interrupt(*_):
    """Note that the interrupt has arrived, and end as the evaluator does."""
    with open("interrupts", "a") as interrupts:
        interrupts.write("one\n")
    end("OTHERS")


signal.signal(signal.SIGTERM, on_interrupt)
with open("arguments", "w") as file:
    json.dump(sys.argv[1:], file)
note(" --no-cache" if is_repetition else "")
print("the log", file=sys.stderr, flush=True)

deadline = time.monotonic() + 60  # then an interrupt that does not arrive fails the test
while "SLEEP" in dockerfile and not os.path.exists("awake") and time.monotonic() < deadline:
    time.sleep(0.05)

words = dockerfile.split()
if os.path.exists("engine-is-dead"):
    words = ["DEAD"]
if "CRASH" in words:
    sys.exit("the reason")
if is_repetition and "ONCE" in words:
    words = []
if is_repetition and "THEN" in words:  # LATE THEN FAIL
    words = words[words.index("THEN") :]
end(next((word for word in words if word in ERRORS or word in ("LATE", "NOSTART")), ""))
