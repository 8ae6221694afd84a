"""Values of any type of a report in which every number is the same, and the fields that have numbers."""

import dataclasses
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from zmon.schema.steps import Steps

_KEY = 7  # the key of each mapping, such as the number of a GPU; a key is a name and does not depend on `number`


def types_in(type_):
    """Return the classes with fields that a value of this type can have inside, each once."""
    pending = [type_]
    classes = []
    while pending:
        hint = pending.pop()
        if not is_class(hint):
            pending += arguments_of(hint)
        elif hint not in classes:
            classes.append(hint)
            pending += get_type_hints(hint, include_extras=True).values()
    return classes


def arguments_of(hint):
    """Return the types inside a hint. A literal has none, and an annotated type has one."""
    if get_origin(hint) is Literal:
        return ()
    return get_args(hint)[:1] if is_annotated(hint) else get_args(hint)


def fields_with_numbers(cls):
    """Return the names of the fields of a class that have a number, alone or in a tuple or mapping."""
    return {name for name, hint in get_type_hints(cls, include_extras=True).items() if _has_number(hint)}


def filled(type_, number):
    """Return a value of this type in which every number is `number`. Raises TypeError for a type it does not know.

    Steps are empty: their numbers are packed into columns, which do not move field by field.
    """
    if type_ is Steps:
        return Steps()
    if is_class(type_):
        hints = get_type_hints(type_, include_extras=True)
        return type_(**{name: filled(hint, number) for name, hint in hints.items()})
    if is_annotated(type_):
        return filled(get_args(type_)[0], number)
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        return filled(next(member for member in arguments if member not in (type(None), msgspec.UnsetType)), number)
    if origin in (dict, Mapping):
        return {filled(arguments[0], _KEY): filled(arguments[1], number)}
    if origin in (tuple, Sequence):
        return tuple(filled(item, number) for item in arguments if item is not Ellipsis)
    if origin is Literal:
        return arguments[0]
    plain_values = {int: int(number), float: float(number), str: "a", bool: True, bytes: b""}
    if type_ not in plain_values:
        raise TypeError(f"no value of {type_} is known: add a case")
    return plain_values[type_]


def is_class(type_):
    """Return True for a class with fields: a dataclass or a Struct."""
    return isinstance(type_, type) and (dataclasses.is_dataclass(type_) or issubclass(type_, msgspec.Struct))


def is_annotated(type_):
    """Return True for `Annotated[…]`, a type with limits."""
    return get_origin(type_) is Annotated


def _has_number(hint: Any) -> bool:
    if hint in (int, float):
        return True
    return any(map(_has_number, arguments_of(hint)))
