"""The output of `zmon analyze` for flight records: the finding, then the collectives in which ranks wait."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from zmon.detectors.wording import ranks_text
from zmon.offline.analyze.collectives import FlightAnalysis

_MAX_ROWS = 64


def flight_report(analysis: FlightAnalysis) -> RenderableType:
    """Return the output for the dumps of one job."""
    parts: list[RenderableType] = [Text(line, style="bold") for line in _conclusions(analysis)]
    parts += [Text(f"({line})", style="dim") for line in analysis.notes]
    if analysis.findings:
        note = "this holds if the job stood still when its ranks wrote their records, as they do after a timeout"
        parts.append(Text(f"({note})", style="dim"))
    if analysis.pending:
        parts += [Text(""), _pending_table(analysis)]
    return Group(*parts)


def flight_document(analysis: FlightAnalysis) -> dict[str, object]:
    """Return what `--json` prints."""
    return {
        "schema": 1,
        "job_id": analysis.job_id,
        "caveats": list(analysis.notes),
        "world_size": analysis.world_size,
        "ranks": list(analysis.ranks),
        "missing": list(analysis.missing),
        "findings": list(analysis.findings),
        "pending": [
            {"rank": each.rank, "where": each.where or None, "collective": each.collective} for each in analysis.pending
        ],
    }


def _conclusions(analysis: FlightAnalysis) -> list[str]:
    if analysis.findings:
        return [f"{finding.cause}: {finding.summary}" for finding in analysis.findings]
    if analysis.conclusive:
        return ["no findings: no collective is in flight"]
    if analysis.missing:
        return [f"unknown: there is no usable record of {ranks_text(analysis.missing)}"]
    return ["unknown: every rank that others wait for waits itself; the network, or an operation without a count"]


def _pending_table(analysis: FlightAnalysis) -> RenderableType:
    table = Table(title=f"in flight on {len({each.rank for each in analysis.pending})} ranks", title_justify="left")
    for column in ("rank", "operation", "sequence", "group", "sizes", "state", "issued by"):
        table.add_column(column, justify="right" if column in ("rank", "sequence") else "left")
    for each in analysis.pending[:_MAX_ROWS]:
        c = each.collective
        sizes = " ".join(str(list(size)) for size in c.sizes)
        table.add_row(str(each.rank), c.op, str(c.sequence), c.group, sizes, c.state, each.where or "unknown")
    if len(analysis.pending) > _MAX_ROWS:
        table.caption = f"and {len(analysis.pending) - _MAX_ROWS} more"
    return table
