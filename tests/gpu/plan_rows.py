"""What plan_measure.py measures, and the table that the tests read: configurations by name, how each is used, and its line."""

import fnmatch
import json

DEFAULTS = dict(task="pretrain", batch=8, seq=256, accumulation=1, generate=0, dtype="fp32", autocast=False, attention="sdpa",
                checkpointing=False, optimizer="adamw", set_to_none=True, reference=True, compile=False, ddp=False, dropout=None,
                layers=None, rank=16, steps=3, trace=False, mistake=None, k=0, padded=False, vocabulary=None, processes=1, shard="none",
                backend=None, scaler=False, loss="hf", cache=False, held=False)


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
        m("train-cache", "gpt2", "held", **dict(tune, batch=8, seq=1024, cache=True, held=True)),
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
        t("g-traincache", "gpt2", task="sft", batch=4, seq=256, dtype="bf16", cache=True, held=True),
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
    rows += several() + narrow() + resident() + loops()
    # Compilation takes long, so it comes last.
    rows += [
        c("g-pre-compile", "gpt2", batch=8, seq=512, dtype="bf16", compile=True, layers=6),
        c("g-pre-compile-fp32", "gpt2", batch=8, seq=256, compile=True, layers=4),
        c("s-pre-compile-auto", "smollm-135m", batch=8, seq=512, autocast=True, compile=True, layers=6),
        c("v-pre-compile", "vit-base", batch=32, seq=224, dtype="bf16", compile=True, layers=4),
    ]
    return rows + compiled()


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
        t("g-traincache-all", "gpt2", task="sft", batch=8, seq=1024, dtype="bf16", cache=True, held=True),
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


def loops():
    """The loops that people run: a model's own loss with its cache, which is there unless use_cache=False; the output held in a variable;
    a loss of the program's own on the logits; and the loops of Trainer and SFTTrainer."""
    c = conf
    hf = lambda name, model, **options: c(name, model, **dict(dict(cache=True), **options))
    t = lambda name, model, **options: c("x-" + name, model, trace="all", layers=2, steps=2, **options)
    return [
        t("g-hf-auto", "gpt2", batch=4, seq=256, autocast=True, cache=True),
        t("g-held-auto", "gpt2", batch=4, seq=256, autocast=True, cache=True, held=True),
        t("g-own-auto", "gpt2", batch=4, seq=256, autocast=True, cache=True, loss="own", held=True),
        t("g-own-bf16", "gpt2", batch=4, seq=256, dtype="bf16", cache=True, loss="own"),
        t("g-trainer-auto", "gpt2", batch=4, seq=256, autocast=True, loss="trainer", optimizer="adamw-fused"),
        t("g-trl-auto", "gpt2", batch=4, seq=256, autocast=True, loss="trl", optimizer="adamw-fused"),
        t("q-trl-bf16", "qwen2.5-0.5b", batch=2, seq=256, dtype="bf16", loss="trl", optimizer="adamw-fused"),
        hf("g-hf-fp32", "gpt2", batch=8, seq=512),
        hf("g-hf-fp32-nodrop", "gpt2", batch=8, seq=512, dropout=0.0),
        hf("g-hf-auto", "gpt2", batch=16, seq=1024, autocast=True),
        hf("g-hf-auto-nodrop", "gpt2", batch=16, seq=1024, autocast=True, dropout=0.0),
        hf("g-hf-bf16", "gpt2", batch=8, seq=512, dtype="bf16"),
        hf("g-hf-eager", "gpt2", batch=4, seq=512, attention="eager"),
        hf("g-hf-ckpt-auto", "gpt2", batch=8, seq=512, autocast=True, checkpointing=True),
        hf("g-hf-padded", "gpt2", task="sft", batch=8, seq=512, dtype="bf16", padded=True),
        hf("gm-hf-auto", "gpt2-medium", batch=4, seq=512, autocast=True),
        hf("s-hf-fp32", "smollm-135m", batch=4, seq=512),
        hf("s-hf-auto", "smollm-135m", batch=8, seq=512, autocast=True),
        hf("q-hf-bf16", "qwen2.5-0.5b", batch=2, seq=1024, dtype="bf16"),
        hf("t-hf-bf16", "tinyllama-1.1b", task="sft", batch=4, seq=512, dtype="bf16", optimizer="adamw-fused"),
        hf("h-gm-hf-bf16", "gpt2-medium", batch=7, seq=600, dtype="bf16", optimizer="adamw-fused"),
        hf("h-gl-hf-auto", "gpt2-large", task="sft", batch=3, seq=700, autocast=True, optimizer="sgd"),
        hf("h-g-hf-lora", "gpt2", task="lora", batch=8, seq=450, dtype="bf16"),
        hf("h-l-hf-auto", "llama-3.2-1b", batch=1, seq=900, autocast=True, optimizer="momentum"),
        hf("h-q-hf-fp32", "qwen2.5-0.5b", batch=2, seq=350, optimizer="sgd"),
        hf("g-held-auto", "gpt2", batch=8, seq=1024, autocast=True, held=True),
        hf("g-held-fp32", "gpt2", batch=4, seq=512, held=True),
        hf("q-held-bf16", "qwen2.5-0.5b", batch=2, seq=1024, dtype="bf16", held=True),
        hf("h-s-held-auto", "smollm-135m", batch=6, seq=600, autocast=True, held=True),
        c("h-gm-held-nocache", "gpt2-medium", batch=5, seq=400, dtype="bf16", held=True),
        hf("g-own-fp32", "gpt2", batch=8, seq=512, loss="own"),
        hf("g-own-auto", "gpt2", batch=16, seq=1024, autocast=True, loss="own"),
        hf("g-own-bf16", "gpt2", batch=8, seq=512, dtype="bf16", loss="own"),
        hf("g-own-held-auto", "gpt2", batch=8, seq=1024, autocast=True, loss="own", held=True),
        hf("g-own-held-bf16", "gpt2", batch=8, seq=1024, dtype="bf16", loss="own", held=True),
        hf("s-own-auto", "smollm-135m", batch=8, seq=512, autocast=True, loss="own"),
        c("q-own-bf16", "qwen2.5-0.5b", batch=2, seq=1024, dtype="bf16", loss="own"),
        hf("h-gm-own-held", "gpt2-medium", batch=3, seq=500, loss="own", held=True),
        hf("h-q-own-held", "qwen2.5-0.5b", batch=3, seq=450, dtype="bf16", loss="own", held=True, optimizer="adamw-fused"),
        c("h-s-own-ckpt", "smollm-135m", batch=6, seq=700, autocast=True, loss="own", checkpointing=True),
        c("g-trainer-fp32", "gpt2", batch=8, seq=512, loss="trainer", optimizer="adamw-fused"),
        c("g-trainer-auto", "gpt2", batch=16, seq=1024, autocast=True, loss="trainer", optimizer="adamw-fused"),
        c("g-trainer-bf16", "gpt2", batch=8, seq=512, dtype="bf16", loss="trainer", optimizer="adamw"),
        c("q-trainer-auto", "qwen2.5-0.5b", batch=4, seq=512, autocast=True, loss="trainer", optimizer="adamw-fused"),
        c("h-s-trainer-auto", "smollm-135m", batch=6, seq=700, autocast=True, loss="trainer", optimizer="adamw-fused", accumulation=2),
        c("h-gm-trainer-ckpt", "gpt2-medium", batch=8, seq=600, autocast=True, loss="trainer", optimizer="adamw-fused", checkpointing=True),
        c("g-trl-fp32", "gpt2", batch=8, seq=512, loss="trl", optimizer="adamw-fused"),
        c("g-trl-auto", "gpt2", batch=16, seq=1024, autocast=True, loss="trl", optimizer="adamw-fused"),
        c("g-trl-ckpt-auto", "gpt2", batch=16, seq=1024, autocast=True, loss="trl", optimizer="adamw-fused", checkpointing=True),
        c("q-trl-bf16", "qwen2.5-0.5b", batch=2, seq=1024, dtype="bf16", loss="trl", optimizer="adamw-fused"),
        c("h-s-trl-auto", "smollm-135m", batch=6, seq=700, autocast=True, loss="trl", optimizer="adamw-fused"),
        c("h-t-trl-ckpt", "tinyllama-1.1b", batch=3, seq=800, dtype="bf16", loss="trl", optimizer="adamw-fused", checkpointing=True),
        c("h-gm-trl", "gpt2-medium", batch=4, seq=450, autocast=True, loss="trl", optimizer="adamw-fused"),
    ]


def compiled():
    """torch.compile of the model; the code that the compiler made stays in its cache, by the row's name."""
    c = lambda name, model, **options: conf(name, model, **dict(dict(compile=True, cache=True), **options))
    t = lambda name, model, **options: c("x-k-" + name, model, trace=True, layers=2, **options)
    return [
        t("g-auto", "gpt2", batch=8, seq=512, autocast=True),
        t("g-auto-nocache", "gpt2", batch=8, seq=512, autocast=True, cache=False),
        t("g-fp32", "gpt2", batch=8, seq=512),
        t("g-bf16", "gpt2", batch=8, seq=512, dtype="bf16"),
        t("g-bf16-nodrop", "gpt2", batch=8, seq=512, dtype="bf16", dropout=0.0, cache=False),
        t("g-own-auto", "gpt2", batch=8, seq=512, autocast=True, loss="own"),
        t("g-own-bf16", "gpt2", batch=8, seq=512, dtype="bf16", loss="own"),
        t("g-ckpt", "gpt2", batch=8, seq=512, autocast=True, checkpointing=True),
        t("g-eager", "gpt2", batch=8, seq=512, autocast=True, attention="eager"),
        t("s-auto", "smollm-135m", batch=8, seq=512, autocast=True),
        t("s-fp32", "smollm-135m", batch=8, seq=512),
        t("s-bf16", "smollm-135m", batch=8, seq=512, dtype="bf16"),
        t("q-auto", "qwen2.5-0.5b", batch=4, seq=512, autocast=True),
        t("t-bf16", "tinyllama-1.1b", batch=4, seq=512, dtype="bf16"),
        t("v-auto", "vit-base", batch=32, seq=224, autocast=True, cache=False),
        t("v-bf16", "vit-base", batch=32, seq=224, dtype="bf16", cache=False),
        t("v-fp32", "vit-base", batch=32, seq=224, cache=False),
        c("k-g-auto-16", "gpt2", batch=16, seq=1024, autocast=True),
        c("k-g-auto-16-nodrop", "gpt2", batch=16, seq=1024, autocast=True, dropout=0.0),
        c("k-g-auto-4", "gpt2", batch=4, seq=1024, autocast=True),
        c("k-g-fp32", "gpt2", batch=8, seq=512),
        c("k-g-bf16", "gpt2", batch=8, seq=1024, dtype="bf16"),
        c("k-g-own-auto", "gpt2", batch=8, seq=1024, autocast=True, loss="own", held=True),
        c("k-gm-auto", "gpt2-medium", batch=4, seq=512, autocast=True),
        c("k-s-auto", "smollm-135m", batch=8, seq=512, autocast=True),
        c("k-q-bf16", "qwen2.5-0.5b", batch=4, seq=512, dtype="bf16", optimizer="adamw-fused"),
        c("h-k-g-fp32", "gpt2", batch=6, seq=700, optimizer="sgd"),
        c("h-k-gm-bf16", "gpt2-medium", batch=6, seq=700, dtype="bf16", cache=False),
        c("h-k-g-own-bf16", "gpt2", batch=12, seq=450, dtype="bf16", loss="own", held=True),
        c("h-k-s-bf16", "smollm-135m", batch=12, seq=700, dtype="bf16", optimizer="adamw-fused"),
        c("h-k-q-auto", "qwen2.5-0.5b", batch=3, seq=600, autocast=True, optimizer="adamw-fused"),
        c("h-k-t-bf16", "tinyllama-1.1b", task="sft", batch=3, seq=900, dtype="bf16", optimizer="adafactor"),
        c("h-k-v-auto", "vit-base", batch=50, seq=224, autocast=True, cache=False),
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


# What was meant where a mistake was made, as far as the row itself does not say it.
MEANT = {"m-pad-1024": {"seq": 174}, "m-fp32": {"dtype": "bf16"}, "m-eager": {"attention": "sdpa"}, "m-group-times-4": {"batch": 8},
         "m-ckpt-off": {"checkpointing": True}, "m-accum-as-batch": {"batch": 4}, "m-s-fp32": {"dtype": "bf16"},
         "m-s-eager": {"attention": "sdpa"}, "m-s-pad-2048": {"seq": 512}, "m-t-fp32": {"dtype": "bf16"}, "m-v-fp32": {"dtype": "bf16"},
         "m-keepgrad": {"set_to_none": True}, "m-train-cache": {"held": False}}
# Names of the mistakes in the plan.
KEYS = {"padded": "padding", "retain": "graphs", "gen-grad": "generation", "ref-grad": "reference", "cache-kept": "cache", "double": "copies",
        "third-model": "copies", "outputs-kept": "outputs", "eval-grad": "evaluation", "fp32-state": "master", "ckpt-off": "checkpointing",
        "lora-unfrozen": "unfrozen", "prefill-logits": "prefill", "logits-kept": "logits", "keepgrad": "keeps"}
COLUMNS = ("model", "layers", "task", "batch", "seq", "accumulation", "generate", "dtype", "autocast", "attention", "checkpointing", "optimizer",
           "set_to_none", "reference", "compile", "ddp", "dropout", "rank", "padded", "k", "processes", "shard", "scaler", "loss", "cache",
           "held")


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
