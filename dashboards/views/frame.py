"""What is around every view: the way to the others, which job and how far back, and a fresh look every two seconds.

What moves from one look to the next is live: who is to blame, what each rank does. All else, charts above all, is drawn
once and stands until something of it would be another: so twenty viewers of six hours do not draw a thousand charts a
minute that no point was added to.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import random
from typing import Literal

import streamlit as st

from dashboards.address import RANGES, REFRESH_SECONDS, Address
from dashboards.glance import glance
from dashboards.queries import Hub, Prometheus
from dashboards.views.seen import Seen
from dashboards.views.style import CSS
from dashboards.words import clock, moment, plain

View = Callable[[Seen], None]


def show(view: View, pages: list[st.Page], title: str, *, is_of_a_job: bool = True) -> None:
    """The page."""
    st.html(CSS)
    with _failing_in_one_line() as failed:
        seen = _look(title, is_of_a_job)
        if is_of_a_job and seen.job_id and not seen.address.job_id:
            go(seen.address.moved(job_id=seen.job_id))  # so that a copied link shows what its sender saw
            seen = _look(title, is_of_a_job)
        _ways(pages, seen.address)
        view(seen)
        until = f"{title} until {clock(seen.span.end)}"
        st.html(f'<p class="zmon-unknown" data-testid="zmon-seen"><small>{until}</small></p>')
    if failed:
        _try_again(iter(["not yet"]))


def live(part: View, drawn: Seen) -> None:
    """A part that moves. Whenever what stands around it would be drawn otherwise, all of the page is drawn anew."""
    _live(part, drawn, iter([drawn]))


@st.fragment(run_every=REFRESH_SECONDS)
def _live(part: View, drawn: Seen, first: Iterator[Seen]) -> None:
    with _failing_in_one_line():
        seen = next(first, None) or _look(drawn.title, drawn.is_of_a_job)  # first it is of the page's own moment
        if seen.standing != drawn.standing:
            st.rerun()
        part(seen)


@st.fragment(run_every=REFRESH_SECONDS)
def _try_again(first: Iterator[str]) -> None:
    if not next(first, None):
        st.rerun()


def _look(title: str, is_of_a_job: bool) -> Seen:
    address, prometheus, hub = Address.read(st.query_params), Prometheus(), Hub()
    if not is_of_a_job:
        address = address.moved(at=None)  # it says how all of them are now, and leads there
    now = glance(prometheus, hub, address.job_id if is_of_a_job else None)
    asked = replace(prometheus, answers=now.prometheus_answers)
    turn = st.session_state.setdefault("turn", random())
    return Seen(now, address, asked, hub, title, is_of_a_job, turn)


@contextmanager
def _failing_in_one_line() -> Iterator[list[Exception]]:
    """Whatever fails unforeseen costs one line, and the next refresh tries again."""
    failed: list[Exception] = []
    try:
        yield failed
    except Exception as error:
        failed.append(error)
        logging.getLogger(__name__).exception("the page failed")
        st.error(f"This page failed: {type(error).__name__}: {error}. Use `zmon status`; the dashboard's log has more.")


def _ways(pages: list[st.Page], address: Address) -> None:
    """To the other views, of the same job and time."""
    with st.container(horizontal=True, gap="small", key="zmon-ways"):
        for page in pages:
            st.page_link(page, query_params=address.params())


def choices(seen: Seen, *more: Callable[[Seen], None]) -> None:
    """How far back, which job, and what else a view has to choose; all in the URL, so that a link shows the same.

    What is chosen from a list lies in a popover: a browser draws it only once it is opened, and each takes 25 to 50 ms.
    """
    address, job_ids = seen.address, list(dict.fromkeys([*seen.now.job_ids, *filter(None, [seen.job_id])]))
    with st.container(horizontal=True, vertical_alignment="center", key="zmon-choices"):
        _time_range(address)
        if job_ids or more:
            with st.popover(plain(" on ".join(filter(None, [seen.job_id, address.host])) or "none chosen")):
                if job_ids:
                    chosen("Job", job_ids, seen.job_id, lambda job_id: address.moved(job_id=job_id))
                for choice in more:
                    choice(seen)


def _time_range(address: Address) -> None:
    """How far back, and the way back to now for one whom a link led elsewhere."""
    with st.container(horizontal=True, gap="small", width="content", key="zmon-ranges"):
        for name in RANGES:
            kind: Literal["secondary", "tertiary"] = "secondary" if name == address.range else "tertiary"
            st.button(name, key=f"range {name}", type=kind, on_click=go, args=(address.moved(range=name),))
    if address.at is not None:
        st.button(
            f"Around {moment(address.at)}: back to now",
            on_click=go,
            args=(address.moved(at=None),),
            icon=":material/history:",
        )


def chosen(label: str, options: list[str], current: str | None, moved: Callable[[str], Address]) -> None:
    """A choice that changes the address. Its key has the address in it: a link that changes it changes the choice."""
    key = f"{label}: {current}"
    st.selectbox(
        label,
        options,
        index=options.index(current) if current in options else None,
        key=key,
        on_change=lambda: go(moved(st.session_state[key])),
        width=260,
    )


def go(address: Address) -> None:
    """Look there."""
    st.query_params.from_dict(address.params())
