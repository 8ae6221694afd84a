"""One tile per rank: what it does, since when it has not moved, and which one is to blame."""

from dataclasses import dataclass
from html import escape

import streamlit as st

from dashboards.asking import Unreachable
from dashboards.colours import GREEN, GREY, ORANGE, VERMILLION
from dashboards.glance import Glance, Rank, ranks
from dashboards.severity import CRITICAL, is_remark
from dashboards.views.seen import Seen
from dashboards.words import UNKNOWN, count, duration, link, marked

SHOWN_WAIT_SECONDS = 1  # shorter waits are part of every step and would only flicker
MOST_TILES = 24  # a wall of more is not read; the ones that need a look come first
DOING = {"init": "starting", "train": "training", "eval": "evaluating", "checkpoint": "checkpointing", "done": "done"}
URGENCY = (VERMILLION, ORANGE, GREY, GREEN)


@dataclass(frozen=True)
class Tile:
    """A rank, in one word and one colour."""

    rank: Rank
    word: str
    colour: str
    is_culprit: bool = False


def show(seen: Seen) -> None:
    """The tiles; in rank order as long as all fit."""
    glance = seen.now
    try:
        known = ranks(seen.prometheus, glance) if glance.prometheus_answers else ()
    except Unreachable as error:
        st.html(f'<p class="zmon-unknown">Ranks: {UNKNOWN}, {marked(str(error))}</p>')
        return
    if not any(rank.host for rank in known):
        st.html(f'<p class="zmon-unknown">Ranks: {UNKNOWN}, {_why_none(glance)}.</p>')
        return
    tiles = [_tile(rank, glance) for rank in known]
    if len(tiles) > MOST_TILES:
        tiles.sort(key=lambda tile: URGENCY.index(tile.colour))
    tiles_html = "".join(_html(tile, seen) for tile in tiles[:MOST_TILES])
    st.html(f'<div class="zmon-ranks" data-testid="zmon-ranks">{tiles_html}</div>')
    if len(tiles) > MOST_TILES:
        st.caption(f"{MOST_TILES} of {len(tiles)} ranks, those that need a look first.")


def _why_none(glance: Glance) -> str:
    if not glance.prometheus_answers:
        return "Prometheus does not answer"
    ended = glance.job is not None and glance.job.state in ("done", "exited")
    return "the job has ended" if ended else "no agent reports one of this job"


def _tile(rank: Rank, glance: Glance) -> Tile:
    """The worst that is known of a rank comes first; green is only for a job that somebody judges."""
    blaming = (one for one in glance.findings if rank.rank in one.ranks and not is_remark(one.severity))
    finding = next(blaming, None)
    waiting, overdue = rank.waiting_seconds or 0, rank.overdue_seconds or 0
    if finding and finding.severity == CRITICAL:
        return Tile(rank, finding.cause, VERMILLION, is_culprit=True)
    if finding:
        return Tile(rank, finding.cause, ORANGE)
    if rank.host is None:
        return Tile(rank, "unseen", GREY)
    if waiting >= SHOWN_WAIT_SECONDS:
        return Tile(rank, f"waiting {duration(waiting)}", ORANGE)
    if overdue > 0:
        return Tile(rank, f"overdue {duration(overdue)}", ORANGE)
    if rank.activity is None:
        return Tile(rank, UNKNOWN, GREY)
    return Tile(rank, DOING.get(rank.activity, rank.activity), GREY if glance.blind else GREEN)


def _html(tile: Tile, seen: Seen) -> str:
    """A tile says in words what it says in colour."""
    rank = tile.rank
    lead = link("ranks", seen.address.moved(job_id=seen.job_id, rank=rank.rank).params(), f"rank {rank.rank}")
    ago = "" if rank.since_step_seconds is None else " ago"
    facts = [
        rank.host or f"host {UNKNOWN}",
        f"step {count(rank.step)}",
        f"last step {duration(rank.since_step_seconds)}{ago}",
    ]
    if (rank.waiting_seconds or 0) >= SHOWN_WAIT_SECONDS:
        facts.append("in a collective")
    lines = "".join(f"<span>{escape(fact)}</span>" for fact in facts)
    return (
        f'<div class="{"culprit" if tile.is_culprit else "rank"}" data-testid="zmon-rank-{rank.rank}"'
        f' style="--tint:{tile.colour}"><b>{lead}{" ◀ culprit" if tile.is_culprit else ""}</b>'
        f"<i>{escape(tile.word)}</i>{lines}</div>"
    )
