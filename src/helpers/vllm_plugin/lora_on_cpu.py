"""A plugin of vLLM on a CPU: LoRA by one matrix product an adapter, and less memory after loading a model.

vLLM 0.32 copies an adapter's weights once for each token of a batch on a CPU and multiplies token by token, which is
most of the time of a prompt. In a batch that mixes requests with and without an adapter, it also takes the last
adapter's weights for those without. glibc keeps what the loading of weights freed, because its settings let one step
take what the last one freed (`KEEP_MEMORY` in `helpers.engine_install`): 2.9 GB with the default model. Loaded by the
engine's own interpreter through the entry point beside this file; never imported by the notebooks.
"""

import ctypes
from collections.abc import Iterator
from typing import Any

import torch


def register() -> None:
    """Put this module's operations in the place of vLLM's, where its platform is a CPU."""
    from vllm.lora.punica_wrapper import punica_cpu  # noqa: PLC0415  # only where vLLM has loaded
    from vllm.model_executor import model_loader  # noqa: PLC0415
    from vllm.platforms import current_platform  # noqa: PLC0415

    if current_platform.is_cpu():
        for operation in (sgmv_shrink, sgmv_expand_slice):
            if not hasattr(punica_cpu, operation.__name__):
                raise ImportError(f"This vLLM has no {operation.__name__}; the plugin is written for vLLM 0.32.")
            setattr(punica_cpu, operation.__name__, operation)
        load = model_loader.get_model

        def load_and_trim(**options: object) -> object:
            model = load(**options)
            ctypes.CDLL(None).malloc_trim(0)
            return model

        # the worker imports the function by name, after the plugins
        model_loader.get_model = load_and_trim


def sgmv_shrink(
    inputs: torch.Tensor,
    lora_a_weights: torch.Tensor,
    output_tensor: torch.Tensor,
    b_seq_start_loc: torch.Tensor,
    seq_len_tensor: torch.Tensor,
    lora_indices_tensor: torch.Tensor,
    batches: int,
    max_seq_length: int,
    token_nums: int,
    scaling: float,
) -> None:
    """Set each token's row of `output_tensor` to scaling * A x, or leave it where no adapter is asked for.

    Args as vLLM's: inputs (tokens, hidden), lora_a_weights (slots, 1, rank, hidden), output_tensor (tokens, rank);
    runs of tokens with one adapter follow each other, `seq_len_tensor` their lengths and `lora_indices_tensor` their
    slots, -1 for none.
    """
    for rows, slot in _runs(seq_len_tensor, lora_indices_tensor):
        a = _matrix(lora_a_weights, slot).to(output_tensor.dtype)
        output_tensor[rows, : len(a)] = scaling * (inputs[rows].to(output_tensor.dtype) @ a.T)


def sgmv_expand_slice(
    inputs: torch.Tensor,
    lora_b_weights: torch.Tensor,
    output_tensor: torch.Tensor,
    b_seq_start_loc: torch.Tensor,
    seq_len_tensor: torch.Tensor,
    lora_indices_tensor: torch.Tensor,
    batches: int,
    max_seq_length: int,
    token_nums: int,
    slice_offset: int,
    slice_size: int,
    add_inputs: bool = False,
) -> None:
    """Add B x to each token's slice of `output_tensor`, or put it there; nothing where no adapter is asked for.

    Args as vLLM's: inputs (tokens, rank), lora_b_weights (slots, 1, slice_size, rank), and see `sgmv_shrink`.
    """
    columns = slice(slice_offset, slice_offset + slice_size)
    for rows, slot in _runs(seq_len_tensor, lora_indices_tensor):
        b = _matrix(lora_b_weights, slot).to(output_tensor.dtype)
        change = inputs[rows].to(output_tensor.dtype) @ b.T
        if add_inputs:
            output_tensor[rows, columns] += change
        else:
            output_tensor[rows, columns] = change


def _runs(lengths: torch.Tensor, slots: torch.Tensor) -> Iterator[tuple[slice, int]]:
    """The rows of each run of tokens that have an adapter, and its slot."""
    start = 0
    for length, slot in zip(lengths.tolist(), slots.tolist(), strict=True):
        if slot >= 0:
            yield slice(start, start + length), slot
        start += length


def _matrix(weights: torch.Tensor, slot: int) -> Any:  # noqa: ANN401  # torch has no types here
    return weights[slot].reshape(weights.shape[-2:])
