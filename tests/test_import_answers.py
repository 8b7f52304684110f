"""artifacts/import_answers.py: the Dockerfile in an answer, rows and folders, what is refused."""

from __future__ import annotations

import functools
import json
import os
import time
from pathlib import Path

import pytest
from cases import table
from conftest import PROJECT, called, load_program

ia = load_program(PROJECT / "artifacts" / "import_answers.py")
run = functools.partial(called, ia.main)  # returns the exit code, stdout and stderr


def as_text(lines):
    r"""Return a text of lines that are separated by |, with \t and \r."""
    return lines.replace("|", "\n").replace(r"\t", "\t").replace(r"\r", "\r")


# Answers, and the lines of their Dockerfiles

MARKED = r"""
prose around it -> FROM x|RUN make
    answer: Sure!|```dockerfile|FROM x|RUN make|```|Done.
upper case -> FROM x
    answer: ```Dockerfile|FROM x|```
another label -> FROM x
    answer: ```docker|FROM x|```
podman's label -> FROM x
    answer: ```CONTAINERFILE|FROM x|```
words after the label -> FROM x
    answer: ```Dockerfile title=x|FROM x|```
a blank before it -> FROM x
    answer: ``` dockerfile|FROM x|```
a class of Pandoc's -> FROM x
    answer: ```{.dockerfile}|FROM x|```
carriage returns and blanks -> FROM x|RUN y
    answer: ```dockerfile  \r|FROM x\r|RUN y\r|``` \t\r|
tildes -> FROM x|```
    answer: ~~~dockerfile|FROM x|```|~~~
a longer fence around a shorter one -> FROM x|COPY <<END /a|```|END
    answer: ````dockerfile|FROM x|COPY <<END /a|```|END|````
a longer end -> FROM x
    answer: ```dockerfile|FROM x|`````|RUN y
no end -> FROM x|RUN y
    answer: ```dockerfile|FROM x|RUN y
no end, and blank lines -> FROM x
    answer: ```dockerfile|FROM x||
no end before another one -> FROM y
    answer: ```dockerfile|RUN x|```dockerfile|FROM y|```
in an item of a list -> FROM x|  RUN y
    answer: 1. First|   ```dockerfile|   FROM x|     RUN y|   ```
beside the mark of an item -> FROM x
    answer: - ```dockerfile|  FROM x|  ```
indented by a tab -> FROM x
    answer: \t```dockerfile|\tFROM x|\t```
indented less than its fence -> FROM x|RUN y
    answer:    ```dockerfile|FROM x| RUN y|```
in a quotation -> FROM x||RUN y >z
    answer: > ```dockerfile|> FROM x|>|> RUN y >z|> ```
in no quotation -> FROM x|COPY <<END /a|> b|END
    answer:   ```dockerfile|  FROM x|  COPY <<END /a|> b|  END|  ```
in a quotation in a list -> FROM x
    answer: 1. > ```dockerfile|   > FROM x|   > ```
other blocks after it -> FROM x
    answer: ```dockerfile|FROM x|```|```sql|FROM users|```|```|FROM y|```
a part of one after it -> FROM x
    answer: ```dockerfile|FROM x|```|Or:|```dockerfile|RUN y|```
a FROM that docker refuses -> FROM x # why
    answer: ```dockerfile|FROM x # why|```
what docker refuses above FROM -> A=1|FROM x
    answer: ```dockerfile|A=1|FROM x|```
in a block of Markdown -> FROM x
    answer: ```markdown|# Title|```dockerfile|FROM x|```|```
in a longer block of Markdown -> FROM x
    answer: ````markdown|# Title|```dockerfile|FROM x|```|````
a block of Markdown before it -> FROM x
    answer: ```markdown|```sh|ls|```|```|The Dockerfile:|```dockerfile|FROM x|```
"""
OTHERS = r"""
no label -> FROM x
    answer: Sure!|```|FROM x|```|
a wrong label -> FROM x|CMD y
    answer: ```sql|FROM x|CMD y|```
a label that begins like one -> FROM x
    answer: ```docker-compose|FROM x|```
beside blocks of other files -> FROM x
    answer: ```sh|ls|```|```|FROM x|```|```|```|```||```
comments and ARGs above FROM -> # syntax=a|ARG V=1 \|  W=2||# b|FROM x:$V
    answer: ```|# syntax=a|ARG V=1 \|  W=2||# b|FROM x:$V|```
a FROM that docker refuses -> # a|ARG V=1||FROM x # why
    answer: ```|# a|ARG V=1||FROM x # why|```
beside the fence -> ARG V=1|FROM x
    answer: ```ARG V=1|FROM x|```
a flag, a variable and a name -> from --platform=$BUILDPLATFORM golang:1.22 AS build
    answer: ```|from --platform=$BUILDPLATFORM golang:1.22 AS build|```
lower case -> from ubuntu as a
    answer: ```|from ubuntu as a|```
a variable alone -> from ${BASE:-x:1}
    answer: ```|from ${BASE:-x:1}|```
quotes, a digest and a blank -> from "x@sha256:1d"\t
    answer: ```|from "x@sha256:1d"\t|```
Python after it -> FROM x
    answer: ```|FROM x|```|```python|from flask import Flask|```
SQL after it -> FROM x
    answer: ```|FROM x|```|```sql|SELECT a|FROM users|```
several files in a block after it -> FROM x
    answer: ```|FROM x|```|```js|// Dockerfile|FROM y|// app.js|```
"""
UNFENCED = r"""
nothing else -> FROM x|RUN y
    answer: FROM x|RUN y
comments and ARGs above FROM -> # syntax=a|ARG V=1 \|  W=2||FROM x
    answer: Sure!||# syntax=a|ARG V=1 \|  W=2||FROM x
prose above it -> FROM x|RUN y
    answer: I begin|from scratch:|FROM x|RUN y
the end of a fence -> FROM x
    answer: FROM x|```|It works.
code in a sentence -> FROM x|```y```
    answer: FROM x|```y```
a first FROM that docker refuses -> FROM x y|FROM z
    answer: FROM x y|FROM z
"""
NOTHING = r"""
a refusal -> nothing
    answer: I cannot. From|here on, nothing.
Python -> nothing
    answer: ```python|from flask import Flask|```
Python without a fence -> nothing
    answer: from flask import Flask|app = Flask()
SQL -> nothing
    answer: ```sql|SELECT a|FROM users|```
a Dockerfile without FROM -> nothing
    answer: ```dockerfile|RUN make|```
code in a sentence -> nothing
    answer: ```FROM x```|```from x```
"""


@table(MARKED, answer="")
def test_dockerfile_in_a_marked_block(row):
    found = ia.find_dockerfile(as_text(row.answer))

    assert found == (as_text(f"{row.then}|"), "block marked as a Dockerfile", "")


@table(OTHERS, answer="")
def test_dockerfile_in_another_block(row):
    found = ia.find_dockerfile(as_text(row.answer))

    assert found == (as_text(f"{row.then}|"), "other block", "")


@table(UNFENCED, answer="")
def test_dockerfile_without_a_block(row):
    found = ia.find_dockerfile(as_text(row.answer))

    assert found == (as_text(f"{row.then}|"), "text without a block", "")


@table(NOTHING, answer="")
def test_no_dockerfile(row):
    found = ia.find_dockerfile(as_text(row.answer))

    assert found == ("", "no Dockerfile", "no Dockerfile, an empty file")


@pytest.mark.parametrize("label", ["dockerfile", ""])
def test_last_of_different_dockerfiles_counts(label):
    blocks = "".join(f"```{label}\nFROM {image}\n```\n" for image in "xxy")

    assert ia.find_dockerfile(blocks)[::2] == (
        "FROM y\n",
        "2 different Dockerfiles, the last one counts",
    )


MB = 2**20  # characters
LIMIT = 5  # seconds
HOSTILE = r"""
fences -> "```\n"
marked fences -> "```dockerfile\nFROM x\n"
tildes and backquotes -> "~~~x\n```\n"
one line of backquotes -> "`"
lines of backquotes -> "``````````````````````x`\n"
blanks -> " "
blank lines -> "\n"
blanks after a fence -> " "
    begin: "```"
blanks after FROM -> " "
    begin: "FROM x"
quotations -> "> "
lists -> "-  "
numbers -> "1. "
flags -> " --a"
    begin: "FROM"
a long name -> "a,"
    begin: "FROM "
comments -> "# x\n"
arguments -> "ARG x\n"
continued arguments -> "ARG x\\\n"
no instruction -> "FROM\n"
a wide margin -> "  FROM x\n"
    begin: "          ```\n"
a label -> "."
    begin: "```"
"""


@table(HOSTILE, begin=None)
def test_reading_an_answer_takes_time_linear_in_its_length(row):
    begin, repeated = row.begin or "", json.loads(row.then)

    for size in (MB // 16, MB):  # A reader that is not linear takes minutes for the second one.
        started_at = time.thread_time()
        ia.find_dockerfile(begin + repeated * (size // len(repeated)))
        assert time.thread_time() - started_at < LIMIT


def test_fences_of_all_lengths_take_no_longer():
    fences = "".join("`" * length + "\n" for length in range(1400, 2, -1))

    started_at = time.thread_time()
    ia.find_dockerfile(fences)
    assert time.thread_time() - started_at < LIMIT


# Rows and folders


def rows(*values):
    """Write answers.jsonl; a value is a row, or the text of a line."""
    lines = [value if isinstance(value, str) else json.dumps(value) for value in values]
    Path("answers.jsonl").write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    return "answers.jsonl"


def row(model="m", repo="r", answer="FROM x"):
    return {"model": model, "repo": repo, "answer": answer}


def markdown(place, answer="FROM x"):
    """Write answers/PLACE.md."""
    file = Path(f"answers/{place}.md")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(answer)


def files(folder="artifacts"):
    """Return the text of each file below a folder by its path there."""
    found = (file for file in Path(folder).rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_text() for file in found}


def counted(out):
    """Return the numbers that are printed at the end, except zeros."""
    lines = (line.rpartition(": ") for line in out.splitlines())
    return {name: int(number) for name, _, number in lines if number.isdigit() and number != "0"}


def test_rows_are_imported():
    path = rows(row(), "", row("lab/m", "owner/r"), row("m/2"))

    code, out, err = run(path, "--artifacts", "new/folder")

    assert (code, err) == (0, "")
    assert files("new/folder") == {
        "m/r.dockerfile": "FROM x\n",
        "lab/m/owner__r.dockerfile": "FROM x\n",
        "m/2/r.dockerfile": "FROM x\n",
    }
    assert counted(out) == {"written": 3, "text without a block": 3}


def test_files_of_folders_are_imported():
    markdown("lab/m/1/r")
    markdown("m/r.js", "\ufeffFROM y")
    Path("answers/m/notes.txt").write_text("FROM z")

    code, _, err = run("answers/", rows(row()))

    assert (code, err) == (0, "")
    assert files() == {
        "lab/m/1/r.dockerfile": "FROM x\n",
        "m/r.js.dockerfile": "FROM y\n",
        "m/r.dockerfile": "FROM x\n",
    }


def test_keys_can_have_other_names():
    path = rows({"llm": "m", "task": "r", "response": "FROM x", "model": 1})

    words = "--model-field llm --repo-field task --answer-field response"

    assert run(path, *words.split(" "))[0] == 0
    assert files() == {"m/r.dockerfile": "FROM x\n"}


def test_model_of_all_answers_can_be_given():
    markdown("r")
    markdown("m/q")
    path = rows({"repo": "p", "answer": "FROM x"}, row("m", "o"))

    code = run(path, "answers", "--model", "lab/n")[0]

    assert code == 0
    assert set(files()) == {f"lab/n/{repo}.dockerfile" for repo in "opqr"}


@pytest.mark.parametrize("answer", [None, "", "I cannot."])
def test_answer_without_a_dockerfile_becomes_an_empty_file_and_is_named(answer):
    code, out, _ = run(rows(row(), row(repo="q", answer=answer)))

    assert code == 0
    assert files() == {"m/r.dockerfile": "FROM x\n", "m/q.dockerfile": ""}
    assert out.startswith("answers.jsonl:2: no Dockerfile, an empty file\n")
    assert counted(out) == {"written": 2, "text without a block": 1, "no Dockerfile": 1}


def test_answer_with_different_dockerfiles_is_named():
    markdown("m/r", "```\nFROM x\n```\n```\nFROM y\n```\n")

    out = run("answers")[1]

    assert out.startswith("answers/m/r.md: 2 different Dockerfiles, the last one counts\n")


def test_any_text_is_accepted():
    """A byte order mark, other line separators, lone surrogates, bytes that are not UTF-8."""
    line = json.dumps(row(answer="FROM x\nENV A=\u2028\ud800"), ensure_ascii=False)
    path = rows(
        "\ufeff" + line,
        '{"model": "m", "repo": "q", "answer": "FROM x\\nRUN \ud800\\udfff\\u0000"}',
    )

    code, _, err = run(path)

    assert (code, err) == (0, "")
    assert files()["m/r.dockerfile"].startswith("FROM x\nENV A=\u2028")
    assert files()["m/q.dockerfile"].startswith("FROM x\nRUN ")
    assert counted(run(path)[1]) == {"unchanged": 2, "text without a block": 2}


def test_names_that_the_terminal_lacks_are_printed():
    markdown("é/r", "")

    out = run("answers", encoding="ascii")[1]

    assert out.startswith(r"answers/\xe9/r.md: no Dockerfile")


def test_long_row_is_read():
    path = rows(row(answer="FROM x\nRUN " + "y" * MB))

    assert run(path)[0] == 0
    assert len(files()["m/r.dockerfile"]) > MB


REFUSED = r"""
no JSON -> expected a JSON object
    row: {"model": "m"
an empty object -> expected a JSON object with a text as 'model'
    row: {}
no object -> expected a JSON object
    row: ["m", "r", "FROM x"]
deep lists -> expected a JSON object
    row: [[[[
no model -> a text as 'model'
    row: {"repo": "r", "answer": "FROM x"}
a model that is no text -> a text as 'model'
    row: {"model": null, "repo": "r", "answer": "FROM x"}
no repository -> a text as 'repo'
    row: {"model": "m", "answer": "FROM x"}
a number for the repository -> a text as 'repo'
    row: {"model": "m", "repo": 7, "answer": "FROM x"}
no answer -> a text as 'answer'
    row: {"model": "m", "repo": "r"}
an answer that is no text -> a text as 'answer'
    row: {"model": "m", "repo": "r", "answer": ["FROM x"]}
false for the answer -> a text as 'answer'
    row: {"model": "m", "repo": "r", "answer": false}
"""


@table(REFUSED, row="")
def test_row_that_cannot_be_read_is_named_and_the_others_are_imported(row):
    line = row.row * 50_000 if row.when == "deep lists" else row.row
    good = '{"model": "good", "repo": "r", "answer": "FROM x"}'

    code, out, err = run(rows(good, line, good.replace("good", "best")))

    assert code == 1
    assert err.startswith("error: answers.jsonl:2: ")
    assert row.then in err
    assert set(files()) == {"good/r.dockerfile", "best/r.dockerfile"}
    assert counted(out)["refused"] == 1


NAMES = ["", ".", "..", "../m", "m/..", "m/../n", "/m", "m/", "m//n", ".m", "m/.n", "a\0b", "a\nb"]


@pytest.mark.parametrize("name", [*NAMES, "\ud800"], ids=ascii)
@pytest.mark.parametrize("key", ["model", "repo"])
def test_name_that_leaves_the_folder_or_is_hidden_is_refused(key, name):
    code, _, err = run(rows({**row(), key: name}, row("good")))

    assert code == 1
    assert err.startswith("error: answers.jsonl:1: ")
    assert "cannot be the name" in err
    assert set(files(".")) - {"answers.jsonl"} == {"artifacts/good/r.dockerfile"}


@pytest.mark.parametrize("name", ["a..b", "a b", "gpt-4.1", "é", r"a\b", "x" * 200])
def test_other_names_are_files(name):
    assert run(rows(row(name, name)))[0] == 0
    assert set(files()) == {f"{name}/{name}.dockerfile"}


def test_file_without_a_model_is_refused():
    markdown("r")

    code, _, err = run("answers")

    assert code == 1
    assert err == "error: answers/r.md: '.' cannot be the name of a file or folder\n"


def test_second_answer_is_refused():
    path = rows(row(repo="a/r"), row(repo="a__r", answer="FROM y"))

    code, _, err = run(path)

    assert code == 1
    text = "a second answer for artifacts/m/a__r.dockerfile, after answers.jsonl:1"
    assert err == f"error: answers.jsonl:2: {text}\n"
    assert files() == {"m/a__r.dockerfile": "FROM x\n"}


@pytest.mark.parametrize("answers", ["none", "empty", "folder"])
def test_no_answers_are_an_error(answers):
    Path("empty").write_text("\n")
    os.mkdir("folder")

    assert run(answers)[0] == 1


def test_unreadable_file_is_named():
    code, _, err = run("none", rows(row()))

    assert code == 1
    assert err == "error: [Errno 2] No such file or directory: 'none'\n"


def test_unreadable_folder_is_an_error(monkeypatch):
    markdown("m/r")

    def walk(folder, onerror):
        onerror(PermissionError(13, "Permission denied", f"{folder}/m"))
        yield from ()

    monkeypatch.setattr(ia.os, "walk", walk)

    code, _, err = run("answers")

    assert code == 1
    assert "Permission denied: 'answers/m'" in err


def test_interrupt_ends_with_its_exit_code(monkeypatch):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ia, "find_dockerfile", interrupt)

    assert run(rows(row()))[0] == 130


# Files that are there


def test_same_content_is_unchanged():
    run(rows(row(), row("n")))
    os.unlink("artifacts/n/r.dockerfile")
    before = os.stat("artifacts/m/r.dockerfile")

    code, out, _ = run("answers.jsonl")

    assert code == 0
    assert counted(out) == {"written": 1, "unchanged": 1, "text without a block": 2}
    assert os.stat("artifacts/m/r.dockerfile").st_ino == before.st_ino


def test_other_content_is_only_replaced_with_force():
    run(rows(row()))
    path = rows(row(answer="FROM y"), row("n"))

    code, out, err = run(path)

    assert code == 1
    text = "artifacts/m/r.dockerfile has other content (--force replaces it)"
    assert err == f"error: answers.jsonl:1: {text}\n"
    assert files() == {"m/r.dockerfile": "FROM x\n", "n/r.dockerfile": "FROM x\n"}
    assert counted(out) == {"written": 1, "refused": 1, "text without a block": 1}

    assert run(path, "--force")[0] == 0
    assert files() == {"m/r.dockerfile": "FROM y\n", "n/r.dockerfile": "FROM x\n"}


def test_link_stays_a_link():
    os.makedirs("artifacts/m")
    Path("artifacts/other").write_text("FROM old")
    os.symlink("../other", "artifacts/m/r.dockerfile")

    refused = run(rows(row()))[0]
    forced = run("answers.jsonl", "--force")[0]

    assert (refused, forced) == (1, 0)
    assert os.readlink("artifacts/m/r.dockerfile") == "../other"
    assert Path("artifacts/other").read_text() == "FROM x\n"


@pytest.mark.parametrize("place", ["artifacts/m/r.dockerfile/x", "artifacts/m"])
def test_folder_or_file_in_the_way_is_refused(place):
    file = Path(place)
    file.parent.mkdir(parents=True)
    file.write_text("")

    code, _, err = run(rows(row(), row("n")), "--force")

    assert code == 1
    assert err.startswith("error: answers.jsonl:1: artifacts/m/r.dockerfile: cannot write: ")
    assert Path("artifacts/n/r.dockerfile").exists()
