"""Tests of the wrappers, which replace a function in all modules and keep its name and its warnings."""

import importlib.util
import sys

from tests.probe.hooks.scripts import run_script
from zmon.probe.hooks.replacing import replace


def test_function_imported_before_attach_is_wrapped(start_rank):
    before = "from torch.distributed import all_reduce\nfrom torch import save\n"
    script = "all_reduce(torch.ones(3))\nprint(counts('all_reduce'), hasattr(save, '__zmon__'))"
    assert run_script(start_rank, script, joined=True, before=before) == ["[1, 12, 12] True"]


def test_missing_and_lazy_modules_are_skipped(monkeypatch, capsys):
    class Slots:
        __slots__ = ()

    spec = importlib.util.find_spec("this")
    loader = spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = importlib.util.module_from_spec(spec)
    loader.exec_module(lazy)
    for name, module in {"lazy": lazy, "slots": Slots(), "none": None, "number": 3}.items():
        monkeypatch.setitem(sys.modules, name, module)
    replace({lambda: None: lambda: None})
    assert capsys.readouterr().out == ""  # the module `this` would print text if it were loaded


def test_warnings_of_torch_name_the_same_line_as_without_zmon(start_rank):
    script = """
def warning_lines():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dist.all_gather_into_tensor(torch.ones(3), torch.ones(3))
        dist.reduce_scatter_tensor(torch.ones(3), torch.ones(3))
        torch.optim.lr_scheduler.StepLR(optimizer, 1).step()
    return [(os.path.basename(warning.filename), warning.category.__name__) for warning in caught]
watched = warning_lines()
probe.current, timeline = None, probe.current
print(watched == warning_lines(), len(watched) > 0, not any("zmon" in file for file, _ in watched))
probe.current = timeline
"""
    assert run_script(start_rank, script, joined=True) == ["True True True"]


def test_functions_keep_their_names_and_pickle(start_rank):
    script = """
import inspect
print(dist.all_reduce.__name__, pickle.loads(pickle.dumps(dist.all_reduce)) is dist.all_reduce)
print(list(inspect.signature(dist.all_reduce).parameters))
"""
    assert run_script(start_rank, script, joined=True) == ["all_reduce True", "['tensor', 'op', 'group', 'async_op']"]
