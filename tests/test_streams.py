"""Marks and needles in streams that come in pieces of any size."""

from __future__ import annotations

import re
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import DockerfileEvaluator as de

NONCE = "0123456789abcdef0123456789abcdef"
BEGIN, END = f"{NONCE}=B\n".encode(), f"{NONCE}=E 0\n".encode()


def feed(data: bytes, cuts: list[int], *needles: str, before: bytes = b"") -> de.Transcript:
    script = de.Script("", (), tuple(needle.encode() for needle in needles), before)
    transcript = de.Transcript(script, NONCE, 5.0)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in zip(edges, edges[1:]):
        transcript.feed(data[start:end], float(start))
    transcript.close(0.0)
    return transcript


cuts = st.lists(st.integers(0, 10_000), max_size=30)


@given(before=st.binary(max_size=80), body=st.binary(max_size=200), after=st.binary(max_size=80), cuts=cuts)
@example(before=NONCE[:-1].encode(), body=NONCE.encode(), after=NONCE.encode(), cuts=[])
@example(before=b"", body=f"{NONCE}=E".encode(), after=b"", cuts=list(range(100)))
@example(before=b"", body=f"{NONCE}=E 1234\n".encode(), after=b"", cuts=[40])
def test_only_what_stands_between_the_marks_is_output(before, body, after, cuts):
    transcript = feed(before + BEGIN + body + END + after, cuts)
    assert transcript.output() == body.decode(errors="replace")
    transcript.code = 0
    assert transcript.amiss == ""


@given(
    body=st.text(alphabet="abc\n", max_size=60),
    needle=st.text(alphabet="abc\n", min_size=1, max_size=4),
    cuts=cuts,
)
def test_a_needle_is_found_however_the_stream_is_cut(body, needle, cuts):
    transcript = feed(BEGIN + body.encode() + END, cuts, needle, "never")
    assert transcript.found() == (needle in body, False)


@pytest.mark.parametrize("cut", range(1, 7))
def test_a_needle_is_found_though_two_reads_cut_it_at_any_byte(cut):
    """The longest one, so that the overlap of the reads is not wider for the sake of another."""
    filler = b"x" * 200  # more than is held back as the beginning of a mark
    transcript = de.Transcript(de.Script("", (), (b"needle",)), NONCE, 5.0)
    transcript.feed(BEGIN + filler + b"needle"[:cut], 0.0)
    transcript.close(0.0)
    transcript.feed(b"needle"[cut:] + filler + END, 1.0)
    assert transcript.found() == (True,)


@pytest.mark.parametrize("cut", range(1, len(f"{NONCE}=E 255\n")))
def test_a_mark_is_found_though_two_reads_cut_it_at_any_byte(cut):
    """The longest one, of which not a byte is output."""
    end = f"{NONCE}=E 255\n".encode()
    transcript = feed(BEGIN + b"body" + end, [len(BEGIN + b"body") + cut])
    assert (transcript.statuses, transcript.output()) == ([255], "body")


def test_a_needle_may_begin_with_what_stands_before_the_output():
    assert feed(BEGIN + b"A=1\0B=2\0" + END, [], "\0A=", before=b"\0").found() == (True,)
    assert feed(BEGIN + b"A=1\0B=2\0" + END, [], "\0A=").found() == (False,)


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
        (BEGIN + END + f"{NONCE}=E 1\n".encode(), 1, "1 begin and 2 end marks instead of one each"),
        (BEGIN + END, None, "the end mark says exit code 0, docker says None"),
    ],
)
def test_marks_prove_or_say_what_is_amiss(data, code, amiss):
    transcript = feed(data, [])
    transcript.code = code
    assert transcript.amiss == amiss


def test_marks_satisfy_no_needle():
    transcript = feed(b"early" + BEGIN + b"body" + END + b"late", [], "=B", "=E 0", "early", "late", "body")
    assert transcript.found() == (False, False, False, False, True)


def test_time_limits_count_from_the_marks(monkeypatch):
    monkeypatch.setattr(de, "START_LIMIT", 60.0)
    monkeypatch.setattr(de, "END_LIMIT", 30.0)
    transcript = de.Transcript(de.Script(""), NONCE, timeout=5.0)
    assert [transcript.limit_over(now) for now in (60.0, 60.1)] == ["", "start"]
    transcript.feed(BEGIN, 50.0)
    assert [transcript.limit_over(now) for now in (55.0, 55.1, 61.0)] == ["", "check", "check"]
    transcript.feed(END, 53.0)
    assert [transcript.limit_over(now) for now in (83.0, 83.1)] == ["", "end"]
    transcript.close(99.0)
    assert transcript.seconds == 3.0


def test_a_clock_that_a_gap_set_back_gives_no_time_below_nothing():
    transcript = de.Transcript(de.Script(""), NONCE, timeout=5.0)
    transcript.feed(f"{NONCE}=B\n".encode(), 7.002)
    transcript.feed(f"{NONCE}=E 0\n".encode(), 7.001)
    transcript.close(9.0)
    assert transcript.seconds == 0.0


def test_a_needle_as_long_as_many_pieces_is_found():
    needle = "x" * 100_000 + "y"
    pieces = list(range(0, 100_000, 1000))
    assert feed(BEGIN + b"x" * 50 + needle.encode() + b"z" + END, pieces, needle).found() == (True,)


@pytest.mark.parametrize(("head", "tail"), [(10, 0), (0, 15), (0, 0)])
def test_what_is_not_kept_takes_no_memory(head, tail):
    excerpt = de.Excerpt(head, tail)
    tracemalloc.start()
    for _ in range(200):
        excerpt.feed(bytes(de.CHUNK))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * de.CHUNK


def test_long_output_keeps_its_head_and_tail_in_flat_memory(monkeypatch):
    monkeypatch.setattr(de, "KEPT_HEAD", 10)
    monkeypatch.setattr(de, "KEPT_TAIL", 15)
    transcript = de.Transcript(de.Script("", (), (b"at the very end",)), NONCE, 5.0)
    piece = bytes(de.CHUNK)
    tracemalloc.start()
    transcript.feed(BEGIN + b"the start|", 0.0)
    for _ in range(500):
        transcript.feed(piece, 0.0)
    transcript.feed(b"at the very end", 0.0)
    transcript.close(0.0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert transcript.output() == f"the start|\n[… {500 * de.CHUNK} bytes left out …]\nat the very end"
    assert transcript.found() == (True,)
    assert peak < 8 * de.CHUNK


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_short_output_is_kept_whole(pieces):
    excerpt = de.Excerpt(de.KEPT_HEAD, de.KEPT_TAIL)
    for piece in pieces:
        excerpt.feed(piece)
    assert excerpt.text() == b"".join(pieces).decode(errors="replace")


@given(text=st.text(alphabet="a#[\x01\x1b\u202e…"), limit=st.integers(1, 40))
def test_what_is_shown_fits_its_line_and_commands_nothing(text, limit):
    line = de.shown(text, limit)
    assert len(line) <= limit
    assert line.isprintable()
    assert not re.search(r"##\w*\[", line)
