"""artifacts/import_answers.py: the Dockerfile in an answer, rows and folders, what is refused."""

import functools
import json
import time
from pathlib import Path
from unittest import mock

import import_answers as ia
import pytest
from cases import table
from conftest import called

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


HOSTILE = ["```\n", "```dockerfile\nFROM x\n", "~~~x\n```\n", "`", "`````x`\n", " ", "\n", "# x\n"]
HOSTILE += ["ARG x\\\n", "# x\n \n", "FROM\n", "FROM --a", "FROM a,", "  FROM x\n"]


@pytest.mark.long("64 KiB, four times each")
@pytest.mark.parametrize("repeated", HOSTILE, ids=ascii)
def test_no_answer_takes_minutes(repeated):
    started_at = time.thread_time()

    for begin in ("", "```", "FROM ", "```dockerfile\n# x\n"):
        ia.find_dockerfiles((begin + repeated * 2**16)[: 2**16])

    assert time.thread_time() - started_at < 5, "seconds"


def rows(*values):
    """Write answers.jsonl; a value is a row, or the text of a line."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    Path("answers.jsonl").write_text("\n".join(lines), errors="surrogatepass")
    return "answers.jsonl"


def row(model="m", repo="r", answer="FROM x"):
    return {"model": model, "repo": repo, "answer": answer}


def markdown(place):
    """Write answers/PLACE.md."""
    file = Path(f"answers/{place}.md")
    file.parent.mkdir(parents=True)
    file.write_text("\ufeffFROM x")  # A byte order mark is no part of an answer.


def files(folder="artifacts"):
    """Return the text of each Dockerfile below a folder by its path there."""
    found = Path(folder).rglob("*.dockerfile")
    return {str(file.relative_to(folder)): file.read_text() for file in found if file.is_file()}


def test_answers_are_found_at_any_depth_beside_other_files_and_lines():
    markdown("lab/n/1/r.js")
    Path("answers/notes.txt").touch()

    code, _, err = run(rows("\ufeff", row("m/2")), "answers/", "--artifacts", "new/folder")

    assert (code, err) == (0, "")
    names = ["lab/n/1/r.js.dockerfile", "m/2/r.dockerfile"]
    assert files("new/folder") == dict.fromkeys(names, "FROM x\n")


def test_keys_can_have_other_names_and_one_model_all_answers():
    markdown("m/q")
    path = rows({"llm": "m", "task": "r", "response": "FROM x"}, {"task": "s", "response": ""})

    words = "answers --model lab/n --model-field llm --repo-field task --answer-field response"

    assert run(path, *words.split())[0] == 0
    assert set(files()) == {f"lab/n/{repo}.dockerfile" for repo in "qrs"}


def test_any_text_is_accepted():
    """Lone surrogates, NUL, bytes that are not UTF-8; the second time it is the same content."""
    path = rows('{"model": "m", "repo": "q", "answer": "FROM x\\nRUN \ud800\\udfff\\u0000"}')

    assert [run(path)[1].splitlines()[at] for at in (0, 1)] == ["written: 1", "unchanged: 1"]
    assert files()["m/q.dockerfile"].startswith("FROM x\nRUN ")


NAMES = ["", ".", "..", "m/..", "m/../n", "/m", "m/", "m//n", ".m", "m/.n", "a\0b", "\ud800"]
REFUSED = ["[" * 50_000, {}, row(model=None), row(answer=["FROM x"]), row(answer=False)]
REFUSED += [row("folder"), *map(row, NAMES), *(row(repo=name) for name in NAMES)]


@pytest.mark.parametrize("refused", REFUSED, ids=lambda value: ascii(value)[:40])
def test_what_is_refused_is_named_and_the_others_are_imported(refused):
    """A transcript shows for what reason."""
    Path("artifacts/folder/r.dockerfile").mkdir(parents=True)

    code, _, err = run(rows(row("good"), refused, row("best")))

    assert code == 1
    assert err.startswith("error: answers.jsonl:2: ")
    assert files() == {"good/r.dockerfile": "FROM x\n", "best/r.dockerfile": "FROM x\n"}


def test_last_dockerfile_of_an_answer_counts_and_a_folder_is_refused():
    path = rows(row(answer="```\nFROM x\n```\n```\nFROM y\n```"))
    Path("answers/m/f.md").mkdir(parents=True)

    code, out, err = run("answers", path)

    assert files() == {"m/r.dockerfile": "FROM y\n"}
    assert "m/r: 2 Dockerfiles, the last one counts" in out
    assert "refused: 1\n" in out
    assert err.startswith("error: answers/m/f.md: ")
    assert code == 1


def test_other_content_is_only_replaced_with_force():
    run(rows(row()))
    path = rows(row(answer="FROM y"))

    text = "artifacts/m/r.dockerfile has other content (--force replaces it)"
    assert run(path)[::2] == (1, f"error: answers.jsonl:1: {text}\n")
    assert files() == {"m/r.dockerfile": "FROM x\n"}
    assert run(path, "--force")[0] == 0
    assert files() == {"m/r.dockerfile": "FROM y\n"}


def test_interrupt_ends_with_its_exit_code(monkeypatch):
    monkeypatch.setattr(ia, "import_answers", mock.Mock(side_effect=KeyboardInterrupt))

    assert run("answers")[0] == 130
