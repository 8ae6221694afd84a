"""The frame of every view: links to the other views, choice of job and time range, and a refresh every two seconds.

Live parts are redrawn at each refresh: the banner and the state of each rank. Other parts, such as charts, are redrawn
only when their input changes. Otherwise twenty viewers of a six-hour range would redraw a thousand charts a minute
without a new point.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from random import random
from typing import Literal

import streamlit as st

from dashboards.address import RANGES, REFRESH_SECONDS, Address
from dashboards.formats import date_and_time
from dashboards.glance import read_glance
from dashboards.markup import escaped_markdown
from dashboards.queries import Hub, Prometheus
from dashboards.views import clock
from dashboards.views.context import ViewContext
from dashboards.views.style import CSS

View = Callable[[ViewContext], None]


def show(view: View, pages: list[st.Page], title: str, *, shows_one_job: bool = True) -> None:
    """Draw a page: its view within the frame. The links are drawn before any request, unless the URL has no job."""
    st.html(CSS)
    with _errors_in_one_line() as errors:
        address = _address(shows_one_job)
        is_chosen = bool(address.job_id) or not shows_one_job
        if is_chosen:
            _links(pages, address)
        context = _read(title, shows_one_job)
        if shows_one_job and context.job_id and not context.address.job_id:
            go(context.address.moved(job_id=context.job_id))  # so that a copied link shows what its sender saw
            context = _read(title, shows_one_job)
        if not is_chosen:
            _links(pages, context.address)
        view(context)
        until = f"{title} until {clock.html(context.span.end)}"
        st.html(f'<p class="zmon-unknown" data-testid="zmon-seen"><small>{until}</small></p>')
    if errors:
        _rerun_at_next_refresh(iter([True]))  # True: this call only starts the timer


def live(part: View, drawn: ViewContext) -> None:
    """Draw a live part. If the input of the other parts has changed, the whole page is drawn again."""
    _live(part, drawn, iter([drawn]))  # the first call uses the state of the page itself


@st.fragment(run_every=REFRESH_SECONDS)
def _live(part: View, drawn: ViewContext, initial: Iterator[ViewContext]) -> None:
    with _errors_in_one_line():
        context = next(initial, None) or _read(drawn.title, drawn.shows_one_job)
        if context.static_state != drawn.static_state:
            st.rerun()
        part(context)


@st.fragment(run_every=REFRESH_SECONDS)
def _rerun_at_next_refresh(is_first_call: Iterator[bool]) -> None:
    if not next(is_first_call, False):
        st.rerun()


def _address(shows_one_job: bool) -> Address:
    """Return the address in the URL. Pages about all jobs, and the links on them, show the present."""
    address = Address.read(st.query_params)
    return address if shows_one_job else address.moved(at=None)


def _read(title: str, shows_one_job: bool) -> ViewContext:
    """Read the URL and the current state."""
    address = _address(shows_one_job)
    prometheus = Prometheus()
    hub = Hub()
    now = read_glance(prometheus, hub, address.job_id if shows_one_job else None)
    prometheus = replace(prometheus, answers=now.prometheus_answers)
    jitter = st.session_state.setdefault("jitter", random())
    return ViewContext(now, address, prometheus, hub, title, shows_one_job, jitter)


@contextmanager
def _errors_in_one_line() -> Iterator[list[Exception]]:
    """Show an unexpected error in one line, and yield a list to which it is added. The next refresh tries again."""
    errors: list[Exception] = []
    try:
        yield errors
    except Exception as error:
        errors.append(error)
        logging.getLogger(__name__).exception("the page failed")
        st.error(f"This page failed: {type(error).__name__}: {error}. Use `zmon status`; see the dashboard's log.")


def _links(pages: list[st.Page], address: Address) -> None:
    """Draw the links to all views, for the same job and time."""
    with st.container(horizontal=True, gap="small", key="zmon-ways"):
        for page in pages:
            st.page_link(page, query_params=address.params())


def choices(context: ViewContext, *others: Callable[[ViewContext], None]) -> None:
    """Draw the choices of time range and job, and other choices of the view. All choices are in the URL.

    Lists are in a popover, because drawing a list takes a browser 25 to 50 ms, and it draws those in a popover only
    when somebody opens it.
    """
    address = context.address
    job_ids = list(dict.fromkeys([*context.now.job_ids, *filter(None, [context.job_id])]))
    with st.container(horizontal=True, vertical_alignment="center", key="zmon-choices"):
        time_range(address)
        if job_ids or others:
            shown = " on ".join(filter(None, [context.job_id, address.host])) or "no job chosen"
            with st.popover(escaped_markdown(shown)):
                if job_ids:
                    select("Job", job_ids, context.job_id, lambda job_id: address.moved(job_id=job_id))
                for choice in others:
                    choice(context)


def time_range(address: Address) -> None:
    """Draw a button for each time range. If the URL has a time, also draw a button that returns to now."""
    with st.container(horizontal=True, gap="small", width="content", key="zmon-ranges"):
        for name in RANGES:
            kind: Literal["secondary", "tertiary"] = "secondary" if name == address.range else "tertiary"
            st.button(name, key=f"range {name}", type=kind, on_click=go, args=(address.moved(range=name),))
    if address.at is not None:
        st.button(
            f"Around {date_and_time(address.at)}: back to now",
            on_click=go,
            args=(address.moved(at=None),),
            icon=":material/history:",
            help=clock.local_time(address.at, st.context.timezone) or None,
        )


def select(
    label: str,
    options: list[str],
    current: str | None,
    address_for: Callable[[str], Address],
    names: Mapping[str, str] | None = None,
) -> None:
    """Draw a list of options. A choice sets the URL to `address_for(option)`. `names`: the texts of options.

    The key contains the current choice, so that a link changes the list too.
    """
    key = f"{label}: {current}"
    st.selectbox(
        label,
        options,
        index=options.index(current) if current in options else None,
        key=key,
        format_func=lambda option: (names or {}).get(option, option),
        on_change=lambda: go(address_for(st.session_state[key])),
        width=260,
    )


def go(address: Address) -> None:
    """Set the URL to this address."""
    st.query_params.from_dict(address.params())
