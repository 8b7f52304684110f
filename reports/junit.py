#!/usr/bin/env python3
"""Write JUnit XML from reports of the evaluator: a testsuite for each report.

After a failed build, or without a score, the tests that were not run have errors.

Exit codes: 0 written; 1 a file is no report, or cannot be read or written; 2 bad arguments; 130
Ctrl-C.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from typing import Sequence
from xml.etree import ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

# The element of a test by its status; that of others is an error, and a passed test has none.
ELEMENTS = {de.PASSED: "", de.FAILED: "failure", de.TIMEOUT: "failure", de.SKIPPED: "skipped"}
COUNTED = {"tests": "*", "failures": "*/failure", "errors": "*/error", "skipped": "*/skipped"}
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0 forbids it


def as_suite(report: de.Report) -> str:
    """Return the testsuite of a report; raise KeyError or TypeError if it is none."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"{report['repo']}: {report['dockerfile']}",
        time=str(report["summary"]["total_execution_time"]),
    )
    # With the usual layout, MODEL/REPO: the same test of two models has two names.
    place = os.path.splitext(report["dockerfile"])[0]
    for row in report["test_results"]:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=row["test_id"],
            classname=f"{place}.{row['test_type']}",
            time=str(row["execution_time"]),
        )
        element = ELEMENTS.get(row["status"], "error")
        if element:
            ElementTree.SubElement(case, element, message=row["message"]).text = row["message"]
        if row["output"]:
            output = de.TERMINAL_CODES.sub("", row["output"])
            ElementTree.SubElement(case, "system-out").text = output
    for name, path in COUNTED.items():
        suite.set(name, str(len(suite.findall(path))))
    if report["error"]:
        log = f"{report['error']['message']}\n{report['build']['log']}"
        ElementTree.SubElement(suite, "system-out").text = de.TERMINAL_CODES.sub("", log)
    return _NO_XML.sub("\ufffd", ElementTree.tostring(suite, encoding="unicode"))


def write(paths: Sequence[str], output: str) -> int:
    """Write the testsuites of all files that are reports; return the exit code."""
    suites = []
    for path in paths:
        try:
            suites.append(as_suite(de.parse_object(de.as_text(de.read_file(path)))))
        except de.EvaluationError as error:
            de.print_errors(str(error))
        except (KeyError, TypeError):
            de.print_errors(f"{path}: not a report of the evaluator")
    text = "".join(suites)
    if len(paths) > 1:
        text = f"<testsuites>{text}</testsuites>"
    if suites:
        de.write_file(output, f"{text}\n")
    return int(len(suites) < len(paths))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = de.Parser(
        prog="junit.py",
        description="Write JUnit XML from reports of the evaluator.",
        epilog="Exit codes: 0 written; 1 a file is no report, or cannot be read or written; 2 bad "
        "arguments; 130 Ctrl-C.",
    )
    parser.add_argument("reports", metavar="REPORT", nargs="+", help="a JSON report")
    parser.add_argument(
        "--output", metavar="FILE", default="-", help="the XML file (default: stdout)"
    )
    arguments = parser.parse_args(argv)
    de.accept_any_text()
    try:
        return write(arguments.reports, arguments.output)
    except de.EvaluationError as error:
        de.print_errors(str(error))
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


if __name__ == "__main__":
    raise SystemExit(main())
