"""A stand-in for docker: keeps images and containers as files, runs a container's shell on the host.

It proves nothing about docker; it lets the tests fail it, hang it or kill it at a chosen call, and
run the real check scripts without an engine. FAKE_DOCKER names its folder:

    calls               name and arguments of every call, a line each; "control build" and "control run" are
                        the names of a build FROM scratch and of a run with another entry point than /bin/sh
    faults.json         what goes wrong: [{"on": "run", "nth": 1, "do": "fail", "code": 125, "stderr": ""}],
                        "nth" and "from" count the calls of one name; "given": WORD only where the call holds
                        it, "lacks": WORD where it does not; "help": true only where it asks for help; "do" is
                        "fail", "say" (print and go on), "hang", "delay" ("seconds"), "die" (of SIGKILL), or
                        "lose" and "find" (the engine)
    types.json          the type of a file in the image, or where it links to, by its path:
                        {"/etc/passwd": "6"}
    info.json           what `docker info` says, beside the usual
    contexts.json       the names of docker's contexts
    environment.json    what a container's environment holds, beside PATH
    environments.json   [[TEXT, {…}], …]: the same, where an argument of the call holds TEXT
    shell.json          what plays /bin/sh, for example ["/usr/bin/bash"], run under the name sh; default: the host's
    config.json         what the image's Config holds
    in_flight.json      how many seconds the engine takes to make a container, even if nobody waits for it
    held.json           true while none of these comes
    program.pid         the process of the last `run`
    arrived.json        true once such a container was there
    engine.json         where the last call was to go, by its environment
    lost.json           true while no engine answers
    state.json          what the State of each container that was started holds, beside the usual
    podman.json         true where an image's id, and why a RUN of a build fails, are told as podman tells it
    pull.json           {"code": 1, "stderr": "…"}: the answer to `docker pull`
    images/ containers/

The suite starts it thousands of times, and most of a start are imports: it does without subprocess
and json. What it reads may be JSON, what it writes are Python's literals.
"""

import fcntl
import os
import signal
import sys
import time

SEPARATE = (
    "--name",
    "--entrypoint",
    "--tag",
    "--file",
    "--format",
    "--filter",
    "--since",
    "--until",
)
SEPARATE += ("--user", "--workdir")
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?"
STARTED, NEVER = "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z"
ENGINE = {"Version": "20.10", "Os": "linux", "Arch": "amd64"}
DIGEST = "sha256:" + "5a" * 32


def path(*names):
    return os.path.join(
        os.environ["FAKE_DOCKER"], *(name.replace("/", "%2F") if i else name for i, name in enumerate(names))
    )


def read(text):
    return eval(text, {"true": True, "false": False, "null": None})


def load(*names, default=None):
    try:
        with open(path(*names)) as file:
            return read(file.read())
    except FileNotFoundError:
        return default


def save(value, *names):
    temporary = path(f"new.{os.getpid()}")  # not among images or containers, if this call is killed
    with open(temporary, "w") as file:
        file.write(repr(value))
    os.replace(temporary, path(*names))


def remove(*names):
    try:
        os.unlink(path(*names))
    except FileNotFoundError:
        pass


def as_json(value):
    """Return JSON without the module of that name, whose import takes longer than all else in a call."""
    from _json import encode_basestring_ascii as quoted

    if isinstance(value, dict):
        return "{" + ", ".join(f"{quoted(name)}: {as_json(one)}" for name, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(as_json, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return {"None": "null", "True": "true", "False": "false"}.get(repr(value), repr(value))


def end(code, stdout="", stderr=""):
    sys.stdout.write(stdout)
    sys.stderr.write(stderr + "\n" if stderr else "")
    sys.exit(code)


def options(words, *separate):
    """Split words into options (a list of values each) and what else there is.

    As with docker, options may follow what they belong to, but for `run`, where they are the command's.
    """
    found, others = {}, []
    words = list(words)
    while words:
        if not words[0].startswith("-"):
            if "--entrypoint" in found:
                break
            others.append(words.pop(0))
            continue
        name, equals, value = words.pop(0).partition("=")
        if name in (*SEPARATE, *separate) and not equals:
            value = words.pop(0)
        found.setdefault(name, []).append(value)
    return found, others + words


def formatted(form, data):
    """Fill in a template: {{.A.B}}, {{json .A}} and {{len .A}}."""

    def look(place):
        value = data
        for name in filter(None, place.split(".")):
            if not isinstance(value, dict) or name not in value:
                end(1, stderr=f'template parsing error: map has no entry for key "{name}"')
            value = value[name]
        return value

    def one(name, *arguments):
        keys = [argument.strip('"') for argument in arguments]
        if not keys:
            value = look(name)
            return str(value).lower() if isinstance(value, bool) else str(value)
        if name == "json":
            return as_json(look(keys[0]))
        if name == "len":
            return str(len(look(keys[0]) or ()))
        return end(64, stderr=f"template parsing error: the stand-in does not know {name}")

    before, *parts = form.split("{{")
    filled = [one(*action.split()) + after for action, _, after in (part.partition("}}") for part in parts)]
    return "".join([before, *filled]).replace("\\t", "\t").replace("\\n", "\n")


def told(found, facts):
    """End with what `inspect` says of a thing."""
    form = found.get("--format", found.get("-f", [""]))[0]
    end(0, (formatted(form, facts) if form else as_json([facts])) + "\n")


def note(words):
    """Write a call down, and return the text of all calls until now."""
    with open(path("calls"), "a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(repr({"name": name_of(words), "words": words}) + "\n")
        file.flush()
        file.seek(0)
        return file.read()


def strike(text):
    """Do the harm that the test asked for at the last call."""
    faults = load("faults.json", default=[])
    calls = [read(line) for line in text.splitlines()] if faults else []
    for fault in faults:
        if not is_meant(fault, calls):
            continue
        if fault["do"] == "hang":
            time.sleep(600)
        elif fault["do"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif fault["do"] == "delay":
            time.sleep(fault["seconds"])
        elif fault["do"] in ("lose", "find"):
            save(fault["do"] == "lose", "lost.json")
        elif fault["do"] in ("say", "fail"):
            harm(fault)
        else:
            raise ValueError(fault)
    if load("lost.json"):
        end(1, stderr=LOST)


def harm(fault):
    texts = [fault.get("stdout", ""), fault.get("stderr", "")]
    if fault["do"] == "fail":
        end(fault.get("code", 1), *texts)
    for stream, text in zip((sys.stdout, sys.stderr), texts):
        stream.write(text)
        stream.flush()


def is_meant(fault, calls):
    """Whether a fault is to happen at the last of the calls."""
    name, words = calls[-1]["name"], calls[-1]["words"]
    asks = words[-1] == "--help"
    nth = sum(1 for call in calls if call["name"] == name and call["words"][-1] != "--help")
    return (
        fault["on"] in (name, "*")
        and fault.get("help", False) == asks
        and fault.get("nth", nth) == nth >= fault.get("from", 0)
        and fault.get("given", words[0]) in words
        and fault.get("lacks") not in words
    )


def name_of(call):
    name = {"rm": "container rm", "rmi": "image rm", "kill": "container kill"}.get(call[0], call[0])
    if name in ("image", "container"):
        return " ".join(call[:2])
    if call[-1] == "--help":
        return name
    found, rest = options(call[1:], "-f", "-t")
    if name == "run" and found.get("--entrypoint", ["/bin/sh"])[0] != "/bin/sh":
        return "control run"
    if name == "build" and dockerfile(found, rest).split()[:2] == ["FROM", "scratch"]:
        return "control build"
    return name


def dockerfile(found, rest):
    try:
        with open(found.get("--file", found.get("-f", [os.path.join(rest[-1], "Dockerfile")]))[-1]) as file:
            return file.read()
    except (OSError, IndexError):
        return ""


def build(words):
    found, rest = options(words, "-f", "-t")
    text = dockerfile(found, rest)
    if not any(fault["do"] == "say" for fault in load("faults.json", default=[])):
        print("Step 1/1 : FROM scratch", flush=True)
    if "SLEEP" in text:
        time.sleep(600)
    if "RUN [" in text:  # as the control has it, of a program that is not there
        program = text.partition("RUN [")[2].partition("]")[0]
        why = f"OCI runtime create failed: exec: {program}: stat {program}: no such file or directory"
        end(1, stderr="Error: while running runtime: exit status 1" if load("podman.json") else why)
    if "FAIL" in text:
        end(7, "last words of the build\n", "The command '/bin/sh -c false' returned a non-zero code: 7")
    config = {"Env": ["PATH=/bin"], "User": "", "WorkingDir": "", **load("config.json", default={})}
    if "NOLOAD" not in text:
        save({"Size": 1234, "Config": config}, "images", found.get("--tag", found.get("-t"))[-1])


def image_facts(tag):
    facts = load("images", tag)
    if facts is None:
        end(1, stderr=f"Error: No such image: {tag}")
    layers = {"Type": "layers", "Layers": [DIGEST, DIGEST.replace("5a", "6b")]}
    return {
        "ID" if load("podman.json") else "Id": DIGEST.replace("5a", "1d"),
        "Created": STARTED,
        "RepoTags": [tag],
        "RootFS": layers,
        "Size": 1,
        **facts,
    }


def image(action, *words):
    found, rest = options(words, *(("-f",) if action == "inspect" else ()))
    if action == "ls":
        form = found.get("--format", ["{{.Repository}} {{.Tag}} {{.ID}}"])[0]
        for name in sorted(os.listdir(path("images"))):
            repository, _, tag = name.replace("%2F", "/").rpartition(":")
            if not rest or repository == rest[0]:
                print(formatted(form, {"Repository": repository, "Tag": tag, "ID": DIGEST}))
    elif action == "inspect":
        told(found, image_facts(rest[0]))
    elif action == "tag":
        image_facts(rest[0])
        save(load("images", rest[0]), "images", rest[1])
    elif action == "rm":
        for tag in rest:
            image_facts(tag)
            os.unlink(path("images", tag))


def run(words):
    found, rest = options(words)
    tag, arguments = rest[0], rest[1:]
    name = found.get("--name", ["nameless"])[0]
    entry = found["--entrypoint"][0]
    if load("images", tag) is None:
        end(125, stderr=f"docker: Error: No such image: {tag}.")
    if not os.path.exists(entry):
        if "--rm" not in found:
            save({"pid": 0, "started": NEVER}, "containers", name)
        why = f'exec: "{entry}": stat {entry}: no such file or directory: unknown.'
        end(127, stderr=f"docker: Error response from daemon: failed to create task for container: {why}")
    if load("in_flight.json") and os.fork():
        time.sleep(600)  # the container comes from the engine, whether or not this command still lives
    elif load("in_flight.json"):
        os.setsid()
        time.sleep(load("in_flight.json"))
        while load("held.json"):
            time.sleep(0.02)
        save({"pid": os.getpid()}, "containers", name)
        save(True, "arrived.json")
        try:
            print(f"{arguments[3]}=B", flush=True)  # it has begun
        except OSError:
            pass  # and nobody hears it
        time.sleep(60)
    environment = {"PATH": os.environ["PATH"], **load("environment.json", default={})}
    for text, more in load("environments.json", default=[]):
        if any(text in argument for argument in arguments):
            environment.update(more)
    save(os.getpid(), "program.pid")
    begun, begins = os.pipe()
    pid = os.fork()
    if not pid:
        start(as_sh([entry, *arguments]), environment)
    os.close(begins)
    os.read(begun, 1)  # to its end: the pipe is closed by the exec
    save({"pid": pid}, "containers", name)
    _, status = os.waitpid(pid, 0)
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if "--rm" in found:
        remove("containers", name)
    elif load("containers", name):
        save({"pid": 0, "code": code}, "containers", name)
    end(code)


def start(words, environment):
    """Become a container's first process."""
    os.setsid()
    os.chdir(path("root"))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execvpe(words[0], words, environment)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        os._exit(1)


def as_sh(command):
    """Return a command in which another shell plays /bin/sh: by a link of that name, or by its own words."""
    shell = load("shell.json")
    if not shell:
        return command
    link = path("shells", "sh")
    if len(shell) == 1 and not os.path.islink(link):
        os.makedirs(path("shells"), exist_ok=True)
        import shutil

        try:
            os.symlink(shutil.which(shell[0]), link)
        except FileExistsError:
            pass  # another call was faster
    played = [link] if len(shell) == 1 else shell
    # The shell that a script starts once more is the same one, as in an image.
    inner = [
        link if len(shell) == 1 and word == "/bin/sh" and at > 3 else word for at, word in enumerate(command)
    ]
    return [*played, *inner[1:]]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def container(action, *words):
    found, rest = options(words, *(("-f",) if action == "inspect" else ()))
    for name in rest:
        facts = load("containers", name)
        if facts is None:
            end(0 if "--force" in found or "-f" in found else 1, stderr=f"Error: No such container: {name}")
        if action == "inspect":
            state = {"Running": is_running(facts["pid"]), "ExitCode": facts.get("code", 0), "Error": ""}
            state.update(StartedAt=facts.get("started", STARTED), OOMKilled=False, Pid=facts["pid"])
            state["Status"] = "running" if state["Running"] else "created" if "started" in facts else "exited"
            state.update({} if "started" in facts else load("state.json", default={}))
            told(found, {"Name": f"/{name}", "Id": "c0" * 32, "Created": STARTED, "State": state})
        if facts["pid"]:
            try:
                os.killpg(facts["pid"], signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        if action == "rm":
            remove("containers", name)
            print(name)


def ps(words):
    found, _ = options(words)
    form = found.get("--format", ["{{.ID}}"])[0]
    for name in sorted(os.listdir(path("containers"))):
        facts = load("containers", name)
        if facts is None or not is_listed(name, facts, found):
            continue
        state = "running" if is_running(facts["pid"]) else "exited"
        row = {"Names": name, "ID": name[-12:], "State": state, "Status": state}
        print(formatted(form, row))


def is_match(pattern, name):
    import re

    return re.search(pattern, name)


def is_listed(name, facts, found):
    for word in found.get("--filter", []):
        kind, _, wanted = word.partition("=")
        if kind == "name" and not is_match(wanted, name):
            return False
    return "--all" in found or "-a" in found or is_running(facts["pid"])


def pull(words):
    name = options(words)[1][-1]
    why = f"Error response from daemon: manifest for {name} not found: manifest unknown: manifest unknown"
    answer = load("pull.json", default={})
    end(answer.get("code", 1), answer.get("stdout", ""), answer.get("stderr", why))


def version(words):
    told(options(words, "-f")[0], {"Client": {"Version": "28.2"}, "Server": ENGINE})


def info(words):
    facts = {"SystemTime": "2026-01-01T00:00:00.5Z", "ServerVersion": "20.10", "NCPU": 3, "MemTotal": 2**32}
    told(options(words, "-f")[0], {**facts, **load("info.json", default={})})


def context(_action, name):
    end(0 if name in load("contexts.json", default=[]) else 1)


def create(words):
    found, _ = options(words)
    save({"pid": 0, "started": NEVER}, "containers", found["--name"][0])


def cp(words):
    """Print the archive of a file, whose type, as ustar tells it, or link stands in types.json."""
    source = words[-2].partition(":")[2]
    name = os.path.basename(source)
    kind = load("types.json", default={}).get(source, "0")
    if kind == "0":  # nearly always
        end(0, plain_archive(name))
    import tarfile

    file = tarfile.TarInfo(name)
    file.type, file.linkname = (b"2", kind) if len(kind) > 1 else (kind.encode(), "")
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(file)


def plain_archive(name):
    """Return the ustar archive of an empty file, without the import of tarfile."""
    before = name.ljust(100, "\0") + "0000000\0" * 3 + "00000000000\0" * 2
    after = ("0" + "\0" * 100 + "ustar\00000").ljust(356, "\0")
    checksum = sum((before + " " * 8 + after).encode())
    return f"{before}{checksum:06o}\0 {after}" + "\0" * 1024


COMMANDS = {
    "version": version,
    "info": info,
    "context": lambda words: context(*words),
    "create": create,
    "cp": cp,
    "ps": ps,
    "pull": pull,
    "build": build,
    "run": run,
    "image": lambda words: image(*words),
    "rmi": lambda words: image("rm", *words),
    "container": lambda words: container(*words),
    "rm": lambda words: container("rm", *words),
    "kill": lambda words: container("kill", *words),
}


def main(words):
    engine = {name: os.environ[name] for name in ("DOCKER_HOST", "DOCKER_CONTEXT") if name in os.environ}
    save(engine, "engine.json")
    strike(note(words))
    if words[-1] != "--help":
        COMMANDS[words[0]](words[1:])


def serve(address):
    """Answer calls at a socket, each in a process forked from this one, until stdin ends."""
    import gc
    import re  # noqa: F401 - what some calls import, here once for all of them
    import select
    import shutil  # noqa: F401
    import socket
    import tarfile  # noqa: F401
    import threading

    gc.freeze()  # or each fork would copy what its first collection marks
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(100)
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


def answer(connection):
    """Be the parent of one call: take its words and pipes, and tell its process and its exit code."""
    import array

    data, ancillary, _, _ = connection.recvmsg(20, 100)
    pipes = array.array("i", ancillary[0][2])
    with connection.makefile("rb") as file:
        words, environment, folder = read(file.read(int(data)).decode())
    pid = os.fork()
    if not pid:
        os.setsid()
        for number, pipe in enumerate(pipes, 1):
            os.dup2(pipe, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(3, 1000)  # also the pipes of calls that are answered at the same time
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        os._exit(code_of(words))
    for pipe in pipes:
        os.close(pipe)
    connection.sendall(b"%d\n" % pid)
    status = os.waitpid(pid, 0)[1]
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    connection.sendall(b"%d\n" % code)
    connection.close()


def code_of(words):
    """Answer a call; return its exit code."""
    try:
        main(words)
        code = 0
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1] == "serve" else main(sys.argv[1:])
