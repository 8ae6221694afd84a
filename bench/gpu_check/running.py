"""Runs a check in each of its settings. A check that breaks is a failed result and does not end the others."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace

from bench.gpu_check.kit import OUT_OF_TIME, Check, Kit, OutOfTime
from bench.gpu_check.result import FAILED, NOT_CHECKED, Result
from bench.gpu_check.settings import Setting
from bench.ranks import JobFailed

_ERROR = re.compile(r"(Error|Exception|Interrupt): \S")


def results(check: Check, kit: Kit) -> Iterator[Result]:
    """Yield the results of each setting that applies to this machine; for one that it lacks, only the reason."""
    for setting in check.settings:
        if not setting.applies(kit.machine):
            continue
        if reason := setting.missing(kit.machine):
            yield Result(check.title, NOT_CHECKED, note=reason, setting=setting.name)
            continue
        for result in _run(check, kit, setting):
            if result.outcome == FAILED and kit.is_over:  # the deadline may be the reason of the failure
                result = Result(result.what, NOT_CHECKED, note=OUT_OF_TIME)
            yield replace(result, setting=setting.name)


def _run(check: Check, kit: Kit, setting: Setting) -> Iterator[Result]:
    if kit.is_over:
        yield Result(check.title, NOT_CHECKED, note=OUT_OF_TIME)
        return
    try:
        yield from check.run(kit, setting)
    except OutOfTime as error:
        yield Result(check.title, NOT_CHECKED, note=str(error))
    except JobFailed as error:
        output = str(error)
        print(output, file=sys.stderr, flush=True)
        yield Result(check.title, FAILED, note=_short(output))
    except Exception as error:  # the other checks still run
        yield Result(check.title, FAILED, note=f"the check broke: {type(error).__name__}: {error}")


def _short(output: str) -> str:
    """Return the first line, which says what failed, and the first error of a rank."""
    first, *rest = output.splitlines() or [""]
    errors = (line.strip() for line in rest if _ERROR.search(line) and "ChildFailedError" not in line)
    return f"{first} {next(errors, '')}".strip()
