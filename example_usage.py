#!/usr/bin/env python3
"""Evaluate the example Dockerfile from Python, and make something of the report.

Run it from the project's folder; on a machine without an engine by
`tests/with-engine python3 example_usage.py`.
"""

from __future__ import annotations

from DockerfileEvaluator import EvaluationError, evaluate


def main() -> int:
    """Evaluate, print a table, return an exit code."""
    try:
        report = evaluate(
            dockerfile="artifacts/example.dockerfile",
            repo="example",
            rubric="rubrics/example.json",
            output="reports/example_report.json",
        )
    except EvaluationError as error:  # no such file, an unusable rubric: there is no report
        print(f"cannot evaluate: {error}")
        return 1

    if report["error"]:  # the build failed, or the engine did
        print(f"{report['error']['kind']}: {report['error']['message']}")
    for row in report["test_results"]:
        print(f"{row['test_id']:<22} {row['status']:<8} {row['score']:>2} of {row['max_score']}")
    summary = report["summary"]
    score = f"{summary['total_score']:>2} of {summary['max_score']}"
    print(f"{'score':<22} {summary['total_score'] / summary['max_score']:<8.0%} {score}")
    return 0 if summary["failed_tests"] == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
