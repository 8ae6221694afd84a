"""Ranks as tiles: the activity of each rank, the end of its last step, and the culprit.

Of a large job, the hub answers with the ranks that stand out, and with the number of ranks in each state. So neither
the page nor its refresh every two seconds grows with the job.
"""

from dataclasses import dataclass
from html import escape

import streamlit as st

from dashboards.colours import ACTIVITIES, GREEN, GREY, ORANGE, STATES, VERMILLION
from dashboards.formats import number
from dashboards.glance import Glance, Rank, ranks
from dashboards.http_requests import Unreachable
from dashboards.markup import link, unknown_html
from dashboards.severity import CRITICAL, is_info
from dashboards.views import states
from dashboards.views.context import ViewContext
from zmon.format import UNKNOWN, duration
from zmon.schema.api import RankRow, RanksRequest

MIN_WAIT_SECONDS = 1  # shorter waits are part of every step and would only flicker
MAX_RANKS = 512  # a larger job has tiles only for the ranks that stand out
MAX_TILES = 24  # people do not read more; the most urgent ranks are shown
URGENCY = tuple(STATES.values())  # a rank in no such state has the colour of its activity


@dataclass(frozen=True)
class Tile:
    """A rank with its state in one word and one colour."""

    rank: Rank
    word: str
    colour: str
    is_culprit: bool = False


def show(context: ViewContext) -> None:
    """Draw the tiles in the order of ranks. If there are too many, draw the most urgent ones."""
    glance = context.now
    if (glance.num_ranks or 0) > MAX_RANKS:
        _show_urgent(context)
        return
    try:
        reported = ranks(context.prometheus, glance) if glance.prometheus_answers else ()
    except Unreachable as error:
        st.html(unknown_html("Ranks", error))
        return
    if not any(rank.host for rank in reported):
        st.html(unknown_html("Ranks", f"{_reason_without_ranks(glance)}."))
        return
    tiles = [_tile(rank, glance) for rank in reported]
    if len(tiles) > MAX_TILES:
        tiles.sort(key=lambda tile: URGENCY.index(tile.colour) if tile.colour in URGENCY else len(URGENCY))
    _draw(tiles[:MAX_TILES], context)
    if len(tiles) > MAX_TILES:
        st.caption(f"The {MAX_TILES} most urgent of {len(tiles)} ranks.")


def _show_urgent(context: ViewContext) -> None:
    """Draw how many ranks are in each state, and a tile for each of the ranks that stand out."""
    request = RanksRequest(context.job_id or "", limit=MAX_TILES, order="urgency", standing_out=True)
    try:
        page = context.hub.ranks(request)
    except Unreachable as error:
        st.html(unknown_html("Ranks", error))
        return
    st.html(states.html(page.summary, blind=bool(context.now.blind)))
    urgent = [_rank(row) for row in page.ranks]
    urgent += [Rank(rank) for rank in page.summary.missing[: MAX_TILES - len(urgent)]]
    _draw([_tile(rank, context.now) for rank in urgent], context)
    num_urgent = page.summary.num_standing_out + page.summary.num_missing
    if not num_urgent:
        st.caption("No rank stands out: all are alive, watched and within their leases, and no finding names one.")
    elif num_urgent > len(urgent):
        st.caption(f"The {len(urgent)} most urgent of {num_urgent:,} ranks that stand out.")


def _rank(row: RankRow) -> Rank:
    """Return the state of a rank from the hub. The host of an unwatched rank is its last known one."""
    return Rank(
        row.rank,
        row.host if row.watched else None,
        activity=row.activity,
        step=row.step,
        since_step_seconds=row.step_seconds,
        overdue_seconds=row.overdue_seconds,
        waiting_seconds=row.in_flight_seconds,
        alive=row.alive,
    )


def _draw(tiles: list[Tile], context: ViewContext) -> None:
    tiles_html = "".join(_html(tile, context) for tile in tiles)
    st.html(f'<div class="zmon-ranks" data-testid="zmon-ranks">{tiles_html}</div>')


def _reason_without_ranks(glance: Glance) -> str:
    if not glance.prometheus_answers:
        return "Prometheus does not answer"
    ended = glance.job is not None and glance.job.state in ("done", "exited")
    return "the job has ended" if ended else "no agent reports ranks of this job"


def _tile(rank: Rank, glance: Glance) -> Tile:
    """Return the tile of a rank with its worst state. On a page that is blind, every activity is grey."""
    findings = (finding for finding in glance.findings if rank.rank in finding.ranks and not is_info(finding.severity))
    finding = next(findings, None)
    waiting = rank.waiting_seconds or 0
    overdue = rank.overdue_seconds or 0
    if finding and finding.severity == CRITICAL:
        return Tile(rank, finding.cause, VERMILLION, is_culprit=True)
    if finding:
        return Tile(rank, finding.cause, ORANGE)
    if rank.host is None:
        return Tile(rank, "unwatched", STATES["unwatched"])
    if rank.alive is False and rank.activity != "done":
        return Tile(rank, "dead", STATES["dead"])
    if waiting >= MIN_WAIT_SECONDS:
        return Tile(rank, f"waiting {duration(waiting)}", STATES["waiting"])
    if overdue > 0:
        return Tile(rank, f"overdue {duration(overdue)}", STATES["overdue"])
    if rank.activity is None:
        return Tile(rank, UNKNOWN, GREY)
    colour = GREY if glance.blind else ACTIVITIES.get(rank.activity, GREEN)
    return Tile(rank, states.ACTIVITY_WORDS.get(rank.activity, rank.activity), colour)


def _html(tile: Tile, context: ViewContext) -> str:
    """Return the HTML of a tile. Its words tell everything that its colour shows."""
    rank = tile.rank
    address = context.address.moved(job_id=context.job_id, rank=rank.rank)
    rank_link = link("ranks", address.params(), f"rank {rank.rank}")
    ended = "" if rank.since_step_seconds is None else f" ended {duration(rank.since_step_seconds)} ago"
    facts = [rank.host or f"host {UNKNOWN}", f"step {number(rank.step)}{ended}"]
    if (rank.waiting_seconds or 0) >= MIN_WAIT_SECONDS:
        facts.append("in a collective")
    lines = "".join(f"<span>{escape(fact)}</span>" for fact in facts)
    return (
        f'<div class="{"culprit" if tile.is_culprit else "rank"}" data-testid="zmon-rank-{rank.rank}"'
        f' style="--tint:{tile.colour}"><b>{rank_link}{" ◀ culprit" if tile.is_culprit else ""}</b>'
        f"<i>{escape(tile.word)}</i>{lines}</div>"
    )
