#!/usr/bin/env python3
"""Take the Dockerfiles out of the answers of models, for evaluate_all.py.

    find_dockerfiles()   the Dockerfiles in an answer, which is Markdown
    read_answers()       the answers in JSONL files and folders
    import_answer()      writes ARTIFACTS/MODEL/REPO.dockerfile for one of them

An answer without a Dockerfile becomes an empty file, which scores 0. What cannot be imported is
refused: a line says why, and nothing is written for it.

Exit codes: 0 all answers were imported; 1 some were not; 2 bad arguments; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any, Iterator, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import DockerfileEvaluator as de

NOTHING = "no Dockerfile"
# What makes the fence of a block one of a Dockerfile
_MARK = r"[^\w\n`]*(?:dockerfile|docker|containerfile)(?![\w-])"
# The comments and ARGs above a FROM of docker's form, this line, and all below it. In Python, SQL
# and prose other words follow. Docker refuses a comment there, but models write it. Without a limit
# of the lines above, thousands of comments would take minutes.
_DOCKERFILE = re.compile(
    r"(?im)^[ \t]*(?:(?:#|ARG[ \t]).*\n\s*){0,99}"
    r"FROM(?:[ \t]+--\S+)*[ \t]+[^\s,;()]+(?<![.:])(?:[ \t]+AS[ \t]+\S+)?[ \t]*(?:#.*)?$(?s:.*)"
)
# A path that evaluate_all.py finds: no part of it is empty or hidden.
_PATH = re.compile(r"(?:[^./][^/]*/)+[^./][^/]*")


def find_dockerfiles(answer: str) -> tuple[str, list[str]]:
    """Return where the Dockerfiles of an answer are, and their texts, of which the last counts."""
    answer = answer.replace("\r\n", "\n").strip() + "\n"
    found = {
        # Docker says what is wrong with one that has other lines above its FROM.
        "block marked as a Dockerfile": list(filter(_DOCKERFILE.search, blocks(answer, _MARK))),
        "other block": list(filter(_DOCKERFILE.match, blocks(answer))),
        "text without a block": _DOCKERFILE.findall(answer.split("```")[0]),
        NOTHING: [""],
    }
    return next((place, texts) for place, texts in found.items() if texts)


def blocks(answer: str, mark: str = "") -> list[str]:
    """Return the texts of the fenced blocks with a mark."""
    pattern = rf"(?im)^[ \t]*(```+|~~~+){mark}[^`\n]*\n((?:.*\n)*?)(?:[ \t]*\1[`~]*[ \t]*$|\Z)"
    return [dedent(text).lstrip("\n") for _, text in re.findall(pattern, answer)]


def read_answers(arguments: argparse.Namespace) -> Iterator[list[Any]]:
    """Yield the place of each answer, its model, its repository, and its file or text.

    What a row has may be anything. Raises OSError if a JSONL file cannot be read.
    """
    fields = (arguments.model_field, arguments.repo_field, arguments.answer_field)
    for path in map(Path, arguments.answers):
        if path.is_dir():
            for file in sorted(path.rglob("*.md")):
                model = str(file.parent.relative_to(path))
                yield [file, model, file.stem, file]
        else:
            for number, line in enumerate(read_text(path).split("\n"), 1):
                if line.strip():
                    row = de.parse_object(line)
                    yield [f"{path}:{number}", *(row.get(field, ...) for field in fields)]


def read_text(path: Path) -> str:
    """Return the text of a file, without a byte order mark; raise OSError if it cannot be read."""
    return path.read_text(encoding="utf-8-sig", errors="replace")


def import_answer(
    values: Sequence[Any], taken: set[Path], arguments: argparse.Namespace
) -> tuple[str, str, int]:
    """Write the Dockerfile of a model, a repository and an answer.

    Returns what was done, where the answer had it, and how many different ones it had. `taken` are
    the paths of earlier answers. Raises ValueError if the answer is refused, OSError if a file
    cannot be read, EvaluationError if one cannot be written.
    """
    model, repo, answer = values
    if isinstance(answer, Path):
        answer = read_text(answer)
    if set(map(type, (model, repo, answer))) != {str}:
        raise ValueError("expected a JSON object with texts as model, repo and answer")
    if not _PATH.fullmatch(f"{model}/{repo}"):
        raise ValueError(f"'{model}/{repo}' cannot be the name of a file")
    path = Path(arguments.artifacts, model, f"{repo.replace('/', '__')}.dockerfile")
    if path in taken:
        raise ValueError(f"a second answer for {path}")
    taken.add(path)
    source, texts = find_dockerfiles(answer)
    return write(path, texts[-1], force=arguments.force), source, len(set(texts))


def write(path: Path, text: str, *, force: bool) -> str:
    """Write a file, and return what was done; raise ValueError if other content is there."""
    if path.is_file() and path.read_bytes() == text.encode(errors="backslashreplace"):
        return "unchanged"
    if path.is_file() and not force:
        raise ValueError(f"{path} has other content (--force replaces it)")
    de.write_file(str(path), text)
    return "written"


def import_answers(arguments: argparse.Namespace) -> int:
    """Import all answers; print what a person should look at, then counts; return the exit code."""
    console = de.Console(sys.stdout)
    counts = Counter(written=0, unchanged=0, refused=0)
    taken: set[Path] = set()
    for place, named, repo, answer in read_answers(arguments):
        model = arguments.model or named
        values = [model, repo, "" if answer is None else answer]
        try:
            done, source, different = import_answer(values, taken, arguments)
        except (OSError, ValueError, de.EvaluationError) as error:
            counts["refused"] += 1
            de.print_errors(f"{place}: {error}")
            continue
        counts.update([done, source])
        if source == NOTHING:
            console.line(f"{place}: {model}/{repo}: {source}, an empty file")
        if different > 1:
            console.line(f"{place}: {model}/{repo}: {different} Dockerfiles, the last one counts")
    for name, count in counts.items():
        console.line(f"{name}: {count}")
    if not taken:
        de.print_errors("no answer was imported")
    return int(counts["refused"] > 0 or not taken)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = de.Parser(
        prog="import_answers.py",
        description="Take the Dockerfiles out of the answers of models, for evaluate_all.py.",
        epilog="Exit codes: 0 all answers were imported; 1 some were not; 2 bad arguments; 130 "
        "Ctrl-C.",
    )
    add = parser.add_argument
    add(
        "answers",
        metavar="ANSWERS",
        nargs="+",
        help="a JSONL file: lines with model, repo, answer; or a folder with files MODEL/REPO.md",
    )
    add(
        "--artifacts",
        metavar="DIR",
        default="artifacts",
        help="where to write MODEL/REPO.dockerfile (default: %(default)s)",
    )
    add(
        "--model-field",
        metavar="NAME",
        default="model",
        help="key of the model in JSONL files (default: %(default)s)",
    )
    add(
        "--repo-field",
        metavar="NAME",
        default="repo",
        help="key of the repository (default: %(default)s)",
    )
    add(
        "--answer-field",
        metavar="NAME",
        default="answer",
        help="key of the answer (default: %(default)s)",
    )
    add("--model", metavar="NAME", help="the model of all answers, whatever rows and folders say")
    add("--force", action="store_true", help="replace Dockerfiles that have other content")
    arguments = parser.parse_args(argv)
    de.accept_any_text()
    try:
        return import_answers(arguments)
    except OSError as error:
        de.print_errors(str(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    raise SystemExit(main())
