"""Unpack a GGUF file to bfloat16 safetensors. Run by the vLLM environment's own interpreter, never imported."""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def main(gguf: Path, folder: Path) -> None:
    """Write config, tokenizer and weights of `gguf` to `folder`, as vLLM reads them."""
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
