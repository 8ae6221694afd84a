"""Prints what was found, a table for each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.dashboard.blocks import Made
from bench.dashboard.browser import MOST_SECONDS
from bench.dashboard.questions import Cost
from bench.dashboard.rounds import AGAIN, CLICK_AGAIN, CLICK_FIRST, FIRST, OF_PROMETHEUS, Times
from bench.dashboard.sharing import Crowd
from bench.dashboard.synthetic import IN_DETAIL, RECENT_EVERY, RECENT_SECONDS, SCRAPE_SECONDS
from bench.rows import PERCENT, table_line
from zmon.stats import quantile

AIM_SECONDS = 1.0
MILLI = 1000
_SLOWEST = 12  # questions that are told
_NAME = 22


def history(made: Made) -> None:
    """How much there is, and what is thinner than in life."""
    print(f"{made.samples / 1e6:.1f} M samples of {made.series:,} series, made in {made.seconds:.0f} s")
    print(
        f"thinned: of agents' own series those of {IN_DETAIL} ranks and those that charts read are there every"
        f" {SCRAPE_SECONDS} s; of all others the last {RECENT_SECONDS // 60} minutes, every {RECENT_EVERY} s."
        " Recorded ones are whole"
    )


def empty(floor: Times) -> None:
    """What Streamlit needs for nothing."""
    print("\nStreamlit alone, an empty page")
    for kind, by_view in floor.items():
        for times in by_view.values():
            print(f"  {kind:<{_NAME}}{_ms(quantile(times, 0.5))}, slowest of 20 {_ms(quantile(times, 0.95))}")


def asked(costs: Mapping[str, Sequence[Cost]]) -> None:
    """Of each view all that it asks, one after the other; then the questions that take longest."""
    heads = ("questions", "together", "slowest", "answers")
    print("\nPrometheus, asked directly")
    print(f"  {'':<{_NAME}}{table_line(heads, heads)}  which")
    for view, those in costs.items():
        slowest = max(those, key=lambda cost: cost.seconds)
        cells = (
            str(len(those)), _ms(sum(cost.seconds for cost in those)), _ms(slowest.seconds),
            f"{sum(cost.num_bytes for cost in those) / 1e3:,.0f} kB",
        )  # fmt: skip
        print(f"  {view:<{_NAME}}{table_line(cells, heads)}  {slowest.question.name}")
    print("\nIts slowest answers")
    every = {cost.question.promql: (view, cost) for view, those in costs.items() for cost in those}
    for view, cost in sorted(every.values(), key=lambda one: -one[1].seconds)[:_SLOWEST]:
        print(f"  {_ms(cost.seconds):>10}  {cost.num_bytes / 1e3:>7,.0f} kB  {view}: {cost.question.name}")


def seen(who: str, times: Times, floor: Times) -> None:
    """By view, and of all views together; beside it how many empty pages that is."""
    bare = {FIRST: quantile(_all(floor[FIRST]), 0.5), AGAIN: quantile(_all(floor[AGAIN]), 0.5)}
    kinds = [kind for kind in (FIRST, AGAIN, CLICK_FIRST, CLICK_AGAIN) if kind in times]
    heads = [f"{kind}: {what}" for kind in kinds for what in ("p50", "p95")]
    print(f"\nUntil a view is drawn, {who} (aim: p95 at most {AIM_SECONDS:g} s; * is beyond)")
    print(f"  {'':<{_NAME}}{table_line(heads, heads)}")
    for view in times[kinds[0]]:
        print(f"  {view:<{_NAME}}{table_line(_cells(times, kinds, view), heads)}")
    cells = [_cell(_all(times[kind]), q) for kind in kinds for q in (0.5, 0.95)]
    print(f"  {'all views':<{_NAME}}{table_line(cells, heads)}")
    for kind in kinds:
        if (of_nothing := bare.get(kind)) and (of_all := quantile(_all(times[kind]), 0.5)):
            print(f"  {kind}: {of_all / of_nothing:.1f} × what Streamlit needs for an empty page")


def parts(served: Times, alone: Times) -> None:
    """Where the time of a click goes: the server, and the rest up to what is drawn; a page's questions overlap."""
    of_each = ("click", "server", "browser", "Prometheus, added up")
    heads = [f"{kind}: {part}" for kind in ("first", "again") for part in of_each]
    print("\nWhere a click's time goes, medians (the server: the same page without a browser)")
    print(f"  {'':<{_NAME}}{table_line(heads, heads)}")
    for view in alone[CLICK_FIRST]:
        cells = []
        for click, load in ((CLICK_FIRST, FIRST), (CLICK_AGAIN, AGAIN)):
            whole, server, prometheus = (
                quantile(times[view], 0.5) for times in (alone[click], served[load], served[OF_PROMETHEUS[load]])
            )
            known = whole is not None and server is not None and whole > server  # a page alone opens its socket first
            cells += [_ms(whole), _ms(server), _ms(whole - server) if known else "unknown", _ms(prometheus)]
        print(f"  {view:<{_NAME}}{table_line(cells, heads)}")


def shared(crowds: Sequence[Crowd]) -> None:
    """Whether viewers share answers, and whether the server keeps up with them."""
    heads = ("queries a refresh", "÷ one", "refreshes, of due", "p50", "p95", "dashboard, core", "Prometheus, core")
    print("\nViewers that stay: what they ask Prometheus each refresh, and whether they are served in time")
    print(f"  {'':<{_NAME}}{table_line(heads, heads)}")
    for crowd in crowds:
        cells = (
            f"{crowd.queries:.1f}", f"{crowd.queries / crowds[0].queries:.1f} ×", f"{crowd.refreshes * PERCENT:.0f} %",
            _ms(crowd.median_seconds), _ms(crowd.slow_seconds), f"{crowd.dashboard_core * PERCENT:.0f} %",
            f"{crowd.prometheus_core * PERCENT:.0f} %",
        )  # fmt: skip
        lost = f"  {crowd.lost} were lost" if crowd.lost else ""
        print(f"  {crowd.who:<{_NAME}}{table_line(cells, heads)}{lost}")


def unknown(said: Mapping[str, set[str]]) -> None:
    """Charts that were not drawn, for their answer did not come."""
    for view, lines in said.items():
        for line in sorted(lines):
            print(f"  not drawn at least once, {view}: {line}")


def _cells(times: Times, kinds: Sequence[str], view: str) -> list[str]:
    return [_cell(times[kind][view], q) for kind in kinds for q in (0.5, 0.95)]


def _cell(times: Sequence[float], q: float) -> str:
    found = quantile(times, q)
    if found is not None and found >= MOST_SECONDS:
        return f"> {MOST_SECONDS:g} s*"
    return f"{_ms(found)}{'*' if found is not None and q > 0.5 and found > AIM_SECONDS else ''}"


def _all(by_view: Mapping[str, Sequence[float]]) -> list[float]:
    return [seconds for times in by_view.values() for seconds in times]


def _ms(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds * MILLI:,.0f} ms"
