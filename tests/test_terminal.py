"""What a person reads at the terminal: the worst first, unknown as unknown."""

from io import StringIO

from rich.console import Console

from tests.build import finding
from tests.metrics.scene import JOB_VIEW
from zmon.records import JobView
from zmon.terminal import number, status_table

UNKNOWN = JobView("fresh", 0, 4, 1, "init", None, None, None, None, {}, {}, ("node-a",), {}, ())


def shown(*arguments):
    """As text, on a wide terminal."""
    out = StringIO()
    Console(file=out, width=200).print(status_table(*arguments))
    return out.getvalue()


def test_job_is_a_row_with_its_numbers():
    text = shown([JOB_VIEW], [], False)
    for part in ("job", "train", "3/4", "100", "20.0 ms", "1,600", "loss NaN", "no findings"):
        assert part in text


def test_what_is_unknown_says_unknown():
    text = shown([UNKNOWN], [], False)
    assert text.count("unknown") == 3
    assert "1/4" in text


def test_findings_are_listed_worst_first_with_what_to_do():
    warning = finding(id="f2", severity="warning", cause="ranks_missing", summary="two are missing")
    text = shown([JOB_VIEW], [warning, finding()], False)
    assert text.index("CRITICAL rank_frozen: rank 2 on node-a froze") < text.index("WARNING ranks_missing")
    assert "kill -CONT" in text
    assert "docs/runbooks.md#rank_frozen" in text
    assert "no findings" not in text


def test_blind_hub_is_said_first_and_is_not_no_findings():
    text = shown([JOB_VIEW], [], True)
    assert text.startswith("BLIND")
    assert "no findings" not in text


def test_nothing_to_show_says_what_to_do():
    assert "zmon demo" in shown([], [], False)


def test_text_from_a_job_is_not_taken_for_markup():
    text = shown([JOB_VIEW], [finding(summary="[red]rank[/red] 2 [/]")], False)
    assert "[red]rank[/red] 2 [/]" in text


def test_number_that_json_cannot_say_is_nan():
    assert number(None) == "NaN"
    assert number(0.6931471) == "0.6931"
