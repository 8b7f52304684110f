"""The leaderboard reads reports of anybody: broken ones are named and left out, hostile ones do nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from boards import PROGRAM, Folder, leaderboard, report, row, run


@pytest.fixture
def every_written_report_is_as_its_schema_says():
    """What is written here is what the leaderboard reads of a report, and broken reports."""


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


# Reading


def test_rows_are_sub_folders_however_deep_and_files_belong_to_their_folder(folder, tmp_path):
    folder("gpt/prompt 1/c0ffee/app", report(row("a")))
    folder("top", report(row("a")))
    reports, left_out = leaderboard.read_reports([folder.root])
    assert ([made.model for made in reports], left_out) == (["gpt/prompt 1/c0ffee", "reports"], [])
    reports, _ = leaderboard.read_reports(
        [folder.root + "/top.json", folder.root + "/gpt/prompt 1/c0ffee/app.json"]
    )
    assert sorted(made.model for made in reports) == ["c0ffee", "reports"]


def test_a_report_in_the_current_folder_belongs_to_it(folder, monkeypatch):
    folder("m/app", report(row("a")))
    monkeypatch.chdir(os.path.join(folder.root, "m"))
    for place in ("app.json", ".", "./app.json", "../m"):
        (made,), left_out = leaderboard.read_reports([place])
        assert (made.model, left_out) == ("m", [])


def test_hidden_files_and_folders_are_passed_over(folder):
    folder("m/app", report(row("a")))
    folder("m/.state", "{}")
    folder(".cache/app", "{}")
    assert run(folder.root)[2] == ""


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("", "not JSON at line 1, column 1; half written?"),
        ('{"repo": "x", "summ', "not JSON at line 1, column 15; half written?"),
        ("[]", "no report of this evaluator"),
        ("[" * 99_999, "no report of this evaluator"),
        ('{"repo": "x"}', "no report of this evaluator: 'environment' is missing or unknown"),
        (json.dumps(report(row("a"), version="2.0.0")), "written by version 2.0.0; expected 1.x"),
        (json.dumps(report(row("a"))).replace('"repo": "app"', '"repo": 5'), "no report of this evaluator"),
        (json.dumps(report(row("a"), repo="x" * 1001)), "a name of 1001 characters; expected at most 1000"),
        (json.dumps(report(row("a"), row("a"))), "a test is there twice"),
        (json.dumps(report(row("a", score=0))), "a rubric without points gives no score"),
        (json.dumps(report(row("a"), kind="build")), "points without a build"),
        (
            json.dumps(report(row("a"), kind="sabotage")),
            "no report of this evaluator: 'sabotage' is missing or unknown",
        ),
        (json.dumps(report(row("a", "splendid"))), "a test's status is splendid"),
    ],
)
def test_what_is_no_report_is_named_and_left_out(folder, made, words):
    folder("bad/x", made)
    code, out, err = run(folder.root)
    assert (code, out) == (1, "")
    assert err.splitlines() == [f"left out: reports/bad/x.json: {words}", "no report is left"]
    folder("good/app", report(row("a")))
    assert run(folder.root)[0] == 0


def test_a_file_larger_than_any_report_is_not_read(folder):
    with open(f"{folder('m/big', '{}')}/m/big.json", "w") as file:
        file.truncate(30_000_000)
    assert "over 20 MB, larger than any report" in run(folder.root)[2]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("total_score", '"nan"'),
        ("total_score", "NaN"),
        ("total_score", "Infinity"),
        ("total_score", "true"),
        ("total_score", "null"),
        ("total_score", "-5"),
        ("total_score", "99"),
        ("total_score", "2"),
        ("max_score", "1" + "0" * 400),
        ("max_score", "3"),
        ("passed_tests", "1e999"),
        ("passed_tests", "2"),
        ("total_tests", '"2"'),
        ("total_tests", "3"),
        ("score", "true"),
        ("score", "NaN"),
        ("score", "1e9"),
        ("score", "[]"),
    ],
)
def test_a_report_with_impossible_numbers_is_left_out(folder, field, value):
    folder("good/app", report(row("a")))
    text = json.dumps(report(row("a"), row("b", "failed")))
    folder("odd/app", re.sub(f'"{field}": [0-9.]+', f'"{field}": {value}', text))
    code, out, err = run(folder.root)
    assert (code, err.count("odd/app.json"), err.count("Traceback")) == (0, 1, 0)
    assert "odd" not in out


def test_a_score_below_nought_is_left_out_even_where_the_sums_agree(folder):
    made = report(row("a"), row("b", score=3))
    made["test_results"][0]["score"] = -1
    made["summary"]["total_score"] = 2
    _, left_out = leaderboard.read_reports([folder("m/app", made)])
    assert left_out == ["reports/m/app.json: score is -1; expected a number from 0 to 1"]


@pytest.mark.parametrize("place", ["", "test_results", "summary", "environment", "error", "build"])
@pytest.mark.parametrize("value", [None, 5, True, "x", [], [5], {}, [[]], {"kind": []}])
def test_wrong_types_anywhere_are_named_and_never_a_traceback(folder, place, value):
    made = report(row("a", "not_run"), kind="build")
    if place:
        made[place] = value
    else:
        made = value
    folder("odd/app", json.dumps(made))
    folder("good/app", report(row("a")))
    reports, left_out = leaderboard.read_reports([folder.root])
    assert len(reports) + len(left_out) == 2
    assert len(reports) == (2 if (place, value) == ("error", None) else 1)


@pytest.mark.parametrize("field", sorted(row("a", "failed")))
@pytest.mark.parametrize("value", [None, 5, True, [], {}, "\x1b[2J"])
def test_wrong_types_in_a_test_are_named_or_of_no_consequence(folder, field, value):
    test = row("a", "failed")
    test[field] = value
    folder(
        "odd/app",
        json.dumps(report(row("b"), row("c")))
        .replace('"test_results": [', f'"test_results": [{json.dumps(test)}, ')
        .replace('"total_tests": 2', '"total_tests": 3')
        .replace('"max_score": 2', '"max_score": 3'),
    )
    folder("good/app", report(row("a")))
    words = ["--html", os.path.join(folder.root, "x.html"), "--items"]
    code, _, err = run(folder.root, *words)
    assert (code, "Traceback" in err) == (0, False)
    with open(os.path.join(folder.root, "x.html")) as file:
        assert "\x1b" not in file.read()


def test_huge_texts_are_cut(folder, tmp_path):
    rows = [row("a", "failed", message="m" * 500_000, output="o" * 500_000, category="c" * 500_000)]
    rows[0]["params"] = {"command": "p" * 500_000}
    folder("m/app", report(*rows, row("b")))
    run(folder.root, "--html", str(tmp_path / "x.html"))
    assert os.path.getsize(str(tmp_path / "x.html")) < 30_000


def test_duplicates_are_named(folder):
    folder("m/app", report(row("a")))
    folder("m/app2", report(row("a", "failed")))
    code, out, err = run(folder.root, folder.root)
    assert code == 0
    assert "100%" in out
    assert err == "left out: reports/m/app2.json: a second report on app in m; reports/m/app.json is taken\n"


def test_of_many_left_out_ten_are_named_and_the_rest_counted(folder):
    folder("m/app", report(row("a")))
    for at in range(14):
        folder(f"bad/{at:02}", "{")
    err = run(folder.root)[2].splitlines()
    assert (len(err), err[-1]) == (11, "left out: 4 more")


def test_what_is_no_error_object_is_no_score(folder):
    made = json.dumps(report(row("a"))).replace('"error": null', '"error": false')
    code, _, err = run(folder("m/app", made))
    assert (code, "m/app.json" in err) == (1, True)


def test_points_without_measure_and_names_that_are_no_text_spoil_no_board(folder, tmp_path):
    folder("a/app", report(row("a")))
    folder("b/app", report(row("a", score=1e308), row("b", score=1e308)))
    os.rename(f"{folder.root}/a/app.json", os.fsencode(folder.root) + b"/a/\xff\n\x1b.json")
    table = tmp_path / "reports.csv"
    code, _, err = run(folder.root, "--reports-csv", str(table), "--html", str(tmp_path / "x.html"))
    assert (code, "b/app.json: max_score is 1e+308; expected a number from 0 to 1e+100" in err) == (0, True)
    assert "/a/\ufffd\ufffd\ufffd.json" in table.read_text()


def test_a_file_that_is_there_is_not_emptied_for_what_cannot_be_made(folder, tmp_path, monkeypatch):
    table = tmp_path / "table.csv"
    table.write_text("kept")
    monkeypatch.setattr(leaderboard, "csv_of_models", lambda _board: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        leaderboard.main([folder("a/app", report(row("a"))), "--csv", str(table)])
    assert table.read_text() == "kept"


def test_a_folder_behind_a_link_is_read_and_one_that_cannot_be_read_is_named(folder, tmp_path, monkeypatch):
    folder("a/app", report(row("a")))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "app.json").write_text(json.dumps(report(row("a"))))
    os.symlink(str(elsewhere), f"{folder.root}/linked")
    os.symlink(folder.root, f"{folder.root}/a/circle")
    os.mkdir(f"{folder.root}/locked")
    scan = os.scandir

    def scandir(path):
        if str(path).endswith("/locked"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    reports, left_out = leaderboard.read_reports([folder.root])
    assert [found.model for found in reports] == ["a", "linked"]
    assert left_out == ["reports/locked: Permission denied"]


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_end_nothing(folder, redirection, tmp_path):
    table = tmp_path / "table.csv"
    words = [sys.executable, str(PROGRAM), folder("a/app", report(row("a"))), "--csv", str(table)]
    shell = f'exec "$@" {redirection}'
    done = subprocess.run(["sh", "-c", shell, "sh", *words], capture_output=True)
    assert (done.returncode, done.stderr, table.exists()) == (0, b"", True)


def test_the_same_file_in_two_rows_and_what_is_no_file_are_named(folder):
    folder("m/app", report(row("a")))
    os.symlink(os.path.join(folder.root, "m"), os.path.join(folder.root, "linked"))
    os.mkdir(os.path.join(folder.root, "n"))
    os.symlink(os.path.join(folder.root, "m", "app.json"), os.path.join(folder.root, "n", "app.json"))
    os.mkfifo(os.path.join(folder.root, "n", "pipe.json"))
    code, _, err = run(folder.root)
    assert code == 0
    assert "n/app.json: the same file as one of m" in err
    assert "n/pipe.json: no regular file" in err


def test_what_cannot_be_written_is_an_error_of_one_line(folder, tmp_path):
    folder("m/app", report(row("a")))
    code, _, err = run(folder.root, "--html", str(tmp_path))
    assert (code, len(err.splitlines())) == (1, 1)
    assert err.startswith("cannot write: ")


def test_names_that_a_terminal_cannot_show_or_obeys_are_replaced(folder):
    folder("\x1b[31mmodèle/r", report(row("a"), repo="dépôt"))
    code, out, err = run(folder.root, encoding="ascii")
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "?[31mmod?le" in out


def test_a_report_of_the_evaluator_is_read(fake, evaluate, folder):
    made = evaluate(["FROM x"], ("run_command", {"command": "true"}), ("run_command", {"command": "false"}))
    reports, left_out = leaderboard.read_reports([folder("m/example", made)])
    assert left_out == []
    assert [(r.model, r.repo, r.outcome, r.score, r.passed) for r in reports] == [
        ("m", "example", "scored", 0.5, 1)
    ]


def test_with_samples_a_model_without_folders_of_samples_is_named(folder):
    for place in ("a/1/x", "a/2/x", "b/x"):
        folder(place, report(row("t")))
    reports, left_out = leaderboard.read_reports([folder.root], samples=True)
    assert [(found.model, found.sample) for found in reports] == [("a", "1"), ("a", "2")]
    assert left_out == ["reports/b/x.json: in no folder of a sample, as others are"]
    reports, left_out = leaderboard.read_reports([os.path.join(folder.root, "a")], samples=True)
    assert ([(found.model, found.sample) for found in reports], left_out) == ([("a", "1"), ("a", "2")], [])
