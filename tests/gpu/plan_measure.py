"""What PyTorch really needs: the measurements behind `tidemark plan`. Usage: plan_measure.py OUT.json [--device cpu]
[--limit SECONDS] [--only PATTERN,...]; or, for the table that the tests read: plan_measure.py --table OUT.json... > plan_h200.tsv,
or plan_measure.py --planned PATTERN,... for lines of what was not measured yet.

Runs every configuration of the table below in a process of its own, one after the other, and writes one JSON document: versions,
and for each configuration the peak of allocated and reserved bytes, what the device has in use, and what was allocated at each
phase. Traced configurations (few layers) come with every allocation and free of one step, so that a term of the plan can be
compared with the tensor it stands for. Models are made from their configuration with random weights; nothing is fetched.

Needs torch with CUDA and transformers; torchvision for ResNet, bitsandbytes for its AdamW. With `--device cpu` everything is small and
only tried; with `--device host` the rows of the processor (--only 'c-*,ch-*') are measured by the peak of their resident bytes.
"""

import argparse
import fnmatch
import gc
import gzip
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time
import traceback

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# A process that has asked CUDA for its devices cannot fork children that use them.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", "/tmp/plan-measure-inductor")

import torch
import torch.nn.functional as functional
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, ViTConfig,
                          ViTForImageClassification)

try:
    import torchvision.models as vision
except ImportError:
    vision = None
try:
    from transformers import DynamicCache
except ImportError:
    DynamicCache = None

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def llama(hidden, inner, layers, heads, kv, vocabulary, tie, positions=2048):
    return LlamaForCausalLM, LlamaConfig(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                                         num_key_value_heads=kv, vocab_size=vocabulary, tie_word_embeddings=tie,
                                         max_position_embeddings=positions)


def qwen(hidden, inner, layers, heads, kv, vocabulary, tie):
    return Qwen2ForCausalLM, Qwen2Config(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=heads,
                                         num_key_value_heads=kv, vocab_size=vocabulary, tie_word_embeddings=tie)


def gpt2(width, layers, heads):
    return GPT2LMHeadModel, GPT2Config(n_embd=width, n_layer=layers, n_head=heads)


def vit(hidden, inner, layers, heads):
    return ViTForImageClassification, ViTConfig(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers,
                                                num_attention_heads=heads, num_labels=1000)


MODELS = {
    "gpt2": lambda: gpt2(768, 12, 12),
    "gpt2-medium": lambda: gpt2(1024, 24, 16),
    "gpt2-large": lambda: gpt2(1280, 36, 20),
    "smollm-135m": lambda: llama(576, 1536, 30, 9, 3, 49152, True),
    "tinyllama-1.1b": lambda: llama(2048, 5632, 22, 32, 4, 32000, False),
    "llama-3.2-1b": lambda: llama(2048, 8192, 16, 32, 8, 128256, True, 131072),
    "qwen2.5-0.5b": lambda: qwen(896, 4864, 24, 14, 2, 151936, True),
    "vit-base": lambda: vit(768, 3072, 12, 12),
    "vit-large": lambda: vit(1024, 4096, 24, 16),
    "resnet18": lambda: ("resnet18", None),
    "resnet50": lambda: ("resnet50", None),
}

DEFAULTS = dict(task="pretrain", batch=8, seq=256, accumulation=1, generate=0, dtype="fp32", autocast=False, attention="sdpa",
                checkpointing=False, optimizer="adamw", set_to_none=True, reference=True, compile=False, ddp=False, dropout=None,
                layers=None, rank=16, steps=3, trace=False, mistake=None, k=0, padded=False, vocabulary=None, processes=1, shard="none",
                backend=None, scaler=False)


def conf(name, model, **options):
    unknown = set(options) - set(DEFAULTS)
    assert not unknown, unknown
    return dict(DEFAULTS, name=name, model=model, **options)


def wanted():
    c = conf
    rows = [
        c("g-pre-fp32", "gpt2", batch=8, seq=174),
        c("g-pre-fp32-1024", "gpt2", batch=4, seq=1024),
        c("g-pre-bf16", "gpt2", batch=8, seq=512, dtype="bf16"),
        c("g-pre-auto", "gpt2", batch=8, seq=512, autocast=True),
        c("g-pre-auto-accum", "gpt2", batch=4, seq=1024, autocast=True, accumulation=4),
        c("g-pre-eager", "gpt2", batch=4, seq=1024, attention="eager"),
        c("g-pre-eager-bf16", "gpt2", batch=4, seq=1024, attention="eager", dtype="bf16"),
        c("g-pre-eager-auto", "gpt2", batch=8, seq=512, attention="eager", autocast=True),
        c("g-pre-nodrop", "gpt2", batch=16, seq=256, dropout=0.0),
        c("g-pre-ckpt", "gpt2", batch=16, seq=512, checkpointing=True),
        c("g-pre-ckpt-bf16-eager", "gpt2", batch=8, seq=1024, checkpointing=True, dtype="bf16", attention="eager"),
        c("g-pre-sgd", "gpt2", batch=8, seq=256, optimizer="sgd"),
        c("g-pre-momentum", "gpt2", batch=2, seq=128, optimizer="momentum"),
        c("g-pre-fused", "gpt2", batch=2, seq=128, optimizer="adamw-fused"),
        c("g-pre-forloop", "gpt2", batch=2, seq=128, optimizer="adamw-loop"),
        c("g-pre-adamw-small", "gpt2", batch=1, seq=64),
        c("g-pre-adafactor", "gpt2", batch=2, seq=128, optimizer="adafactor"),
        c("g-pre-keepgrad", "gpt2", batch=8, seq=256, set_to_none=False),
        c("g-pre-accum", "gpt2", batch=2, seq=512, accumulation=8),
        c("gm-pre-fp32", "gpt2-medium", batch=4, seq=512),
        c("gm-pre-bf16", "gpt2-medium", batch=8, seq=1024, dtype="bf16", optimizer="adamw-fused"),
        c("gm-grpo-bf16", "gpt2-medium", task="grpo", batch=8, seq=300, dtype="bf16"),
        c("gl-pre-bf16-ckpt", "gpt2-large", batch=8, seq=1024, dtype="bf16", checkpointing=True),
        c("gl-sft-auto-adafactor", "gpt2-large", task="sft", batch=4, seq=512, autocast=True, optimizer="adafactor"),
        c("g-grpo-fp32", "gpt2", task="grpo", batch=8, seq=174),
        c("g-grpo-bf16", "gpt2", task="grpo", batch=8, seq=174, dtype="bf16"),
        c("g-grpo-1024-eager", "gpt2", task="grpo", batch=8, seq=1024, attention="eager"),
        c("g-grpo-gen", "gpt2", task="grpo", batch=16, seq=192, generate=128, dtype="bf16"),
        c("g-grpo-noref", "gpt2", task="grpo", batch=8, seq=256, reference=False, optimizer="adamw-fused"),
        c("g-grpo-auto", "gpt2", task="grpo", batch=8, seq=256, autocast=True),
        c("g-sft-padded", "gpt2", task="sft", batch=8, seq=512, dtype="bf16", padded=True),
        c("g-sft-padded-fp32", "gpt2", task="sft", batch=8, seq=384, padded=True),
        c("g-lora-fp32", "gpt2", task="lora", batch=8, seq=512),
        c("g-lora-bf16", "gpt2", task="lora", batch=16, seq=512, dtype="bf16", rank=64),
        c("g-infer", "gpt2", task="infer", batch=16, seq=256, generate=64),
        c("g-infer-bf16", "gpt2", task="infer", batch=32, seq=512, generate=64, dtype="bf16"),
        c("g-infer-logits", "gpt2", task="infer", batch=8, seq=512, generate=0),
        c("s-pre-fp32", "smollm-135m", batch=4, seq=512),
        c("s-pre-bf16", "smollm-135m", batch=8, seq=1024, dtype="bf16"),
        c("s-pre-auto", "smollm-135m", batch=8, seq=512, autocast=True),
        c("s-pre-eager", "smollm-135m", batch=4, seq=512, attention="eager", dtype="bf16"),
        c("s-grpo-gen", "smollm-135m", task="grpo", batch=16, seq=256, generate=64, dtype="bf16"),
        c("t-sft-bf16", "tinyllama-1.1b", task="sft", batch=4, seq=1024, dtype="bf16", optimizer="adamw-fused"),
        c("t-sft-ckpt", "tinyllama-1.1b", task="sft", batch=8, seq=2048, dtype="bf16", checkpointing=True, optimizer="adafactor"),
        c("t-pre-fp32", "tinyllama-1.1b", batch=2, seq=1024),
        c("t-lora-bf16", "tinyllama-1.1b", task="lora", batch=4, seq=1024, dtype="bf16"),
        c("t-lora-ckpt", "tinyllama-1.1b", task="lora", batch=8, seq=1024, dtype="bf16", checkpointing=True, rank=8),
        c("t-infer-bf16", "tinyllama-1.1b", task="infer", batch=32, seq=1024, generate=32, dtype="bf16"),
        c("l-pre-bf16", "llama-3.2-1b", batch=2, seq=1024, dtype="bf16"),
        c("l-grpo-bf16", "llama-3.2-1b", task="grpo", batch=4, seq=512, dtype="bf16", optimizer="sgd"),
        c("l-infer-bf16", "llama-3.2-1b", task="infer", batch=8, seq=512, generate=32, dtype="bf16"),
        c("q-pre-auto", "qwen2.5-0.5b", batch=4, seq=512, autocast=True),
        c("q-sft-bf16-accum", "qwen2.5-0.5b", task="sft", batch=2, seq=1024, dtype="bf16", accumulation=4, padded=True),
        c("q-lora-eager", "qwen2.5-0.5b", task="lora", batch=2, seq=512, attention="eager"),
        c("v-pre-fp32", "vit-base", batch=32, seq=224),
        c("v-pre-bf16", "vit-base", batch=128, seq=224, dtype="bf16"),
        c("v-pre-auto", "vit-base", batch=64, seq=224, autocast=True, optimizer="adamw-fused"),
        c("v-pre-eager", "vit-base", batch=32, seq=224, attention="eager"),
        c("vl-pre-ckpt", "vit-large", batch=64, seq=224, autocast=True, checkpointing=True),
        c("v-infer", "vit-base", task="infer", batch=256, seq=224, dtype="bf16"),
        c("r50-pre-fp32", "resnet50", batch=32, seq=224, optimizer="momentum"),
        c("r50-pre-auto", "resnet50", batch=64, seq=224, autocast=True, optimizer="momentum"),
        c("r50-pre-bf16", "resnet50", batch=128, seq=224, dtype="bf16", optimizer="adamw"),
        c("r18-pre-fp32", "resnet18", batch=64, seq=224, optimizer="adamw"),
        c("r50-infer", "resnet50", task="infer", batch=64, seq=224),
        c("g-pre-ddp", "gpt2", batch=4, seq=512, ddp=True),
        c("s-pre-ddp-bf16", "smollm-135m", batch=4, seq=512, ddp=True, dtype="bf16"),
    ]
    # What goes wrong in practice, done for real on a run that would otherwise be one of these.
    rl = dict(task="grpo", batch=8, seq=174, dtype="bf16")
    tune = dict(task="sft", batch=4, seq=512, dtype="bf16")
    m = lambda name, model, mistake, **options: c("m-" + name, model, mistake=mistake, **options)
    rows += [
        m("pad-1024", "gpt2", "padded", **dict(rl, seq=1024)),
        m("fp32", "gpt2", "dtype", **dict(rl, dtype="fp32")),
        m("eager", "gpt2", "eager", **dict(rl, seq=768, attention="eager")),
        m("retain-4", "gpt2", "retain", k=4, **rl),
        m("retain-16", "gpt2", "retain", k=16, **rl),
        m("retain-50", "gpt2", "retain", k=50, **dict(rl, batch=4)),
        m("gen-grad", "gpt2", "gen-grad", generate=48, **dict(rl, seq=96)),
        m("ref-grad", "gpt2", "ref-grad", **rl),
        m("group-times-4", "gpt2", "batch", **dict(rl, batch=32)),
        m("cache-kept", "gpt2", "cache-kept", generate=128, **dict(rl, batch=32, seq=384)),
        m("double", "gpt2", "double", **rl),
        m("double-medium", "gpt2-medium", "double", **tune),
        m("outputs-kept", "gpt2", "outputs-kept", **dict(rl, steps=12)),
        m("eval-grad", "gpt2", "eval-grad", **tune),
        m("train-cache", "gpt2", "train-cache", **dict(tune, batch=8, seq=1024)),
        m("fp32-state", "gpt2-medium", "fp32-state", **tune),
        m("ckpt-off", "gpt2-medium", "ckpt-off", **tune),
        m("accum-as-batch", "gpt2", "batch", **dict(tune, batch=16)),
        m("lora-unfrozen", "gpt2-medium", "lora-unfrozen", **dict(tune, task="lora")),
        m("s-fp32", "smollm-135m", "dtype", **dict(tune, dtype="fp32")),
        m("s-eager", "smollm-135m", "eager", **dict(tune, seq=1024, attention="eager")),
        m("s-retain-8", "smollm-135m", "retain", k=8, **rl),
        m("s-pad-2048", "smollm-135m", "padded", **dict(tune, seq=2048)),
        m("t-fp32", "tinyllama-1.1b", "dtype", **dict(tune, dtype="fp32")),
        m("t-infer-grad", "tinyllama-1.1b", "infer-grad", **dict(tune, task="infer", batch=4, seq=1024)),
        m("t-infer-logits", "tinyllama-1.1b", "prefill-logits", **dict(tune, task="infer", batch=16, seq=1024, generate=8)),
        m("t-double", "tinyllama-1.1b", "double", **dict(tune, optimizer="sgd")),
        m("q-logits-kept", "qwen2.5-0.5b", "logits-kept", **tune),
        m("g-logits-kept", "gpt2", "logits-kept", **dict(tune, batch=16)),
        m("v-retain-4", "vit-base", "retain", k=4, batch=32, seq=224, dtype="bf16"),
        m("v-fp32", "vit-base", "dtype", batch=64, seq=224),
        m("third-model", "gpt2", "third-model", **rl),
        m("keepgrad", "gpt2-medium", "keepgrad", **dict(tune, set_to_none=False)),
    ]
    # One step with every allocation written down, few layers: what is saved by which line.
    t = lambda name, model, **options: c("x-" + name, model, trace=True, layers=2, steps=2, **options)
    rows += [
        t("g-fp32", "gpt2", batch=4, seq=256),
        t("g-bf16", "gpt2", batch=4, seq=256, dtype="bf16"),
        t("g-auto", "gpt2", batch=4, seq=256, autocast=True),
        t("g-eager", "gpt2", batch=4, seq=256, attention="eager"),
        t("g-eager-bf16", "gpt2", batch=4, seq=256, attention="eager", dtype="bf16"),
        t("g-ckpt-nodrop", "gpt2", batch=4, seq=256, checkpointing=True, dropout=0.0),
        t("g-grpo-bf16", "gpt2", task="grpo", batch=4, seq=256, dtype="bf16", generate=4),
        t("g-grpo-fp32", "gpt2", task="grpo", batch=4, seq=256),
        t("g-grpo-gengrad", "gpt2", task="grpo", batch=4, seq=64, generate=4, dtype="bf16", mistake="gen-grad"),
        t("g-lora", "gpt2", task="lora", batch=4, seq=256, dtype="bf16"),
        t("g-padded", "gpt2", task="sft", batch=4, seq=256, dtype="bf16", padded=True),
        t("g-traincache", "gpt2", task="sft", batch=4, seq=256, dtype="bf16", mistake="train-cache"),
        t("t-fp32", "tinyllama-1.1b", batch=2, seq=256),
        t("t-bf16", "tinyllama-1.1b", batch=2, seq=256, dtype="bf16"),
        t("t-auto", "tinyllama-1.1b", batch=2, seq=256, autocast=True),
        t("t-eager", "tinyllama-1.1b", batch=2, seq=256, attention="eager", dtype="bf16"),
        t("q-bf16", "qwen2.5-0.5b", batch=2, seq=256, dtype="bf16"),
        t("t-infer", "tinyllama-1.1b", task="infer", batch=4, seq=256, generate=3, dtype="bf16"),
        t("g-infer", "gpt2", task="infer", batch=4, seq=256, generate=3),
        t("v-fp32", "vit-base", batch=8, seq=224),
        t("v-auto", "vit-base", batch=8, seq=224, autocast=True),
        t("v-eager", "vit-base", batch=8, seq=224, attention="eager", dtype="bf16"),
        t("r18-fp32", "resnet18", batch=16, seq=224, optimizer="momentum"),
        t("r50-auto", "resnet50", batch=16, seq=224, optimizer="momentum", autocast=True),
        t("g-adafactor", "gpt2", batch=1, seq=64, optimizer="adafactor"),
        t("g-loop", "gpt2", batch=1, seq=64, optimizer="adamw-loop"),
        t("g-ddp", "gpt2", batch=1, seq=64, ddp=True),
    ]
    # Held out: no term of the plan was set by looking at these.
    h = lambda name, model, **options: c("h-" + name, model, **options)
    rows += [
        h("g-odd", "gpt2", batch=3, seq=777),
        h("g-odd-bf16", "gpt2", batch=13, seq=333, dtype="bf16", optimizer="adamw-loop"),
        h("g-auto-sgd", "gpt2", batch=6, seq=640, autocast=True, optimizer="sgd"),
        h("g-eager-nodrop-auto", "gpt2", batch=5, seq=900, attention="eager", autocast=True, dropout=0.0),
        h("g-ckpt-auto", "gpt2", batch=12, seq=700, checkpointing=True, autocast=True),
        h("g-grpo-accum", "gpt2", task="grpo", batch=6, seq=410, accumulation=3, dtype="bf16", optimizer="momentum"),
        h("g-grpo-auto-gen", "gpt2", task="grpo", batch=10, seq=250, generate=100, autocast=True),
        h("g-grpo-ckpt", "gpt2", task="grpo", batch=8, seq=600, checkpointing=True, dtype="bf16"),
        h("g-lora-ckpt", "gpt2", task="lora", batch=8, seq=800, checkpointing=True, rank=4, dtype="bf16"),
        h("g-keep-accum", "gpt2", batch=5, seq=300, accumulation=2, set_to_none=False, dtype="bf16"),
        h("gm-eager", "gpt2-medium", batch=3, seq=650, attention="eager", optimizer="adafactor"),
        h("gm-infer", "gpt2-medium", task="infer", batch=24, seq=400, generate=40),
        h("gl-sft", "gpt2-large", task="sft", batch=3, seq=350, dtype="bf16", padded=True, optimizer="sgd"),
        h("s-grpo", "smollm-135m", task="grpo", batch=6, seq=500, optimizer="adamw-fused"),
        h("s-ckpt-fp32", "smollm-135m", batch=6, seq=900, checkpointing=True),
        h("s-padded-auto", "smollm-135m", task="sft", batch=5, seq=450, autocast=True, padded=True),
        h("s-lora", "smollm-135m", task="lora", batch=12, seq=640, autocast=True, rank=32),
        h("s-infer-fp32", "smollm-135m", task="infer", batch=12, seq=700, generate=24),
        h("t-eager", "tinyllama-1.1b", task="sft", batch=2, seq=900, dtype="bf16", attention="eager", optimizer="sgd"),
        h("t-grpo", "tinyllama-1.1b", task="grpo", batch=4, seq=300, dtype="bf16", optimizer="adafactor"),
        h("l-lora", "llama-3.2-1b", task="lora", batch=3, seq=700, dtype="bf16", rank=64),
        h("l-auto", "llama-3.2-1b", task="pretrain", batch=1, seq=1500, autocast=True, optimizer="momentum"),
        h("q-fp32", "qwen2.5-0.5b", batch=2, seq=400, optimizer="sgd"),
        h("q-ckpt", "qwen2.5-0.5b", task="sft", batch=6, seq=800, dtype="bf16", checkpointing=True),
        h("v-odd", "vit-base", batch=45, seq=224, optimizer="sgd", dtype="bf16"),
        h("vl-auto", "vit-large", batch=20, seq=224, autocast=True),
        h("vl-infer", "vit-large", task="infer", batch=100, seq=224),
        h("r18-auto", "resnet18", batch=100, seq=192, autocast=True, optimizer="momentum"),
        h("r50-odd", "resnet50", batch=24, seq=256, optimizer="adamw-fused"),
        h("r50-infer-bf16", "resnet50", task="infer", batch=96, seq=224, dtype="bf16"),
        h("g-ddp-auto", "gpt2", batch=4, seq=600, ddp=True, autocast=True),
    ]
    rows += several() + narrow() + resident()
    # Compilation takes long, so it comes last.
    rows += [
        c("g-pre-compile", "gpt2", batch=8, seq=512, dtype="bf16", compile=True, layers=6),
        c("g-pre-compile-fp32", "gpt2", batch=8, seq=256, compile=True, layers=4),
        c("s-pre-compile-auto", "smollm-135m", batch=8, seq=512, autocast=True, compile=True, layers=6),
        c("v-pre-compile", "vit-base", batch=32, seq=224, dtype="bf16", compile=True, layers=4),
    ]
    return rows


def several():
    """Several processes: one rank of so many, over a process group that does not communicate, and two real ones to check it by."""
    c = conf
    d = lambda name, model, shard, processes, **options: c(name, model, shard=shard, processes=processes, ddp=shard in ("none", "optimizer"),
                                                           **options)
    t = lambda name, model, shard, processes, **options: d("x-" + name, model, shard, processes, trace="all", layers=2, steps=2, **options)
    return [
        t("g-full4", "gpt2", "full", 4, batch=4, seq=256),
        t("g-grad4", "gpt2", "gradients", 4, batch=4, seq=256),
        t("g-zero4", "gpt2", "optimizer", 4, batch=4, seq=256),
        t("g-ddp4", "gpt2", "none", 4, batch=4, seq=256),
        t("t-full8-bf16", "tinyllama-1.1b", "full", 8, batch=2, seq=256, dtype="bf16"),
        t("g-full4-auto", "gpt2", "full", 4, batch=4, seq=256, autocast=True),
        t("g-full4-ckpt", "gpt2", "full", 4, batch=4, seq=256, checkpointing=True),
        t("g-full4-grpo", "gpt2", "full", 4, task="grpo", batch=4, seq=256, dtype="bf16"),
        t("g-full4-lora", "gpt2", "full", 4, task="lora", batch=4, seq=256, dtype="bf16"),
        t("g-full4-accum", "gpt2", "full", 4, batch=2, seq=256, accumulation=2, optimizer="sgd"),
        d("g-ddp8", "gpt2", "none", 8, batch=8, seq=256),
        d("s-ddp4-bf16", "smollm-135m", "none", 4, batch=8, seq=512, dtype="bf16"),
        d("g-zero4", "gpt2", "optimizer", 4, batch=2, seq=128),
        d("gm-zero8-bf16", "gpt2-medium", "optimizer", 8, batch=4, seq=512, dtype="bf16"),
        d("g-grad4", "gpt2", "gradients", 4, batch=4, seq=256),
        d("t-grad8-bf16", "tinyllama-1.1b", "gradients", 8, batch=2, seq=512, dtype="bf16"),
        d("g-full4", "gpt2", "full", 4, batch=4, seq=256),
        d("gm-full8-bf16", "gpt2-medium", "full", 8, batch=4, seq=512, dtype="bf16"),
        d("t-full4-bf16", "tinyllama-1.1b", "full", 4, batch=4, seq=1024, dtype="bf16"),
        d("s-full2-auto", "smollm-135m", "full", 2, batch=4, seq=512, autocast=True),
        d("gl-full8-ckpt", "gpt2-large", "full", 8, batch=8, seq=512, checkpointing=True),
        d("l-full16-fused", "llama-3.2-1b", "full", 16, batch=2, seq=512, optimizer="adamw-fused", dtype="bf16"),
        d("h-g-ddp16-auto", "gpt2", "none", 16, batch=6, seq=400, autocast=True),
        d("h-v-ddp4", "vit-base", "none", 4, batch=48, seq=224, dtype="bf16"),
        d("h-s-zero4", "smollm-135m", "optimizer", 4, batch=3, seq=450, optimizer="adamw-fused"),
        d("h-gl-zero16-bf16", "gpt2-large", "optimizer", 16, batch=2, seq=500, dtype="bf16"),
        d("h-gm-grad8", "gpt2-medium", "gradients", 8, batch=3, seq=400),
        d("h-q-grad4-bf16", "qwen2.5-0.5b", "gradients", 4, batch=2, seq=600, dtype="bf16"),
        d("h-g-full8-auto", "gpt2", "full", 8, batch=5, seq=333, autocast=True),
        d("h-t-full8", "tinyllama-1.1b", "full", 8, batch=1, seq=700, optimizer="adamw-fused"),
        d("h-l-full4-ckpt", "llama-3.2-1b", "full", 4, batch=4, seq=900, dtype="bf16", checkpointing=True),
        d("h-vl-full4", "vit-large", "full", 4, batch=40, seq=224, dtype="bf16"),
        d("h-s-full4-grpo", "smollm-135m", "full", 4, task="grpo", batch=6, seq=300, dtype="bf16"),
        d("h-gm-full4-lora", "gpt2-medium", "full", 4, task="lora", batch=4, seq=350, dtype="bf16", rank=32),
        d("h-q-full8-accum", "qwen2.5-0.5b", "full", 8, task="sft", batch=2, seq=450, dtype="bf16", accumulation=3, optimizer="momentum"),
        # The same, and with two processes that do communicate.
        d("y-ddp2", "gpt2", "none", 2, batch=4, seq=256),
        d("y-ddp2-gloo", "gpt2", "none", 2, batch=4, seq=256, backend="gloo"),
        d("y-zero2", "gpt2", "optimizer", 2, batch=4, seq=256),
        d("y-zero2-gloo", "gpt2", "optimizer", 2, batch=4, seq=256, backend="gloo"),
        d("y-full2", "gpt2", "full", 2, batch=4, seq=256),
        d("y-full2-gloo", "gpt2", "full", 2, batch=4, seq=256, backend="gloo"),
    ]


def narrow():
    """8-bit AdamW (bitsandbytes) and fp16, pure and under autocast with a gradient scaler."""
    c = conf
    t = lambda name, model, **options: c("x-" + name, model, trace="all", layers=2, steps=2, **options)
    return [
        t("g-8bit", "gpt2", batch=1, seq=64, optimizer="adamw-8bit"),
        t("g-fp16-scaler", "gpt2", batch=4, seq=256, autocast="fp16", scaler=True),
        c("g-8bit", "gpt2", batch=2, seq=128, optimizer="adamw-8bit"),
        c("s-8bit-bf16", "smollm-135m", batch=4, seq=512, optimizer="adamw-8bit", dtype="bf16"),
        c("t-8bit-bf16", "tinyllama-1.1b", task="sft", batch=2, seq=512, optimizer="adamw-8bit", dtype="bf16"),
        c("g-fp16", "gpt2", batch=8, seq=512, dtype="fp16"),
        c("g-fp16-scaler", "gpt2", batch=8, seq=512, autocast="fp16", scaler=True),
        c("s-fp16-scaler", "smollm-135m", batch=4, seq=512, autocast="fp16", scaler=True, optimizer="adamw-fused"),
        c("h-gm-8bit", "gpt2-medium", batch=3, seq=300, optimizer="adamw-8bit"),
        c("h-q-8bit-lora", "qwen2.5-0.5b", task="lora", batch=3, seq=450, dtype="bf16", rank=64, optimizer="adamw-8bit"),
        c("h-l-8bit", "llama-3.2-1b", task="sft", batch=1, seq=900, dtype="bf16", optimizer="adamw-8bit"),
        c("h-v-8bit-auto", "vit-base", batch=24, seq=224, autocast=True, optimizer="adamw-8bit"),
        c("h-g-fp16-ckpt", "gpt2", batch=8, seq=600, dtype="fp16", checkpointing=True),
        c("h-g-fp16-grpo", "gpt2", task="grpo", batch=8, seq=220, dtype="fp16"),
        c("h-v-fp16-scaler", "vit-base", batch=40, seq=224, autocast="fp16", scaler=True),
        c("h-r50-fp16-scaler", "resnet50", batch=48, seq=224, autocast="fp16", scaler=True, optimizer="momentum"),
        c("r18-fp16", "resnet18", batch=64, seq=224, dtype="fp16"),
        c("r50-fp16", "resnet50", batch=32, seq=256, dtype="fp16", optimizer="momentum"),
        c("h-r50-auto", "resnet50", batch=40, seq=192, autocast=True),
        c("h-r18-bf16", "resnet18", batch=72, seq=224, dtype="bf16", optimizer="momentum"),
        c("h-r50-fp16-192", "resnet50", batch=56, seq=192, autocast="fp16", scaler=True),
        c("h-t-fp16-lora", "tinyllama-1.1b", task="lora", batch=3, seq=500, dtype="fp16"),
        c("h-s-fp16-infer", "smollm-135m", task="infer", batch=10, seq=400, generate=20, dtype="fp16"),
        # Traced from the start: the segments of these were not foreseen.
        t("g-grpo-fp32-all", "gpt2", task="grpo", batch=4, seq=256),
        t("r18-fp32-all", "resnet18", batch=16, seq=224, optimizer="momentum"),
        t("t-fp32-all", "tinyllama-1.1b", batch=2, seq=256),
        t("t-eager-all", "tinyllama-1.1b", batch=2, seq=256, attention="eager", dtype="bf16"),
        t("q-fp32-all", "qwen2.5-0.5b", batch=2, seq=400, optimizer="sgd"),
        t("g-logits-all", "gpt2", task="sft", batch=16, seq=512, dtype="bf16", mistake="logits-kept"),
        t("g-traincache-all", "gpt2", task="sft", batch=8, seq=1024, dtype="bf16", mistake="train-cache"),
        c("x-g-group-all", "gpt2", task="grpo", batch=32, seq=174, dtype="bf16", trace="all"),
        c("x-g-fused-all", "gpt2", batch=2, seq=128, optimizer="adamw-fused", trace="all"),
        c("x-q-whole-all", "qwen2.5-0.5b", batch=2, seq=400, optimizer="sgd", trace="all"),
        c("x-s-infer-all", "smollm-135m", task="infer", batch=12, seq=700, generate=24, trace="all", steps=2),
        t("t-auto-all", "tinyllama-1.1b", batch=2, seq=256, autocast=True),
        c("x-r50-fp16-all", "resnet50", batch=48, seq=224, autocast="fp16", scaler=True, optimizer="momentum", trace="all", steps=2),
        c("x-r18-fp16-all", "resnet18", batch=64, seq=224, dtype="fp16", trace="all", steps=2),
        c("x-r50-fp32-all", "resnet50", batch=24, seq=256, optimizer="adamw-fused", trace="all", steps=2),
        t("r50-bf16-all", "resnet50", batch=128, seq=224, dtype="bf16", optimizer="adamw"),
    ]


def resident():
    """On the processor, for --device host. The first five set the plan's constant."""
    c = conf
    return [
        c("c-pre", "gpt2", layers=3, batch=2, seq=128),
        c("c-pre-sgd", "gpt2", layers=2, batch=4, seq=256, optimizer="sgd", dropout=0.0),
        c("c-grpo", "gpt2", layers=3, task="grpo", batch=2, seq=174),
        c("c-infer-6", "gpt2", layers=6, task="infer", batch=4, seq=256),
        c("c-infer", "gpt2", task="infer", batch=4, seq=256),
        c("ch-s-pre", "smollm-135m", layers=6, batch=2, seq=256),
        c("ch-s-sgd", "smollm-135m", layers=10, batch=4, seq=128, optimizer="sgd"),
        c("ch-t-sft", "tinyllama-1.1b", task="sft", layers=2, batch=2, seq=200, optimizer="momentum"),
        c("ch-t-infer", "tinyllama-1.1b", task="infer", layers=6, batch=2, seq=300),
        c("ch-gm-lora", "gpt2-medium", task="lora", layers=4, batch=2, seq=200),
        c("ch-g-adafactor", "gpt2", layers=4, batch=3, seq=200, optimizer="adafactor"),
        c("ch-v-pre", "vit-base", layers=4, batch=6, seq=224),
    ]


class LowRank(torch.nn.Module):
    """y = base(x) + B(A(x)) * scale, adapters in the base's dtype, as PEFT does with autocast_adapter_dtype=False."""

    def __init__(self, base, rank):
        super().__init__()
        self.base = base
        weight = base.weight
        conv1d = type(base).__name__ == "Conv1D"
        inputs, outputs = weight.shape if conv1d else weight.shape[::-1]
        self.a = torch.nn.Linear(inputs, rank, bias=False, device=weight.device, dtype=weight.dtype)
        self.b = torch.nn.Linear(rank, outputs, bias=False, device=weight.device, dtype=weight.dtype)
        torch.nn.init.zeros_(self.b.weight)
        self.scale = 2.0

    def forward(self, x):
        result = self.base(x)
        return result + self.b(self.a(x)) * self.scale


def add_adapters(model, rank, freeze=True):
    if freeze:
        for parameter in model.parameters():
            parameter.requires_grad_(False)
    head = model.get_output_embeddings()
    found = [(parent, name, child) for parent in model.modules() for name, child in parent.named_children()
             if (isinstance(child, torch.nn.Linear) or type(child).__name__ == "Conv1D") and child is not head]
    for parent, name, child in found:
        setattr(parent, name, LowRank(child, rank))


def make_model(row, device):
    kind, config = MODELS[row["model"]]()
    dtype = DTYPES[row["dtype"]]
    before = torch.get_default_dtype()
    if config is None:
        torch.set_default_dtype(dtype)
        with torch.device(device):
            model = getattr(vision, kind)(weights=None)
        torch.set_default_dtype(before)
        return model
    if row["layers"]:
        setattr(config, "n_layer" if hasattr(config, "n_layer") else "num_hidden_layers", row["layers"])
    if row["dropout"] is not None:
        for name in ("attn_pdrop", "resid_pdrop", "embd_pdrop", "attention_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob"):
            if hasattr(config, name):
                setattr(config, name, row["dropout"])
    config._attn_implementation = row["attention"]
    if row.get("tiny"):
        for name, value in (("n_embd", 48), ("n_head", 4), ("vocab_size", 97), ("hidden_size", 48), ("intermediate_size", 96),
                            ("num_attention_heads", 4), ("num_key_value_heads", 2)):
            if name in config.__dict__:
                setattr(config, name, value)
        if "head_dim" in config.__dict__:
            config.head_dim = 12
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = kind(config)
    torch.set_default_dtype(before)
    assert model.config._attn_implementation == row["attention"], model.config._attn_implementation
    assert next(model.parameters()).dtype == dtype and next(model.parameters()).device.type == torch.device(device).type
    return model


def make_optimizer(row, parameters):
    parameters = [p for p in parameters if p.requires_grad]
    name = row["optimizer"]
    if row["mistake"] == "fp32-state":
        return MasterAdamW(parameters)
    if name == "adamw-8bit":
        import bitsandbytes
        return bitsandbytes.optim.AdamW8bit(parameters, lr=1e-5)
    kind, options = {"sgd": (torch.optim.SGD, {}), "momentum": (torch.optim.SGD, {"momentum": 0.9}), "adamw": (torch.optim.AdamW, {}),
                     "adamw-fused": (torch.optim.AdamW, {"fused": True}), "adamw-loop": (torch.optim.AdamW, {"foreach": False}),
                     "adafactor": (torch.optim.Adafactor, {})}[name]
    if row["shard"] == "optimizer":
        from torch.distributed.optim import ZeroRedundancyOptimizer
        return ZeroRedundancyOptimizer(parameters, optimizer_class=kind, lr=1e-5, **options)
    return kind(parameters, lr=1e-5, **options)


def begin_group(row, device):
    """The process group: real with one process, or two over gloo; else rank 0 of so many over one that does not communicate. NCCL's own
    memory belongs to the run, so a real communicator of one process stands beside that one."""
    distributed = torch.distributed
    if row["backend"] == "gloo":
        distributed.init_process_group("gloo", rank=row["rank_of"], world_size=row["processes"],
                                       store=distributed.FileStore(row["store"], row["processes"]))
        return None
    if row["processes"] == 1:
        distributed.init_process_group("nccl" if device == "cuda" else "gloo", rank=0, world_size=1, store=distributed.HashStore())
        return None
    from torch.testing._internal.distributed import fake_pg  # registers the backend
    assert fake_pg
    distributed.init_process_group("fake", rank=0, world_size=row["processes"], store=distributed.HashStore())
    if device != "cuda":
        return None
    real = distributed.ProcessGroupNCCL(distributed.HashStore(), 0, 1)
    real.allreduce([torch.ones(1, device=device)]).wait()
    return real


def sum_alone(processes, bucket):
    """What DDP does with a bucket, but for the communication, whose answer a group that has none leaves out."""
    data = bucket.buffer().div_(processes)
    done = torch.futures.Future(devices=[data.device] if data.is_cuda else None)
    done.set_result(data)
    return done


def share_out(model, row, device, whole):
    """FSDP's fully_shard of every block and of the rest; whole: weights are let go after a forward too."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(device, (row["processes"],))
    base = getattr(model, "transformer", None) or getattr(model, "model", None) or model.vit
    blocks = getattr(base, "h", None) or getattr(base, "layers", None) or base.encoder.layer
    for block in blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=whole)
    fully_shard(model, mesh=mesh)
    if row["backend"] == "gloo":
        model.set_force_sum_reduction_for_comms(True)


class MasterAdamW:
    """bf16 weights with an fp32 master copy, whose AdamW has fp32 state; gradients are copied to fp32."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.master = [p.detach().float().requires_grad_(True) for p in parameters]
        self.inner = torch.optim.AdamW(self.master, lr=1e-5)

    def zero_grad(self, set_to_none=True):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for master, p in zip(self.master, self.parameters):
            master.grad = p.grad.float()
        self.inner.step()
        for master, p in zip(self.master, self.parameters):
            p.copy_(master)
            master.grad = None


class Marks:
    """Allocated bytes and their peak at each named moment; the peak counts from the mark before."""

    def __init__(self, device):
        self.cuda = device == "cuda"
        self.rows = []
        self.step = -1

    def __call__(self, name):
        if not self.cuda:
            self.rows.append([self.step, name, 0, 0, 0, time.time_ns() // 1000])
            return
        torch.cuda.synchronize()
        stats = torch.cuda.memory_stats()
        self.rows.append([self.step, name, stats["allocated_bytes.all.current"], stats["allocated_bytes.all.peak"],
                          stats["requested_bytes.all.peak"], time.time_ns() // 1000])
        torch.cuda.reset_peak_memory_stats()


class Run:
    def __init__(self, row, device):
        self.row, self.device = row, device
        self.mark = Marks(device)
        self.kept = []
        self.vision = row["model"].startswith(("vit", "resnet"))

    def prepare(self):
        row = self.row
        self.model = make_model(row, self.device)
        if row["task"] == "lora":
            add_adapters(self.model, row["rank"], row["mistake"] != "lora-unfrozen")
        self.model.train(row["task"] != "infer")
        if row["checkpointing"]:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            if row["task"] == "lora":
                self.model.enable_input_require_grads()
        self.mark("model")
        # The usual first scale makes fp16 overflow for some models; updates are skipped until it has fallen.
        self.scaler = torch.amp.GradScaler(self.device, init_scale=256.0, enabled=row["scaler"])
        sharded = row["shard"] in ("gradients", "full")
        if row["ddp"] or sharded:
            self.group = begin_group(row, self.device)
        if sharded:
            share_out(self.model, row, self.device, row["shard"] == "full")
        self.reference = None
        if row["task"] == "grpo" and row["reference"]:
            self.reference = make_model(row, self.device).eval()
            if row["mistake"] != "ref-grad":
                self.reference.requires_grad_(False)
            if sharded:
                share_out(self.reference, row, self.device, True)
            self.mark("reference")
        copies = {"double": 1, "third-model": 1}.get(row["mistake"], 0)
        self.kept += [make_model(row, self.device) for _ in range(copies)]
        self.optimizer = make_optimizer(row, self.model.parameters()) if row["task"] != "infer" else None
        self.called = self.model
        if row["ddp"]:
            self.called = torch.nn.parallel.DistributedDataParallel(self.model)
            if torch.distributed.get_backend() == "fake":
                self.called.register_comm_hook(row["processes"], sum_alone)
        if row["compile"]:
            self.called = torch.compile(self.model)
        self.batch = self.make_batch()
        self.mark("prepared")

    def make_batch(self):
        row = self.row
        if self.vision:
            return {"pixel_values": torch.randn(row["batch"], 3, row["seq"], row["seq"], device=self.device, dtype=DTYPES[row["dtype"]]),
                    "labels": torch.randint(0, 1000, (row["batch"],), device=self.device)}
        top = self.model.config.vocab_size
        batch = {"input_ids": torch.randint(0, top, (row["batch"], row["seq"]), device=self.device)}
        if row["padded"]:
            mask = torch.ones_like(batch["input_ids"])
            mask[::2, -row["seq"] // 4:] = 0
            batch["attention_mask"] = mask
        return batch

    def cast(self):
        to = torch.float16 if self.row["autocast"] == "fp16" else torch.bfloat16
        return torch.autocast(self.device, to, enabled=bool(self.row["autocast"]))

    def loss_of(self, batch):
        if self.vision:
            logits = self.called(batch["pixel_values"])
            logits = getattr(logits, "logits", logits)
            return functional.cross_entropy(logits, batch["labels"])
        if self.row["mistake"] == "train-cache":
            output = self.called(**batch, labels=batch["input_ids"], use_cache=True)
            self.output = output
            return output.loss
        if self.row["mistake"] == "logits-kept":
            self.output = self.called(**batch, use_cache=False).logits
            self.float = self.output.float()
            return functional.cross_entropy(self.float[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten())
        return self.called(**batch, labels=batch["input_ids"], use_cache=False).loss

    @staticmethod
    def logprobs(model, ids):
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        return torch.log_softmax(logits.float(), dim=-1).gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)

    def generate(self, prompt, tokens, last=True, logs=None):
        """Greedy decoding with a cache. Returns ids and the cache; with logs, keeps log-probabilities as a careless loop does."""
        cache = DynamicCache()
        step_input, ids = prompt, prompt
        for _ in range(tokens):
            keep = {"logits_to_keep": 1} if last else {}
            logits = self.model(input_ids=step_input, past_key_values=cache, use_cache=True, **keep).logits[:, -1]
            step_input = logits.argmax(-1, keepdim=True)
            if logs is not None:
                logs.append(torch.log_softmax(logits.float(), -1).gather(-1, step_input))
            ids = torch.cat([ids, step_input], 1)
        return ids, cache

    def infer_step(self):
        row = self.row
        grad = torch.enable_grad() if row["mistake"] == "infer-grad" else torch.no_grad()
        with grad, self.cast():
            if self.vision:
                self.output = self.called(self.batch["pixel_values"])
            elif row["generate"] == 0:
                self.output = self.called(**self.batch, use_cache=False).logits
            else:
                self.generate(self.batch["input_ids"], row["generate"], last=row["mistake"] != "prefill-logits")
        self.mark("forward")
        self.output = None
        return 0.0

    def grpo_loss(self, ids, advantages):
        context = torch.enable_grad() if self.row["mistake"] == "ref-grad" else torch.no_grad()
        old = None
        if self.reference is not None:
            with context, self.cast():
                old = self.logprobs(self.reference, ids)
            self.mark("reference-forward")
        with self.cast():
            new = self.logprobs(self.called, ids)
        loss = -torch.exp(new - new.detach()) * advantages
        if old is not None:
            loss = loss + 0.04 * (torch.exp(old - new) - (old - new) - 1)
        return loss.mean()

    def train_step(self):
        row = self.row
        self.optimizer.zero_grad(set_to_none=row["set_to_none"])
        self.mark("zeroed")
        advantages = torch.randn(row["batch"], 1, device=self.device)
        ids = self.batch.get("input_ids")
        if row["task"] == "grpo" and row["generate"]:
            prompt = ids[:, :row["seq"] - row["generate"]]
            logs = [] if row["mistake"] == "gen-grad" else None
            with torch.enable_grad() if logs is not None else torch.no_grad(), self.cast():
                self.model.eval()
                ids, cache = self.generate(prompt, row["generate"], logs=logs)
                self.model.train()
            self.held = (logs, cache) if row["mistake"] in ("gen-grad", "cache-kept") else None
            del logs, cache
            self.mark("generated")
        if row["mistake"] == "eval-grad":
            with self.cast():
                self.held = self.loss_of(self.batch)
            self.mark("evaluated")
        total, count = 0.0, max(row["k"], 1) if row["mistake"] == "retain" else row["accumulation"]
        losses = []
        for _ in range(count):
            if row["task"] == "grpo":
                loss = self.grpo_loss(ids, advantages)
            else:
                with self.cast():
                    loss = self.loss_of(self.batch)
            self.mark("forward")
            if row["mistake"] == "retain":
                losses.append(loss)
                continue
            self.scaler.scale(loss / count).backward()
            self.mark("backward")
            total += loss.item()
        if losses:
            loss = torch.stack(losses).mean()
            loss.backward()
            self.mark("backward")
            total = loss.item()
        if row["mistake"] == "outputs-kept":
            with torch.no_grad():
                self.kept.append(self.model(input_ids=ids, use_cache=False).logits)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.mark("updated")
        return total

    def steps(self):
        losses = []
        for step in range(self.row["steps"]):
            self.mark.step = step
            if self.row["trace"] is True and step == self.row["steps"] - 1:
                begin_trace(self.device)
            losses.append(self.infer_step() if self.row["task"] == "infer" else self.train_step())
        return losses


def begin_trace(device):
    if device == "cuda":
        torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python", max_entries=400000)


def label_of(frames):
    """The innermost lines that are not the framework's call machinery."""
    dull = ("nn/modules/module.py", "torch/utils/_contextlib.py", "torch/autograd/function.py", "torch/autograd/graph.py",
            "transformers/utils/generic.py", "transformers/utils/output_capturing.py", "plan_measure.py", "torch/_dynamo/")
    kept = []
    for frame in frames:
        name = frame["filename"]
        if any(part in name for part in dull) or name == "??":
            continue
        kept.append(f"{os.path.basename(name)}:{frame['name']}:{frame['line']}")
        if len(kept) == 3:
            break
    return " < ".join(kept)


def trace_of():
    names, events = {}, []
    for entry in torch.cuda.memory._snapshot()["device_traces"][0]:
        action = entry["action"]
        if action not in ("alloc", "free_completed", "segment_alloc", "segment_free", "free_requested"):
            continue
        label = label_of(entry.get("frames") or []) if action == "alloc" else ""
        events.append([action, entry.get("addr", 0), entry["size"], names.setdefault(label, len(names)), entry.get("time_us", 0),
                       entry.get("stream", 0)])
    return {"labels": list(names), "events": events}


def device_use(device):
    if device != "cuda":
        return 0
    free, total = torch.cuda.mem_get_info()
    return total - free


def measure(row, device):
    result = {"name": row["name"], "options": row}
    if row["model"].startswith("resnet") and vision is None:
        return dict(result, error="no torchvision")
    started = time.time()
    torch.manual_seed(0)
    if device == "cuda":
        torch.cuda.init()
        result["device_context"] = device_use(device)
        result["cudnn"] = torch.backends.cudnn.version()
        torch.empty(1, device=device)
    if row["trace"] == "all":
        begin_trace(device)
    run = Run(row, device)
    result["device_start"] = device_use(device)
    run.prepare()
    model = run.model
    result["parameters"] = sum(p.numel() for p in model.parameters())
    result["parameter_tensors"] = sum(1 for _ in model.parameters())
    result["trainable"] = sum(p.numel() for p in model.parameters() if p.requires_grad)
    result["buffers"] = [[name, list(b.shape), str(b.dtype)] for name, b in model.named_buffers()][:12]
    result["losses"] = run.steps()
    if row["scaler"] and not run.optimizer.state:
        raise RuntimeError("the scaler skipped every update")
    result["finite"] = all(value == value and abs(value) != float("inf") for value in result["losses"])
    if device == "cuda":
        torch.cuda.synchronize()
        marks = [m for m in run.mark.rows if m[1] not in ("model",)]
        result["peak_allocated"] = max(m[3] for m in marks)
        result["peak_requested"] = max(m[4] for m in marks)
        stats = torch.cuda.memory_stats()
        result["peak_reserved"] = stats["reserved_bytes.all.peak"]
        result["device_end"] = device_use(device)
        result["nccl"] = row["ddp"]
        result["states"] = len(getattr(run.optimizer, "state", ()) or ())
        if row["trace"]:
            try:
                result["trace"] = trace_of()
            except (KeyError, TypeError, RuntimeError) as error:
                result["trace_error"] = repr(error)
        elif row["steps"] == 3 and not row["mistake"]:
            result["living"] = living_at_peak()
    status = pathlib.Path("/proc/self/status").read_text()
    result["peak_resident"] = int(status.partition("VmHWM:")[2].split()[0]) * 1024
    result["marks"] = run.mark.rows
    result["seconds"] = round(time.time() - started, 2)
    return result


def living_at_peak():
    """Segments of the allocator at the end: how reserved bytes divide into small and large pools."""
    segments = torch.cuda.memory_snapshot()
    return {"segments": len(segments), "small": sum(s["total_size"] for s in segments if s["segment_type"] == "small"),
            "large": sum(s["total_size"] for s in segments if s["segment_type"] == "large"),
            "sizes": sorted((s["total_size"] for s in segments), reverse=True)[:40]}


def begin_others(row):
    """The other processes of a group that communicates; they measure too and say nothing."""
    store = f"/tmp/plan-measure-{os.getpid()}"
    for rank in range(1, row["processes"]):
        if os.fork() == 0:
            return dict(row, rank_of=rank, store=store)
    return dict(row, rank_of=0, store=store)


def child(row, device, pipe):
    if row["backend"] == "gloo":
        row = begin_others(row)
        if row["rank_of"]:
            pipe = os.open(os.devnull, os.O_WRONLY)
    try:
        if device == "cpu":
            row = dict(row, tiny=True, batch=2, seq=min(row["seq"], 32), layers=2, generate=min(row["generate"], 4), k=min(row["k"], 2),
                       compile=False)
            if row["model"].startswith(("vit", "resnet")):
                row["seq"] = 224
            torch.set_num_threads(1)
        result = measure(row, "cpu" if device == "host" else device)
    except BaseException as error:
        result = {"name": row["name"], "options": row, "error": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-1500:]}
    data = json.dumps(result).encode()
    while data:
        data = data[os.write(pipe, data):]
    os.close(pipe)
    os._exit(0)


def in_child(row, device, seconds):
    ours, theirs = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        os.close(ours)
        os.setpgid(0, 0)
        child(row, device, theirs)
    os.close(theirs)
    data, end = b"", time.time() + seconds
    while True:
        ready, _, _ = select.select([ours], [], [], max(0, end - time.time()))
        part = os.read(ours, 1 << 20) if ready else b""
        if not part:
            break
        data += part
    os.close(ours)
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        pass
    os.waitpid(process, 0)
    try:
        return json.loads(data)
    except ValueError:
        return {"name": row["name"], "options": row, "error": f"no answer within {seconds:.0f} s"}


def in_fresh(row, device, seconds):
    """Where CUDA does not work in a forked child: a new interpreter, and its imports' time."""
    command = [sys.executable, __file__, "/dev/null", "--device", device, "--one", row["name"]]
    try:
        return json.loads(subprocess.run(command, capture_output=True, timeout=seconds).stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return {"name": row["name"], "options": row, "error": repr(error)}


def gpu_used_idle():
    query = ["nvidia-smi", "--query-gpu=memory.used,memory.reserved,driver_version,name", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return None


# What was meant where a mistake was made, as far as the row itself does not say it.
MEANT = {"m-pad-1024": {"seq": 174}, "m-fp32": {"dtype": "bf16"}, "m-eager": {"attention": "sdpa"}, "m-group-times-4": {"batch": 8},
         "m-ckpt-off": {"checkpointing": True}, "m-accum-as-batch": {"batch": 4}, "m-s-fp32": {"dtype": "bf16"},
         "m-s-eager": {"attention": "sdpa"}, "m-s-pad-2048": {"seq": 512}, "m-t-fp32": {"dtype": "bf16"}, "m-v-fp32": {"dtype": "bf16"},
         "m-keepgrad": {"set_to_none": True}}
# Names of the mistakes in the plan.
KEYS = {"padded": "padding", "retain": "graphs", "gen-grad": "generation", "ref-grad": "reference", "cache-kept": "cache", "double": "copies",
        "third-model": "copies", "outputs-kept": "outputs", "eval-grad": "evaluation", "fp32-state": "master", "ckpt-off": "checkpointing",
        "lora-unfrozen": "unfrozen", "prefill-logits": "prefill", "logits-kept": "logits", "keepgrad": "keeps"}
COLUMNS = ("model", "layers", "task", "batch", "seq", "accumulation", "generate", "dtype", "autocast", "attention", "checkpointing", "optimizer",
           "set_to_none", "reference", "compile", "ddp", "dropout", "rank", "padded", "k", "processes", "shard", "scaler")


def line_of(options, found):
    """A configuration's line of the table, None for one that does not belong there. A mistake has the options that were meant."""
    name, mistake = options["name"], options["mistake"] or ""
    use = {"m": "mistake", "h": "held-out", "x": "trace", "c": "host", "ch": "host-held-out", "y": None}.get(name.partition("-")[0], "calibration")
    if not use or name == "m-third-model" or (mistake and use != "mistake"):
        return None
    options = dict(options, **MEANT.get(name, {}))
    if options["model"].startswith("resnet"):
        options["layers"] = None
    cells = ["" if options[c] is None else str(int(options[c]) if isinstance(options[c], bool) else options[c]) for c in COLUMNS]
    if mistake == "outputs-kept":
        cells[COLUMNS.index("k")] = str(options["steps"])
    return "\t".join((name, use, KEYS.get(mistake, mistake), *cells, *map(str, found)))


def table(paths):
    """One line per configuration: how it is used, its options, and what was measured."""
    for number, path in enumerate(paths):
        document = json.loads(path.read_text())
        place = f"NVIDIA H200, CUDA {document['cuda']}, driver {document['idle'].split(', ')[2]}" if document["idle"] else "on the processor"
        print(f"# {document['date']}: {place}, torch {document['torch']}, transformers {document['transformers']}, "
              f"torchvision {document['torchvision']}")
        if number == 0:
            print("\t".join(("name", "use", "mistake", *COLUMNS, "allocated", "reserved", "device")))
        for row in document["rows"]:
            if "error" in row:
                continue
            found = (0, 0, row["peak_resident"]) if row["name"].startswith("c") else (row["peak_allocated"], row["peak_reserved"],
                                                                                     row["device_end"])
            line = line_of(row["options"], found)
            if line:
                print(line)


def chosen(patterns):
    return [row for row in wanted() if any(fnmatch.fnmatch(row["name"], pattern) for pattern in patterns.split(","))]


def main():
    if sys.argv[1:2] == ["--table"]:
        table([pathlib.Path(path) for path in sys.argv[2:]])
        return 0
    if sys.argv[1:2] == ["--planned"]:
        print("\n".join(line_of(row, (0, 0, 0)) for row in chosen(sys.argv[2])))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=460)
    parser.add_argument("--only", default="*")
    parser.add_argument("--one", help="measure this configuration in this process and print it")
    asked = parser.parse_args()
    if asked.one:
        child(next(row for row in wanted() if row["name"] == asked.one), asked.device, 1)
    import transformers
    document = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "torch": torch.__version__, "transformers": transformers.__version__,
                "cuda": torch.version.cuda, "python": sys.version.split()[0],
                "torchvision": getattr(sys.modules.get("torchvision"), "__version__", None), "idle": gpu_used_idle(), "rows": []}
    begun = time.time()
    forks = True
    gc.freeze()
    rows = chosen(asked.only)
    for number, row in enumerate(rows):
        left = asked.limit - (time.time() - begun)
        if left < 5:
            print(f"no time left for the last {len(rows) - number} configurations")
            break
        if asked.device == "host":
            result = in_fresh(row, asked.device, min(left, 120))
        else:
            result = in_child(row, asked.device, min(left, 75 if row["compile"] else 25)) if forks else {"error": "initialization"}
        if "nitializ" in result.get("error", "") and asked.device == "cuda":
            forks = False
            result = in_fresh(row, asked.device, min(left, 60))
        result["idle"] = gpu_used_idle() if number % 16 == 0 else None
        document["rows"].append(result)
        peak = result.get("peak_allocated", 0)
        print(f"{number + 1}/{len(rows)} {row['name']}: {peak / 1e9:.3f} GB, {result.get('seconds', 0)} s, "
              f"{result.get('error', 'finite' if result.get('finite') else 'NOT FINITE')}", flush=True)
        if number % 8 == 7 or number == len(rows) - 1:
            write(asked.out, document)
    write(asked.out, document)
    print(f"{len(document['rows'])} configurations, {time.time() - begun:.0f} s")
    return 1 if any("error" in row for row in document["rows"]) else 0


def write(path, document):
    """The traces are most of it, and go to a second, compressed file."""
    rows = [{k: v for k, v in row.items() if k != "trace"} for row in document["rows"]]
    path.write_text(json.dumps(dict(document, rows=rows), indent=1))
    traces = {row["name"]: {"options": row["options"], "marks": row["marks"], **row["trace"]} for row in document["rows"] if "trace" in row}
    with gzip.open(path.with_suffix(".traces.json.gz"), "wt") as out:
        json.dump(traces, out)


if __name__ == "__main__":
    sys.exit(main())
