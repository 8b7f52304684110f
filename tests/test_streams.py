"""Marks and needles in streams that come in pieces of any size."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import DockerfileEvaluator as de

NONCE = b"0123456789abcdef0123456789abcdef"
BEGIN, END = NONCE + b"=B\n", NONCE + b"=E 0\n"


def feed(data: bytes, cuts: list[int], *needles: str) -> tuple[de.Marks, de.Output]:
    output = de.Output([de.Needle.literal(needle) for needle in needles])
    marks = de.Marks(NONCE, output)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in zip(edges, edges[1:]):
        marks.feed(data[start:end])
    marks.close()
    return marks, output


cuts = st.lists(st.integers(0, 10_000), max_size=30)


@given(before=st.binary(max_size=80), body=st.binary(max_size=200), after=st.binary(max_size=80), cuts=cuts)
@example(before=NONCE[:-1], body=NONCE, after=NONCE, cuts=[])
@example(before=b"", body=NONCE + b"=E", after=b"", cuts=list(range(100)))
@example(before=b"", body=NONCE + b"=E 1234\n", after=b"", cuts=[40])
def test_only_what_stands_between_the_marks_is_output(before, body, after, cuts):
    marks, output = feed(before + BEGIN + body + END + after, cuts)
    assert output.text() == body.decode(errors="replace")
    assert marks.proof(0) == ""


@given(
    body=st.text(alphabet="abc\n", max_size=60),
    needle=st.text(alphabet="abc\n", min_size=1, max_size=4),
    cuts=cuts,
)
def test_a_needle_is_found_however_the_stream_is_cut(body, needle, cuts):
    _, output = feed(BEGIN + body.encode() + END, cuts, needle, "never")
    assert output.found == (needle in body, False)


@pytest.mark.parametrize(
    ("data", "code", "amiss"),
    [
        (BEGIN + b"x" + END, 0, ""),
        (BEGIN + b"x" + END, 1, "the end mark says exit code 0, docker says 1"),
        (BEGIN + b"x", 0, "1 begin and 0 end marks instead of one each"),
        (END, 0, "0 begin and 1 end marks instead of one each"),
        (b"", 0, "0 begin and 0 end marks instead of one each"),
        (BEGIN + BEGIN + END, 0, "2 begin and 1 end marks instead of one each"),
        (BEGIN + END + END, 0, "1 begin and 2 end marks instead of one each"),
        (BEGIN + END + NONCE + b"=E 1\n", 1, "1 begin and 2 end marks instead of one each"),
        (BEGIN + END, None, "the end mark says exit code 0, docker says None"),
    ],
)
def test_marks_prove_or_say_what_is_amiss(data, code, amiss):
    marks, _ = feed(data, [])
    assert marks.proof(code) == amiss


def test_marks_satisfy_no_needle():
    _, output = feed(b"early" + BEGIN + b"body" + END + b"late", [], "=B", "=E 0", "early", "late", "body")
    assert output.found == (False, False, False, False, True)


def test_a_needle_as_long_as_many_pieces_is_found():
    needle = "x" * 100_000 + "y"
    _, output = feed(BEGIN + b"x" * 50 + needle.encode() + b"z" + END, list(range(0, 100_000, 1000)), needle)
    assert output.found == (True,)


@pytest.mark.parametrize(("head", "tail"), [(10, 0), (0, 15), (0, 0)])
def test_what_is_not_kept_takes_no_memory(head, tail):
    output = de.Output((), head, tail)
    tracemalloc.start()
    for _ in range(200):
        output.feed(bytes(de.CHUNK))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * de.CHUNK


def test_long_output_keeps_its_head_and_tail_in_flat_memory():
    output = de.Output([de.Needle.literal("at the very end")], head=10, tail=15)
    piece = bytes(de.CHUNK)
    tracemalloc.start()
    output.feed(b"the start|")
    for _ in range(500):
        output.feed(piece)
    output.feed(b"at the very end")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert output.text() == f"the start|\n[… {500 * de.CHUNK} bytes left out …]\nat the very end"
    assert output.found == (True,)
    assert peak < 8 * de.CHUNK


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_short_output_is_kept_whole(pieces):
    output = de.Output()
    for piece in pieces:
        output.feed(piece)
    assert output.text() == b"".join(pieces).decode(errors="replace")
