"""The output of `zmon analyze` for flight records: findings, and the collectives in which ranks wait."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.cli.render import number_columns
from zmon.cli.render.analysis import summary_lines
from zmon.detectors.wording import ranks_text
from zmon.offline.analyze.collectives import FlightAnalysis

_MAX_ROWS = 64  # collectives in flight


def flight_report(analysis: FlightAnalysis) -> RenderableType:
    """Return the output for the dumps of one job."""
    notes = [*analysis.notes]
    if analysis.findings:
        notes.append("this holds if the job stood still when its ranks wrote their records, as they do after a timeout")
    parts = summary_lines(_conclusions(analysis), notes)
    if analysis.pending:
        parts += [Text(""), _pending_table(analysis)]
    return Group(*parts)


def flight_document(analysis: FlightAnalysis) -> dict[str, object]:
    """Return the document that `--json` prints for flight records."""
    return {
        "schema": 1,
        "job_id": analysis.job_id,
        "caveats": list(analysis.notes),
        "world_size": analysis.world_size,
        "ranks": list(analysis.ranks),
        "missing": list(analysis.missing),
        "findings": list(analysis.findings),
        "pending": [
            {"rank": pending.rank, "where": pending.where or None, "collective": pending.collective}
            for pending in analysis.pending
        ],
    }


def _conclusions(analysis: FlightAnalysis) -> list[str]:
    """Return a line for each finding, or one line that says why there is none."""
    if analysis.findings:
        return [f"{finding.cause}: {finding.summary}" for finding in analysis.findings]
    if analysis.conclusive:
        return ["no findings: no collective is in flight"]
    if analysis.missing:
        return [f"unknown: there is no usable record of {ranks_text(analysis.missing)}"]
    return [
        "unknown: each rank that others wait for waits itself; look at the network, and at operations without a number"
    ]


def _pending_table(analysis: FlightAnalysis) -> RenderableType:
    rank, sequence = number_columns("rank", "sequence")
    title = f"in flight on {len({pending.rank for pending in analysis.pending})} ranks"
    table = Table(
        rank, "operation", sequence, "group", "sizes", "state", "issued by", title=title, title_justify="left"
    )
    for pending in analysis.pending[:_MAX_ROWS]:
        collective = pending.collective
        sizes = " ".join(str(list(size)) for size in collective.sizes)
        cells = (str(pending.rank), collective.op, str(collective.sequence), collective.group, sizes, collective.state)
        table.add_row(*cells, pending.where or "unknown")
    if len(analysis.pending) > _MAX_ROWS:
        table.caption = f"and {len(analysis.pending) - _MAX_ROWS} more"
    return table
