#!/usr/bin/env python3
"""Evaluate the example Dockerfile from Python and print a table of the results.

Run it in the project's folder. Without an engine: `tests/with-engine python3 example_usage.py`.
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
    except EvaluationError as error:  # there is no report: no such file, or an invalid rubric
        print(f"cannot evaluate: {error}")
        return 1

    if report["error"]:  # the build failed, or there is no score
        print(f"{report['error']['kind']}: {report['error']['message']}")
    for row in report["test_results"]:
        print(f"{row['test_id']:<22} {row['status']:<8} {row['score']:>2} of {row['max_score']}")
    summary = report["summary"]
    if summary["total_score"] is None:  # This is not a zero: evaluate again.
        print("no score")
        return 1
    print(f"{'score':<22} {'':<8} {summary['total_score']:>2} of {summary['max_score']}")
    return 0 if summary["failed_tests"] == 0 else 1


if __name__ == "__main__":
    raise SystemExit(main())
