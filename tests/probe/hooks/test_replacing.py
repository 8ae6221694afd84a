"""Tests of wrappers: a wrapper replaces a function in all modules, and keeps its name and the lines of its warnings."""

import importlib.util
import sys

import pytest

from tests.probe.hooks.scripts import cases, run_script
from zmon.probe.hooks.replacing import replace


def test_missing_and_lazy_modules_are_skipped(monkeypatch, capsys):
    class Slots:
        __slots__ = ()

    spec = importlib.util.find_spec("this")
    loader = spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    loader.exec_module(lazy)
    for name, module in {"lazy": lazy, "slots": Slots(), "none": None, "number": 3}.items():
        monkeypatch.setitem(sys.modules, name, module)
    replace({lambda: None: lambda: None})  # no module has this function
    assert capsys.readouterr().out == ""  # the module `this` would print text if it were loaded


def test_function_imported_before_attach_is_wrapped(start_rank):
    before = "from torch.distributed import all_reduce\nfrom torch import save\n"
    script = "all_reduce(torch.ones(3))\nprint(counts('all_reduce'), hasattr(save, '__zmon__'))"
    assert run_script(start_rank, script, joined=True, before=before) == ["[1, 12, 12] True"]


CASES = """
== warnings of torch name the same line as without zmon
def warning_lines():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dist.all_gather_into_tensor(torch.ones(3), torch.ones(3))
        dist.reduce_scatter_tensor(torch.ones(3), torch.ones(3))
        torch.optim.lr_scheduler.StepLR(optimizer, 1).step()
    return [(os.path.basename(warning.filename), warning.category.__name__) for warning in caught]
watched = warning_lines()
probe.current, timeline = None, probe.current
print(watched == warning_lines(), len(watched) > 0, not any("zmon" in file for file, _ in watched))  # > True True True
probe.current = timeline

== functions keep their names and pickle
import inspect
print(dist.all_reduce.__name__, pickle.loads(pickle.dumps(dist.all_reduce)) is dist.all_reduce)  # > all_reduce True
print(list(inspect.signature(dist.all_reduce).parameters))  # > ['tensor', 'op', 'group', 'async_op']
"""


@pytest.mark.parametrize("case", cases(CASES, joined=True))
def test_wrapped_function_keeps_its_name_and_the_lines_of_its_warnings(start_rank, case):
    case.check(start_rank)
