"""Values of Arrow columns as Python's own."""

from itertools import pairwise
from typing import Any

import pyarrow as pa


def to_list(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as `to_pylist` does, several times as fast.

    A list that is missing is empty, for no table of the project tells the two apart.
    """
    return _values(column.combine_chunks())


def _values(array: pa.Array) -> list[Any]:
    kind = array.type
    if pa.types.is_dictionary(kind):
        return _values(array.cast(kind.value_type))
    if pa.types.is_list(kind):
        items = _values(array.values)
        return [items[start:end] for start, end in pairwise(array.offsets.to_pylist())]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        fields = [_values(field) for field in array.flatten()]
        return [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)]
    if array.null_count and not pa.types.is_string(kind):
        return array.to_pylist()  # pandas makes NaN of a missing number
    return array.to_pandas().tolist()
