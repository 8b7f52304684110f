"""Results by name (section 2): rubrics, what a file in the format JUnit XML counts, its cost."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from cases import as_bytes, read_tests, table
from conftest import PROJECT

import DockerfileEvaluator as de

# Rubrics


def read(**params):
    """Return the one test of a rubric: a command, and these parameters."""
    return read_tests({"type": "run_command", "params": {"command": "x", **params}})[0]


def test_drawn_numbers_are_replaced_in_the_command_alone():
    params = {"command": "x {a}", "draw": {"a": [1, 10**7]}, "junit": "{a}.xml", "tests": ["{a}"]}

    check = read(**params).check

    assert check.files == "{a}.xml"
    assert check.judge(0, printed({"x": "<testcase name='{a}'/>"}))[0] == 1


# Files. A line is a file, and what it counts: the cases that passed and those that did not, or why
# none is counted.
FILES = r"""
<suite><testcase classname="a.B" name="c"/><testcase name="d"></testcase></suite> -> +a.B.c +.d
<testcase name="no suite around it"/> -> +.no suite around it
<testsuites><suite><suite><testcase name="a"/></suite></suite></testsuites> -> +.a
<s><testcase name="a"><failure/></testcase><testcase name="b"/></s> -> -.a +.b
<s><testcase name="a"><failure message="x">y</failure></testcase></s> -> -.a
<s><testcase name="a"><error type="x"/></testcase></s> -> -.a
<s><testcase name="a"><skipped/></testcase></s> -> -.a
<s><testcase name="a"><system-out>FAILED</system-out><properties/></testcase></s> -> +.a
<s><testcase name="a"><flakyFailure/><rerunError/></testcase></s> -> +.a
<s><failure/><testcase name="a"/><error/></s> -> +.a
<s><testcase name="a" status="run" result="completed"/></s> -> +.a
<s><testcase name="a" status="passed"/><testcase name="b" result="success"/></s> -> +.a +.b
<s><testcase name="a" status="notrun" result="suppressed"/></s> -> -.a
<s><testcase name="a" status="disabled"/><testcase name="b" status="Failed"/></s> -> -.a -.b
<s><testcase name="a" status="fail"/><testcase name="b" status="FAIL"/></s> -> -.a -.b
<s><testcase name="a" status="run" result="skipped"/></s> -> -.a
<s><testcase name="a" result="error"/></s> -> -.a
<s><testcase name="a" status="untested"/></s> -> -.a
<s><testcase name="a"/><testcase name="a"><failure/></testcase></s> -> -.a
<s><testcase name="a"><failure/></testcase><testcase name="a"/></s> -> -.a
<s><testcase name="a"/><testcase name="a"/></s> -> +.a
<s><testcase classname="a" name="b."/><testcase classname="a.b" status="fail"/></s> -> +a.b. -a.b.
<s><testcase/></s> -> +.
<s errors="1"/> -> nothing
<s><testcase name="&lt;&#65;&#x42;&amp;&quot;&#233;"/></s> -> +.<AB&"é
<s><testcase name="é€😀"/></s> -> +.é€😀
<s><testcase name="a&#27;[31m&#x1B;&#0;&#xFFFE;&#55296;&#xD83D;b"/></s> -> +.a[31mb
<s><testcase name="a\x1b[31mb\0\x01\xef\xbf\xbe"/></s> -> +.a[31mb
<s><testcase name="a\xff\xc3"/></s> -> +.a
\xef\xbb\xbf<?xml version="1.0" encoding="UTF-8"?><s><testcase name="a"/></s> -> +.a
<?xml version="1.0" encoding="ISO-8859-1"?><s><testcase name="a\xe9b"/></s> -> +.ab
<?xml version="1.0" encoding="UTF-16"?><s><testcase name="aé"/></s> -> +.aé
<?xml version="1.0" encoding="no-such"?><s><testcase name="a"/></s> -> +.a
<?xml version="1.1"?><s><testcase name="a"/></s> -> +.a
\xff\xfe<\0s\0>\0<\0t\0e\0s\0t\0c\0a\0s\0e\0/\0>\0<\0/\0s\0>\0 -> +.
<s><testcase name="a"><out><![CDATA[<!DOCTYPE html><failure/>&#27;]]></out></testcase></s> -> +.a
<s><testcase name="a"><system-out>&lt;failure/&gt;</system-out></testcase></s> -> +.a
<s><!-- <testcase name="b"/> --><testcase name="a"/></s> -> +.a
<?x <failure/> ?><s><testcase name="a"/></s> -> +.a
<s><TestCase name="b"/><testcases name="c"/><testcase name="a"/></s> -> +.a
<!DOCTYPE s><s><testcase name="a"/></s> -> a document type
<!DOCTYPE s [<!ENTITY a "b">]><s><testcase name="&a;"/></s> -> a document type
<!DOCTYPE s SYSTEM "file:///etc/passwd"><s><testcase name="a"/></s> -> a document type
<s><testcase name="&nbsp;"/></s> -> undefined entity
<s><testcase name="&#1114112;"/></s> -> reference to invalid character number
<s><testcase name="a"/> -> no element found
<s><testcase name="a"/></s><s/> -> junk after document element
<s><testcase name="a"/></s>OK -> junk after document element
OK<s><testcase name="a"/></s> -> not well-formed (invalid token)
<s><testcase name="a" name="b"/></s> -> duplicate attribute
<s><testcase name=a/></s> -> not well-formed (invalid token)
<s><testcase name="a"/></t> -> mismatched tag
<html><body>404</html> -> mismatched tag
{"tests": 3} -> not well-formed (invalid token)
"""


def counted(data):
    """Return the cases of a file: with + those that passed, with - the others."""
    cases = {}
    try:
        de.add_cases(cases, data, lambda: None)
    except (de.ExpatError, ValueError) as error:
        assert cases == {}
        return str(error)
    words = [f"{'-+'[passed]}{case}" for case, passed in cases.items()]
    return " ".join(words).replace("\0", ".") or "nothing"


@table(FILES)
def test_cases_of_a_file(row):
    assert counted(as_bytes(row.when)).partition(":")[0] == row.then


def test_nested_elements_are_refused():
    assert counted(b"<s>" * 1001 + b"</s>" * 1001) == "nested too deep"


@pytest.mark.parametrize("form", ["%c", "&#%d;", "&#00%d;", "&#x%x;", "&#x0%X;"])
def test_no_character_spoils_a_file(form):
    """Whether it stands there itself, or as a reference, decimal or hexadecimal."""
    codes = [*range(32), 127, 0xD800, 0xDFFF, 0xFFFE, 0xFFFF, 0x10FFFF]
    for text in {form % code for code in codes}:
        data = f"<s><testcase name='a'/><x>{text}</x><testcase name='b'/></s>"

        assert counted(data.encode(errors="surrogatepass")) == "+.a +.b", text


@pytest.mark.parametrize("character", ["é", "😀", "&#233;", "\x01"])
def test_no_character_is_lost_where_a_file_is_cut_to_be_read(character):
    kept = {"&#233;": "é", "\x01": ""}.get(character, character)
    for shift in range(4):
        name = "x" * shift + character * 300_000

        found = counted(f"<s><testcase name='{name}'/></s>".encode())

        assert found == "+." + "x" * shift + kept * 300_000


# What tools wrote about suites with a failing, an erroneous, a skipped and a parametrized test,
# nested ones, and mostly two files; long texts are cut
RECORDED = json.loads((PROJECT / "tests" / "logs" / "suites-junit.json").read_text())


@pytest.mark.parametrize("log", RECORDED, ids=lambda log: log["suite"])
def test_file_of_a_real_tool(log):
    """Each test that passed can be named; no other one counts."""
    files = dict(enumerate(map(str.encode, log["files"])))

    earned, message = de.count_cases("x", log["passed"] + log["others"], de.Printed(b"", files))

    assert (earned, "no such test" in message) == (len(log["passed"]), False)


def test_page_names_a_command_for_each_tool():
    page = (PROJECT / "rubrics" / "README.md").read_text()

    rows = re.findall(
        r"^\| ([^|`]+) \| `.*(?:xml|junit).*` \| `.+` \| `.+` \|$", page, re.MULTILINE
    )

    assert {*rows, "googletest"} == {log["suite"] for log in RECORDED}


# Several files, and the message


def printed(files):
    """Return what a test printed, and the files that it wrote."""
    return de.Printed(b"", {path: as_bytes(text) for path, text in files.items()})


def judged(files, **params):
    """Return the message."""
    params = params or {"of": 9}
    return read(junit="/r/*.xml", **params).check.judge(1, printed(files))[1]


# What files have: cases that passed, with +, and others, with -; how many of 9 passed, and what is
# missing
JUDGED = """
two files -> 2 of 9, exit code 1; failed: 'c'
    files: {"1": "<s>+a+b</s>", "2": "<s>-c</s>"}
a case fails in one -> 1 of 9, exit code 1; failed: 'a'
    files: {"1": "<s>-a+b</s>", "2": "<s>+a+b</s>"}
one is broken -> 2 of 9, exit code 1; no results in 2: unclosed token: line 1
    files: {"1": "<s>+a+b</s>", "2": "<s>-c</s"}
no XML -> 0 of 9, exit code 1; no results in x: killed: no output
    files: {"x": "killed"}
empty -> 0 of 9, exit code 1; no results in x: no element found: line 1, column 0
    files: {"x": ""}
a document type -> 0 of 9, exit code 1; no results in x: a document type
    files: {"x": "<!DOCTYPE s><s/>"}
none -> 0 of 9, exit code 1; no results in /r/*.xml: no such file: no output
no test ran -> 0 of 9, exit code 1; no results in /r/*.xml: no test case: no output
    files: {"x": "<testsuites/>"}
ten failed -> 0 of 9, exit code 1; failed: '0', '1', '2', '3', '4', '5', '6', '7',
    files: {"x": "<s>-0-1-2-3-4-5-6-7-8-9</s>"}
"""


@table(JUDGED, files={})
def test_cases_of_all_files_count_and_the_message_says_what_is_missing(row):
    def as_xml(text):
        text = re.sub(r"\+(\w)", r"<testcase name='\1'/>", text)
        return re.sub(r"-(\w)", r"<testcase name='\1'><error/></testcase>", text)

    assert judged({path: as_xml(text) for path, text in row.files.items()}).startswith(row.then)


NAMED = """
["a", "c"] -> 1 of 2, exit code 1; failed: 'c'
["m.T.a", "m.T.b"] -> 2 of 2, exit code 1
["n.T.c", "m.T.a"] -> 1 of 2, exit code 1; failed: 'n.T.c'
["a", "m.T.aa"] -> 1 of 2, exit code 1; no such test: 'm.T.aa' (did you mean 'm.T.a', 'm.T.b'?)
["T.a", "a", "z"] -> 1 of 3, exit code 1; no such test: 'T.a' (did you mean 'm.T.a'?), 'z'
["twice", "a"] -> 1 of 2, exit code 1; failed: 'twice'
["p.twice", "q.twice"] -> 1 of 2, exit code 1; failed: 'q.twice'
["x[1]", "x[2]"] -> 1 of 2, exit code 1; failed: 'x[2]'
["a b ?*"] -> 1 of 1, exit code 1
"""
NAMES = """<s><testcase classname='m.T' name='a'/><testcase classname='m.T' name='b'/>
<testcase classname='n.T' name='c'><failure/></testcase><testcase classname='p' name='twice'/>
<testcase classname='q' name='twice'><failure/></testcase><testcase name='x[1]'/>
<testcase name='x[2]'><skipped/></testcase><testcase name='a b ?*'/></s>"""


@table(NAMED)
def test_tests_by_name(row):
    assert judged({"1": NAMES}, tests=json.loads(row.when)) == row.then


# Cost

MEASURED = """
import re, sys, time
import DockerfileEvaluator as de

def memory(key):  # in MiB
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024

data = b"<s>%s</s>" % eval(sys.argv[1])
assert len(data) <= 16 * 1024 * 1024
open("/proc/self/clear_refs", "w").write("5")  # VmHWM starts anew
before, started = memory("VmRSS"), time.process_time()
earned, message = de.count_cases("x", (), de.Printed(b"", {"x": data}))
print(earned, memory("VmHWM") - before, time.process_time() - started)
"""
# Files of up to 16 MiB, as Python makes them, and how many cases of each pass
LARGE = r"""
300,000 that failed -> 0
    data: b''.join(b'<testcase name="%x"><error/></testcase>' % n for n in range(300_000))
much output -> 1
    data: b'<testcase name="a">' + b'y' * (2**24 - 100) + b'</testcase>'
references -> 1
    data: b'<testcase name="a">' + b'&#27;x ' * 2 * 10**6 + b'</testcase>'
zeros -> 1
    data: b'<testcase name="a">&#' + b'0' * 10**7 + b';</testcase>'
open elements -> 0
    data: b'<s>' * (2**24 // 3 - 9)
a long name -> 1
    data: b'<testcase name="' + b'>' * (2**24 - 100) + b'"/>'
"""


@pytest.mark.long("parses 16 MiB")
@table(LARGE, data="")
def test_large_file_costs_little_time_and_memory(row):
    words = [sys.executable, "-c", MEASURED, row.data]

    done = subprocess.run(words, cwd=str(PROJECT), stdout=subprocess.PIPE, check=True)

    earned, memory, seconds = map(float, done.stdout.split())
    assert (earned, memory < 100, seconds < 10) == (int(row.then), True, True), done.stdout
