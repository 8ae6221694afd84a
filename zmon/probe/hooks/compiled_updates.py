"""Counts the updates by optimizers whose `step` is compiled, as in `torch.compile(optimizer.step)`.

torch's compiler traces the hooks of an optimizer, but cannot compile them: it would warn, or fail. So the hook before a
compiled update does nothing. The hook after the update calls both, in one of two ways:

1. The update is part of the graph, as with an optimizer of the job's own: the graph is called within a function that
   calls the hooks. The graph itself stays as it is.
2. torch breaks the graph around the update, as with its own optimizers. What follows the break has nothing to compile,
   so the hook breaks the graph once more, and runs.

Code that runs while the compiler traces it is documented (torch/_dynamo/comptime.py), but not the way to the graph. If
a version of torch has another one, one line on stderr says that these updates are not counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from zmon import probe

Hook = Callable[[Any], None]


def hook_before(begin: Hook) -> Callable[..., None]:
    """Return the hook before an update; it does nothing before a compiled one."""
    is_compiling = torch.compiler.is_dynamo_compiling

    def call(optimizer: Any, *_: Any) -> None:
        if not is_compiling():
            begin(optimizer)

    return call


def hook_after(begin: Hook, end: Hook) -> Callable[..., None]:
    """Return the hook after an update; after a compiled one it calls `begin` and `end`."""
    is_compiling = torch.compiler.is_dynamo_compiling

    @torch._disable_dynamo  # type: ignore[untyped-decorator]
    def whole_update(optimizer: Any) -> None:
        begin(optimizer)
        end(optimizer)

    def call(optimizer: Any, *_: Any) -> None:
        if is_compiling():
            torch._dynamo.comptime.comptime(on_traced, lambda: whole_update(optimizer))
        else:
            end(optimizer)

    def on_traced(context: Any) -> None:
        if not _hook_into_graph(context, begin, end):
            context.graph_break("zmon counts this update")

    return call


def _hook_into_graph(context: Any, begin: Hook, end: Hook) -> bool:
    """Call the hooks each time that the traced graph runs; return False if it has no operation and can be broken."""
    try:
        code = context._ComptimeContext__tx
        if any(node.op.startswith("call_") for node in code.output.graph.nodes):
            variable = context.get_local("optimizer")._ComptimeVar__variable.realize()
            _call_with_graph(code.output, weakref.ref(variable.value), begin, end)
            return True
        return bool(code.one_graph)  # a graph without operations that must not be broken makes no update
    except Exception as error:
        probe.complain(f"cannot count the updates of a compiled optimizer: {error!r}")
        return True


def _call_with_graph(output: Any, optimizer: weakref.ref[Any], begin: Hook, end: Hook) -> None:
    compile_graph = output.compiler_fn

    def compile_within_hooks(graph: Any, inputs: Any) -> Callable[..., Any]:
        run = compile_graph(graph, inputs)

        def run_within_hooks(*args: Any) -> Any:
            stepped = optimizer()
            if stepped is None:
                return run(*args)
            begin(stepped)
            result = run(*args)
            end(stepped)
            return result

        return run_within_hooks

    compile_within_hooks.__name__ = getattr(compile_graph, "__name__", "unknown")
    output.compiler_fn = compile_within_hooks
