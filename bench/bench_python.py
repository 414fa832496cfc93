"""What each feature of the Python package costs per step of a real training loop. Usage: bench_python.py [BUILD]

Marks are timed by the hundred thousand, untracked and tracked. The training log and, where transformers can be imported, the
Trainer callback run in real loops; every call into them is timed from outside, and the sum is set against the loop's time.
Work that does not come with every step is given by itself: the first census, one more whenever the number of
steps has doubled at the end of an epoch, and the summary. Censuses are timed with 10,000
tensors alive, on the clock and in processor time (a machine with other work on it shows the difference). Exits 1 when a bound of issue 4 is exceeded: mark 2 us, callback 0.2 % of the step, census 50 ms.
"""

import gc
import importlib.util
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
os.environ.setdefault("TIDEMARK_BINARY", str((ROOT / (sys.argv[1] if len(sys.argv) > 1 else "build/release") / "tidemark")))

MARK_US, CALLBACK_PERCENT, CENSUS_MS = 2.0, 0.2, 50.0
STEPS = int(os.environ.get("STEPS") or 400)
exceeded = []


def row(what, value, unit, bound=None, note=""):
    over = bound is not None and value > bound
    if over:
        exceeded.append(what)
    limit = f"< {bound:g}" if bound is not None else ""
    print(f"{what:44} {value:10.3f} {unit:3} {limit:>6} {'EXCEEDED ' if over else ''}{note}".rstrip(), flush=True)


def mark_us(tracked):
    """One mark in a new interpreter, best of seven."""
    code = ("import timeit, tidemark as t; t.step(0)\n"
            "for call in ('t.step(5)', 't.gauge(\"replay buffer\", 1 << 30)'):\n"
            "    print(min(timeit.repeat(call, 'import tidemark as t', number=100000, repeat=7)) * 10)\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as channel:
        env = {k: v for k, v in os.environ.items() if k != "TIDEMARK_CHANNEL"}
        if tracked:
            env["TIDEMARK_CHANNEL"] = channel
        out = subprocess.run([sys.executable, "-c", code], env={**env, "PYTHONPATH": str(ROOT / "python")},
                             capture_output=True, text=True, check=True).stdout
    return map(float, out.split())


class Timed:
    """Adds up the time of calls into an object's methods."""

    def __init__(self, target, names):
        self.seconds = 0.0
        self.calls = 0
        for name in names:
            setattr(target, name, self.around(getattr(target, name)))

    def around(self, method):
        def timed(*args, **kwargs):
            start = time.perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start
                self.calls += 1

        return timed


def report(name, timed, log, loop_s, steps, summary_s):
    extra = sum(log.extra_censuses_s)
    background = log.background_s()
    each = (timed.seconds + background - extra) / steps
    step = loop_s / steps
    note = f"{each * 1e6:.0f} us of a step of {step * 1e3:.1f} ms; in backward and the collector {background / steps * 1e6:.0f} us"
    row(f"{name}, per step", 100 * each / step, "%", CALLBACK_PERCENT, note)
    number = len(log.extra_censuses_s)
    row(f"{name}, {number} censuses beside (each)", extra / max(1, number) * 1e3, "ms", None, f"{len(gc.get_objects())} Python objects")
    row(f"{name}, summary (once)", summary_s * 1e3, "ms")


def model_and_data(torch):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    width, length, vocabulary = 64, 64, 500

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(vocabulary, width)
            layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
            self.body = torch.nn.TransformerEncoder(layer, 2)
            self.head = torch.nn.Linear(width, vocabulary)

        def forward(self, tokens):
            return self.head(self.body(self.embed(tokens)))

    tokens = torch.randint(0, vocabulary, (STEPS * 8, length))
    return Model(), torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=8)


def plain_loop(torch, tidemark):
    model, loader = model_and_data(torch)
    optimizer = torch.optim.AdamW(model.parameters())
    log = tidemark.TrainingLog(every=50, items=STEPS * 8, out=lambda _line: None)
    log.count_graphs()
    timed = Timed(log, ("step", "items", "epoch", "epoch_end"))
    start = time.perf_counter()
    for (batch,) in tidemark.watch(loader, log=log):
        logits = model(batch)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    loop_s = time.perf_counter() - start
    start = time.perf_counter()
    log.close()
    report("training log", timed, log, loop_s, STEPS, time.perf_counter() - start)


def trainer_loop(torch):
    import transformers

    import tidemark.hf

    torch.set_num_threads(1)

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS * 8

        def __getitem__(self, index):
            tokens = (torch.arange(64) * 7 + index) % 500
            return {"input_ids": tokens, "labels": tokens}

    config = transformers.GPT2Config(vocab_size=500, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    callback = tidemark.hf.TidemarkCallback(every=50, out=lambda _line: None)
    timed = Timed(callback, ("on_step_begin", "on_step_end", "on_epoch_begin", "on_epoch_end"))
    ended = Timed(callback, ("on_train_end",))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=8, num_train_epochs=1, report_to=[], disable_tqdm=True,
            logging_steps=10**6, save_steps=10**6, use_cpu=True)
        trainer = transformers.Trainer(model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens(),
                                       callbacks=[callback])
        start = time.perf_counter()
        trainer.train()
        loop_s = time.perf_counter() - start - ended.seconds
    report("Trainer callback", timed, callback.training_log, loop_s, STEPS, ended.seconds)


def census_ms(torch, tidemark_torch):
    """The first goes through all Python objects, later ones through what is new; after an optimizer's first step, which imports."""
    weight = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    weight.sum().backward()
    optimizer.step()
    many = [torch.zeros(4, 8) for _ in range(10_000)]
    objects, times, processor = len(gc.get_objects()), [], []
    for _ in range(12):
        start = time.process_time()
        times.append(tidemark_torch.census().seconds * 1e3)
        processor.append((time.process_time() - start) * 1e3)
    row("the first census of 10,000 tensors", times[0], "ms", None, f"{processor[0]:.1f} of them on a processor; {objects} Python objects")
    row("a later one, median of 11", statistics.median(times[1:]), "ms", CENSUS_MS,
        f"{statistics.median(processor[1:]):.1f} of them on a processor, least {min(times):.1f}")
    assert len(many) == 10_000


def main():
    for tracked in (False, True):
        where = "tracked" if tracked else "not tracked"
        for what, cost in zip(("step()", "gauge()"), mark_us(tracked)):
            row(f"{what}, {where}", cost, "us", MARK_US)
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed for this Python: no training loop, no census")
        return 1 if exceeded else 0
    import torch

    import tidemark
    import tidemark.torch

    census_ms(torch, tidemark.torch)
    plain_loop(torch, tidemark)
    if importlib.util.find_spec("transformers") is not None:
        trainer_loop(torch)
    else:
        print("transformers is not installed for this Python: the Trainer's callback was not measured (make check-python says how)")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
