"""The floating-point operations of one step, from the calls of torch's operators in it. Pure.

An operation of a matrix product is a multiplication or an addition, so a product of (m, k) and (k, n) has 2·m·k·n.
Convolutions are the products that they stand for, and attention has two products in forward and five in backward, of
which one recomputes the scores. The rest of a step (sums, activations, optimizers) is not counted, as the peak of a
device counts products only.

zmon cannot count an operator of another library, or an operator of torch without a formula. On a CPU the share of the
time in such calls shows how much is missing. A GPU works on a call after it has returned, so there the share means
nothing: it is known only that there was such a call.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

Shape = Sequence[int]
Formula = Callable[[Sequence[Shape], Sequence[Any]], int]  # the operations of a call with these shapes and arguments


class OperatorCall(NamedTuple):
    """One call of an operator."""

    name: str  # aten::mm
    shapes: Sequence[Shape]  # of its arguments, () for one that is not a tensor; none at all if one is sparse or nested
    dtype: str  # of its first tensor, as torch names it, or tf32
    arguments: Sequence[Any]
    nanoseconds: int  # on the host


@dataclass(frozen=True)
class Operations:
    """The operations of one step."""

    by_dtype: dict[str, int]
    uncounted: dict[str, float]  # name → share of the time of the step on the host

    @property
    def total(self) -> int:
        return sum(self.by_dtype.values())


class OperationCounter:
    """Counts the operations of one step, call by call."""

    def __init__(self) -> None:
        self._by_dtype: Counter[str] = Counter()
        self._uncounted: Counter[str] = Counter()  # name → nanoseconds

    def add(self, call: OperatorCall) -> None:
        """Count the operations of a call, or its time if it may have operations that zmon cannot count."""
        formula = FORMULAS.get(call.name.removesuffix("_"))  # aten::addmm_ is addmm that writes into its first argument
        flops, dtype = _flops(call, formula) if formula else None, _DTYPES.get(call.dtype)
        if flops is not None and dtype:
            self._by_dtype[dtype] += flops
        elif formula or _is_unknown(call.name):
            self._uncounted[call.name] += call.nanoseconds

    def operations(self, nanoseconds: int) -> Operations:
        """Return the operations of a step that took this long on the host."""
        uncounted = {name: ns / nanoseconds for name, ns in self._uncounted.most_common()} if nanoseconds else {}
        return Operations({dtype: flops for dtype, flops in self._by_dtype.items() if flops}, uncounted)


def _flops(call: OperatorCall, formula: Formula) -> int | None:
    """Return the operations of a call by the formula of its operator; None if it is called in an unknown way."""
    try:
        return int(formula(call.shapes, call.arguments))
    except (IndexError, TypeError, ValueError):
        return None


def _product(first: int, second: int) -> Formula:
    """Return the formula of a product of two arguments, which sums over the last size of the first of them."""

    def formula(shapes: Sequence[Shape], _: Sequence[Any]) -> int:
        left, right = shapes[first], shapes[second]
        return 2 * prod(left) * (right[-1] if len(right) > 1 else 1)

    return formula


def _convolution(shapes: Sequence[Shape], arguments: Sequence[Any]) -> int:
    """Arguments: input, weight, bias, stride, padding, dilation, transposed."""
    (batch, _, *size), weight = shapes[0], shapes[1]
    *per_dimension, is_transposed = arguments[3:7]
    if not is_transposed:  # the weight is applied at each position of the output, and not of the input
        dimensions = zip(size, weight[2:], *(_spread(values, len(size)) for values in per_dimension), strict=True)
        size = [(n + 2 * pad - gap * (kernel - 1) - 1) // stride + 1 for n, kernel, stride, pad, gap in dimensions]
    return 2 * batch * prod(size) * prod(weight)


def _convolution_backward(shapes: Sequence[Shape], arguments: Sequence[Any]) -> int:
    """Arguments: gradient, input, weight, sizes of bias, stride, padding, dilation, transposed, …, groups, mask."""
    is_transposed, mask = arguments[7], arguments[10]
    batch, _, *size = shapes[1 if is_transposed else 0]
    num_gradients = sum(map(bool, mask[:2]))  # of input and weight; that of the bias is not a product
    return num_gradients * 2 * batch * prod(size) * prod(shapes[2])


def _fused_convolution(shapes: Sequence[Shape], arguments: Sequence[Any]) -> int:
    """Arguments: input, weight, bias, padding, stride, dilation."""
    padding, stride, dilation = arguments[3:6]
    return _convolution(shapes, [None, None, None, stride, padding, dilation, False])


def _spread(values: Sequence[int], number: int) -> Sequence[int]:
    """Return a value for each dimension: torch may give one for all."""
    return values if len(values) == number else [values[0]] * number


def _attention(first: int, products: int) -> Formula:
    """Return the formula of attention; from `first` on: query (B, H, S, D), key (…, T, D), value (…, T, V).

    A product has the width D of the query or V of the value. Forward has one of each, backward three and two.
    """

    def formula(shapes: Sequence[Shape], _: Sequence[Any]) -> int:
        (batch, heads, queries, width), key, value = shapes[first : first + 3]
        value_products = products // 2
        widths = (products - value_products) * width + value_products * value[-1]
        return 2 * batch * heads * queries * key[-2] * widths

    return formula


_ATTENTION = ("flash_attention", "efficient_attention", "cudnn_attention", "flash_attention_for_cpu")
FORMULAS: dict[str, Formula] = {
    **{f"aten::{name}": _product(0, 1) for name in ("mm", "bmm", "mv", "dot", "vdot", "_scaled_mm")},
    **{f"aten::{name}": _product(1, 2) for name in ("addmm", "baddbmm", "addbmm", "addmv")},
    "mkldnn::_linear_pointwise": lambda shapes, _: 2 * prod(shapes[0]) * shapes[1][0],
    "aten::convolution": _convolution,
    "aten::_convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "mkldnn::_convolution_pointwise": _fused_convolution,
    **{f"aten::_scaled_dot_product_{kind}": _attention(0, 2) for kind in _ATTENTION},
    **{f"aten::_scaled_dot_product_{kind}_backward": _attention(1, 5) for kind in _ATTENTION},
}
_DTYPES = {
    **{name: name for name in ("float64", "float32", "tf32", "bfloat16", "float16")},
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), "float8"),
}
# Of torch, and of its communication.
_NAMESPACES_OF_TORCH = (
    "aten", "prim", "prims", "profiler", "c10d", "_c10d_functional", "c10d_functional", "fsdp", "rngprims",
)  # fmt: skip
# Operators of fbgemm and mkldnn that have products, by their names; many others there look rows up or move data.
_PRODUCTS_ELSEWHERE = re.compile(r"gemm|linear|conv|attention|matmul|f8|i8|i4|_mm\b", re.I)
# Operators of torch that have products, by their names; `mm` is also in gamma and hamming, `conv` in convert.
_PRODUCTS_OF_TORCH = re.compile(
    r"mm(?!a|ing)|addmv|conv(?!ert)|attention|linear|matmul|einsum|tensordot|inner|lstm|gru|rnn|transformer_encoder"
    r"|cdist|euclidean_dist|semi_structured|cholesky|::_?(fft|linalg)_"
)
_NO_PRODUCTS = re.compile(r"upsample|vector_norm|_thnn_fused_(lstm|gru)_cell")


def _is_unknown(name: str) -> bool:
    """Return True if an operator may have products that zmon cannot count."""
    namespace, _, operation = name.partition("::")
    if namespace in _NAMESPACES_OF_TORCH:
        return bool(_PRODUCTS_OF_TORCH.search(name)) and not _NO_PRODUCTS.search(name)
    if namespace in ("fbgemm", "mkldnn"):
        return bool(_PRODUCTS_ELSEWHERE.search(operation))
    return True
