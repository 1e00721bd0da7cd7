#!/usr/bin/env python3
"""Makes tests/data/models: tiny models with random weights, and the logits an independent reference gives for them.

Needs torch 2.x (CPU), transformers==4.57.6, safetensors==0.8.0, gguf==0.19.0, and two source trees that stay outside
the repository:
  --corenet    a checkout of github.com/apple/corenet (1aa3acd). Its general_gpt.py, rotary_embeddings.py and
               rms_norm.py are run as they are; the layers they import that only wrap torch (linear, embedding, swish)
               are torch's own.
  --llama-cpp  a checkout of github.com/ggml-org/llama.cpp, whose convert_hf_to_gguf classes write the GGUF spelling.

    python tests/tools/make_model_golden.py --corenet DIR --llama-cpp DIR

Each model is a Hugging Face folder tests/data/models/NAME, some also NAME.gguf, and NAME.golden.safetensors:
  ids            int64 [n]              the prompt
  logits         float32 [n, vocab]     every row of one run over all ids
  prefill        int64 [1]              length of the prefill that precedes the steps
  step_logits    float32 [n - prefill, vocab]
                                        last row after each further id: with the reference's own cache, or, where
                                        `from_scratch` is 1, by a run from scratch over the ids so far
  from_scratch   int64 [1]              1 for models whose rope depends on the total length (dynamic, longrope): there
                                        the reference's cache mixes keys of different tables and is no reference
Weights are f32, seeded by the model's name, spread widely enough that every part of a model shows in its logits.
"""

import argparse
import json
import math
import shutil
import sys
import tempfile
import types
import zlib
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

OUT = Path(__file__).resolve().parent.parent / "data" / "models"
SMALL = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2,
             pad_token_id=0)
# Heads wide enough for a scaling to touch some frequencies and spare others; prompts of 40 pass the 16 positions.
ROPE = dict(SMALL, head_dim=16, max_position_embeddings=64)
LLAMA3 = dict(rope_type="llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=16)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16)
GEMMA = dict(SMALL, head_dim=16, num_attention_heads=2, num_key_value_heads=1, query_pre_attn_scalar=16,
             rms_norm_eps=1e-6, tie_word_embeddings=True)


def longrope(pairs):
    return dict(type="longrope", short_factor=[1.0 + 0.05 * i for i in range(pairs)],
                long_factor=[1.5 + 0.75 * i for i in range(pairs)])


# name: (model_type, config, number of prompt ids)
MODELS = {
    "llama": ("llama", dict(SMALL, num_key_value_heads=4), 24),
    "llama_tied": ("llama", dict(SMALL, num_key_value_heads=1, tie_word_embeddings=True), 24),
    "llama_bias": ("llama", dict(SMALL, attention_bias=True, mlp_bias=True), 24),
    "llama_head_dim": ("llama", dict(SMALL, head_dim=12), 24),
    "llama_linear": ("llama", dict(ROPE, rope_scaling=dict(type="linear", factor=4.0)), 40),
    "llama_dynamic": ("llama", dict(ROPE, max_position_embeddings=16,
                                    rope_scaling=dict(rope_type="dynamic", factor=2.0)), 40),
    "llama_llama3": ("llama", dict(ROPE, rope_theta=10000.0, rope_scaling=LLAMA3), 40),
    "llama_yarn": ("llama", dict(ROPE, rope_scaling=YARN), 40),
    "llama_yarn_mscale": ("llama", dict(ROPE, rope_scaling=dict(
        YARN, mscale=1.5, mscale_all_dim=0.7, beta_fast=4.0, beta_slow=0.5, truncate=False)), 40),
    "mistral_window": ("mistral", dict(SMALL, sliding_window=5), 24),
    "qwen2": ("qwen2", dict(SMALL, rope_theta=1000000.0, sliding_window=5, use_sliding_window=False), 24),
    "qwen2_window": ("qwen2", dict(SMALL, num_hidden_layers=3, sliding_window=5, use_sliding_window=True,
                                   max_window_layers=1), 24),
    "qwen3": ("qwen3", dict(SMALL, head_dim=16, rope_theta=1000000.0, tie_word_embeddings=True), 24),
    "gemma2": ("gemma2", dict(GEMMA, num_hidden_layers=3, sliding_window=5, attn_logit_softcapping=2.0,
                              final_logit_softcapping=4.0), 24),
    "gemma2_scalar": ("gemma2", dict(GEMMA, sliding_window=5, query_pre_attn_scalar=9), 24),
    "gemma3": ("gemma3_text", dict(GEMMA, num_hidden_layers=7, sliding_window=5, rope_theta=1000000.0,
                                   rope_local_base_freq=10000.0,
                                   rope_scaling=dict(factor=8.0, rope_type="linear")), 40),
    "gemma3_pattern": ("gemma3_text", dict(GEMMA, num_hidden_layers=4, sliding_window=4, sliding_window_pattern=2,
                                           query_pre_attn_scalar=9, rope_theta=50000.0, rope_local_base_freq=500.0,
                                           final_logit_softcapping=6.0), 24),
    "phi3": ("phi3", dict(SMALL, partial_rotary_factor=0.5, original_max_position_embeddings=64, sliding_window=7),
             24),
    "phi3_longrope": ("phi3", dict(SMALL, partial_rotary_factor=0.75, hidden_size=48, num_attention_heads=3,
                                   num_key_value_heads=1, max_position_embeddings=64,
                                   original_max_position_embeddings=12, rope_scaling=longrope(6)), 20),
}
FROM_SCRATCH = {"llama_dynamic", "phi3_longrope"}
STORED_AS = {"gemma3_bf16": ("gemma3_pattern", torch.bfloat16), "qwen2_f16": ("qwen2", torch.float16)}
GGUF = ["llama_tied", "llama_bias", "llama_linear", "llama_llama3", "llama_yarn", "qwen2", "qwen3", "gemma2", "gemma3",
        "phi3_longrope", "openelm"]


def seeded(name):
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def randomize(model, name, norm_mean):
    """Every parameter from a normal distribution, in the order of their names."""
    generator = seeded(name)
    for key, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if key.endswith("norm.weight"):
            parameter.data = norm_mean + 0.3 * noise
        elif key.endswith("bias"):
            parameter.data = 0.5 * noise
        elif "embed" in key:
            parameter.data = 0.5 * noise
        else:
            parameter.data = noise * 1.5 / math.sqrt(parameter.shape[-1])


def prompt(name, length, vocab):
    return torch.randint(3, vocab, (length,), generator=seeded(name + " prompt"))


def save_golden(name, ids, logits, steps, prefill, from_scratch):
    tensors = dict(ids=ids, logits=logits, prefill=torch.tensor([prefill]), step_logits=steps,
                   from_scratch=torch.tensor([int(from_scratch)]))
    save_file({key: value.contiguous() for key, value in tensors.items()}, OUT / f"{name}.golden.safetensors")
    noise = ((logits[prefill:] - steps).abs().max() / logits.std()).item()
    print(f"{name:20} std {logits.std():.3f}  cached against whole {noise:.1e}{' (from scratch)' if from_scratch else ''}")


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def run_transformers(model, ids, from_scratch):
    from transformers import DynamicCache

    prefill = max(1, len(ids) // 2 - 1) if not from_scratch else 10
    with torch.no_grad():
        logits = model(ids[None], use_cache=False).logits[0]
        if from_scratch:
            steps = [model(ids[None, :n], use_cache=False).logits[0, -1] for n in range(prefill + 1, len(ids) + 1)]
        else:
            cache = DynamicCache(config=model.config)
            model(ids[None, :prefill], past_key_values=cache, use_cache=True)
            steps = [model(ids[None, n:n + 1], past_key_values=cache, use_cache=True).logits[0, -1]
                     for n in range(prefill, len(ids))]
    return logits, torch.stack(steps), prefill


def make_transformers(name, model_type, settings, length, stored=None, weights_of=None):
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(model_type, **json.loads(json.dumps(settings)))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    randomize(model, weights_of or name, 0.0 if model_type.startswith("gemma") else 1.0)
    if stored:
        for parameter in model.parameters():
            parameter.data = parameter.data.to(stored).float()
        scaled = model.get_input_embeddings()
        if hasattr(scaled, "embed_scale"):  # the reference rounds it to the weights' type
            scaled.embed_scale = scaled.embed_scale.to(stored).float()
    model.tie_weights()
    ids = prompt(weights_of or name, length, config.vocab_size)
    logits, steps, prefill = run_transformers(model, ids, name in FROM_SCRATCH)
    folder = OUT / name
    folder.mkdir()
    state = {key: value.to(stored or torch.float32).contiguous() for key, value in model.state_dict().items()}
    if settings.get("tie_word_embeddings"):
        state.pop("lm_head.weight", None)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    written = dict(architectures=[type(model).__name__], model_type=model_type,
                   torch_dtype=str(stored or torch.float32).removeprefix("torch."), **settings)
    write_json(folder / "config.json", written)
    save_golden(name, ids, logits, steps, prefill, name in FROM_SCRATCH)


ROPE_TABLES = [
    dict(head_dim=64),
    dict(head_dim=128, rope_theta=1000000.0),
    dict(head_dim=80, rope_scaling=dict(type="linear", factor=2.5)),
    dict(head_dim=64, rope_theta=500000.0, rope_scaling=dict(LLAMA3, factor=32.0, original_max_position_embeddings=8192)),
    dict(head_dim=128, rope_theta=500000.0, rope_scaling=dict(LLAMA3, factor=8.0, original_max_position_embeddings=8192)),
    dict(head_dim=128, rope_theta=1000000.0, max_position_embeddings=32768,
         rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32768)),
    dict(head_dim=64, rope_theta=150000.0, rope_scaling=dict(
        rope_type="yarn", factor=32.0, original_max_position_embeddings=4096, beta_fast=32.0, beta_slow=1.0,
        truncate=False)),
    dict(head_dim=64, rope_scaling=dict(rope_type="yarn", factor=40.0, original_max_position_embeddings=4096,
                                        mscale=1.0, mscale_all_dim=0.8)),
    dict(head_dim=64, max_position_embeddings=8192, rope_scaling=dict(rope_type="yarn", factor=2.0,
                                                                      attention_factor=1.25)),
    dict(head_dim=96, max_position_embeddings=131072, original_max_position_embeddings=4096,
         rope_scaling=longrope(48)),
    dict(head_dim=96, max_position_embeddings=8192, rope_scaling=dict(longrope(48), factor=4.0)),
    dict(head_dim=64, max_position_embeddings=2048, rope_scaling=dict(rope_type="dynamic", factor=2.0)),
]


def make_rope_tables():
    """The tables of transformers itself, below and above the length where they may change."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    tables = []
    for settings in ROPE_TABLES:
        settings = dict(dict(hidden_size=128, num_attention_heads=1, max_position_embeddings=2048), **settings)
        config = LlamaConfig(**json.loads(json.dumps(settings)))
        scaling = config.rope_scaling or {}
        function = ROPE_INIT_FUNCTIONS[scaling.get("rope_type", "default")]
        for length in (1, 100000):
            frequencies, scale = function(config, "cpu", seq_len=length)
            tables.append(dict(config=settings, length=length, scale=scale,
                               inverse_frequencies=[float(f"{value:.9g}") for value in frequencies.tolist()]))
    (OUT / "rope_tables.json").write_text(
        "[\n" + ",\n".join(json.dumps(table) for table in tables) + "\n]\n")


def make_openelm(corenet):
    """apple/corenet's own model; see the top of this file."""
    def module(path, **members):
        made = types.ModuleType(path)
        made.__dict__.update(members)
        sys.modules[path] = made
        return made

    def run_file(relative, path):
        made = module(path)
        source = (corenet / relative).read_text()
        exec(compile(source, relative, "exec"), made.__dict__)
        return made

    same = lambda *_, **__: (lambda cls: cls)
    for package in ("corenet", "corenet.modeling", "corenet.utils"):
        module(package)
    module("corenet.modeling.layers.normalization", register_norm_fn=same)
    rms_norm = run_file("corenet/modeling/layers/normalization/rms_norm.py", "corenet.rms_norm").RMSNorm
    rotary = run_file("corenet/modeling/layers/rotary_embeddings.py", "corenet.rotary").RotaryEmbedding
    run_file("corenet/utils/math_utils.py", "corenet.utils.math_utils")

    class Embedding(torch.nn.Embedding):
        def __init__(self, opts, embedding_dim, num_embeddings, padding_idx):
            super().__init__(num_embeddings, embedding_dim)

    module("corenet.modeling.layers", Embedding=Embedding, LinearLayer=torch.nn.Linear, RotaryEmbedding=rotary,
           get_normalization_layer=lambda opts, num_features, norm_type: rms_norm(num_features),
           norm_layers_tuple=(rms_norm,))
    module("corenet.modeling.layers.activation", build_activation_layer=lambda opts, act_type: torch.nn.SiLU())
    module("corenet.modeling.models", MODEL_REGISTRY=types.SimpleNamespace(register=same))
    module("corenet.modeling.models.language_modeling.base_lm", BaseLanguageModel=type(
        "BaseLanguageModel", (torch.nn.Module,), {"__init__": lambda self, *_: torch.nn.Module.__init__(self)}))
    sys.modules["corenet.utils"].logger = None
    gpt = run_file("corenet/modeling/models/language_modeling/general_gpt.py", "corenet.general_gpt")

    sizes = dict(num_transformer_layers=3, model_dim=32, head_dim=8, num_gqa_groups=2, ffn_dim_divisor=8,
                 ffn_multipliers=(0.5, 2.0), qkv_multipliers=(0.5, 1.0), normalize_qk_projections=True,
                 share_input_output_layers=True, rope_max_length=128)
    gpt.gpt_configs["tiny"] = dict(sizes)
    prefix = "model.language_modeling.general_gpt."
    opts = argparse.Namespace(**{prefix + "model_name": "tiny", prefix + "vocab_size": 64,
                                 prefix + "max_context_length": 64, prefix + "padding_index": 0})
    model = gpt.GeneralGPTModel(opts).eval()
    randomize(model, "openelm", 1.0)
    config = gpt.GPTConfig(**gpt.gpt_configs["tiny"])
    ids = prompt("openelm", 24, 64)
    prefill = 11
    with torch.no_grad():
        logits = model(ids[None])[0]
        call = lambda part, keys, values, causal: model(dict(
            input_ids=part[None], past_keys=keys, past_values=values, use_kv_cache=True, is_causal=causal))
        out = call(ids[:prefill], None, None, True)
        steps = []
        for n in range(prefill, len(ids)):
            out = call(ids[n:n + 1], out["past_keys"], out["past_values"], False)
            steps.append(out["logits"][0, -1])
    folder = OUT / "openelm"
    folder.mkdir()
    save_file({"transformer." + key: value for key, value in model.state_dict().items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    # The keys of the published config.json.
    write_json(folder / "config.json", dict(
        sizes, architectures=["OpenELMForCausalLM"], model_type="openelm", activation_fn_name="swish", bos_token_id=1,
        eos_token_id=2, ffn_multipliers=config.ffn_multipliers, ffn_with_glu=True, max_context_length=64,
        normalization_layer_name="rms_norm", num_kv_heads=config.num_kv_heads, num_query_heads=config.num_query_heads,
        rope_freq_constant=10000, vocab_size=64, torch_dtype="float32"))
    save_golden("openelm", ids, logits, torch.stack(steps), prefill, False)


def copy_model(source, name):
    """The same model spelt another way: same weights, same golden numbers."""
    shutil.copytree(OUT / source, OUT / name)
    shutil.copy(OUT / f"{source}.golden.safetensors", OUT / f"{name}.golden.safetensors")
    return json.loads((OUT / name / "config.json").read_text())


def make_spellings():
    # transformers 5 writes one `rope_parameters`, flat or by kind of layer, and `dtype`.
    config = copy_model("llama_llama3", "llama_llama3_v5")
    config["rope_parameters"] = dict(config.pop("rope_scaling"), rope_theta=config.pop("rope_theta"))
    config["dtype"] = config.pop("torch_dtype")
    write_json(OUT / "llama_llama3_v5" / "config.json", config)

    config = copy_model("gemma3", "gemma3_v5")
    config["rope_parameters"] = {
        "full_attention": dict(config.pop("rope_scaling"), rope_theta=config.pop("rope_theta")),
        "sliding_attention": dict(rope_type="default", rope_theta=config.pop("rope_local_base_freq")),
    }
    config["layer_types"] = ["full_attention" if i == 5 else "sliding_attention" for i in range(7)]
    config["dtype"] = config.pop("torch_dtype")
    write_json(OUT / "gemma3_v5" / "config.json", config)

    # A vision model's text part.
    text = copy_model("gemma3_pattern", "gemma3_multimodal")
    text.pop("architectures")
    write_json(OUT / "gemma3_multimodal" / "config.json", dict(
        architectures=["Gemma3ForConditionalGeneration"], model_type="gemma3", eos_token_id=[1, 2], text_config=text,
        vision_config=dict(model_type="siglip_vision_model", hidden_size=4)))
    state = load_file(OUT / "gemma3_multimodal" / "model.safetensors")
    state = {"language_model." + key: value for key, value in state.items()}
    state["vision_tower.vision_model.post_layernorm.weight"] = torch.ones(4)
    state["multi_modal_projector.mm_soft_emb_norm.weight"] = torch.ones(4)
    save_file(state, OUT / "gemma3_multimodal" / "model.safetensors", metadata={"format": "pt"})

    # Shards with an index.
    copy_model("llama_bias", "llama_sharded")
    folder = OUT / "llama_sharded"
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shards = {key: f"model-0000{1 + (n % 3)}-of-00003.safetensors" for n, key in enumerate(sorted(state))}
    for shard in sorted(set(shards.values())):
        save_file({key: state[key] for key in state if shards[key] == shard}, folder / shard,
                  metadata={"format": "pt"})
    total = sum(value.numel() * 4 for value in state.values())
    write_json(folder / "model.safetensors.index.json", dict(metadata=dict(total_size=total), weight_map=shards))


def make_gguf(llama_cpp, name):
    sys.path.insert(0, str(llama_cpp))
    sys.path.insert(0, str(llama_cpp / "gguf-py"))
    import gguf
    from conversion import get_model_class
    from conversion.base import TextModel

    config = json.loads((OUT / name / "config.json").read_text())
    converter = get_model_class(config["architectures"][0], mmproj=False)
    converter.set_vocab = TextModel._set_vocab_none
    with tempfile.TemporaryDirectory() as work, torch.inference_mode():
        folder = Path(work) / name
        shutil.copytree(OUT / name, folder)
        vocab = {f"t{i}": i for i in range(config["vocab_size"])}
        write_json(folder / "tokenizer.json", dict(model=dict(vocab=vocab), added_tokens=[]))  # one class counts it
        converter(folder, gguf.LlamaFileType.ALL_F32, OUT / f"{name}.gguf", eager=True).write()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corenet", type=Path, required=True)
    parser.add_argument("--llama-cpp", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if OUT.exists():
        shutil.rmtree(OUT)
    OUT.mkdir(parents=True)
    for name, (model_type, settings, length) in MODELS.items():
        make_transformers(name, model_type, settings, length)
    for name, (source, dtype) in STORED_AS.items():
        model_type, settings, length = MODELS[source]
        make_transformers(name, model_type, settings, length, stored=dtype)
    make_openelm(arguments.corenet)
    make_spellings()
    make_rope_tables()
    for name in GGUF:
        make_gguf(arguments.llama_cpp, name)


if __name__ == "__main__":
    main()
