"""What PyTorch really needs: the measurements behind `tidemark plan`. Usage: plan_measure.py OUT.json [--device cpu]
[--limit SECONDS] [--only PATTERN,...]; or, for the table that the tests read: plan_measure.py --table OUT.json... > plan_h200.tsv,
or plan_measure.py --planned PATTERN,... for lines of what was not measured yet.

Runs every configuration of plan_rows.py in a process of its own, one after the other, and writes one JSON document: versions,
and for each configuration the peak of allocated and reserved bytes, what the device has in use, and what was allocated at each
phase. Traced configurations (few layers) come with every allocation and free of one step, so that a term of the plan can be
compared with the tensor it stands for. Models are made from their configuration with random weights; nothing is fetched.

Needs torch with CUDA and transformers; torchvision for ResNet, bitsandbytes for its AdamW. With `--device cpu` everything is small and
only tried; with `--device host` the rows of the processor (--only 'c-*,ch-*') are measured by the peak of their resident bytes.
"""

import argparse
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

import plan_loops
import plan_rows
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
        if row["loss"] in ("trainer", "trl"):
            self.optimizer = None
            self.mark("model")
            return
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
        self.asked = {"use_cache": None if row["cache"] else False}
        self.next = torch.roll(self.batch["input_ids"], -1, 1).flatten() if row["loss"] == "own" else None
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
        if self.row["mistake"] == "logits-kept":
            self.output = self.called(**batch, use_cache=False).logits
            self.float = self.output.float()
            return functional.cross_entropy(self.float[:, :-1].flatten(0, 1), batch["input_ids"][:, 1:].flatten())
        if self.row["loss"] == "own" and self.row["held"]:
            self.output = self.called(**batch, **self.asked).logits
            return functional.cross_entropy(self.output.flatten(0, 1), self.next)
        if self.row["loss"] == "own":
            return functional.cross_entropy(self.called(**batch, **self.asked).logits.flatten(0, 1), self.next)
        if self.row["held"]:
            self.output = self.called(**batch, labels=batch["input_ids"], **self.asked)
            return self.output.loss
        return self.called(**batch, labels=batch["input_ids"], **self.asked).loss

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
        if self.row["loss"] in ("trainer", "trl"):
            losses = plan_loops.train(self.row, self.model, self.device)
            self.mark("trained")
            return losses
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
        if row["compile"]:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] += "/" + row["name"]
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


def main():
    if sys.argv[1:2] == ["--table"]:
        plan_rows.table([pathlib.Path(path) for path in sys.argv[2:]])
        return 0
    if sys.argv[1:2] == ["--planned"]:
        print("\n".join(plan_rows.line_of(row, (0, 0, 0)) for row in plan_rows.chosen(sys.argv[2])))
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--limit", type=float, default=460)
    parser.add_argument("--only", default="*")
    parser.add_argument("--beside", action="store_true", help="others use the device too: what it has in use is not said")
    parser.add_argument("--one", help="measure this configuration in this process and print it")
    asked = parser.parse_args()
    if asked.one:
        child(next(row for row in plan_rows.wanted() if row["name"] == asked.one), asked.device, 1)
    import transformers
    document = {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "torch": torch.__version__, "transformers": transformers.__version__,
                "cuda": torch.version.cuda, "python": sys.version.split()[0],
                "torchvision": getattr(sys.modules.get("torchvision"), "__version__", None), "idle": gpu_used_idle(), "rows": []}
    begun = time.time()
    forks = True
    gc.freeze()
    rows = plan_rows.chosen(asked.only)
    for number, row in enumerate(rows):
        left = asked.limit - (time.time() - begun)
        if left < 5:
            print(f"no time left for the last {len(rows) - number} configurations")
            break
        if asked.device == "host":
            result = in_fresh(row, asked.device, min(left, 120))
        else:
            result = in_child(row, asked.device, min(left, 180 if row["compile"] else 60)) if forks else {"error": "initialization"}
        if "nitializ" in result.get("error", "") and asked.device == "cuda":
            forks = False
            result = in_fresh(row, asked.device, min(left, 60))
        result["idle"] = gpu_used_idle() if number % 16 == 0 else None
        if asked.beside:
            result["device_end"] = 0
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
