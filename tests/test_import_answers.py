"""artifacts/import_answers.py: the Dockerfile in an answer, rows and folders, what is refused."""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path

import pytest
from cases import table
from conftest import PROJECT, called, load_program

ia = load_program(PROJECT / "artifacts" / "import_answers.py")
run = functools.partial(called, ia.main)  # returns the exit code, stdout and stderr

# Answers, and the last Dockerfile in each; | ends a line
ANSWERS = r"""
prose around it -> FROM x|RUN make|
    answer: Sure!|```dockerfile|FROM x|RUN make|```|Done.
upper case, and words after the label -> FROM x|
    answer: ```CONTAINERFILE title=x|FROM x|```
another label, after a blank -> FROM x|
    answer: ``` docker|FROM x|```
a class of Pandoc's -> FROM x|
    answer: ```{.dockerfile}|FROM x|```
carriage returns and blanks -> FROM x|RUN y|
    answer: ```dockerfile  \r|FROM x\r|RUN y\r|``` \r|
tildes around a fence -> FROM x|```|
    answer: ~~~dockerfile|FROM x|```|~~~
a longer fence around a shorter one -> FROM x|COPY <<END /a|```|END|
    answer: ````dockerfile|FROM x|COPY <<END /a|```|END|````
a longer end -> FROM x|
    answer: ```dockerfile|FROM x|`````|RUN y
no end -> FROM x|RUN y|
    answer: ```dockerfile|FROM x|RUN y
in an item of a list -> FROM x|  RUN y|
    answer: 1. First|   ```dockerfile|   FROM x|     RUN y|   ```
in a block of Markdown -> FROM x|
    answer: ```markdown|# Title|```dockerfile|FROM x|```|```
a block without a label after it -> FROM x|
    answer: ```dockerfile|FROM x|```|```|FROM y|```
a block without FROM after it -> FROM x|
    answer: ```dockerfile|FROM x|```|```dockerfile|RUN y|```
different ones -> FROM y|
    answer: ```dockerfile|FROM x|```|```dockerfile|FROM y|```
a comment that docker refuses -> FROM x # why|
    answer: ```dockerfile|FROM x # why|```
other lines above FROM -> A=1|FROM x|
    answer: ```dockerfile|A=1|FROM x|```
no label -> FROM x|
    source: other block
    answer: Sure!|```|FROM x|```|```sh|ls|```
a label that begins like docker's -> FROM x|
    source: other block
    answer: ```docker-compose|FROM x|```
comments and ARGs above FROM -> # syntax=a|ARG V=1||# b|FROM x:$V|
    source: other block
    answer: ```||# syntax=a|ARG V=1||# b|FROM x:$V|```
a flag, a variable and a name -> from --platform=$BUILDPLATFORM golang:1.22 AS build|
    source: other block
    answer: ```|from --platform=$BUILDPLATFORM golang:1.22 AS build|```
Python and SQL after it -> FROM x|
    source: other block
    answer: ```|FROM x|```|```|from a import b|```|```sql|SELECT a|FROM users|```
several files in a block after it -> FROM x|
    source: other block
    answer: ```|FROM x|```|```js|// Dockerfile|FROM y|// app.js|```
no fence -> FROM x|RUN y|
    source: text without a block
    answer: FROM x|RUN y
prose and comments above FROM -> # syntax=a|ARG V=1||FROM x|
    source: text without a block
    answer: I begin|from scratch:|# syntax=a|ARG V=1||FROM x
the end of a fence -> FROM x|
    source: text without a block
    answer: FROM x|```|It works.
a refusal -> |
    source: no Dockerfile
    answer: I cannot. From|here on, nothing.
Python and SQL -> |
    source: no Dockerfile
    answer: from a import b|```sql|SELECT a|FROM users|```
a Dockerfile without FROM -> |
    source: no Dockerfile
    answer: ```dockerfile|RUN make|```
"""


@table(ANSWERS, answer="", source="block marked as a Dockerfile")
def test_dockerfile_is_found_in_an_answer(row):
    answer = row.answer.replace("|", "\n").replace(r"\r", "\r")

    source, texts = ia.find_dockerfiles(answer)

    assert (source, texts[-1].rstrip()) == (row.source, row.then.replace("|", "\n").rstrip())


SIZE = 2**16  # characters
LIMIT = 5  # seconds
HOSTILE = ["```\n", "```dockerfile\nFROM x\n", "~~~x\n```\n", "`", "`````x`\n", " ", "\n", "# x\n"]
HOSTILE += ["ARG x\\\n", "# x\n \n", "FROM\n", "FROM --a", "FROM a,", "  FROM x\n"]


@pytest.mark.parametrize("repeated", HOSTILE, ids=ascii)
def test_no_answer_takes_minutes(repeated):
    started_at = time.thread_time()

    for begin in ("", "```", "FROM ", "```dockerfile\n# x\n"):
        ia.find_dockerfiles(begin + repeated * (SIZE // len(repeated)))

    assert time.thread_time() - started_at < LIMIT


def rows(*values):
    """Write answers.jsonl; a value is a row, or the text of a line."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    Path("answers.jsonl").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    return "answers.jsonl"


def row(model="m", repo="r", answer="FROM x"):
    return {"model": model, "repo": repo, "answer": answer}


def markdown(place):
    """Write answers/PLACE.md."""
    file = Path(f"answers/{place}.md")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("FROM x")


def files(folder="artifacts"):
    """Return the text of each file below a folder by its path there."""
    found = (file for file in Path(folder).rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_text() for file in found}


def test_rows_and_files_are_imported():
    for place in ("lab/n/1/r", "n/r.js"):
        markdown(place)
    Path("answers/n/notes.txt").write_text("FROM z")
    path = rows(row(), "", row("lab/m", "owner/r"), row("m/2"))

    code, _, err = run(path, "answers/", "--artifacts", "new/folder")

    assert (code, err) == (0, "")
    names = ["lab/m/owner__r", "lab/n/1/r", "m/2/r", "m/r", "n/r.js"]
    assert sorted(files("new/folder")) == [f"{name}.dockerfile" for name in names]
    assert set(files("new/folder").values()) == {"FROM x\n"}


def test_keys_can_have_other_names():
    path = rows({"llm": "m", "task": "r", "response": "FROM x", "model": 1})

    words = "--model-field llm --repo-field task --answer-field response"

    assert run(path, *words.split(" "))[0] == 0
    assert files() == {"m/r.dockerfile": "FROM x\n"}


def test_model_of_all_answers_can_be_given():
    markdown("r")
    markdown("m/q")

    code = run(rows({"repo": "p", "answer": "FROM x"}), "answers", "--model", "lab/n")[0]

    assert code == 0
    assert set(files()) == {f"lab/n/{repo}.dockerfile" for repo in "pqr"}


def test_what_a_person_should_look_at_is_named_and_kinds_are_counted():
    several = "```\nFROM x\n```\n```\nFROM y\n```\n```\nFROM y\n```\n"
    path = rows(row(answer=None), row("n", answer=""), row("o", answer=several), row("p"))

    code, out, _ = run(path)

    assert code == 0
    assert [files()[f"{model}/r.dockerfile"] for model in "mno"] == ["", "", "FROM y\n"]
    assert out.splitlines() == [
        "answers.jsonl:1: m/r: no Dockerfile, an empty file",
        "answers.jsonl:2: n/r: no Dockerfile, an empty file",
        "answers.jsonl:3: o/r: 2 Dockerfiles, the last one counts",
        "written: 4",
        "unchanged: 0",
        "refused: 0",
        "no Dockerfile: 2",
        "other block: 1",
        "text without a block: 1",
    ]


def test_any_text_is_accepted():
    """Lone surrogates, NUL, bytes that are not UTF-8; the second time it is the same content."""
    path = rows('{"model": "m", "repo": "q", "answer": "FROM x\\nRUN \ud800\\udfff\\u0000"}')

    assert [run(path)[1].splitlines()[at] for at in (0, 1)] == ["written: 1", "unchanged: 1"]
    assert files()["m/q.dockerfile"].startswith("FROM x\nRUN ")


TEXTS = "expected a JSON object with texts as model, repo and answer"
LATER = "a second answer for artifacts/good/r.dockerfile"
NAMES = ["", ".", "..", "../m", "m/..", "m/../n", "/m", "m/", "m//n", ".m", "m/.n"]
REFUSED = [
    ('{"model": "m"', TEXTS),
    ("[" * 50_000, TEXTS),
    ("{}", TEXTS),
    ('{"model": "m", "repo": "r"}', TEXTS),
    ('{"model": null, "repo": "r", "answer": "FROM x"}', TEXTS),
    (row(repo=7), TEXTS),
    (row(answer=["FROM x"]), TEXTS),
    (row(answer=False), TEXTS),
    (row("good", answer="FROM y"), LATER),
    *((row(name), f"'{name}/r' cannot be the name of a file") for name in NAMES),
    *((row(repo=name), f"'m/{name}' cannot be the name of a file") for name in NAMES),
    (row("a\0b"), ""),
    (row("\ud800"), ""),
]


@pytest.mark.parametrize(("refused", "why"), REFUSED, ids=lambda value: ascii(value)[:40])
def test_what_is_refused_is_named_and_the_others_are_imported(refused, why):
    code, out, err = run(rows(row("good"), refused, row("best")), "--force")

    assert code == 1
    assert err.startswith(f"error: answers.jsonl:2: {why}")
    assert files() == {"good/r.dockerfile": "FROM x\n", "best/r.dockerfile": "FROM x\n"}
    assert "refused: 1\n" in out


def test_other_content_is_only_replaced_with_force():
    run(rows(row(), row("n")))
    before = Path("artifacts/n/r.dockerfile").stat()
    path = rows(row(answer="FROM y"), row("n"))

    code, out, err = run(path)

    assert code == 1
    text = "artifacts/m/r.dockerfile has other content (--force replaces it)"
    assert err == f"error: answers.jsonl:1: {text}\n"
    assert out.startswith("written: 0\nunchanged: 1\nrefused: 1\n")
    assert files()["m/r.dockerfile"] == "FROM x\n"
    assert Path("artifacts/n/r.dockerfile").stat() == before

    assert run(path, "--force")[0] == 0
    assert files()["m/r.dockerfile"] == "FROM y\n"


def test_file_that_cannot_be_written_is_refused():
    Path("artifacts/m/r.dockerfile").mkdir(parents=True)

    code, _, err = run(rows(row(), row("n")))

    assert code == 1
    assert err.startswith("error: answers.jsonl:1: artifacts/m/r.dockerfile: cannot write: ")
    assert files() == {"n/r.dockerfile": "FROM x\n"}


def test_byte_order_mark_is_no_part_of_an_answer():
    markdown("m/q")
    Path("answers/m/q.md").write_text("\ufeffFROM x")
    Path("answers.jsonl").write_text("\ufeff" + json.dumps(row()))

    assert run("answers", "answers.jsonl")[0] == 0
    assert set(files().values()) == {"FROM x\n"}


def test_nothing_to_import_is_an_error():
    Path("answers").mkdir()

    code, _, err = run("answers")

    assert (code, err) == (1, "error: no answer was imported\n")


def test_unreadable_file_is_named():
    assert run("none") == (1, "", "error: [Errno 2] No such file or directory: 'none'\n")


def test_interrupt_ends_with_its_exit_code(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ia, "find_dockerfiles", interrupt)

    assert run(rows(row()))[0] == 130
