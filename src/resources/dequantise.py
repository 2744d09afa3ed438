"""Unpack a GGUF file to safetensors that vLLM reads.

The interpreter of vLLM's environment runs this script; nothing imports it.

python dequantise.py FILE.gguf FOLDER bf16|int8

`bf16` keeps every weight in bfloat16. `int8` rounds the projections of the decoder's layers to
eight bits with a scale for each output channel, and has vLLM round their inputs with a scale for
each token (W8A8): half the memory, and half the bytes to read for each generated token.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

EIGHT_BITS = {"num_bits": 8, "type": "int", "symmetric": True}
W8A8 = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "projections": {
            "targets": ["Linear"],
            "weights": {**EIGHT_BITS, "strategy": "channel", "dynamic": False},
            "input_activations": {**EIGHT_BITS, "strategy": "token", "dynamic": True},
        }
    },
}


def rounded(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights with each projection as int8 (outputs, inputs) and scales (outputs, 1)."""
    out = {}
    for name, weight in weights.items():
        if ".layers." in name and name.endswith("_proj.weight"):
            scale = (weight.float().abs().amax(1, keepdim=True) / 127).clamp(min=1e-8)
            out[name] = (weight.float() / scale).round().to(torch.int8)
            out[name.replace(".weight", ".weight_scale")] = scale
        else:
            out[name] = weight
    return out


def main(gguf: Path, folder: Path, precision: str) -> None:
    """Write config, tokenizer and weights of `gguf` to `folder`, as vLLM reads them."""
    config = GgufConfig(dequantize=True)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.bfloat16, quantization_config=config
    )
    if precision == "int8":
        weights = rounded(model.state_dict())
        model.config.quantization_config = W8A8
        model.save_pretrained(folder, state_dict=weights)
    else:
        model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
