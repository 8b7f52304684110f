"""Numbers that no image can know: drawn when the rubric is read, in command and strings, and in the report."""

from __future__ import annotations

import json
import re

import pytest
from cases import TRUE, output_contains, run_command

import DockerfileEvaluator as de

RANGE = [1000, 9999]
AB = {"a": RANGE, "b": RANGE}


def asked(command, *contains, draw=AB, **more):
    """Return a test with a draw."""
    test = output_contains(command, *contains) if contains else run_command(command)
    return {**test, "params": {**test["params"], **({} if draw is None else {"draw": draw})}, **more}


@pytest.fixture
def read(tmp_path):
    """Read a rubric of one test; return its check."""

    def load(test):
        file = tmp_path / "r.json"
        file.write_text(json.dumps({"repo": "r", "tests": [test]}))
        return de.load_rubric(str(file)).tests[0].check

    return load


@pytest.fixture
def faults(read):
    """Read a rubric that is refused; return its faults, without the place of the draw's test."""

    def load(test):
        with pytest.raises(de.RubricError) as caught:
            read(test)
        return [re.sub(r"^.*?tests\[0\]\.params\.", "", line) for line in str(caught.value).splitlines()]

    return load


# Grammar


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("{a} {b}", "7 -3"),
        ("{a+b} {b-a} {a*b} {a-a}", "4 -10 -21 0"),
        ("{a+1} {a-10} {a*0} {a*007}", "8 -3 0 49"),
        ("x{a}y{a}{b}", "x7y7-3"),
        ("{a}}", "7}"),
        ("{ {a}; }", "{ 7; }"),
        ("awk '{print {a}}'", "awk '{print 7}'"),
        ("awk '{print $1}' ${HOME} {} {A} {ab} {a_b} {x,y} {x+y} $a a a} {", None),
        ("{\n}é€\\{x}", None),
        ("{ run a; echo {a}; } | cat", "{ run a; echo 7; } | cat"),
        ('[{"a": {a}}, {"b": [{b}]}]', '[{"a": 7}, {"b": [-3]}]'),
    ],
)
def test_what_a_brace_stands_for(text, filled):
    draw = de.Draw({"a": (7, 7), "b": (-3, -3)})
    assert draw.filled(text) == (text if filled is None else filled)
    assert list(draw.faults(text)) == []


@pytest.mark.parametrize(
    ("text", "brace"),
    [
        ("echo ${a}", "${a}"),
        ("echo {{a}}", "{{a}"),
        ("echo { a }", "{ a }"),
        ("echo {a + b}", "{a + b}"),
        ("echo {a/b}", "{a/b}"),
        ("echo {a+b+a}", "{a+b+a}"),
        ("echo {a+c}", "{a+c}"),
        ("echo {c+a}", "{c+a}"),
        ("echo {2*a}", "{2*a}"),
        ("echo {-a}", "{-a}"),
        ("echo {a,b}", "{a,b}"),
        ("echo {a", "{a"),
        ("echo {a+{b}}", "{a+"),
        ("awk '{print a}'", "{print a}"),
        ("echo {a*1234567890123}", "{a*1234567890123}"),
    ],
)
def test_a_brace_that_holds_a_drawn_name_in_another_form(faults, text, brace):
    words = f"{brace}' holds the drawn name '{re.search('[ab]', brace)[0]}', but is not {{NAME}} or {{NAME+NAME}} (or"
    found = faults(asked(f"x {{a}} {{b}} {text}"))
    assert len(found) == 1
    assert found[0].startswith("command: '")
    assert words in found[0]
    (fault,) = faults(asked("x {a} {b}", "fine", text))
    assert fault.startswith("contains[1]: '")
    assert words in fault


@pytest.mark.parametrize(
    ("draw", "fault"),
    [
        ([], "draw: expected an object of names, each with [from, to], found an empty list"),
        ({}, "draw: expected at least 1000000 combinations, found 1, "),
        ({"a": [1, 999], "b": [0, 1000]}, "draw: expected at least 1000000 combinations, found 999999, "),
        ({**AB, "a": [5, 3]}, "draw.a: from 5 is over to 3"),
        ({**AB, "a": [1, 2, 3]}, "draw.a: expected [from, to], two whole numbers from -10^12 to 10^12"),
        ({**AB, "a": [1, 2.5]}, "draw.a: expected [from, to], two whole numbers"),
        ({**AB, "a": [False, 9]}, "draw.a: expected [from, to], two whole numbers"),
        ({**AB, "a": [0, 10**12 + 1]}, "draw.a: expected [from, to], two whole numbers"),
        ({**AB, "a b": RANGE}, "draw: 'a b' is no name: expected a letter, then letters and digits"),
        ({**AB, "c": RANGE}, "draw: 'command' does not use 'c', so no image could know the number"),
        ({**AB, **{f"c{at}": RANGE for at in range(15)}}, "draw: expected at most 16 names, found 17"),
    ],
)
def test_faults_of_a_draw(faults, draw, fault):
    (found,) = faults(asked("x {a} {b}", draw=draw))
    assert found.startswith(fault)


def test_a_name_given_twice_is_a_fault(tmp_path):
    file = tmp_path / "r.json"
    test = json.dumps(asked("x {a} {b}")).replace('"a": [', '"a": [1, 2], "a": [')
    file.write_text(f'{{"tests": [{test}]}}')
    with pytest.raises(de.RubricError, match=r"params\.draw: key 'a' is given twice"):
        de.load_rubric(str(file))


def test_every_fault_is_named_in_one_go(faults):
    broken = asked("x {a} ${b}", "{a / b}", draw={"a": [5, 3], "b": RANGE})
    assert [fault.split(":")[0] for fault in faults(broken)] == ["draw.a", "command", "contains[0]"]


def test_only_commands_have_a_draw(faults):
    (fault,) = faults({"type": "files_exist", "params": {"paths": ["{a}"], "draw": {"a": [0, 10**6]}}})
    assert "unknown key 'draw'" in fault


LIMIT = de.ARGUMENT_LIMIT


@pytest.mark.parametrize(("room", "is_fault"), [(8, False), (7, True)])
def test_the_longest_draw_must_fit(read, faults, room, is_fault):
    test = asked("{a}" + "x" * (LIMIT - room), draw={"a": [0, 10**7]})  # 10000000 has eight digits
    if is_fault:
        assert faults(test) == ["command: longer than 131071 bytes"]
    else:
        assert read(test)


@pytest.mark.long("reads megabytes")
def test_the_longest_draw_of_all_strings_must_fit(faults):
    test = asked("{a}", *["{a}" * 40_000] * 3, draw={"a": [0, 10**12]})
    assert faults(test)[-1] == "contains: longer than 1048576 bytes in total"


@pytest.mark.parametrize(
    ("text", "shortest", "longest"),
    [
        ("{a}", 1, 3),
        ("{b}", 2, 2),
        ("{a-b}", 1, 4),
        ("{a*b}", 1, 5),
        ("{b*b}", 3, 4),
        ("{b-99}", 1, 3),
        ("= {a}{b}", 5, 7),
        ("{c}", 3, 3),
    ],
)
def test_the_shortest_and_the_longest_that_a_text_can_be(text, shortest, longest):
    draw = de.Draw({"a": (-20, 150), "b": (10, 99)})
    assert (len(draw.shortest(text)), len(draw.longest(text))) == (shortest, longest)


# What is asked, and what is told


def test_both_ends_can_be_drawn(read):
    drawn = {de.Draw({"a": (-1, 1)}).numbers["a"] for _ in range(200)}
    assert drawn == {-1, 0, 1}


def test_numbers_differ_from_reading_to_reading(read):
    test = asked("x {a}", draw={"a": [0, 10**12]})
    assert len({read(test).command for _ in range(5)}) == 5


def test_a_check_holds_the_numbers_from_the_start(read):
    check = read(asked("matrix multiply {a} {b} {x}", "= {a*b}"))
    a, b = check.draw.numbers["a"], check.draw.numbers["b"]
    assert check.script().arguments[0] == f"matrix multiply {a} {b} {{x}}"
    assert check.script().needles == (f"= {a * b}".encode(),)
    assert check.script() == check.script()


def test_a_rubric_without_a_draw_keeps_every_brace(read):
    check = read(asked("echo {a} ${a} {{a}} {a+b}", "{a}", "${b}", draw=None))
    assert check.script().arguments[0] == "echo {a} ${a} {{a}} {a+b}"
    assert check.script().needles == (b"{a}", b"${b}")


def test_the_row_tells_what_was_drawn_and_what_was_asked(fake, evaluate):
    right = asked("echo = $(({a} * {b}))", "= {a*b}\n", id="right")
    wrong = asked("echo {a} {b}", "= {a*b}", id="wrong")
    report = evaluate(["FROM x"], right, wrong, asked("x {a} {b}", id="skipped", requires=["wrong"]), TRUE)
    rows = {row["test_id"]: row for row in report["test_results"]}
    a, b = rows["right"]["drawn"]["a"], rows["right"]["drawn"]["b"]
    assert (rows["right"]["status"], rows["right"]["message"]) == ("passed", f"output holds '= {a * b}\\n'")
    a, b = rows["wrong"]["drawn"]["a"], rows["wrong"]["drawn"]["b"]
    assert (rows["wrong"]["status"], rows["wrong"]["message"]) == (
        "failed",
        f"output holds none of '= {a * b}'",
    )
    assert rows["wrong"]["output"] == f"{a} {b}\n"
    assert rows["wrong"]["params"] == wrong["params"]
    assert (rows["skipped"]["drawn"], rows["run_command_4"]["drawn"]) == (None, None)


def test_a_test_that_did_not_run_was_asked_nothing(fake, evaluate, short_limits):
    fake.fault("build", "fail")
    report = evaluate(["FROM x"], asked("x {a} {b}"))
    (row,) = report["test_results"]
    assert (row["status"], row["drawn"]) == ("not_run", None)


def test_verbose_shows_the_command_that_was_run(fake, arguments, capsys):
    assert de.main(arguments(["FROM x"], asked("echo {a}{b}"), more=("--verbose",))) == 0
    out = capsys.readouterr().out
    ((command, printed),) = re.findall(r"\$ echo (\d{8})\n.*?(\d{8})\n", out)
    assert command == printed
