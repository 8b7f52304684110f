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
from collections import Counter
from typing import Sequence
from xml.etree import ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import DockerfileEvaluator as de

# The element of a test by its status; that of others is an error, and a passed test has none.
ELEMENTS = {de.PASSED: "", de.FAILED: "failure", de.TIMEOUT: "failure", de.SKIPPED: "skipped"}
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0 forbids it


def clean(text: str) -> str:
    """Return a text without terminal codes, and with a mark for what XML forbids."""
    return _NO_XML.sub("\ufffd", de.TERMINAL_CODES.sub("", text))


def as_suite(report: de.Report) -> ElementTree.Element:
    """Return the testsuite of a report; raise KeyError or TypeError if it is none."""
    rows = [(row, ELEMENTS.get(row["status"], "error")) for row in report["test_results"]]
    counts = Counter(element for _, element in rows)
    # With the usual layout, MODEL/REPO: the same test of two models has two names.
    place = os.path.splitext(report["dockerfile"])[0]
    suite = ElementTree.Element(
        "testsuite",
        name=f"{report['repo']}: {report['dockerfile']}",
        tests=str(len(rows)),
        failures=str(counts["failure"]),
        errors=str(counts["error"]),
        skipped=str(counts["skipped"]),
        time=str(report["summary"]["total_execution_time"]),
    )
    for row, element in rows:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=row["test_id"],
            classname=f"{place}.{row['test_type']}",
            time=str(row["execution_time"]),
        )
        if element:
            ElementTree.SubElement(case, element, message=row["message"]).text = row["message"]
        if row["output"]:
            ElementTree.SubElement(case, "system-out").text = row["output"]
    if report["error"]:
        log = ElementTree.SubElement(suite, "system-out")
        log.text = f"{report['error']['message']}\n{report['build']['log']}"
    for part in suite.iter():
        part.text = clean(part.text or "")
        part.attrib.update({name: clean(value) for name, value in part.items()})
    return suite


def write(paths: Sequence[str], output: str) -> int:
    """Write the testsuites of all files that are reports; return the exit code."""
    code = 0
    top = ElementTree.Element("testsuites")
    for path in paths:
        try:
            top.append(as_suite(de.parse_object(de.as_text(de.read_file(path)))))
        except (de.EvaluationError, KeyError, TypeError) as error:
            is_read = not isinstance(error, de.EvaluationError)
            de.print_errors(f"{path}: not a report of the evaluator" if is_read else str(error))
            code = 1
    if len(top):
        text = ElementTree.tostring(top if len(paths) > 1 else top[0], encoding="unicode")
        de.write_file(output, f"{text}\n")
    return code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = de.Parser(
        prog="junit.py",
        description="Write JUnit XML from reports of the evaluator.",
        epilog="Exit codes: 0 written; 1 a file is no report, or cannot be read or written; 2 bad "
        "arguments; 130 Ctrl-C.",
    )
    parser.add_argument("reports", metavar="REPORT", nargs="+", help="a JSON report")
    text = "the XML file (default: stdout)"
    parser.add_argument("--output", metavar="FILE", default="-", help=text)
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
