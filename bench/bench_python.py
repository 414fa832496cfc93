"""What each feature of the Python package costs per step of a real training loop. Usage: bench_python.py [BUILD]

Marks are timed by the hundred thousand, untracked and tracked. The training log and, where transformers and lightning can be
imported, their callbacks run in real loops, of steps as they are and of quick ones (about 20 ms); every call into them is timed from outside, and the sum is set against the loop's
time, both in processor time of the one thread that trains: what other work the machine has is in neither (though censuses and samples
are taken by the clock: where each step waits for the processor, there are more of them in a step). What no call shows is
looked for by pairs: steps with and without the log by turns, their difference with its interval.
Work that does not come with every step is given by itself: the first census, one more whenever the number of
steps has doubled at the end of an epoch, and the summary. Censuses are timed with 10,000
tensors alive, on the clock and in processor time. Each row has what was measured, its unit, and what is asked for; exits 1 when
that is exceeded: mark 2 us, callback 0.2 % of the step, census 50 ms.
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
QUICK_MS = 15.0  # a quick step takes at least this
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
    """Adds up the time of calls into an object's methods, less what the clock itself takes: asked twice before each call, when as
    little of it is in a cache as then."""

    def __init__(self, target, names):
        self.seconds = 0.0
        self.calls = 0
        for name in names:
            setattr(target, name, self.around(getattr(target, name)))

    def around(self, method):
        def timed(*args, **kwargs):
            before = time.thread_time()
            start = time.thread_time()
            try:
                return method(*args, **kwargs)
            finally:
                self.seconds += time.thread_time() - start - (start - before)
                self.calls += 1

        return timed


class Beside:
    """The censuses that do not come with every step, in processor time."""

    def __init__(self, log_class):
        self.seconds = []
        take = log_class._take_census

        def timed(log, extra=False):
            start = time.thread_time()
            take(log, extra)
            if extra:
                self.seconds.append(time.thread_time() - start)

        log_class._take_census = timed


def report(name, timed, log, beside, loop_s, steps, summary_s):
    extra = sum(beside.seconds)
    background = log.background_s()
    each = (timed.seconds + background - extra) / steps
    step = loop_s / steps
    note = f"{each * 1e6:.0f} us of a step of {step * 1e3:.1f} ms; in backward and the collector {background / steps * 1e6:.0f} us"
    row(f"{name}, per step", 100 * each / step, "%", CALLBACK_PERCENT, note)
    number = len(beside.seconds)
    beside.seconds.clear()
    row(f"{name}, {number} censuses beside (each)", extra / max(1, number) * 1e3, "ms", None, f"{len(gc.get_objects())} Python objects")
    row(f"{name}, summary (once)", summary_s * 1e3, "ms")


def model_and_data(torch, per_step):
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

    tokens = torch.randint(0, vocabulary, (STEPS * per_step, length))
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters())

    def train(batch):
        loss = torch.nn.functional.cross_entropy(model(batch).flatten(0, 1), batch.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return train, torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=per_step)


def quick_batch(torch):
    """The smallest batch whose steps are no quicker than a quick step."""
    for per_step in (1, 2, 4, 8, 16):
        train, loader = model_and_data(torch, per_step)
        batches = [batch for (batch,), _ in zip(loader, range(12))]
        for batch in batches[:4]:
            train(batch)
        start = time.thread_time()
        for batch in batches[4:]:
            train(batch)
        if (time.thread_time() - start) / 8 * 1e3 >= QUICK_MS:
            break
    return per_step


def plain_loop(torch, tidemark, beside, name, per_step):
    train, loader = model_and_data(torch, per_step)
    log = tidemark.TrainingLog(every=50, items=STEPS * per_step, out=lambda _line: None)
    log.count_graphs()
    timed = Timed(log, ("step", "items", "epoch", "epoch_end"))
    cleanup, meter = tidemark.Cleanup(every="auto", out=lambda _line: None), tidemark.torch.PaddingMeter(pad_id=0)
    cleaned, fed = Timed(cleanup, ("step",)), Timed(meter, ("feed",))
    start = time.thread_time()
    for (batch,) in tidemark.watch(loader, log=log):
        train(batch)
        cleanup.step()
        meter.feed(batch)
    loop_s = time.thread_time() - start - cleaned.seconds - fed.seconds
    start = time.perf_counter()
    log.close()
    report(name, timed, log, beside, loop_s, STEPS, time.perf_counter() - start)
    if per_step < 8:
        return
    row("padding meter, per step", fed.seconds / STEPS * 1e6, "us")
    tries = sum(action.runs for action in cleanup.actions)
    row("Cleanup(every='auto'), per step", 100 * cleaned.seconds / loop_s, "%", None, f"{tries} runs of {len(cleanup.actions)} actions; its own bound is 1 %")


def pairs(torch, tidemark, beside):
    """Steps with and without the log, by turns; the first ones are left out with the first census. An upper bound: what the log
    does once in a while falls all into the steps that have it."""
    train, loader = model_and_data(torch, 8)
    log = tidemark.TrainingLog(every=0, out=lambda _line: None)
    log.count_graphs()
    seconds = ([], [])
    for n, (batch,) in enumerate(loader):
        watched = n % 2
        (log.graphs.start if watched else log.graphs.stop)()
        start = time.thread_time()
        if watched:
            log.step(n)
        train(batch)
        seconds[watched].append(time.thread_time() - start)
    without, with_log = seconds[0][4:], seconds[1][4:]
    plain = statistics.median(without)
    differences = [100 * (b - a) / plain for a, b in zip(without, with_log)]
    spread = 2 * 1.25 * statistics.stdev(differences) / len(differences) ** 0.5  # of a median
    row("with and without the log, by pairs", statistics.median(differences), "%", None, f"+- {spread:.2f}, {len(differences)} pairs of steps")
    log.close()
    beside.seconds.clear()


def trainer_loop(torch, beside, name, per_step):
    import transformers

    import tidemark.hf

    torch.set_num_threads(1)

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return STEPS * per_step

        def __getitem__(self, index):
            tokens = (torch.arange(64) * 7 + index) % 500
            return {"input_ids": tokens, "labels": tokens}

    config = transformers.GPT2Config(vocab_size=500, n_positions=64, n_embd=64, n_layer=2, n_head=4)
    callback = tidemark.hf.TidemarkCallback(every=50, out=lambda _line: None)
    timed = Timed(callback, ("on_step_begin", "on_step_end", "on_epoch_begin", "on_epoch_end"))
    ended = Timed(callback, ("on_train_end",))
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, per_device_train_batch_size=per_step, num_train_epochs=1, report_to=[], disable_tqdm=True,
            logging_steps=10**6, save_steps=10**6, use_cpu=True)
        trainer = transformers.Trainer(model=transformers.GPT2LMHeadModel(config), args=arguments, train_dataset=Tokens(),
                                       callbacks=[callback])
        start = time.thread_time()
        trainer.train()
        loop_s = time.thread_time() - start - ended.seconds
    report(name, timed, callback.training_log, beside, loop_s, STEPS, ended.seconds)


def lightning_loop(torch, beside):
    import lightning.pytorch as pl

    import tidemark.lightning

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.body = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))

        def training_step(self, batch, _index):
            return (self.body(batch[0]) - batch[0]).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters())

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(STEPS * 256, 512)), batch_size=256)
    callback = tidemark.lightning.TidemarkCallback(every=50, out=lambda _line: None)
    timed = Timed(callback, ("on_train_batch_start", "on_train_batch_end", "on_train_epoch_start", "on_train_epoch_end"))
    ended = Timed(callback, ("on_train_end",))
    trainer = pl.Trainer(accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False, enable_checkpointing=False,
                         enable_model_summary=False, callbacks=[callback])
    start = time.thread_time()
    trainer.fit(Module(), loader)
    loop_s = time.thread_time() - start - ended.seconds
    report("Lightning callback", timed, callback.training_log, beside, loop_s, STEPS, ended.seconds)


def census_ms(torch, tidemark_torch):
    """In a process where a first step was made, which imports a good deal. All Python objects were gone through before it."""
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
    row("the first census of 10,000 tensors", times[0], "ms", CENSUS_MS, f"{processor[0]:.1f} of them on a processor; {objects} Python objects")
    row("a later one, median of 11", statistics.median(times[1:]), "ms", CENSUS_MS,
        f"{statistics.median(processor[1:]):.1f} of them on a processor, least {min(times):.1f}")
    assert len(many) == 10_000


def present(framework):
    if importlib.util.find_spec(framework) is not None:
        return True
    print(f"{framework} is not installed for this Python: its callback was not measured (make check-python says how)")
    return False


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

    start, used = time.perf_counter(), time.process_time()
    import tidemark.torch

    row("import tidemark.torch (once)", (time.perf_counter() - start) * 1e3, "ms", None,
        f"{(time.process_time() - used) * 1e3:.1f} of them on a processor; goes through all Python objects")
    census_ms(torch, tidemark.torch)
    beside = Beside(tidemark.TrainingLog)
    quick = quick_batch(torch)
    plain_loop(torch, tidemark, beside, "training log", 8)
    plain_loop(torch, tidemark, beside, "training log, quick steps", quick)
    pairs(torch, tidemark, beside)
    if present("transformers"):
        trainer_loop(torch, beside, "Trainer callback", 8)
        trainer_loop(torch, beside, "Trainer callback, quick steps", quick)
    if present("lightning"):
        lightning_loop(torch, beside)
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
