"""The page of an incident: one HTML file that needs no network and no script. Pure.

Jinja2 escapes all text, so messages of a job cannot become markup. Only the plots are not escaped; they are made of
numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zmon.format import duration
from zmon.hub.incidents import plots, words
from zmon.hub.incidents.moments import culprit_names
from zmon.schema.incident import Capsule, IncidentRank, PlottedStep

if TYPE_CHECKING:
    from jinja2 import Template

_FOLDER = Path(__file__).parent
MAX_ROWS = 64  # rows of a table; capsule.json has all of them
MAX_NICS = 12  # interfaces of a host; a Kubernetes node has one for each pod
CSP = "default-src 'none'; style-src 'unsafe-inline'"


@cache
def template(folder: Path, name: str) -> Template:
    """Return a template of this or another folder, which may include those of this folder."""
    import jinja2  # takes 0.1 s, which only a hub with an incident spends

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, _FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(plain=words.plain, duration=duration, since=words.since, amount=words.amount)
    env.filters.update(moment=words.moment, clock=words.clock, state=words.state, pending=words.pending)
    return env.get_template(name)


def report(capsule: Capsule, steps: Sequence[PlottedStep]) -> str:
    """Return the page of an incident as HTML. `steps`: the last steps, which its plots show."""
    from markupsafe import Markup

    finding = capsule.finding
    rows = most_important(capsule.ranks)
    plotted_ranks = most_important([row for row in capsule.ranks if row.rank in capsule.stepped])
    in_flight = finding.evidence.in_flight or {}
    context: dict[str, Any] = {
        "capsule": capsule,
        "finding": finding,
        "who": culprit_names(finding),
        "csp": CSP,
        "rows": rows,
        "num_steps": max((row.num_steps for row in capsule.ranks), default=0),
        "max_nics": MAX_NICS,
        **plotted(steps, [row.rank for row in plotted_ranks], finding.ranks),
        "timeline": Markup(plots.timeline(capsule.timeline, finding.onset)),
        "stacks": finding.evidence.stacks or {},
        "stderr": finding.evidence.stderr_tail or {},
        "in_flight": {row.rank: in_flight.get(str(row.rank)) for row in rows},
    }
    return template(_FOLDER, "report.html.j2").render(context)


def plotted(steps: Sequence[PlottedStep], ranks: Sequence[int], culprits: Collection[int] = ()) -> dict[str, Any]:
    """Return what `steps.html.j2` needs to show the last steps of these ranks."""
    from markupsafe import Markup

    heat, strip = plots.self_time_plot(steps, ranks), plots.step_time_plot(steps, [*culprits])
    return {
        "plotted_ranks": [{"rank": rank, "culprit": rank in culprits} for rank in ranks],
        "culprits": culprits,
        "heat": heat and Markup(heat.svg),
        "heat_median": heat and heat.median_seconds,
        "levels": plots.LEVELS,
        "row_pixels": plots.ROW_PIXELS,
        "strip": strip and Markup(strip.svg),
        "strip_top": strip and strip.top_seconds,
        "strip_longest": strip and strip.longest_seconds,
        "first_step": min((step.step for step in steps), default=None),
        "last_step": max((step.step for step in steps), default=None),
    }


def most_important(rows: Sequence[IncidentRank]) -> list[IncidentRank]:
    """Return the ranks to show: the culprits first, then ranks on their hosts, then by number; 64 at most."""
    hosts = {row.host for row in rows if row.culprit}
    return sorted(rows, key=lambda row: (not row.culprit, row.host not in hosts, row.rank))[:MAX_ROWS]
