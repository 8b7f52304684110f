"""A fake docker, a small engine: images and containers are files, a container's /bin/sh runs here.

It does not test docker. It runs the real scripts of the checks without an engine, and fails, hangs
or dies at a chosen call. The class Fake in conftest.py controls it. FAKE_DOCKER names its folder:

calls          a line per call: name, arguments, process id
settings       a dict: what the engine returns, and the faults
version, info  what these calls print, as JSON
images/        a file per tag
containers/    a file per container: its state
root/          the working folder of all containers
lost           exists while no engine answers
creating       the container whose creation has begun last
created        that which was created last

Both sides write Python literals. A call's name is its subcommand, such as "build" or "image rm".
The experiments have names of their own: "control COPY", "control RUN" and "control run" of the
trivial Dockerfile, "from" of a Dockerfile that is only a FROM, "syntax" of one with today's syntax.
What "version", "info", "ps" and "image ls" print comes from the launcher in conftest.py, after the
faults of the call.

A Dockerfile may have any lines; these mean something:

FROM IMAGE   fails with settings["pull"][IMAGE], or that of its registry, unless the image is there
COPY missing …   fails
RUN exit N   fails with this exit code, after it has printed "last words of the build"

Modules such as json and re are imported only where they are used: their import takes longer than
the rest of a call.
"""

import os
import signal
import sys
import time

CONTROL = ("COPY . ", "RUN [")  # the last line of the control experiment
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?"


def read(path):
    with open(path) as file:
        return eval(file.read())


def write(value, path):
    """Write a file in one step: another call may read it at the same time."""
    temporary = f"{FOLDER}/new.{os.getpid()}"
    with open(temporary, "w") as file:
        file.write(repr(value))
    os.replace(temporary, path)


def remove(path):
    try:
        os.unlink(path)
    except FileNotFoundError:  # another call was faster
        pass


FOLDER = os.environ["FAKE_DOCKER"]
SETTINGS = read(f"{FOLDER}/settings")


def image_path(tag):
    return f"{FOLDER}/images/{tag.replace('/', '%')}"


def container_path(name):
    return f"{FOLDER}/containers/{name}"


def emit(text, stream=sys.stdout):
    print(text, end="", file=stream, flush=True)


def fail(message, code=1):
    print(message, file=sys.stderr)
    sys.exit(code)


def split(words):
    """Return the options (name=value), and all words from the first one on that is none."""
    is_option = [word.startswith("-") and word != "-" for word in words]
    count = [*is_option, False].index(False)
    return dict(word.partition("=")[::2] for word in words[:count]), words[count:]


# Names, records and faults


def dockerfile(options):
    """Return the lines of a Dockerfile, which may be on standard input."""
    file = options.get("--file", "-")
    with open(0 if file == "-" else file, errors="replace") as stream:
        return stream.read().splitlines()


def name_of(subcommand, options, rest, lines):
    if subcommand == "run" and options["--entrypoint"] != "/bin/sh":
        return "control run"
    if options.get("--file", "-") != "-" or not lines:
        return subcommand
    if lines[-1].startswith(CONTROL) and lines[0] == "FROM scratch":
        return f"control {lines[-1].split()[0]}"
    if lines[0] == "FROM scratch":
        return "syntax"
    return "from" if rest == ["-"] else subcommand


def record(name, words):
    """Write the call down; return how many calls of that name there were, including this one."""
    own = repr((name, words, os.getpid()))
    with open(f"{FOLDER}/calls", "a+") as file:
        file.write(f"{own}\n")
        file.flush()
        file.seek(0)
        lines = file.read().splitlines()
    until_own = lines[: lines.index(own) + 1]  # another call may have written after it
    return sum(line.startswith(f"({name!r}, ") for line in until_own)


def inject_faults(name, words, number):
    """Do what the test has chosen for this call; return True if that printed the call's output.

    A fault is `on` calls of a name ("*": of all), `given` a word that the call has: on the `nth`
    of them, on all `since` that one, or on all.
    """
    is_printed = False
    for fault in SETTINGS["faults"]:
        is_call = fault["on"] in (name, "*") and fault.get("given", words[0]) in words
        is_number = number == fault.get("nth", number) and number >= fault.get("since", 1)
        if not is_call or not is_number:
            continue
        do = fault["do"]
        if do in ("sleep", "hang"):
            time.sleep(fault.get("seconds", 600))
        elif do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif do == "ignore SIGTERM":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        elif do == "lose the engine":
            write(True, f"{FOLDER}/lost")
        elif do == "find the engine":
            remove(f"{FOLDER}/lost")
        else:
            emit(fault.get("stdout", ""))
            emit(fault.get("stderr", ""), sys.stderr)
            is_printed = True
            if do == "fail":
                sys.exit(fault.get("code", 1))
    return is_printed


# Images


def build(options, lines, *, is_printed):
    if not is_printed:
        emit("Sending build context to Docker daemon  2.048kB\n")
    for number, line in enumerate(lines, 1):
        if not is_printed:
            emit(f"Step {number}/{len(lines)} : {line}\n")
        word, _, rest = line.partition(" ")
        if word == "FROM":
            pull(rest.split()[0])
        elif line.startswith("COPY missing"):
            fail("COPY failed: stat missing: file does not exist")
        elif line.startswith("RUN ") and '["/' in line and "FROM scratch" in lines[:2]:
            program = rest.partition("[")[2].strip("]")
            fail(f"OCI runtime create failed: exec: {program}: no such file or directory")
        elif line.startswith("RUN exit "):
            code = rest.split()[-1]
            emit("last words of the build\n")
            fail(
                f"The command '/bin/sh -c exit {code}' returned a non-zero code: {code}", int(code)
            )
    write(True, image_path(options["--tag"]))


def pull(image):
    """Fail if docker cannot get an image."""
    if image == "scratch" or os.path.exists(image_path(image)):
        return
    first = image.split("/")[0]
    registry = first if "." in first else "docker.io"
    problem = SETTINGS["pull"].get(image, SETTINGS["pull"].get(registry))
    if problem:
        fail(problem)


def need_image(tag, code=1, prefix=""):
    if not os.path.exists(image_path(tag)):
        fail(f"{prefix}Error response from daemon: No such image: {tag}", code)


def image_inspect(tag):
    import json

    need_image(tag)
    emit(f"{json.dumps([SETTINGS['image']])}\n")


def image_tag(tag, other):
    need_image(tag)
    write(True, image_path(other))


def image_rm(tag):
    need_image(tag)
    remove(image_path(tag))


# Containers


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(options, tag, *arguments):
    path, entrypoint = container_path(options["--name"]), options["--entrypoint"]
    need_image(tag, 125, "docker: ")
    if not os.path.exists(entrypoint):
        write({"Pid": 0}, path)
        reason = f'exec: "{entrypoint}": stat {entrypoint}: no such file or directory: unknown.'
        fail(f"docker: Error response from daemon: failed to create task: {reason}", 127)
    write(os.getpid(), f"{FOLDER}/docker_run")
    pid = os.fork()
    if not pid:
        words = (entrypoint, *arguments)
        shell = SETTINGS["shell"]
        start_container(path, [shell if word == "/bin/sh" else word for word in words])
    _, status = os.waitpid(pid, 0)
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    kill_group(pid)  # what the first process has left ends with it
    if "--rm" in options:
        remove(path)
    elif os.path.exists(path):
        write({**read(path), "Pid": 0, "Running": False, "ExitCode": code}, path)
    sys.exit(code)


def start_container(path, words):
    """Become a container's first process.

    The engine creates it even if `docker run` is killed before that.
    """
    os.setsid()
    write(path, f"{FOLDER}/creating")
    time.sleep(SETTINGS["create_seconds"])
    write({"Pid": os.getpid(), "Running": True, "ExitCode": 0, "StartedAt": "2026"}, path)
    write(path, f"{FOLDER}/created")
    os.chdir(f"{FOLDER}/root")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execve(words[0], words, {"PATH": os.environ["PATH"], **SETTINGS["environment"]})
    finally:
        os._exit(126)


def need_container(name):
    if not os.path.exists(container_path(name)):
        fail(f"Error response from daemon: No such container: {name}")


def container_rm(name):
    need_container(name)
    pid = read(container_path(name))["Pid"]
    if pid:
        kill_group(pid)
    remove(container_path(name))


def container_inspect(name):
    import json

    need_container(name)
    emit(f"{json.dumps({**read(container_path(name)), **SETTINGS['state']})}\n")


def main(words):
    at = 2 if words[0] in ("image", "container") else 1
    subcommand, words = " ".join(words[:at]), words[at:]
    options, rest = split(words)
    lines = dockerfile(options) if subcommand == "build" else []
    name = name_of(subcommand, options, rest, lines)
    is_printed = inject_faults(name, words or [""], record(name, words))
    if os.path.exists(f"{FOLDER}/lost"):
        fail(LOST)
    elif subcommand == "build":
        build(options, lines, is_printed=is_printed)
    elif subcommand == "run":
        run(options, *rest)
    elif subcommand not in ("version", "info", "ps", "image ls"):  # see the launcher
        globals()[subcommand.replace(" ", "_")](*rest)


if __name__ == "__main__":
    main(sys.argv[1:])
