"""Writes tests/data/graph/operations.json: single operations as torch and transformers compute them.

Usage: python tests/tools/make_graph_golden.py tests/data/graph/operations.json
Made with Python 3.11.7, torch 2.15.0, transformers 4.57.6, numpy 2.4.6.
"""

import json
import sys
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from transformers import LlamaConfig
from transformers.masking_utils import causal_mask_function, sliding_window_causal_mask_function
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.gemma2.modeling_gemma2 import eager_attention_forward
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm
from transformers.models.gptj import modeling_gptj
from transformers.models.llama import modeling_llama

torch.manual_seed(20)


def listed(x):
    return {"shape": list(x.shape), "data": [float(f"{v:.9g}") for v in x.double().flatten().tolist()]}


def case(name, inputs, expected, **attributes):
    return {
        "name": name,
        "inputs": {key: listed(value) for key, value in inputs.items()},
        "expected": listed(expected),
        "attributes": attributes,
    }


def attention(name, heads, kv_heads, past, query, head_dim, scale, window=0, softcap=0.0):
    """Gemma 2's attention, which knows grouped heads, windows and soft caps."""
    total = past + query
    q = torch.randn(2, query, heads, head_dim)
    keys, values = torch.randn(2, kv_heads, total, head_dim), torch.randn(2, kv_heads, total, head_dim)
    sees = sliding_window_causal_mask_function(window) if window else causal_mask_function
    mask = torch.full((1, 1, query, total), -1e30, dtype=torch.float64)
    for i in range(query):
        for j in range(total):
            if bool(sees(0, 0, torch.tensor(past + i), torch.tensor(j))):
                mask[0, 0, i, j] = 0.0
    module = SimpleNamespace(num_key_value_groups=heads // kv_heads, training=False)
    mixed, _ = eager_attention_forward(
        module, q.double().transpose(1, 2), keys.double(), values.double(), mask, scaling=scale, softcap=softcap or None
    )
    inputs = {"q": q, "keys": keys, "values": values}
    return case(name, inputs, mixed, operation="attention", scale=scale, window=window, softcap=softcap)


def rope(name, interleaved, rotary_dim, head_dim=8):
    x, positions = torch.randn(2, 3, 2, head_dim), torch.tensor([[0, 1, 7], [4095, 4096, 9000]])
    frequencies = 1.0 / 10000.0 ** (torch.arange(0, rotary_dim, 2).float() / rotary_dim)
    angles = (positions[..., None].float() * frequencies).double()  # rounded to fp32, as LlamaRotaryEmbedding does
    turned, passed = x[..., :rotary_dim].double(), x[..., rotary_dim:].double()
    if interleaved:
        y = modeling_gptj.apply_rotary_pos_emb(turned, angles.sin(), angles.cos())
    else:
        whole = torch.cat((angles, angles), dim=-1)
        y, _ = modeling_llama.apply_rotary_pos_emb(turned, turned, whole.cos(), whole.sin(), unsqueeze_dim=2)
    return case(
        name,
        {"x": x, "positions": positions, "frequencies": frequencies},
        torch.cat((y, passed), dim=-1),
        operation="rope",
        interleaved=interleaved,
    )


def dynamic_table(total_length):
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        max_position_embeddings=32,
        rope_theta=10000.0,
        rope_scaling={"rope_type": "dynamic", "factor": 4.0},
    )
    init = ROPE_INIT_FUNCTIONS["dynamic"]
    trained, _ = init(config, "cpu", seq_len=32)
    expected, scale = init(config, "cpu", seq_len=total_length)
    assert scale == 1.0
    return case(
        f"dynamic table at {total_length}",
        {"trained": trained},
        expected,
        operation="dynamic_table",
        base=10000.0,
        factor=4.0,
        switch_length=32,
        total_length=total_length,
    )


def rms_norm(name, kind, offset, magnitude=1.0):
    x, weight, epsilon = magnitude * torch.randn(2, 3, 10), torch.randn(10), 1e-5
    norm = kind(10, eps=epsilon)
    norm.weight.data = weight
    with torch.no_grad():
        y = norm(x)
    return case(name, {"x": x, "weight": weight}, y, operation="rms_norm", epsilon=epsilon, offset=offset)


def layer_norm(name, with_bias):
    x, weight, bias = 3 + torch.randn(2, 3, 10), torch.randn(10), torch.randn(10)
    inputs = {"x": x, "weight": weight} | ({"bias": bias} if with_bias else {})
    doubles = [value.double() for value in inputs.values()]
    y = F.layer_norm(doubles[0], (10,), *doubles[1:], eps=1e-5)
    return case(name, inputs, y, operation="layer_norm", epsilon=1e-5)


def activation(kind, function):
    x = torch.cat((torch.linspace(-12, 12, 25), torch.tensor([0.001, -0.001, 60.0, -60.0])))
    return case(kind, {"x": x}, function(x.double()), operation="activation", kind=kind)


cases = [
    attention("attention", 2, 2, past=0, query=5, head_dim=4, scale=0.5),
    attention("attention of grouped heads on a cache", 6, 2, past=4, query=3, head_dim=4, scale=0.7),
    attention("attention with a window", 4, 1, past=5, query=4, head_dim=6, scale=0.4, window=3),
    attention("attention with a window longer than the cache", 4, 2, past=2, query=2, head_dim=6, scale=0.4, window=9),
    attention("attention with a soft cap", 4, 2, past=3, query=3, head_dim=6, scale=3.0, softcap=2.5),
    attention("attention with all", 4, 2, past=6, query=5, head_dim=6, scale=3.0, window=4, softcap=2.5),
    rope("rope of halves", False, 8),
    rope("rope of neighbours", True, 8),
    rope("rope of halves of some channels", False, 4),
    rope("rope of neighbours of some channels", True, 6),
    dynamic_table(32),
    dynamic_table(33),
    dynamic_table(500),
    rms_norm("rms norm", modeling_llama.LlamaRMSNorm, 0.0),
    rms_norm("rms norm of large rows", modeling_llama.LlamaRMSNorm, 0.0, magnitude=1e4),
    rms_norm("rms norm of tiny rows", modeling_llama.LlamaRMSNorm, 0.0, magnitude=1e-3),
    rms_norm("rms norm by one and the weight", Gemma3RMSNorm, 1.0),
    layer_norm("layer norm", True),
    layer_norm("layer norm without bias", False),
    activation("silu", F.silu),
    activation("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
    activation("gelu_erf", F.gelu),
    activation("relu", F.relu),
]

with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write("[\n" + ",\n".join(json.dumps(one) for one in cases) + "\n]\n")
