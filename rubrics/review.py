#!/usr/bin/env python3
"""Check whether a rubric measures anything: lint it, and evaluate it on images that do none of the work.

    python3 rubrics/review.py RUBRIC… [--strict] [--json FILE]
    python3 rubrics/review.py RUBRIC… --base IMAGE [--context DIR] [--solution DOCKERFILE] [--repeat N]

    review_rubric(): load_rubric -> lint -> (with --base) measure -> assess;  run(): text and JSON

Exit codes: 0; 1 a rubric is invalid or was not measured, or --strict found a problem; 2 usage error;
130 Ctrl-C (143 SIGTERM, 129 SIGHUP).
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, Sequence

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

Review = Dict[str, Any]  # the results for one rubric, as --json writes them
Rows = List[Dict[str, Any]]  # `test_results` of a report


# ---------------------------------------------------------------------------------------------
# Lint: a table of what the text of a test shows, silent about everything else
# ---------------------------------------------------------------------------------------------

# What outline() masks; `ignored` cannot change an exit code: comments, redirections that always succeed.
_MASKED = re.compile(
    r"""(?sx)
    (?P<ignored> \\\n | (?<![^\s;&|(])\#[^\n]* | (?<!&)[0-9]?>>?\s*(?:/dev/null(?![\w./-])|&[0-9]) )
    | \\[^.] | '[^']*' | "(?:\\.|\$\([^()]*\)|\$(?!\([^()]*\))|[^"\\$])*"
    | \$\((?:[^()'"]|'[^']*'|"[^"]*"|\([^()]*\))*\) | `[^`]*`"""
)
_LAST = re.compile(
    r"(?:\|\||&&|[|;&\n]|\A)[^|;&\n]*\Z"
)  # the last operator, and the command after it
_START = (
    r"(?:^|[;&|\n({!]|\b(?:then|do|else|if|elif)\s)[ \t]*(?:\w+=[^\s;&|]*[ \t]+)*"  # of a command
)
_ENDS_SHELL = re.compile(  # what can end the shell, or never ends
    rf"""(?x) {_START}(?: (?:exit(?!\s+0\b)|return|exec|eval|shift|trap|pkill|killall|until|while)(?![\w.-])
    | \\?\.\s | kill\s+(?!(?:-\w+\s+)*(?:\$(?!PPID|\$)|%)) | set\s[^;&|\n]*(?:-\w*[eu]|errexit|nounset)
    | (?::|export|readonly|set|unset)\s[^;&|\n]*[<>] )"""
)
_IS_SURE = re.compile(
    rf"{_START}(?:!|echo|printf)\s[^;&|\n]*\Z"
)  # a pipe from this hides no failure
_SUCCEEDS = r"true|:|exit\s+0|echo(?![\w.-])[^<>()]*|rm\s+(?:-\w+\s+)*-\w*f[^<>()]*"
_FILTER = r"(?:head|tail|wc|cat|sort|uniq|cut|tee\s+(?:-a\s+)?\S+)(?:\s+(?:-[dt]\s+\S+|-[^\s)}]+|\+?[\d,]+))*"
_COMPOUND = r"[|(){}]|(?<!&)&(?!&)|\b(?:if|case|for|while|until|trap|kill|ulimit)\s"
_SERVER = r"""(?:\S*python\S*\s+(?:-m|\S*manage\.py)\s+)?(?:http\.server|runserver|uvicorn|gunicorn|php\s+-S
    |flask\s.*\brun|npm\s+(?:start|run\s+dev)|memcached|redis-server|streamlit\s+run|ollama\s+serve
    |tail\s+-[fF]|sleep\s+infinity)(?!\S)"""

# Rule, key of subjects(), pattern (its group or else the match is quoted), what happens and what to write.
# fmt: off
RULES = (
    ("no-syntax", "facts", "(?m)^syntax (.+)", "`sh -n` refuses it ({found}), so it cannot run; correct it"),
    ("cannot-fail", "facts", "(?m)^exit_code (any)", "{found} exit code passes, so any image does; name one"),
    ("cannot-fail", "end", rf"\A(?:\|\||[;&\n]|)\s*(?:{_SUCCEEDS})\Z|\A&\Z",
     'ends in {found}, so the exit code is always 0; leave it out (or "exit_code": "any" beside strings)'),
    ("hidden-status", "pipe", rf"\A(\|\s*(?:\S*/)?{_FILTER})[\s)}}]*\Z",
     "the exit code is that of {found}: a failure before it is lost; leave it out, or test what it prints"),
    ("never-ends", "script", rf"""(?sx) \A(?!.*(?:{_COMPOUND})) (?:.*(?:&&|[;\n]))?[ \t]*(?:\w+=\S*[ \t]+)*
        ({_SERVER} (?!.*\s(?:-[hvVD]|--(?:help|version|check\S*|daemon\S*))(?!\S)) [^;&\n]*)\Z""",
     "{found} runs until it is killed, so this times out; start it with '&' and use it in the same command"),
    ("bash-only", "posix", rf"""(?x) (?: {_START}(?=(?:\[\[|source|pushd|popd|shopt|declare|mapfile)\s)
        | (?=&>) | {_START}set\s[^;&|\n]*(?=pipefail)
        | (?:^|[\s!(])(?:\[|test)\s[^;&|\n]*\s(?===\s) ) ([^\s>]+>?)""",
     "dash, Debian's /bin/sh, has no {found}; write '[', '. ./FILE', '=', '>', or \"shell\": \"/bin/bash\""),
    ("shell-function", "posix", r"""(?sx) \A(?!.*(?:\b(?:source|eval)\s|(?:^|[;&|\s])\\?\.\s|\|\|))
        (?:.*(?:&&|[;\n(]))?\ *((?:command\s+-v\s+)?(?:nvm|sdk)(?![\w./=-])|(?:conda|mamba)\s+activate)""",
     "{found} is a function of interactive shells, which tests do not have; ask for what it provides"),
    ("shell-function", "script", r"\A(?:source|\.)\s+\S*(?:rc|profile)\Z",
     "{found} changes only its own shell, and each test has another; join it by '&&' to what needs it"),
    ("carriage-return", "lines", r"\S*\r(?=\n|\Z)", "{found} ends in a carriage return; use \\n alone"),
    ("short-needle", "needles", r"\A[\x00-\x7f]{1,2}\Z", "{found}: in many texts; add the words next to it"),
    ("literal-needle", "needles", r"\A(?!import\ ).*(?:\.[*+]|\\(?:\.|[dsw](?![a-z]))|\[(?:0-9|a-z|A-Z)).*",
     "{found} is searched as it is, not as a pattern; write a text that does not vary, or use grep -E"),
    ("literal-name", "names", r".*\s.*", "{found} is searched as one name with blanks; write the name alone"),
    ("literal-path", "paths", r"\A~.*|.*(?:\*|\$(?![\w$]*\.class\Z)).*",
     "{found} is searched as it is, and nothing expands it; write the whole path, or use run_command"),
    ("set-by-docker", "names", r"\A(?:PATH|HOME|HOSTNAME)\Z", "docker itself sets {found}; ask for another"),
    ("no-points", "facts", "(?m)^score 0$", "a score of 0 changes no result; write one over 0"),
    ("short-timeout", "facts", "(?m)^timeout (0.*|.*e-.*)", "{found} s is too short; write at least 1"),
    ("unresolvable", "facts", "(?m)^requires (.+)", "can never run, since it {found}; require other tests"),
)
# fmt: on
OUTLINED = ("end", "pipe", "script", "posix", "lines")  # subjects that are searched in outline


def outline(script: str) -> str:
    """Mask a script, every character in its place: comments as blanks, quotes and substitutions as x."""
    text = _MASKED.sub(lambda match: (" " if match["ignored"] else "x") * len(match[0]), script)
    return re.sub(r"(\|\||&&|\|)\s+", lambda match: match[1].ljust(len(match[0])), text)


def subjects(test: de.Test, reason: str) -> dict[str, Sequence[str]]:
    """Return what the rules search, by the keys in RULES; `reason`: why the test can never run."""
    params, shell = test.params, test.params.get("shell") or "/bin/sh"
    command, needles, code = (
        params.get("command", ""),
        params.get("contains", ()),
        params.get("exit_code"),
    )
    names = params.get("names", [params.get("name", "")])
    paths = params.get("paths", [params.get("path", "")])
    is_posix = shell == "/bin/sh"
    done = subprocess.run(
        ["/bin/sh", "-n"], input=command.encode(), stderr=subprocess.PIPE, check=False
    )
    error = (
        done.stderr.decode(errors="replace").partition("\n")[0]
        if is_posix and done.returncode
        else ""
    )
    script = command if shell.endswith("sh") and not error else ""
    text = outline(script).rstrip(" \t\n;")
    before = _LAST.sub("", text)
    end = script[len(before) : len(text)]
    is_unclear = _ENDS_SHELL.search(before) or re.search(r"\$\{\w+:?\?|\$\(\(", script)
    is_unclear = is_unclear or (
        needles and re.match(r"[;\n]?\s*echo\s.*[$`]", end)
    )  # prints what is tested
    facts = {
        "score": f"{test.score:g}",
        "timeout": f"{test.timeout:g}",
        "syntax": error,
        "requires": reason,
    }
    facts["exit_code"] = "" if needles else code
    return {
        "facts": ["\n".join(f"{key} {value}" for key, value in facts.items())],
        "end": [] if code == "any" or is_unclear else [end],
        "pipe": [] if code == "any" or "pipefail" in command or _IS_SURE.search(before) else [end],
        "script": [script],
        "posix": [script if is_posix and "<<" not in text else "", *names],
        "lines": [command, *names, *paths],
        "needles": () if params.get("draw") else needles,
        "names": names,
        "paths": paths,
    }


def lint(rubric: de.Rubric) -> Iterator[dict[str, str]]:
    """Yield the warnings of all rules about all tests: rule (`name`), `place`, `test_id`, `text`."""
    for at, test in enumerate(rubric.tests):
        texts = subjects(test, rubric.unresolvable.get(test.id, ""))
        for name, subject, pattern, message in RULES:
            found = []
            for text in texts[subject]:
                match = re.search(pattern, outline(text) if subject in OUTLINED else text)
                found += [text[slice(*match.span(match.re.groups))].strip()] if match else []
            if found:
                text = message.format(
                    found=de.quoted_list(found, "" if subject == "facts" else "'")
                )
                place = f"tests[{at}] '{de.printable(test.id, 60)}'"
                yield {"name": name, "place": place, "test_id": test.id, "text": text}


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
# Reads `names`: PATH/ becomes a folder; a name in BIN replaces what is there, any other name does not.
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


def names_in(test: de.Test) -> tuple[set[str], set[str]]:
    """Return the paths, of folders with a final /, and the environment variables that a test names."""
    params, command = test.params, test.params.get("command", "")
    folders = {f"{folder}/" for folder in _FOLDER.findall(command)}
    words = {*_WORD.findall(command), *params.get("names", ()), params.get("name", "/")}
    commands = {f"{BIN}/{os.path.basename(word)}" for word in words}
    inner = {f"{folder}{word}" for folder in folders for word in words if not word.startswith("/")}
    slash = "/" if test.type == "dirs_exist" else ""
    paths = {f"{path}{slash}" for path in (*params.get("paths", ()), params.get("path", "/"))}
    variables = {params["name"]} if test.type == "envvar_set" else {*_VARIABLE.findall(command)}
    return paths | folders | words | commands | inner, variables - {"PATH", "HOME", "PWD", "IFS"}


def write_faked(folder: str, tests: Sequence[de.Test]) -> str:
    """Write the build context of the faked image; return what its Dockerfile has after FROM and WORKDIR."""
    paths, variables = (set().union(*names) for names in zip(*map(names_in, tests)))
    strings = dict.fromkeys(text for test in tests for text in test.params.get("contains", ()))
    # Folders first, then the deepest paths, since no file may be where another path needs a folder.
    names = sorted(paths, key=lambda path: (not path.endswith("/"), -path.count("/"), path))
    lines = [f"./{name}\n" if name.startswith("-") else f"{name}\n" for name in names]
    files = {"stub": STUB.format("\n".join(strings)), "names": "".join(lines), "install": INSTALL}
    for name, text in files.items():
        de.write_file(os.path.join(folder, name), text)
    values = [
        f"{name}=/usr/local" for name in sorted(variables)
    ]  # so $JAVA_HOME/bin/java is a stub, too
    variables_line = " ".join([f"ENV PATH={BIN}:${{PATH:-{DEFAULT_PATH}}}", *values])
    return f'USER 0\nCOPY . {STUBS}/\nRUN ["/bin/sh", "{STUBS}/install"]\n{variables_line}\n'


# ---------------------------------------------------------------------------------------------
# Measure
# ---------------------------------------------------------------------------------------------

GIFTS = {  # kind and explanation of a test that an image without the work passes
    "bare": ("free", "passes on the base image; ask for what has to be set up"),
    "copied": ("given", "passes once the project's files are copied; give few points"),
    "faked": (
        "faked",
        "passes with stubs of the rubric's names and strings; give few points or use draw",
    ),
}
IMAGES = (*GIFTS, "solution")
KINDS = ("free", "given", "faked", "unsolved", "flaky")  # of problems, in the order of the output


def write_rubric(folder: str, rubric: de.Rubric) -> str:
    """Write a rubric in which every test stands by itself, after a test that prints the WORKDIR."""
    fields = ("id", "type", "params", "timeout", "score")
    name = max((test.id for test in rubric.tests), key=len) + "_"
    first = {"id": name, "type": "run_command", "params": {"command": "pwd"}, "score": 0}
    tests = [first, *({field: getattr(test, field) for field in fields} for test in rubric.tests)]
    path = os.path.join(folder, "rubric.json")
    de.write_file(path, json.dumps({"run_options": rubric.run_options, "tests": tests}))
    return path


def evaluate(
    label: str, dockerfile: str, context: str, rubric: str, **options: Any
) -> tuple[Rows, str]:
    """Evaluate a rubric of write_rubric(); return the rows of its tests, and the WORKDIR for a Dockerfile.

    Raises EvaluationError if the build fails, or the evaluation ends without a score.
    """
    report = de.evaluate(dockerfile, label, rubric, context=context, **options)
    first, *rows = report["test_results"]
    if report["error"] or not first["passed"]:
        raise de.EvaluationError(f"{label}: not measured: {(report['error'] or first)['message']}")
    log(f"{label}: {sum(row['passed'] for row in rows)} of {len(rows)} tests passed")
    return rows, re.sub(r"([\\$])", r"\\\1", (first["output"] or "").rstrip("\n"))


def measure(path: str, rubric: de.Rubric, args: argparse.Namespace) -> dict[str, Any]:
    """Evaluate a rubric on all images; return what assess() returns, and why images were left out."""
    name = re.sub(r"\.json$", "", os.path.basename(path))
    places = (args.context, args.solution, args.solution_context)
    context, solution, own_context = (place.replace("{repo}", name) for place in places)
    own_context = own_context or context or os.path.dirname(solution) or "."
    absent = {} if os.path.isdir(context) else {"copied": f"no {context or '--context'}"}
    if not os.path.isfile(solution):
        absent["solution"] = f"no {solution or '--solution'}"
    runs: dict[str, list[Rows]] = {image: [] for image in IMAGES if image not in absent}
    with tempfile.TemporaryDirectory(prefix="rubric-review-") as folder:
        rubric_file, workdir = write_rubric(folder, rubric), "/workspace"
        empty, stubs = tempfile.mkdtemp(dir=folder), tempfile.mkdtemp(dir=folder)
        ends = {"bare": "", "copied": "COPY . .\n", "faked": write_faked(stubs, rubric.tests)}
        contexts = {"solution": own_context, "bare": empty, "copied": context, "faked": stubs}
        for image in [image for image in ["solution"] * args.repeat + [*GIFTS] if image in runs]:
            dockerfile = solution
            if image in GIFTS:
                dockerfile = os.path.join(folder, image)
                de.write_file(dockerfile, f"FROM {args.base}\nWORKDIR {workdir}\n{ends[image]}")
            network = ["--network=none"] if image == "faked" else []
            options = {"docker": args.docker, "build_options": network, "run_options": network}
            label = f"{path}: {image}"
            rows, workdir = evaluate(label, dockerfile, contexts[image], rubric_file, **options)
            runs[image].append(rows)
    return {"base": args.base, "not_measured": absent, **assess(rubric.tests, runs)}


def assess(tests: Sequence[de.Test], runs: Mapping[str, Sequence[Rows]]) -> dict[str, Any]:
    """Return what each image always passes, the problems, and the points that only the solution earns."""
    images, problems = {}, []
    for image, results in runs.items():
        passed = [
            test for at, test in enumerate(tests) if all(rows[at]["passed"] for rows in results)
        ]
        points, ids = sum(test.score for test in passed), [test.id for test in passed]
        images[image] = {"points": points, "times": len(results), "passed": ids}
    for at, test in enumerate(tests):
        gifts = [image for image in GIFTS if image in runs and runs[image][0][at]["passed"]]
        found: list[tuple[Any, ...]] = [(*GIFTS[image], None) for image in gifts[:1]]
        solved = [rows[at] for rows in runs.get("solution", ())]
        failed = [row for row in solved if not row["passed"]]
        if failed:
            text = (
                f"the solution failed {len(failed)} of {len(solved)} times: {failed[-1]['message']}"
            )
            found.append(("unsolved" if failed == solved else "flaky", text, failed[-1]["output"]))
        for kind, text, output in found:
            problem = {"kind": kind, "test_id": test.id, "points": test.score}
            problems.append({**problem, "text": text, "output": output})
    problems.sort(key=lambda problem: KINDS.index(problem["kind"]))
    names = {problem["test_id"] for problem in problems}
    earned = (
        sum(test.score for test in tests if test.id not in names) if "solution" in runs else None
    )
    return {"images": images, "problems": problems, "earned": earned}


# ---------------------------------------------------------------------------------------------
# Text
# ---------------------------------------------------------------------------------------------

OUTPUT_LINES = 5  # shown of what an unsolved or flaky test printed
LIMITS = {
    "bare": 1 / 10,
    "copied": 1 / 3,
    "faked": 1 / 2,
}  # shares of the points that --strict accepts


def counted(count: float, noun: str) -> str:
    """Return a number and its noun, in the plural unless it is 1."""
    return f"{count:.15g} {noun}{'' if count == 1 else 's'}"


def summary_line(review: Review) -> str:
    """Return a line with what each image gets, or with the counts if the rubric was not measured."""
    points, cells = counted(review["points"], "point"), []
    if not review["measured"]["images"]:
        tests, warnings = (
            counted(review["tests"], "test"),
            counted(len(review["warnings"]), "warning"),
        )
        return f"{review['rubric']}: {tests}, {points}, {warnings}"
    for image, result in review["measured"]["images"].items():
        share = f"({100 * result['points'] / (review['points'] or 1):.0f} %)"
        if image == "solution":
            times = f", {result['times']} times" if result["times"] > 1 else ""
            share = f"of {review['points']:.15g}{times}"
        cells.append(f"   {image} {result['points']:.15g} {share}")
    return f"{review['rubric']}: {points}{''.join(cells)}"


def as_text(review: Review) -> Iterator[str]:
    """Yield the lines about a valid rubric: warnings, summary, problems, what only the solution earns."""
    for warning in review["warnings"]:
        yield f"warning: {review['rubric']}: {warning['name']}: {warning['place']}: {warning['text']}"
    yield summary_line(review)
    measured = review["measured"]
    names = [de.printable(problem["test_id"], 40) for problem in measured["problems"]]
    for name, problem in zip(names, measured["problems"]):
        points = counted(problem["points"], "point")
        yield f"{problem['kind']:<8}  {name:<{max(map(len, names))}}  {points:<10}  {problem['text']}"
        yield from (
            f"  | {line}" for line in (problem["output"] or "").splitlines()[-OUTPUT_LINES:]
        )
    yield from (f"not measured: {image} ({why})" for image, why in measured["not_measured"].items())
    if measured["earned"] is not None:
        yield f"only the solution earns {measured['earned']:.15g} of {counted(review['points'], 'point')}"


def objections(review: Review) -> Iterator[str]:
    """Yield what --strict does not accept."""
    measured = review["measured"]
    if review["warnings"]:
        yield counted(len(review["warnings"]), "warning")
    for image, limit in LIMITS.items():
        points = measured["images"].get(image, {"points": 0})["points"]
        if points > limit * review["points"] + 1e-9:
            yield f"the {image} image gets more than {100 * limit:.0f} % of the points"
    absent = measured["not_measured"].items()  # "no --…": not asked for
    yield from (
        f"{image}: not measured, {why}" for image, why in absent if not why.startswith("no --")
    )
    kinds = collections.Counter(problem["kind"] for problem in measured["problems"])
    yield from (f"{kinds[kind]} {kind}" for kind in ("unsolved", "flaky") if kinds[kind])


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def log(line: str) -> None:
    """Print a line to stderr."""
    print(de.printable(line, 2000), file=sys.stderr)


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; a usage error ends the program with exit code 2."""
    doc = str(__doc__).split("\n\n")
    parser = argparse.ArgumentParser(
        None, "review.py RUBRIC… [OPTION]…", doc[0], doc[-1], allow_abbrev=False
    )
    add = parser.add_argument
    add("rubrics", metavar="RUBRIC", nargs="+", help="a rubric file")
    add(
        "--strict",
        action="store_true",
        help="exit 1 for warnings, high shares, unsolved and flaky tests",
    )
    add("--json", metavar="FILE", help="write the results as JSON; - for stdout")
    add(
        "--base",
        metavar="IMAGE",
        help="measure FROM this image; {repo} in paths: name of the rubric's file",
    )
    add("--context", metavar="DIR", default="", help="the project's files, for the copied image")
    add("--solution", metavar="DOCKERFILE", default="", help="a Dockerfile that does the work")
    add(
        "--solution-context",
        metavar="DIR",
        default="",
        help="default: --context, or the solution's folder",
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
    args = parser.parse_args(argv)
    if (
        args.context or args.solution or args.solution_context or args.repeat != 1
    ) and not args.base:
        parser.error("measuring needs --base IMAGE")
    if args.repeat < 1 or re.search(r"\s", args.base or ""):
        parser.error("expected --repeat of at least 1, and --base without blanks")
    for path in filter(None, (args.context, args.solution)):
        if "{repo}" not in path and (len(args.rubrics) > 1 or not os.path.exists(path)):
            parser.error(f"{path}: not found, or without {{repo}}, which several rubrics need")
    if args.json and os.path.realpath(args.json) in map(os.path.realpath, args.rubrics):
        parser.error(f"--json would overwrite the rubric {args.json}")
    return args


def review_rubric(path: str, args: argparse.Namespace) -> Review:
    """Lint a rubric and, with --base, measure it; `error` says why that was not possible."""
    review: Review = {
        "rubric": path,
        "error": None,
        "measured": {"not_measured": {}, **assess((), {})},
    }
    try:
        rubric = de.load_rubric(path)
        review.update(tests=len(rubric.tests), points=sum(test.score for test in rubric.tests))
        review["warnings"] = list(lint(rubric))
        if args.base:
            review["measured"] = measure(path, rubric, args)
    except de.EvaluationError as error:
        review["error"] = str(error)
    return review


def run(args: argparse.Namespace) -> int:
    """Review all rubrics, print and write the results; return the exit code."""
    reviews, code = [], 0
    for path in args.rubrics:
        review = review_rubric(path, args)
        reviews.append(review)
        for line in as_text(review) if "points" in review else ():
            print(
                de.printable(line, 1000),
                file=sys.stderr if args.json == "-" else sys.stdout,
                flush=True,
            )
        problems = [f"error: {line}" for line in (review["error"] or "").splitlines()]
        if args.strict and "points" in review:
            problems += [f"strict: {path}: {text}" for text in objections(review)]
        for line in problems:
            log(line)
        code = 1 if problems else code
    if args.json:
        de.write_file(args.json, json.dumps({"rubrics": reviews}, indent=2) + "\n")
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(number)

    args = parse_arguments(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # exit codes are lost if the caller ignores it
    for stream in (sys.stdout, sys.stderr):
        getattr(stream, "reconfigure", dict)(errors="backslashreplace")
    try:
        return run(args)
    except KeyboardInterrupt as error:
        log("error: interrupted")
        return 128 + int((*error.args, signal.SIGINT)[0])
    except (de.EvaluationError, OSError) as error:  # the results cannot be written
        log(f"error: {error}")
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
