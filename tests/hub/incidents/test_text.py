"""An incident at the terminal."""

import io

from rich.console import Console

from tests.build import finding, rank_state, snapshot
from tests.hub.incidents.build import EVIDENCE, made
from zmon.cli.render import incident
from zmon.hub.incidents.words import amount, plain, seconds, since


def shown(renderable, width=80):
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=False).print(renderable)
    return out.getvalue()


def test_incident_tells_who_when_what_it_hangs_in_and_where_the_rest_is():
    told = shown(incident.incident(made()[0], "/data/incidents/f1/report.html"))
    for part in ("CRITICAL rank_frozen: rank 2 on node-a", "kill -CONT", "+0.0 s  first sign",
                 "▶  2     node-a  stopped", "all_to_all #301", "guilty_line", "last line",
                 "full report: /data/incidents/f1/report.html"):  # fmt: skip
        assert part in told


def test_incident_fits_a_terminal_of_80_columns():
    assert max(map(len, shown(incident.incident(made()[0], "x")).splitlines())) <= 80


def test_what_a_job_said_cannot_colour_the_screen_or_pass_for_markup():
    evil = "\x1b]0;title\x07\x1b[2J[bold red]gone[/]\x07\u202e"
    said = {"2": {"text": evil, "error": None, "path": evil, "shared": True}}
    evidence = {**EVIDENCE, "stderr_tail": said, "stacks": {"2": {"stack": evil}}}
    about = finding(evidence=evidence, summary=evil, detail=evil, job_id=evil, hosts=(evil,))
    told = shown(incident.incident(made(about, left_out=(evil,))[0], "x"))
    assert "[bold red]gone[/]" in told
    assert not {"\x1b", "\x07", "\u202e"} & set(told)


def test_only_the_end_of_stderr_and_not_every_rank_of_a_large_job():
    said = {"2": {"text": "\n".join(map(str, range(100))), "error": None, "path": None, "shared": False}}
    of = snapshot(*(rank_state(rank, world_size=100) for rank in range(100)))
    told = shown(incident.incident(made(finding(evidence={"stderr_tail": said}), of)[0], "x"))
    assert "… 80 more lines\n80\n" in told
    assert "and 84 more in capsule.json" in told


def test_empty_lists_say_so():
    assert "no incident" in shown(incident.incidents([]))
    assert "no incident" in shown(incident.offenders([]))


def test_numbers_read_like_a_persons():
    times = [seconds(v) for v in (None, 0.0135, 1.234, 130.0, 9000.0)]
    assert times == ["unknown", "13.5 ms", "1.23 s", "2 min", "2.5 h"]
    assert [since(v) for v in (-0.01, -5.0, 0.52, 600.0)] == ["+0.0 s", "−5.0 s", "+0.5 s", "+10 min"]
    assert [amount(v) for v in (None, 10, 1.5e9)] == ["unknown", "10 B", "1.5 GB"]


def test_line_that_was_overwritten_shows_what_was_left():
    assert plain("0%\r50%\r100%\r\ndone") == "100%\ndone"
