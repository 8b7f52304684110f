"""A fake docker: images and containers are files, and a container's /bin/sh runs on the host.

It does not test docker. It runs the real check scripts without an engine, and fails, hangs or dies
at a chosen call. The class Fake in conftest.py controls it. FAKE_DOCKER names its folder:

calls        a line per call: name, arguments, process id
settings     a dict: what the engine returns, and the faults
images/      a file per tag
containers/  a file per container: its state
root/        the working folder of all containers
lost         exists while no engine answers

Both sides write Python literals.

A call's name is its subcommand, such as "build" or "image rm". The smoke test's calls are
"smoke build", "smoke RUN" and "smoke run"; "build help" and "run help" are those with --help.
Modules such as json, re and subprocess are imported only where they are used: their import takes
longer than the rest of a call.
"""

import os
import signal
import sys
import time

FOLDER = os.environ["FAKE_DOCKER"]
SEPARATE_VALUE = ("--name", "--entrypoint", "--tag", "--file", "--format", "--filter")
LOST = "Cannot connect to the Docker daemon at unix:///fake. Is the docker daemon running?"
STARTED, NEVER_STARTED = "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z"
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
    while words and words[0].startswith("-"):
        name, has_value, value = words.pop(0).partition("=")
        options[name] = words.pop(0) if name in SEPARATE_VALUE and not has_value else value
    return options, words


# Names, records and faults


def name_of(subcommand, words):
    if words[-1:] == ["--help"]:
        return f"{subcommand} help"
    options, _ = split(words)
    if subcommand == "run" and options["--entrypoint"] != "/bin/sh":
        return "smoke run"
    lines = dockerfile(options) if subcommand == "build" else []
    if lines[:1] == ["FROM scratch"]:
        return "smoke RUN" if lines[1].startswith("RUN") else "smoke build"
    return subcommand


def dockerfile(options):
    with open(options["--file"], errors="replace") as file:
        return file.read().splitlines()


def record(name, words):
    """Write the call down; return how many calls of that name there were, including this one."""
    with open(path("calls"), "a+") as file:
        file.write(f"{(name, words, os.getpid())!r}\n")
        file.flush()
        file.seek(0)
        lines = file.read().splitlines()
    own = next(at for at, line in enumerate(lines, 1) if line.endswith(f", {os.getpid()})"))
    return sum(line.startswith(f"({name!r}, ") for line in lines[:own])


def inject_faults(name, words, number):
    """Do what the test has chosen for this call; return True if that printed the call's output."""
    is_printed = False
    for fault in SETTINGS["faults"]:
        is_call = fault["on"] in (name, "*") and fault.get("given", words[0]) in words
        is_number = number in fault.get("nth", (number,)) and number >= fault.get("since", 1)
        if not is_call or not is_number:
            continue
        do = fault["do"]
        if do == "sleep":
            time.sleep(fault["seconds"])
        elif do == "wait":
            while not os.path.exists(path("continue")):
                time.sleep(0.01)
        elif do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
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


def build(words, *, is_printed):
    options, _ = split(words)
    lines = dockerfile(options)
    if not is_printed:
        emit(f"Sending build context to Docker daemon  2.048kB\nStep 1/{len(lines)} : {lines[0]}\n")
    if lines[-1].startswith("RUN ["):  # of the smoke test: the program does not exist
        program = lines[-1][len("RUN [") : -1]
        reason = f"exec: {program}: stat {program}: no such file or directory"
        end(1, stderr=f"OCI runtime create failed: {reason}")
    if lines[-1] == "RUN FAIL":
        reason = "The command '/bin/sh -c FAIL' returned a non-zero code: 7"
        end(7, "last words of the build\n", reason)
    write(True, "images", options["--tag"])


def need_image(tag, code=1, prefix=""):
    if not os.path.exists(path("images", tag)):
        end(code, stderr=f"{prefix}Error response from daemon: No such image: {tag}")


def image_ls(words):
    _, (repository,) = split(words)
    names = sorted(os.listdir(path("images")))
    end(0, "".join(f"{name}\n" for name in names if name.rpartition(":")[0] == repository))


def image_inspect(words):
    """Fill in a template with {{.Name}}, {{json .Name}} and {{json .Name.Name}}."""
    import json

    options, (tag,) = split(words)
    need_image(tag)
    text, *parts = options["--format"].split("{{")
    for action, _, after in (part.partition("}}") for part in parts):
        *json_word, names = action.split()
        value = SETTINGS["image"]
        for name in names.split(".")[1:]:
            value = value[name]
        text += (json.dumps(value) if json_word else value) + after
    end(0, f"{text}\n")


def image_tag(words):
    need_image(words[0])
    write(True, "images", words[1])


def image_rm(words):
    _, (tag,) = split(words)
    need_image(tag)
    remove("images", tag)


# Containers


def run(words):
    options, (tag, *arguments) = split(words)
    name, entrypoint = options["--name"], options["--entrypoint"]
    need_image(tag, 125, "docker: ")
    if not os.path.exists(entrypoint):
        state = {"Pid": 0, "Running": False, "ExitCode": 127, "StartedAt": NEVER_STARTED}
        write(state, "containers", name)
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
    time.sleep(SETTINGS["create_seconds"])
    state = {"Pid": os.getpid(), "Running": True, "ExitCode": 0, "StartedAt": STARTED}
    write(state, "containers", name)
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
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
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
    name = name_of(subcommand, words)
    number = record(name, words)
    SETTINGS.update(read("settings"))
    is_printed = inject_faults(name, words or [""], number)
    if os.path.exists(path("lost")):
        end(1, stderr=LOST)
    if words[-1:] == ["--help"]:
        return
    if subcommand == "build":
        build(words, is_printed=is_printed)
    elif subcommand in ("version", "info"):
        end(0, f"{SETTINGS[subcommand]}\n")
    elif subcommand == "ps":
        end(0, "".join(f"{name}\n" for name in sorted(os.listdir(path("containers")))))
    elif subcommand == "pull":
        end(1, stderr=SETTINGS["pull"])
    elif subcommand == "events":
        end(0, SETTINGS["events"])
    else:
        globals()[subcommand.replace(" ", "_")](words)


if __name__ == "__main__":
    main(sys.argv[1:])
