"""A stand-in for docker: keeps images and containers as files, runs a container's shell on the host.

It proves nothing about docker; it lets the tests fail it, hang it or kill it at a chosen call, and
run the real check scripts without an engine. FAKE_DOCKER names its folder:

    calls.jsonl       the arguments of every call, a line each
    faults.json       what goes wrong: [{"on": "run", "nth": 1, "do": "fail", "code": 125, "stderr": ""}],
                      "given": WORD only where the call holds it; "help": true only where it asks for help
    environment.json  what a container's environment holds, beside PATH
    in_flight.json    how many seconds the engine takes to make a container, even if nobody waits for it
    arrived.json      true once such a container was there
    images/ containers/

The suite starts it thousands of times. Most of such a start are imports, so it does without json, re,
signal, subprocess and contextlib, which take three times as long as all the rest.
"""

import _signal
import os
import sys
import time
from _json import encode_basestring_ascii

HOME = os.environ["FAKE_DOCKER"]
SEPARATE = ("--name", "--entrypoint", "--label", "--tag", "--file", "--format", "--filter")
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?"


def path(*names):
    return os.path.join(HOME, *names)


def loads(text):
    """Read JSON, which is Python but for three names."""
    return eval(text, {"null": None, "true": True, "false": False})


def dumps(value):
    """Write JSON."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{dumps(key)}: {dumps(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(dumps, value)) + "]"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    return {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))


def load(*names, default=None):
    try:
        with open(path(*names)) as file:
            return loads(file.read())
    except FileNotFoundError:
        return default


def save(value, *names):
    with open(path(*names) + ".new", "w") as file:
        file.write(dumps(value))
    os.replace(path(*names) + ".new", path(*names))


def end(code, stdout="", stderr=""):
    sys.stdout.write(stdout)
    sys.stderr.write(stderr + "\n" if stderr else "")
    sys.exit(code)


def options(words):
    """Split words into options (a list of values each) and what follows them."""
    found = {}
    words = list(words)
    while words and words[0].startswith("-"):
        name, equals, value = words.pop(0).partition("=")
        if name in SEPARATE and not equals:
            value = words.pop(0)
        found.setdefault(name, []).append(value)
    return found, words


def labels(found):
    return dict(pair.split("=", 1) for pair in found.get("--label", []))


def strike(command):
    """Do the harm that the test asked for at this call."""
    with open(path("calls.jsonl")) as file:
        calls = [loads(line) for line in file]
    for fault in load("faults.json", default=[]):
        if not is_meant(fault, command, calls):
            continue
        if fault["do"] == "hang":
            time.sleep(600)
        elif fault["do"] == "die":
            os.kill(os.getpid(), _signal.SIGKILL)
        elif fault["do"] == "delay":
            time.sleep(fault["seconds"])
        elif fault["do"] == "lose":
            save(True, "lost.json")
        elif fault["do"] == "fail":
            end(fault.get("code", 1), fault.get("stdout", ""), fault.get("stderr", ""))
    if load("lost.json"):
        end(1, stderr=LOST)


def is_meant(fault, command, calls):
    """Whether a fault is to happen at the last of the calls."""
    asks = calls[-1][-1] == "--help"
    nth = sum(1 for call in calls if name_of(call) == command and call[-1] != "--help")
    return (
        fault["on"] in (command, "*")
        and fault.get("help", False) == asks
        and fault.get("nth", nth) == nth >= fault.get("from", 0)
        and fault.get("given", calls[-1][0]) in calls[-1]
    )


def name_of(call):
    return " ".join(call[:2]) if call[0] in ("image", "container") else call[0]


def build(words):
    found, _rest = options(words)
    with open(found["--file"][-1]) as file:
        text = file.read()
    print("Step 1/1 : FROM scratch", flush=True)
    if "SLEEP" in text:
        time.sleep(600)
    if "FAIL" in text:
        end(7, "last words of the build\n", "The command '/bin/sh -c false' returned a non-zero code: 7")
    config = {"Labels": labels(found), "Env": ["PATH=/bin"], "User": "", "WorkingDir": ""}
    config.update(load("config.json", default={}))
    if "NOLOAD" not in text:
        save({"Size": 1234, "Config": config}, "images", found["--tag"][-1])


def image(action, *words):
    found, rest = options(words)
    form = found.get("--format", [""])[0]
    if action == "ls":
        tags = sorted(os.listdir(path("images"))) if rest else []
        end(0, "".join(tag.split(":")[1] + "\n" for tag in tags))
    facts = load("images", rest[0])
    if facts is None:
        end(1, stderr=f"Error: No such image: {rest[0]}")
    if action == "inspect":
        end(0, dumps(facts["Config"]["Labels"] if "Labels" in form else facts))
    if action == "tag":
        save(facts, "images", rest[1])
    if action == "rm":
        os.unlink(path("images", rest[0]))


def run(words):
    found, rest = options(words)
    tag, arguments = rest[0], rest[1:]
    name = found["--name"][0]
    if load("images", tag) is None:
        end(125, stderr=f"docker: Error: No such image: {tag}.")
    if load("in_flight.json") and os.fork():
        time.sleep(600)  # the container comes from the engine, whether or not this command still lives
    elif load("in_flight.json"):
        os.setsid()
        time.sleep(load("in_flight.json"))
        save({"pid": os.getpid(), "labels": labels(found)}, "containers", name)
        save(True, "arrived.json")
        time.sleep(60)
    environment = {"PATH": os.environ["PATH"], **load("environment.json", default={})}
    begun, begins = os.pipe()
    pid = os.fork()
    if not pid:
        start([found["--entrypoint"][0], *arguments], environment)
    os.close(begins)
    os.read(begun, 1)  # to its end: the pipe is closed by the exec
    save({"pid": pid, "labels": labels(found)}, "containers", name)
    _, status = os.waitpid(pid, 0)
    if "--rm" in found and load("containers", name):
        os.unlink(path("containers", name))
    end(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def start(words, environment):
    """Become a container's first process."""
    os.setsid()
    os.chdir(path("root"))
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)  # which Python ignores
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvpe(words[0], words, environment)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        os._exit(1)


def container(action, *words):
    found, rest = options(words)
    facts = load("containers", rest[0])
    if facts is None:
        end(0 if "--force" in found else 1, stderr=f"Error: No such container: {rest[0]}")
    if action == "rm":
        try:  # noqa: SIM105 - contextlib is one of the slow imports
            os.killpg(facts["pid"], _signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.unlink(path("containers", rest[0]))
    else:
        end(0, dumps({"StartedAt": "2026-01-01T00:00:00Z"}))


def ps():
    keys = ("run", "owner", "expires")
    for name in sorted(os.listdir(path("containers"))):
        theirs = load("containers", name, default={"labels": {}})["labels"]
        print("\t".join([name, *(theirs.get(f"io.dockerfile-evaluator.{key}", "") for key in keys)]))


def main(words):
    with open(path("calls.jsonl"), "a") as file:
        file.write(dumps(words) + "\n")
    strike(name_of(words))
    if words[0] == "version":
        server = {"Version": "20.10", "Os": "linux", "Arch": "amd64"}
        end(0, dumps({"Client": {"Version": "28.2"}, "Server": server}))
    if words[0] == "info":
        end(0, "2026-01-01T00:00:00.5Z")
    if words[0] == "build":
        build(words[1:])
    if words[0] == "image":
        image(*words[1:])
    if words[0] == "container":
        container(*words[1:])
    if words[0] == "events" and not load("restarted.json"):
        end(0, "die")
    if words[0] == "ps":
        ps()
    if words[0] == "run" and words[-1] != "--help":
        run(words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
