"""A plugin of vLLM on a CPU: LoRA by one matrix product an adapter, and less memory.

On a CPU, vLLM 0.32 multiplies an adapter's weights token by token, and in a batch that mixes
requests with and without an adapter takes the last one's weights for those without. glibc keeps
what the loading of weights freed (see `resources.engine_install.KEEP_MEMORY`): 2.9 GB. The engine's
interpreter loads the plugin through the entry point beside it.
"""

import ctypes
from collections.abc import Iterator

from torch import Tensor


def register() -> None:
    """Put this module's operations in the place of vLLM's, where its platform is a CPU.

    Raises:
        ImportError: This vLLM has no such operations.
    """
    from vllm.lora.punica_wrapper import punica_cpu  # noqa: PLC0415  # only where vLLM has loaded
    from vllm.model_executor import model_loader  # noqa: PLC0415
    from vllm.platforms import current_platform  # noqa: PLC0415

    if current_platform.is_cpu():
        for operation in (sgmv_shrink, sgmv_expand_slice):
            if not hasattr(punica_cpu, operation.__name__):
                raise ImportError(
                    f"This vLLM has no {operation.__name__}; the plugin is written for vLLM 0.32."
                )
            setattr(punica_cpu, operation.__name__, operation)
        load = model_loader.get_model

        def load_and_trim(**options: object) -> object:
            model = load(**options)
            ctypes.CDLL(None).malloc_trim(0)
            return model

        # the worker imports the function by name, after the plugins
        model_loader.get_model = load_and_trim


def sgmv_shrink(
    x: Tensor,
    weights: Tensor,
    out: Tensor,
    starts: Tensor,
    lengths: Tensor,
    slots: Tensor,
    *rest: float,
) -> None:
    """Set each token's row of `out` to scaling * A x, or leave it where no adapter is asked for.

    Tokens with one adapter follow each other: a run.

    Args:
        x: Inputs, shape (tokens, hidden).
        weights: The matrices A, shape (slots, 1, rank, hidden).
        out: Results, shape (tokens, rank).
        starts: vLLM's; not needed.
        lengths: Tokens of each run.
        slots: Slot of each run's adapter, -1 for none.
        rest: vLLM's; the last is the scaling.
    """
    for rows, a in _runs(weights, lengths, slots):
        out[rows, : len(a)] = rest[-1] * (x[rows].to(out.dtype) @ a.to(out.dtype).T)


def sgmv_expand_slice(
    x: Tensor,
    weights: Tensor,
    out: Tensor,
    starts: Tensor,
    lengths: Tensor,
    slots: Tensor,
    *rest: int,
) -> None:
    """Add B x to each token's slice of `out`, or put it there.

    Args:
        x: Results of `sgmv_shrink`, shape (tokens, rank).
        weights: The matrices B, shape (slots, 1, slice size, rank).
        out: Results, shape (tokens, size of all slices).
        starts: vLLM's; not needed.
        lengths: Tokens of each run.
        slots: Slot of each run's adapter, -1 for none.
        rest: vLLM's; the last are the slice's offset and size, and whether to add.
    """
    *_, offset, size, add = rest
    columns = slice(offset, offset + size)
    for rows, b in _runs(weights, lengths, slots):
        change = x[rows].to(out.dtype) @ b.to(out.dtype).T
        out[rows, columns] = out[rows, columns] + change if add else change


def _runs(weights: Tensor, lengths: Tensor, slots: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield the rows of each run of tokens that have an adapter, and its matrix."""
    start = 0
    for length, slot in zip(lengths.tolist(), slots.tolist(), strict=True):
        if slot >= 0:
            yield slice(start, start + length), weights[slot].reshape(weights.shape[-2:])
        start += length
