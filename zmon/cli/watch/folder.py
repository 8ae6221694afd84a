"""The folder `zmon-<job id>` that `zmon watch` leaves, with the report and the step log.

A folder that exists is never written to: the next one gets a number.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from zmon.cli.render.card import card_lines
from zmon.cli.render.verdict import VerdictCard, WatchedJob
from zmon.hub.incidents.report import CSP, plotted, template
from zmon.schema.aligned_step import AlignedStep
from zmon.schema.incident import PlottedStep
from zmon.steplog import FOLDER
from zmon.steplog.files import child_path

REPORT = "report.html"
_PLOTTED_STEPS = 200  # of each rank
_PLOTTED_RANKS = 64
_NO_START = 0.0  # no plot shows when a step began


def new_folder(parent: Path, job: WatchedJob, host: str) -> Path:
    """Make the folder of a job. If other nodes have ranks, its name ends with this host. Raises OSError."""
    name = f"zmon-{job.view.job_id}"
    if job.view.ranks_seen < job.view.world_size:
        name += f"-{host}"
    for number in count(1):
        folder = child_path(parent, name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        break
    return folder


def keep_steps(data_dir: Path, folder: Path) -> None:
    """Move the step log, if there is one, into the folder. Raises OSError."""
    steps = data_dir / FOLDER
    if steps.is_dir():
        shutil.move(steps, folder / FOLDER)


def page(card: VerdictCard, job: WatchedJob | None, steps: Sequence[AlignedStep], incidents: Sequence[str]) -> str:
    """Return the report. `incidents` has the pages of incidents, the worst first."""
    from markupsafe import Markup  # with Jinja, which only a report needs

    last_steps = steps[-_PLOTTED_STEPS:]
    num_ranks = max((len(step.self_seconds) for step in last_steps), default=0)
    ranks = range(min(num_ranks, _PLOTTED_RANKS))
    findings = card.findings
    culprits = findings[0].ranks if findings else ()
    points = [
        PlottedStep(rank, step.step, _NO_START, step.seconds_of(rank), float(step.self_seconds[rank]))
        for step in last_steps
        for rank in ranks[: len(step.self_seconds)]
    ]
    return template(Path(__file__).parent, "report.html.j2").render(
        csp=CSP,
        title=f"zmon watch · {job.view.job_id if job else card.command}",
        card="\n".join(card_lines(card)),
        findings=findings,
        # The template of these pages has escaped their bodies.
        incidents=[Markup(html.partition("<body>")[2].partition("</body>")[0]) for html in incidents],
        **plotted(points, ranks, culprits),
    )
