#!/usr/bin/env python3
"""Take the Dockerfiles out of the answers of models, for evaluate_all.py.

    find_dockerfile()   the Dockerfile in an answer, which is Markdown
    read_rows()         the answers of a JSONL file, or those of a folder as rows of one
    import_answers()    writes ARTIFACTS/MODEL/REPO.dockerfile for each of them

An answer without a Dockerfile becomes an empty file, which scores 0. What cannot be imported is
refused: a line says why, and nothing is written for it.

Exit codes: 0 all answers were imported; 1 some were not, or there are none; 2 bad arguments; 130
Ctrl-C.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import os
import re
import signal
import sys
from typing import Iterator, NamedTuple, NoReturn, Sequence, Tuple

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

# ---------------------------------------------------------------------------------------------
# Markdown
# ---------------------------------------------------------------------------------------------

# A fence, and what precedes it: blanks, and the marks of quotations and of items of lists.
_FENCE = r"^([ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t][ \t>]*){0,9})(`{3,}|~{3,})"
_LABEL = r"[^\w\n`]*(?:dockerfile|docker|containerfile)(?![\w-])"
_MARKED = _FENCE + _LABEL  # the fence of a Dockerfile
# A block: the margin of its fence, the fence, its label and its text, which may begin beside the
# fence. The fence of a Dockerfile ends the block before it: that was one of Markdown, or its end is
# missing. ```x``` in a line is no block.
_BLOCK = re.compile(
    rf"(?im){_FENCE}(?:(?=(?:FROM|ARG)[ \t][^`\n]*\n)|({_LABEL})?[^`\n]*\n)"
    rf"((?:.*\n)*?)(?:[ \t>]*\2[`~]*[ \t]*$|(?={_MARKED})|\Z)"
)
_FROM = re.compile(r"(?im)^[ \t]*FROM\s")
# A FROM and what may stand above it. It is in upper case, so that Python's is none.
_BEGINNING = re.compile(r"(?:[ \t]*(?:#.*|ARG[ \t].*)?\n)*[ \t]*FROM\s")
# A FROM of docker's form. In Python, SQL and prose other words follow in its line.
_STAGE = re.compile(
    r"(?im)^[ \t]*FROM(?:[ \t]+--\S+)*[ \t]+[\"']?[\w$][^\s,;()]*(?<![.:])"
    r"(?:[ \t]+AS[ \t]+\S+)?[ \t]*$"
)
# A line that cannot stand above the first FROM
_OTHER = re.compile(r"(?im)^(?<!\\\n)(?![ \t]*(?:#|ARG[ \t]|$)).*\n")


class Found(NamedTuple):
    """The Dockerfile of an answer."""

    text: str
    source: str  # what it was taken from
    note: str = ""  # what a person should look at


def find_dockerfile(answer: str) -> Found:
    """Return the Dockerfile in an answer; its text is empty if there is none."""
    answer = answer.replace("\r\n", "\n") + "\n"
    blocks = [(match[3], without_margin(match[4], match[1])) for match in _BLOCK.finditer(answer)]
    sources = {
        # Docker judges what only its label makes a Dockerfile.
        "block marked as a Dockerfile": [
            text for label, text in blocks if label and _FROM.search(text)
        ],
        "other block": [text for _, text in blocks if text == from_stage(text) != ""],
        "text without a block": [from_stage(_BLOCK.split(answer, 1)[0]).lstrip("\n")],
    }
    for source, texts in sources.items():
        if any(texts):
            count = len(set(texts))
            note = f"{count} different Dockerfiles, the last one counts" if count > 1 else ""
            return Found(texts[-1].rstrip("\n") + "\n", source, note)
    return Found("", "no Dockerfile", "no Dockerfile, an empty file")


def without_margin(text: str, margin: str) -> str:
    """Return the text of a block without the margin of its fence."""
    marks = "[ \t>]" if ">" in margin else "[ \t]"
    return re.sub(rf"(?m)^{marks}{{0,{len(margin)}}}", "", text)


def from_stage(text: str) -> str:
    """Return a text from its first FROM on, with the comments and ARGs above it; "" without one."""
    if _BEGINNING.match(text):
        return text
    stage = _STAGE.search(text)
    return _OTHER.split(text[: stage.start()])[-1] + text[stage.start() :] if stage else ""


# ---------------------------------------------------------------------------------------------
# Import
# ---------------------------------------------------------------------------------------------

Fields = Tuple[str, str, str]  # the keys of model, repository and answer in a row
# A path below a folder, of which no part is hidden from evaluate_all.py
_PATH = re.compile(r"[^./][^/]*(?:/[^./][^/]*)*")


def read_rows(path: str, fields: Fields) -> Iterator[tuple[str, de.Json]]:
    """Yield the place and the row of each answer in a JSONL file, or in a folder of MODEL/REPO.md.

    A line that is no JSON object is an empty row. Raises OSError or EvaluationError if a file
    cannot be read.
    """
    if os.path.isdir(path):
        for folder, below, names in os.walk(path, onerror=refuse):
            below.sort()
            for name in fnmatch.filter(sorted(names), "*.md"):
                file = os.path.join(folder, name)
                text = de.as_text(de.read_file(file)).lstrip("\ufeff")
                yield file, dict(zip(fields, (os.path.relpath(folder, path), name[:-3], text)))
        return
    with open(path, "rb") as lines:  # It may be too large for the memory.
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield f"{path}:{number}", de.parse_object(de.as_text(line).lstrip("\ufeff"))


def refuse(problem: object) -> NoReturn:
    """Raise EvaluationError."""
    raise de.EvaluationError(de.FILE, str(problem))


def dockerfile_path(row: de.Json, fields: Fields) -> str:
    """Return MODEL/REPO.dockerfile for a row; raise EvaluationError if a text is missing."""
    for field in fields:
        if not isinstance(row.get(field), str):
            refuse(f"expected a JSON object with a text as '{field}'")
    model, repo, _ = (row[field] for field in fields)
    for name in (model, repo):
        if not (_PATH.fullmatch(name) and name.isprintable()):
            refuse(f"{de.quoted([name])} cannot be the name of a file or folder")
    return f"{model}/{repo.replace('/', '__')}.dockerfile"


def write(path: str, text: str, *, force: bool) -> str:
    """Write a file, and return what was done; raise EvaluationError if other content is there."""
    if os.path.isfile(path):
        if de.read_file(path) == text.encode(errors="backslashreplace"):
            return "unchanged"
        if not force:
            refuse(f"{path} has other content (--force replaces it)")
    de.write_file(path, text)
    return "written"


# ---------------------------------------------------------------------------------------------
# Command line
# ---------------------------------------------------------------------------------------------


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; a usage error ends the program with exit code 2."""
    parser = de.Parser(
        prog="import_answers.py",
        description="Take the Dockerfiles out of the answers of models, for evaluate_all.py.",
        epilog="Exit codes: 0 all answers were imported; 1 some were not, or there are none; 2 bad "
        "arguments; 130 Ctrl-C.",
    )
    add = parser.add_argument
    text = "a JSONL file: lines with model, repo, answer; or a folder with files MODEL/REPO.md"
    add("answers", metavar="ANSWERS", nargs="+", help=text)
    text = "where to write MODEL/REPO.dockerfile (default: %(default)s)"
    add("--artifacts", metavar="DIR", default="artifacts", help=text)
    for name in ("model", "repo", "answer"):
        text = f"key of the {name} in JSONL files (default: %(default)s)"
        add(f"--{name}-field", metavar="NAME", default=name, help=text)
    add("--model", metavar="NAME", help="the model of all answers, whatever rows and folders say")
    add("--force", action="store_true", help="replace Dockerfiles that have other content")
    return parser.parse_args(argv)


def import_answers(arguments: argparse.Namespace) -> collections.Counter[str]:
    """Write the Dockerfiles of all answers; return how many were written, refused and so on.

    Prints what a person should look at. Raises OSError or EvaluationError if a file of answers
    cannot be read.
    """
    counts = collections.Counter(written=0, unchanged=0, refused=0)
    taken: dict[str, str] = {}  # the places of answers, by the paths of their Dockerfiles
    fields = (arguments.model_field, arguments.repo_field, arguments.answer_field)
    for given in arguments.answers:
        for place, row in read_rows(given, fields):
            if arguments.model:
                row[fields[0]] = arguments.model
            if row.get(fields[2], ...) is None:  # Without the key, the row is broken.
                row[fields[2]] = ""
            try:
                path = os.path.join(arguments.artifacts, dockerfile_path(row, fields))
                if path in taken:
                    refuse(f"a second answer for {path}, after {taken[path]}")
                taken[path] = place
                found = find_dockerfile(row[fields[2]])
                counts[write(path, found.text, force=arguments.force)] += 1
            except de.EvaluationError as error:
                counts["refused"] += 1
                de.print_errors(f"{place}: {error}")
                continue
            counts[found.source] += 1
            if found.note:
                de.Console(sys.stdout).line(de.printable(f"{place}: {found.note}"))
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = parse_arguments(argv)
    de.accept_any_text()
    try:
        counts = import_answers(arguments)
    except (de.EvaluationError, OSError) as error:
        de.print_errors(str(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    if not any(counts.values()):
        de.print_errors("no answers: expected rows, or files MODEL/REPO.md")
        return 1
    for name, count in counts.items():
        de.Console(sys.stdout).line(f"{name}: {count}")
    return 1 if counts["refused"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
