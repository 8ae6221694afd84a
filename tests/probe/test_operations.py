"""Tests of the count of operations, with calls of operators that the models of test_flops do not use."""

import pytest

from zmon.probe.operations import FORMULAS, OperationCounter, OperatorCall


def operations(*calls, nanoseconds=100):
    """Return the operations of a step of `nanoseconds` with these calls, of 10 nanoseconds each."""
    counter = OperationCounter()
    for operator_call in calls:
        counter.add(operator_call)
    return counter.operations(nanoseconds)


def call(name, *shapes, dtype="float32", arguments=()):
    """Return a call with tensors of these shapes, which took 10 nanoseconds."""
    return OperatorCall(name, shapes, dtype, arguments or [None] * len(shapes), 10)


@pytest.mark.parametrize(
    ("name", "shapes", "expected"),
    [
        ("aten::mm", [(2, 3), (3, 5)], 60),
        ("aten::addmm", [(5,), (2, 3), (3, 5)], 60),
        ("aten::addmm_", [(2, 5), (2, 3), (3, 5)], 60),
        ("aten::bmm", [(4, 2, 3), (4, 3, 5)], 240),
        ("aten::mv", [(2, 3), (3,)], 12),
        ("aten::dot", [(7,), (7,)], 14),
        ("aten::mm", [(2, 3), (3, 5), (2, 5)], 60),  # torch's compiler calls the variant with an output
        ("mkldnn::_linear_pointwise", [(4, 2, 3), (5, 3)], 240),
        # Four heads, 6 queries and 7 keys of width 8, and values of width 9.
        ("aten::_scaled_dot_product_flash_attention", [(1, 4, 6, 8), (1, 2, 7, 8), (1, 2, 7, 9)], 2 * 4 * 42 * 17),
        (
            "aten::_scaled_dot_product_efficient_attention_backward",
            [(1, 4, 6, 9), (1, 4, 6, 8), (1, 4, 7, 8), (1, 4, 7, 9)],
            2 * 4 * 42 * (3 * 8 + 2 * 9),
        ),
    ],
)
def test_products_have_two_operations_for_each_element_and_term(name, shapes, expected):
    assert operations(call(name, *shapes)).by_dtype == {"float32": expected}


def test_calls_add_up_by_dtype():
    product = call("aten::mm", (2, 3), (3, 5))
    step = operations(product, product, call("aten::mm", (2, 3), (3, 5), dtype="float8_e5m2"), call("aten::add", (2,)))
    assert step.by_dtype == {"float32": 120, "float8": 60}
    assert (step.total, step.uncounted) == (180, {})


@pytest.mark.parametrize(
    "name", ["aten::add", "c10d::allreduce_", "aten::linalg_vector_norm", "fbgemm::split_embedding_lookup"]
)
def test_operation_without_products_is_not_reported_as_uncounted(name):
    assert operations(call(name, (2, 3))).uncounted == {}


@pytest.mark.parametrize("name", ["aten::_cudnn_rnn", "fbgemm::f8f8bf16", "flash_attn::_flash_attn_forward"])
def test_operation_that_may_have_products_is_reported_as_uncounted(name):
    assert operations(call(name, (2, 3))).uncounted == {name: pytest.approx(0.1)}


def test_product_of_an_unknown_dtype_or_form_is_reported_as_uncounted():
    odd = (call("aten::mm", (2, 3), (3, 5), dtype="complex64"), call("aten::addmm", (5,)))
    assert operations(*odd).uncounted == {"aten::mm": pytest.approx(0.1), "aten::addmm": pytest.approx(0.1)}


@pytest.mark.parametrize("name", FORMULAS)
def test_call_without_tensors_has_no_operations_and_raises_no_error(name):
    """An error would reach the job."""
    assert operations(call(name)).total == 0
