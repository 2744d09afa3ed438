"""LoRA on a CPU: the plugin's operations against vLLM's own, in the engine's environment."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from resources import engine_install, engines

COMPARE = """
import json, torch
from vllm.lora.ops.torch_ops import lora_ops as vllm_s
from vllm.plugins import load_general_plugins
load_general_plugins()
from vllm.lora.punica_wrapper import punica_cpu as used

torch.manual_seed(0)
lengths, slots = torch.tensor([5, 7, 4]), torch.tensor(SLOTS)
tokens, hidden, rank, size = 16, 32, 4, 24
x = torch.randn(tokens, hidden, dtype=torch.bfloat16)
a = torch.randn(2, 1, rank, hidden, dtype=torch.bfloat16)
b = torch.randn(2, 1, size, rank, dtype=torch.bfloat16)
told = [None, lengths, slots, 3, 7, tokens]

def both(operations):
    low = torch.zeros(tokens, rank)
    operations.sgmv_shrink(x, a, low, *told, 0.5)
    high = torch.ones(tokens, 2 * size, dtype=torch.bfloat16)
    operations.sgmv_expand_slice(low, b, high, *told, size, size, True)
    return high.float()

ours, theirs = both(used), both(vllm_s)
print(json.dumps({
    "module": used.sgmv_shrink.__module__,
    "apart": (ours - theirs).abs().max(1).values.tolist(),
    "changed": (ours != 1).any(1).tolist(),
    "outside": bool((ours[:, :size] == 1).all()),
}))
"""


def compared(slots: list[int]) -> dict:
    code = COMPARE.replace("SLOTS", str(slots))
    environment = {
        **os.environ,
        "PYTHONPATH": str(engines.PLUGIN.parent),
        "VLLM_LOGGING_LEVEL": "ERROR",
    }
    command = [str(engine_install.engine_python("vllm")), "-c", code]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr[-3000:]
    return json.loads(process.stdout.splitlines()[-1])


@pytest.mark.engine
@pytest.mark.slow
def test_two_adapters_are_applied_as_vllm_applies_them_and_a_request_without_one_is_left_alone() -> (
    None
):
    if not engine_install.installed("vllm"):
        pytest.skip("vLLM is not installed here")
    report = compared([1, -1, 0])
    assert report["module"] == "lora_on_cpu"
    without = slice(5, 12)
    assert report["changed"] == [True] * 5 + [False] * 7 + [True] * 4
    assert max(report["apart"][:5] + report["apart"][12:]) < 0.1, "up to the last digit of bfloat16"
    assert max(report["apart"][without]) > 1, (
        "vLLM takes the last adapter there; once it does not, drop the plugin"
    )
    assert report["outside"], "other slices of the layer are not touched"
