"""What the tests of the leaderboard share: made-up reports, a folder of them, and its program."""

from __future__ import annotations

import html.parser
import json
import os
import random

from conftest import PROJECT, called, load_program

PROGRAM = PROJECT / "reports" / "leaderboard.py"
leaderboard = load_program(PROGRAM)
chance = leaderboard.chance


def row(name, status="passed", score=1, message="exit code 0", output=None, category=None):
    passed = status == "passed"
    return {
        "test_id": name,
        "test_type": "run_command",
        "passed": passed,
        "score": score if passed else 0,
        "message": message,
        "execution_time": 0.1,
        "max_score": score,
        "status": status,
        "exit_code": 0,
        "timeout": 30.0,
        "output": output,
        "category": category,
        "params": {"command": f"make {name[:20]}"},
        "retried": False,
    }


def report(*rows, repo="app", kind=None, message="why", version="1.0.0", log="", rubric="0" * 64):
    passed = sum(1 for test in rows if test["passed"])
    return {
        "repo": repo,
        "dockerfile": "Dockerfile",
        "rubric": "r.json",
        "summary": {
            "total_tests": len(rows),
            "passed_tests": passed,
            "failed_tests": len(rows) - passed,
            "total_score": sum(test["score"] for test in rows),
            "max_score": sum(test["max_score"] for test in rows),
            "success_rate": passed / len(rows),
            "total_execution_time": 0.1,
        },
        "test_results": list(rows),
        "build": {"succeeded": not kind, "execution_time": 1.0, "message": "built", "log": log},
        "error": {"kind": kind, "message": message} if kind else None,
        "warnings": [],
        "environment": {
            "evaluator_version": version,
            "started_at": "2026-11-22T00:00:00Z",
            "rubric_sha256": rubric,
        },
    }


def share(points, repo="app", most=10, **more):
    """Return a report with `points` of `most`, on two tests."""
    if more.get("kind"):
        return report(row("a", "not_run", points or 1), row("b", "not_run", most - 1), repo=repo, **more)
    return report(
        row("a", score=points),
        row("b", "passed" if points == most else "failed", most - points),
        repo=repo,
        **more,
    )


class Folder:
    """A folder of reports: called with a place, it writes one."""

    def __init__(self, path):
        self.root = str(path / "reports")

    def __call__(self, place, made):
        file = f"{self.root}/{place}.json"
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as out:
            out.write(made if isinstance(made, str) else json.dumps(made))
        return self.root


def run(*words, **more):
    return called(leaderboard.main, *words, **more)


def squeezed(text):
    """Return the lines of a text that are not empty, with single blanks."""
    return [" ".join(line.split()) for line in text.splitlines() if line]


def board(root, samples=False, **more):
    reports, left_out = leaderboard.read_reports([root], samples=samples)
    assert left_out == []
    return leaderboard.Board(reports, **more)


def fill(folder):
    folder("good/app", report(row("a"), row("b", score=3)))
    folder("good/lib", report(row("a"), row("b", "failed", 3), repo="lib"))
    folder("poor/app", report(row("a"), row("b", "failed", 3, message="exit code 1: no")))
    folder("poor/lib", report(row("a", "not_run"), row("b", "not_run", 3), repo="lib", kind="build"))
    folder("sick/app", report(row("a"), row("b", "error", 3), kind="engine"))
    return folder("sick/lib", report(row("a"), row("b", "not_run", 3), repo="lib", kind="interrupted"))


def chosen(folder, seed, models, repos, samples=0, gaps=0.0, skills=None):
    """Write random reports of four tests each: some builds fail, and some evaluations have no score."""
    draw = random.Random(seed)
    hard = [draw.gauss(0, 0.8) for _ in range(repos)]
    for model in range(models):
        for repo in range(repos):
            for sample in range(1, samples + 1) if samples else [""]:
                skill = (skills[model] if skills else 0.5) + hard[repo] * 0.2
                luck = draw.random()
                kind = "engine" if luck < gaps else "build" if luck > 0.6 + 0.5 * skill else None
                statuses = [
                    "passed" if draw.random() < skill + 0.3 - 0.1 * at else "failed" for at in range(4)
                ]
                rows = [
                    row(f"t{at}", "not_run" if kind else status, at + 1, category="xy"[at % 2])
                    for at, status in enumerate(statuses)
                ]
                if draw.random() < 1 - gaps / 2:
                    place = "/".join(filter(None, [f"m{model}", str(sample), f"r{repo}"]))
                    folder(place, report(*rows, repo=f"r{repo}", kind=kind))
    return folder.root


class Tags(html.parser.HTMLParser):
    """Collect the tags of a page, their attributes, and its text."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = [], set(), ""

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attributes}

    def handle_data(self, data):
        self.text += data
