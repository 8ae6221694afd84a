"""An incident as a page for people: one file that needs no network and no script. Pure.

Jinja2 escapes whatever it is handed, so nothing that a job said can become part of the page; the plots, which hold
numbers only, are the one exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zmon.hub.incidents import plots, words
from zmon.hub.incidents.moments import named
from zmon.schema.incident import Capsule, IncidentRank, PlottedStep

if TYPE_CHECKING:
    from jinja2 import Template

MAX_ROWS = 64  # of a table: a page is for people, capsule.json has them all
MAX_NICS = 12  # of a host: a node of Kubernetes has one for each pod
CSP = "default-src 'none'; style-src 'unsafe-inline'"


@cache
def _template() -> Template:
    import jinja2  # 0.1 s that only a hub with an incident spends

    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters.update(plain=words.plain, seconds=words.seconds, since=words.since, amount=words.amount)
    env.filters.update(moment=words.moment, clock=words.clock, state=words.state, pending=words.pending)
    return env.get_template("report.html.j2")


def report(capsule: Capsule, steps: Sequence[PlottedStep]) -> str:
    """The page."""
    from markupsafe import Markup

    finding = capsule.finding
    rows = dearest(capsule.ranks)
    drawn = dearest([row for row in capsule.ranks if row.rank in capsule.stepped])
    heat = plots.heat(steps, [row.rank for row in drawn])
    strip = plots.strip(steps, finding.ranks)
    in_flight = finding.evidence.in_flight or {}
    context: dict[str, Any] = {
        "c": capsule,
        "f": finding,
        "who": named(finding),
        "csp": CSP,
        "rows": rows,
        "drawn": drawn,
        "num_steps": max((row.num_steps for row in capsule.ranks), default=0),
        "heat": heat and Markup(heat[0]),
        "heat_median": heat and heat[1],
        "levels": plots.LEVELS,
        "max_nics": MAX_NICS,
        "row_pixels": plots.ROW_PIXELS,
        "strip": strip and Markup(strip[0]),
        "strip_top": strip and strip[1],
        "strip_longest": strip and strip[2],
        "first_step": min((step.step for step in steps), default=None),
        "last_step": max((step.step for step in steps), default=None),
        "timeline": Markup(plots.timeline(capsule.timeline, finding.onset)),
        "stacks": finding.evidence.stacks or {},
        "said": finding.evidence.stderr_tail or {},
        "in_flight": {row.rank: in_flight.get(str(row.rank)) for row in rows},
    }
    return _template().render(context)


def dearest(rows: Sequence[IncidentRank]) -> list[IncidentRank]:
    """The culprits first, then those on their hosts, then by rank; no more than a person reads."""
    hosts = {row.host for row in rows if row.culprit}
    return sorted(rows, key=lambda row: (not row.culprit, row.host not in hosts, row.rank))[:MAX_ROWS]
