"""A page of /metrics in the making. A value of None is left out: unknown is not zero.

The text exposition format, version 0.0.4, labels in the order of their names. It is written here and not by
prometheus_client, which checks every name anew and takes three times as long for a page of a thousand series.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from prometheus_client.utils import floatToGoString

from zmon.metrics.names import SPECS, STEP_SECONDS_BOUNDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Page:
    """A page of /metrics in the making."""

    def __init__(self) -> None:
        self._families: dict[str, list[str]] = {}  # lines by metric

    def add(self, name: str, value: float | None, *labels: object, extra: dict[str, str] | None = None) -> None:
        """One series; label values in the order of the spec. A value of None is left out."""
        if value is None:
            return
        spec = SPECS[name]
        assert len(labels) == len(spec.labels), name
        lines = self._families.get(name) or self._begin(name, spec.kind, spec.help)
        names, values = spec.labels, tuple(map(str, labels))
        if extra:
            free = {key: text for key, text in extra.items() if key not in names}
            names, values = (*names, *free), (*values, *free.values())
        lines.append(f"{name}{_braced(names, values)} {_number(value)}\n")

    def add_histogram(self, name: str, help_: str, label: tuple[str, str], counts: Sequence[int], total: float) -> None:
        """A histogram over STEP_SECONDS_BOUNDS; `counts` per bucket, not cumulative, the last one above all bounds."""
        lines = self._families.get(name) or self._begin(name, "histogram", help_)
        key, value = label
        running = 0
        for bound, count in zip((*STEP_SECONDS_BOUNDS, float("inf")), counts, strict=True):
            running += count
            le = "+Inf" if bound == float("inf") else f"{bound:g}"
            lines.append(f"{name}_bucket{_braced((key, 'le'), (value, le))} {_number(running)}\n")
        lines.append(f"{name}_count{_braced((key,), (value,))} {_number(running)}\n")
        lines.append(f"{name}_sum{_braced((key,), (value,))} {_number(total)}\n")

    def render(self) -> bytes:
        """The page in the text exposition format."""
        text = "".join(line for lines in self._families.values() for line in lines)
        return text.encode("utf-8", "replace")

    def _begin(self, name: str, kind: str, help_: str) -> list[str]:
        lines = self._families[name] = [f"# HELP {name} {help_}\n", f"# TYPE {name} {kind}\n"]
        return lines


@lru_cache(maxsize=16384)  # labels are the same from page to page
def _braced(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sorted(zip(names, values, strict=True)))
    return f"{{{pairs}}}" if pairs else ""


def _number(value: float) -> str:
    return str(floatToGoString(value))  # type: ignore[no-untyped-call]
