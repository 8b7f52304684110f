"""A fake docker, a small engine: images and containers are files, a container's /bin/sh runs here.

It does not test docker. It runs the real scripts of the checks without an engine, and fails, hangs
or dies at a chosen call. The class Fake in conftest.py controls it. FAKE_DOCKER names its folder:

calls        a line per call: name, arguments, process id
settings     a dict: what the engine returns, and the faults
images/      a file per tag
containers/  a file per container: its state
root/        the working folder of all containers
lost         exists while no engine answers
creating     the container whose creation has begun last
created      that which was created last

Both sides write Python literals. A call's name is its subcommand, such as "build" or "image rm".
The experiments have names of their own: "control COPY", "control RUN" and "control run" of the
trivial Dockerfile, "from" of a Dockerfile that is only a FROM.

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

FOLDER = os.environ["FAKE_DOCKER"]
SEPARATE_VALUE = ("--name", "--entrypoint", "--tag", "--file", "--format", "--filter")
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?"
SETTINGS = {}


def path(*names):
    return "/".join((FOLDER, *names))


def read(*names):
    with open(path(*names)) as file:
        return eval(file.read())


def write(value, *names):
    """Write a file in one step: another call may read it at the same time."""
    temporary = path(f"new.{os.getpid()}")
    with open(temporary, "w") as file:
        file.write(repr(value))
    os.replace(temporary, path(*names))


def remove(*names):
    try:
        os.unlink(path(*names))
    except FileNotFoundError:
        pass


def emit(stdout, stderr=""):
    for stream, text in ((sys.stdout, stdout), (sys.stderr, stderr)):
        stream.write(text)
        stream.flush()


def end(code, stdout="", stderr=""):
    emit(stdout, f"{stderr}\n" if stderr else "")
    sys.exit(code)


def split(words):
    """Return the options, and all words from the first one on that is none."""
    options, words = {}, list(words)
    while words and words[0].startswith("-") and words[0] != "-":
        name, has_value, value = words.pop(0).partition("=")
        options[name] = words.pop(0) if name in SEPARATE_VALUE and not has_value else value
    return options, words


# Names, records and faults


def name_of(subcommand, options, rest, lines):
    if subcommand == "run" and options["--entrypoint"] != "/bin/sh":
        return "control run"
    if lines[:1] == ["FROM scratch"]:
        return "control RUN" if lines[1].startswith("RUN") else "control COPY"
    return "from" if lines and rest == ["-"] else subcommand


def dockerfile(options):
    """Return the lines of a Dockerfile, which may be on standard input."""
    if options.get("--file", "-") == "-":
        return sys.stdin.read().splitlines()
    with open(options["--file"], errors="replace") as file:
        return file.read().splitlines()


def record(name, words):
    """Write the call down; return how many calls of that name there were, including this one."""
    with open(path("calls"), "ab+") as file:
        file.write(f"{(name, words, os.getpid())!r}\n".encode())
        file.flush()
        end_of_own = file.tell()  # another call may write after it
        file.seek(0)
        lines = file.read(end_of_own).decode().splitlines()
    return sum(line.startswith(f"({name!r}, ") for line in lines)


def inject_faults(name, words, number):
    """Do what the test has chosen for this call; return True if that printed the call's output."""
    is_printed = False
    for fault in SETTINGS["faults"]:
        is_call = fault["on"] in (name, "*") and fault.get("given", words[0]) in words
        is_number = number in fault.get("nth", (number,)) and number >= fault.get("since", 1)
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
            write(True, "lost")
        elif do == "find the engine":
            remove("lost")
        else:
            emit(fault.get("stdout", ""), fault.get("stderr", ""))
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
            end(1, stderr="COPY failed: stat missing: file does not exist")
        elif line.startswith("RUN [") and lines[0] == "FROM scratch":  # of the control
            program = line[len("RUN [") : -1]
            reason = f"exec: {program}: stat {program}: no such file or directory"
            end(1, stderr=f"OCI runtime create failed: {reason}")
        elif line.startswith("RUN exit "):
            code = line.split()[-1]
            reason = f"The command '/bin/sh -c exit {code}' returned a non-zero code: {code}"
            end(int(code), "last words of the build\n", reason)
    write(True, "images", options["--tag"])


def pull(image):
    """Fail if docker cannot get an image."""
    if image == "scratch" or os.path.exists(path("images", image.replace("/", "%"))):
        return
    first = image.split("/")[0]
    registry = first if "." in first or (":" in first and "/" in image) else "docker.io"
    problem = SETTINGS["pull"].get(image, SETTINGS["pull"].get(registry))
    if problem:
        end(1, stderr=problem)


def need_image(tag, code=1, prefix=""):
    if not os.path.exists(path("images", tag.replace("/", "%"))):
        end(code, stderr=f"{prefix}Error response from daemon: No such image: {tag}")


def image_ls(words):
    _, (repository,) = split(words)
    names = sorted(os.listdir(path("images")))
    end(0, "".join(f"{name}\n" for name in names if name.rpartition(":")[0] == repository))


def image_inspect(words):
    import json

    _, (tag,) = split(words)
    need_image(tag)
    end(0, f"{json.dumps(SETTINGS['image'])}\n")


def image_tag(words):
    need_image(words[0])
    write(True, "images", words[1])


def image_rm(words):
    _, (tag,) = split(words)
    need_image(tag)
    remove("images", tag.replace("/", "%"))


# Containers


def kill_group(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(options, rest):
    (tag, *arguments) = rest
    name, entrypoint = options["--name"], options["--entrypoint"]
    need_image(tag, 125, "docker: ")
    if not os.path.exists(entrypoint):
        write({"Pid": 0}, "containers", name)
        reason = f'exec: "{entrypoint}": stat {entrypoint}: no such file or directory: unknown.'
        message = f"failed to create task for container: {reason}"
        end(127, stderr=f"docker: Error response from daemon: {message}")
    write(os.getpid(), "docker_run")
    pid = os.fork()
    if not pid:
        words = (entrypoint, *arguments)
        shell = SETTINGS["shell"]
        start_container(name, [shell if word == "/bin/sh" else word for word in words])
    _, status = os.waitpid(pid, 0)
    code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    kill_group(pid)  # what the first process has left ends with it
    if "--rm" in options:
        remove("containers", name)
    elif os.path.exists(path("containers", name)):
        state = {**read("containers", name), "Pid": 0, "Running": False, "ExitCode": code}
        write(state, "containers", name)
    end(code)


def start_container(name, words):
    """Become a container's first process.

    The engine creates it even if `docker run` is killed before that.
    """
    os.setsid()
    write(name, "creating")
    time.sleep(SETTINGS["create_seconds"])
    state = {"Pid": os.getpid(), "Running": True, "ExitCode": 0, "StartedAt": "2026"}
    write(state, "containers", name)
    write(name, "created")
    os.chdir(path("root"))
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    try:
        os.execve(words[0], words, {"PATH": os.environ["PATH"], **SETTINGS["environment"]})
    finally:
        os._exit(126)


def container_rm(words):
    _, (name,) = split(words)
    if not os.path.exists(path("containers", name)):
        end(1, stderr=f"Error response from daemon: No such container: {name}")
    pid = read("containers", name)["Pid"]
    if pid:
        kill_group(pid)
    remove("containers", name)
    end(0, f"{name}\n")


def container_inspect(words):
    import json

    _, (name,) = split(words)
    if not os.path.exists(path("containers", name)):
        end(1, "\n", f"Error: No such container: {name}")
    state = {"OOMKilled": False, "Error": "", **read("containers", name), **SETTINGS["state"]}
    end(0, f"{json.dumps(state)}\n")


def main(words):
    at = 2 if words[0] in ("image", "container") else 1
    subcommand, words = " ".join(words[:at]), words[at:]
    options, rest = split(words)
    lines = dockerfile(options) if subcommand == "build" else []
    name = name_of(subcommand, options, rest, lines)
    number = record(name, words)
    SETTINGS.update(read("settings"))
    is_printed = inject_faults(name, words or [""], number)
    if os.path.exists(path("lost")):
        end(1, stderr=LOST)
    if subcommand == "build":
        build(options, lines, is_printed=is_printed)
    elif subcommand == "run":
        run(options, rest)
    elif subcommand in ("version", "info"):
        end(0, f"{SETTINGS[subcommand]}\n")
    elif subcommand == "ps":
        end(0, "".join(f"{name}\n" for name in sorted(os.listdir(path("containers")))))
    else:
        globals()[subcommand.replace(" ", "_")](words)


if __name__ == "__main__":
    main(sys.argv[1:])
