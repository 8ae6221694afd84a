"""Tests of the card of `zmon watch`: the text of each row, what is unknown, and its size."""

from dataclasses import replace

import pytest

from tests.build import NOW, finding
from tests.cli.render.build import CRASH, DONE, JOB, UNSEEN, VIEW, with_job
from zmon.cli.render.card import MAX_LINES, WIDTH, card_lines, finding_lines
from zmon.cli.render.time_advice import Advice

SLOW = finding(
    id="f2", detector="straggler", cause="slow_rank", severity="warning", resolved=NOW + 60, onset=NOW, evidence={}
)
# A hang that lasts until the end of the command.
HUNG = finding(step=401, cause="compute_hang", summary="rank 2 hung", detail="Look at its stack.", resolved=NOW + 60)
FROZEN = finding(detail="On node-a: `kill -CONT 1002`.", resolved=NOW + 60)
SILENT = finding(
    severity="warning", cause="compute_hang", summary="no step for 3 s",
    evidence={"silence": {"seconds": 3.0, "critical_seconds": 20, "places": [], "reason": "", "healed_seconds": None}},
)  # fmt: skip
ROWS = {  # card → text that it has, text that it has not
    "job": (DONE, ["zmon watch: job-1 ─"], []),
    "clean end": (DONE, ["ended     exit code 0 after 1 min 44 s."], ["stall", "healthy"]),
    "speed": (DONE, ["400, 81.2 ms (p50), 95 ms (p95) each; 3,204 samples/s (inferred from the DataLoader)"], []),
    "ranks that are not compared": (
        with_job(view=replace(VIEW, uncompared="no collectives: ranks are not compared")),
        ["; no collectives: ranks are not compared"], []
    ),
    "samples unknown": (
        with_job(view=replace(VIEW, samples_per_second=None)), ["steps     400, 81.2 ms"], ["samples/s"]
    ),
    "where the time went": (DONE, ["█ forward 60%  ▓ data 30%  ▒ all_reduce 10%"], []),
    "time unknown": (
        with_job(view=replace(VIEW, time={})), ["time      where it went is unknown"], ["cost most", "next"]
    ),
    "two that cost most": (
        DONE, ["cost most forward 1 min (60%)", "data 30 s (30%): the training loop waits"], ["9.5 s"]
    ),
    "a step that the end cut off": (
        with_job(view=replace(VIEW, time={"restart": 30.0})),
        ["restart 30 s (100%): steps that an end cut off", "next      Find the cause of the end first"], ["restarts"],
    ),
    "advice": (with_job(view=replace(VIEW, time={"data": 30.0})), ["next      Give the DataLoader more workers"], []),
    "fault": (
        replace(with_job(findings=(CRASH,)), ending="exit code 1"),
        ["ended     exit code 1 after 1 min 44 s: rank 1 raised ValueError.", "next      Read its log."], ["findings"],
    ),
    "failure after the training": (
        replace(DONE, ending="exit code 1", failed=True),
        ["exit code 1 after 1 min 44 s: the training had finished; zmon does not know why the",
         "next      Read the end of the command's output."], ["profiler"],
    ),
    "failure without a finding": (
        replace(with_job(view=replace(VIEW, state="train")), ending="exit code 1", failed=True),
        ["exit code 1 after 1 min 44 s: zmon does not know why the command failed."], ["had finished"],
    ),
    "ranks that a person ended": (
        replace(with_job(view=replace(VIEW, state="exited"), cancelled="its owner ended all 2 ranks (SIGINT)"),
                ending="exit code 1", failed=True),
        ["exit code 1 after 1 min 44 s: its owner ended all 2 ranks (SIGINT)."], ["does not know", "output"],
    ),
    "finding that is over": (
        with_job(findings=(SLOW,)), ["warning slow_rank, rank 2 on node-a (over after 1 min)"], []
    ),
    "signal": (
        replace(DONE, ending="signal SIGTERM", signals=("SIGTERM by process 8 (timeout)",)),
        ["signal SIGTERM after 1 min 44 s, sent SIGTERM by process 8 (timeout)."], [],
    ),
    "stall that a signal ended": (
        with_job(findings=(HUNG,), signalled=NOW + 30),
        ["after 1 min 44 s: rank 2 hung.", "next      Look at its stack."], ["over"],
    ),
    "frozen rank that has ended": (with_job(findings=(FROZEN,)), ["next      The process has ended"], ["kill -CONT"]),
    "frozen rank that lives on": (
        with_job(findings=(FROZEN,), num_living=1), ["next      On node-a: `kill -CONT 1002`."], ["has ended"]
    ),
    "stall that was over before the signal": (
        with_job(findings=(replace(HUNG, resolved=NOW + 20),), signalled=NOW + 30),
        ["(over after 22 s)"], ["rank 2 hung"],
    ),
    "stall after the signal": (
        with_job(findings=(HUNG,), signalled=NOW - 30), ["(over after 1 min 2 s)"], ["rank 2 hung"]
    ),
    "steps after the stall": (
        with_job(findings=(HUNG,), signalled=NOW + 30, steps=401), ["(over after 1 min 2 s)"], ["rank 2 hung"]
    ),
    "silence before a rank that finishes": (
        with_job(findings=(SILENT,), finished=True), ["exit code 0 after 1 min 44 s.", "warning compute_hang"], []
    ),
    "silence before a rank that does not say that it is done": (
        with_job(findings=(SILENT,)), ["after 1 min 44 s: no step for 3 s."], ["findings"]
    ),
    "fault of a rank that says that it is done": (
        with_job(findings=(CRASH,), finished=True), ["after 1 min 44 s: rank 1 raised ValueError."], ["findings"]
    ),
    "exit code of --fail-on": (replace(DONE, failure="1: slow_rank opened"), ["exit code 1: slow_rank opened"], []),
    "ranks that live on": (with_job(num_living=2), ["2 ranks of it still live"], []),
    "no step": (with_job(steps=0), ["steps     none finished; if it trained", "call `zmon.step()`"], ["p50", "next"]),
    "no step of a job that was stopped": (
        with_job(steps=0, view=replace(VIEW, state="exited")), ["steps     none finished\n"], ["zmon.step()"]
    ),
    "no step, and ranks unseen": (
        replace(DONE, jobs=(replace(UNSEEN, steps=0),)), ["next      Look at the cards of the other nodes."], []
    ),
    "some ranks unseen": (
        replace(DONE, jobs=(UNSEEN,)), ["1 of 2 ranks, this node only on node-a", "step time unknown"], ["healthy"]
    ),
    "steps of one rank": (with_job(of_rank=3), ["of the steps of rank 3"], []),
    "another Python": (with_job(edges=("python",)), ["the Python edge of the probe"], []),
    "nothing seen": (
        replace(DONE, jobs=(), unwatched=Advice("no torch", "Import it."), folder=""),
        ["zmon watch: python train.py", "watched   nothing: no torch", "next      Import it."],
        ["steps", "healthy", "folder"],
    ),
    "folder": (DONE, ["folder    zmon-job-1/ has report.html"], []),
    "what zmon could not do": (replace(DONE, errors=("cannot write x: full",)), ["zmon      cannot write x: full"], []),
    "sweep": (
        replace(DONE, jobs=tuple(replace(JOB, view=replace(VIEW, job_id=f"job-{i}"), steps=i) for i in range(7))),
        ["zmon watch: job-6", "also ran  job-0: 0 steps", "and 2 more"], [],
    ),
    "script that tried its model, and the ranks that it started then": (
        replace(DONE, jobs=(
            replace(JOB, view=replace(VIEW, job_id="tried"), steps=900, superseded=True), replace(JOB, steps=400))),
        ["zmon watch: job-1", "also ran  tried: 900 steps"], [],
    ),
    "script that tried its model, and whose ranks failed": (
        replace(DONE, jobs=(
            replace(JOB, findings=(CRASH,)), replace(JOB, view=replace(VIEW, job_id="tried"), superseded=True))),
        ["zmon watch: job-1", "rank 1 raised ValueError"], [],
    ),
    "control characters": (replace(DONE, jobs=(), command="python \x1b[31m"), ["\\x1b[31m"], ["\x1b"]),
}  # fmt: skip


@pytest.mark.parametrize(("card", "has", "has_not"), ROWS.values(), ids=ROWS)
def test_card_has_these_texts_and_its_size(card, has, has_not):
    lines = card_lines(card)
    text = "\n".join(lines)
    assert [part for part in has if part not in text] == [], text
    assert [part for part in has_not if part in text] == [], text
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= WIDTH


def test_card_with_too_much_to_say_has_its_size():
    long = finding(summary="rank 2 " + "is frozen " * 200, detail="Look at " + "it " * 300)
    many = tuple(replace(SLOW, id=f"f{number}") for number in range(9))
    card = replace(with_job(findings=(long, *many)), signals=("SIGTERM by process 8 (timeout)",) * 9, errors=("x",) * 3)
    lines = card_lines(card)
    assert MAX_LINES - 3 < len(lines) <= MAX_LINES  # the texts fill the card
    assert max(map(len, lines)) <= WIDTH
    assert any(line.startswith("next") for line in lines)


def test_bar_has_the_width_of_the_card_and_the_shares_of_the_categories():
    bar = next(line for line in card_lines(DONE) if line.startswith("time"))
    assert (len(bar), bar.count("█"), bar.count("▓"), bar.count("▒")) == (WIDTH, 54, 27, 9)


def test_block_of_a_finding_says_who_what_and_what_next():
    lines = finding_lines(CRASH, "1 of 2 ranks, this node only", "job-1")
    assert lines[0].startswith("zmon: CRITICAL rank_exited, rank 1 on node-a, since ")
    assert lines[1:] == [
        "job       job-1",
        "what      rank 1 raised ValueError.",
        "next      Read its log.",
        "seen      1 of 2 ranks, this node only",
    ]
    assert finding_lines(CRASH) == [lines[0], *lines[2:4]]
