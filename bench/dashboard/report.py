"""The printed results of the benchmark, a table for each measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.dashboard.browser import MAX_SECONDS
from bench.dashboard.history import History
from bench.dashboard.queries import Cost
from bench.dashboard.rounds import AGAIN, BANNER, CLICK_AGAIN, CLICK_FIRST, FIRST, OF_PROMETHEUS, SCREEN, Times
from bench.dashboard.sharing import Crowd
from bench.dashboard.synthetic import (
    AT_AN_INSTANT,
    IN_DETAIL,
    LARGE_RECENT_EVERY,
    LARGE_RECENT_SECONDS,
    RECENT_EVERY,
    RECENT_SECONDS,
)
from bench.rows import PERCENT, table_line
from zmon.stats import quantile

TARGET_SECONDS = 1.0
MILLI = 1000
_GIGA = 1e-9
_NUM_SLOWEST = 12  # queries in the list of the slowest
_NAME_WIDTH = 22


def history(generated: History) -> None:
    """Print the size of the history, and the series that have fewer samples than in a real store."""
    scene = generated.scene
    minutes = generated.seconds / 60
    size = f"{generated.num_bytes * _GIGA:.1f} GB on disk, generated in {minutes:.1f} minutes"
    print(f"{generated.store}: {generated.num_samples / 1e6:.1f} M samples of {generated.num_series:,} series, {size}")
    recent = f"only the last {(LARGE_RECENT_SECONDS if scene.is_large else RECENT_SECONDS) // 60} minutes"
    agents_seconds = scene.intervals.agents_seconds
    recorded_seconds = scene.intervals.recorded.seconds
    if scene.is_large:
        print(
            f"thinned: agents have only {', '.join(AT_AN_INSTANT)}, and of these {recent}, every {LARGE_RECENT_EVERY}"
            f" s. So have the GPUs of all hosts but the culprit's. {IN_DETAIL} ranks have all series every"
            f" {agents_seconds} s. All other recorded series are complete: every {recorded_seconds} s"
        )
    else:
        print(
            f"thinned: series of agents have a sample every {agents_seconds} s for {IN_DETAIL} ranks and where charts"
            f" read them; all others have {recent}, every {RECENT_EVERY} s. Recorded series are complete"
        )


def empty(floor: Times) -> None:
    """Print the time that Streamlit needs for an empty page."""
    print("\nStreamlit alone, an empty page")
    for kind, by_view in floor.items():
        for times in by_view.values():
            print(f"  {kind:<{_NAME_WIDTH}}p50 {_ms(quantile(times, 0.5))}, p95 {_ms(quantile(times, 0.95))}")


def queries(costs: Mapping[str, Sequence[Cost]]) -> None:
    """Print the cost of the queries of each view, sent one after the other, then the slowest queries."""
    heads = ("queries", "total", "slowest", "answers")
    print("\nThe queries, sent to the store directly")
    print(f"  {'':<{_NAME_WIDTH}}{table_line(heads, heads)}  which")
    for view, view_costs in costs.items():
        slowest = max(view_costs, key=lambda cost: cost.seconds)
        cells = (
            str(len(view_costs)), _ms(sum(cost.seconds for cost in view_costs)), _ms(slowest.seconds),
            f"{sum(cost.num_bytes for cost in view_costs) / 1e3:,.0f} kB",
        )  # fmt: skip
        print(f"  {view:<{_NAME_WIDTH}}{table_line(cells, heads)}  {slowest.query.name}")
    print("\nThe slowest queries")
    by_promql = {cost.query.promql: (view, cost) for view, view_costs in costs.items() for cost in view_costs}
    for view, cost in sorted(by_promql.values(), key=lambda item: -item[1].seconds)[:_NUM_SLOWEST]:
        print(f"  {_ms(cost.seconds):>10}  {cost.num_bytes / 1e3:>7,.0f} kB  {view}: {cost.query.name}")


def views(viewers: str, times: Times, floor: Times) -> None:
    """Print the times by view and over all views, and their ratio to the times of an empty page."""
    empty_page = {FIRST: quantile(_all(floor[FIRST]), 0.5), AGAIN: quantile(_all(floor[AGAIN]), 0.5)}
    empty_page |= dict.fromkeys((BANNER, SCREEN), empty_page[FIRST])
    kinds = [kind for kind in (FIRST, BANNER, SCREEN, AGAIN, CLICK_FIRST, CLICK_AGAIN) if kind in times]
    heads = [f"{kind}: {quantile_name}" for kind in kinds for quantile_name in ("p50", "p95")]
    print(f"\nUntil a view is drawn, {viewers} (target: p95 at most {TARGET_SECONDS:g} s; * is slower)")
    print(f"  {'':<{_NAME_WIDTH}}{table_line(heads, heads)}")
    for view in times[kinds[0]]:
        print(f"  {view:<{_NAME_WIDTH}}{table_line(_cells(times, kinds, view), heads)}")
    cells = [_cell(_all(times[kind]), q) for kind in kinds for q in (0.5, 0.95)]
    print(f"  {'all views':<{_NAME_WIDTH}}{table_line(cells, heads)}")
    for kind in kinds:
        if (floor_seconds := empty_page.get(kind)) and (seconds := quantile(_all(times[kind]), 0.5)):
            print(f"  {kind}: {seconds / floor_seconds:.1f} × the time of an empty page of Streamlit")


def parts(served: Times, alone: Times) -> None:
    """Print the median time of a click, of the server for the same page, and their difference: the browser.

    The times of Prometheus's queries are added up. Queries of a page overlap, so the sum can exceed the server's time.
    """
    names = ("click", "server", "browser", "Prometheus, added up")
    heads = [f"{kind}: {part}" for kind in ("first", "again") for part in names]
    print("\nParts of a click's time, medians (server: the same page without a browser; browser: the difference)")
    print(f"  {'':<{_NAME_WIDTH}}{table_line(heads, heads)}")
    for view in alone[CLICK_FIRST]:
        cells = []
        for click, load in ((CLICK_FIRST, FIRST), (CLICK_AGAIN, AGAIN)):
            whole, server, prometheus = (
                quantile(times[view], 0.5) for times in (alone[click], served[load], served[OF_PROMETHEUS[load]])
            )
            browser = "unknown"  # the server took longer: each visit without a browser is a new session, a click is not
            if whole is not None and server is not None and whole > server:
                browser = _ms(whole - server)
            cells += [_ms(whole), _ms(server), browser, _ms(prometheus)]
        print(f"  {view:<{_NAME_WIDTH}}{table_line(cells, heads)}")


def crowds(measured: Sequence[Crowd]) -> None:
    """Print how well viewers share answers, and the ratio of due refreshes that happened."""
    heads = ("queries/interval", "÷ one", "refreshes done", "p50", "p95", "dashboard, core", "Prometheus, core")
    print("\nViewers that keep a page open: queries to Prometheus in each refresh interval, and the due refreshes done")
    print(f"  {'':<{_NAME_WIDTH}}{table_line(heads, heads)}")
    for crowd in measured:
        ratio = crowd.queries / measured[0].queries
        cells = (
            f"{crowd.queries:.1f}", f"{ratio:.1f} ×", f"{crowd.refresh_ratio * PERCENT:.0f} %",
            _ms(crowd.median_seconds), _ms(crowd.p95_seconds), f"{crowd.dashboard_core * PERCENT:.0f} %",
            f"{crowd.prometheus_core * PERCENT:.0f} %",
        )  # fmt: skip
        lost = f"  {crowd.num_lost} viewers lost their connection" if crowd.num_lost else ""
        print(f"  {crowd.name:<{_NAME_WIDTH}}{table_line(cells, heads)}{lost}")


def unknown(messages: Mapping[str, set[str]]) -> None:
    """Print the messages of charts that were not drawn."""
    for view, lines in messages.items():
        for line in sorted(lines):
            print(f"  not drawn at least once, {view}: {line}")


def _cells(times: Times, kinds: Sequence[str], view: str) -> list[str]:
    return [_cell(times[kind][view], q) for kind in kinds for q in (0.5, 0.95)]


def _cell(times: Sequence[float], q: float) -> str:
    seconds = quantile(times, q)
    if seconds is not None and seconds >= MAX_SECONDS:
        return f"> {MAX_SECONDS:g} s*"
    return f"{_ms(seconds)}{'*' if seconds is not None and q > 0.5 and seconds > TARGET_SECONDS else ''}"


def _all(by_view: Mapping[str, Sequence[float]]) -> list[float]:
    return [seconds for times in by_view.values() for seconds in times]


def _ms(seconds: float | None) -> str:
    return "none" if seconds is None else f"{seconds * MILLI:,.0f} ms"
