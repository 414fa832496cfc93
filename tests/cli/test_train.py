"""`tidemark train lm`: what it lays out and keeps to, what it leaves on disk, and what faults get."""

import fcntl
import filecmp
import json
import os
import pathlib
import pty
import re
import shutil
import sqlite3
import struct
import subprocess
import termios

import pytest

SMALL = ("--threads", 1, "--batch", 2, "--seq", 16)  # enough to be a training run, and cheap
FILES = ("config.json", "model.safetensors", "optimizer.safetensors", "state.json", "vocabulary.json")


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A file that can be learned."""
    path = tmp_path_factory.mktemp("data") / "corpus.txt"
    path.write_text("the tide comes in and the tide goes out; " * 100)
    return path


@pytest.fixture
def train(tidemark, text):
    """train(args...) -> Result of `tidemark train lm` with small batches, one thread, and a text unless there are other data."""

    def call(*args, **more):
        return tidemark("train", "lm", "--data", text, *SMALL, *args, **more)

    return call


@pytest.fixture
def start(binary, tmp_path, text, env):
    """start(args...) -> Popen of the same; killed at the end if it still runs."""
    started = []

    def call(*args, **more):
        kwargs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path, "env": env, **more}
        started.append(subprocess.Popen([str(a) for a in (binary, "train", "lm", "--data", text, *SMALL, *args)], **kwargs))
        return started[-1]

    yield call
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def reports(result):
    assert result.code == 0, result.err
    return [json.loads(line) for line in result.out.splitlines()]


def layout(result):
    assert result.code == 0, result.err
    return result.json


def same_checkpoint(a, b):
    match, mismatch, errors = filecmp.cmpfiles(a, b, FILES, shallow=False)
    assert (sorted(match), mismatch, errors) == (sorted(FILES), [], [])


# ---- the layout


def test_a_run_says_what_it_takes_and_how_it_goes(train):
    result = train("--steps", 3)
    assert result.code == 0 and result.err == ""
    assert re.search(r"^layout +weights \S+ \S+ +optimizer .* gradients .* activations .* head .* total \S+ \S+$", result.out, re.M)
    assert "chosen: keep all activations" in result.out and "least possible, exact" in result.out
    assert re.search(r"^step 3/3  loss \S+  val \S+ .*mem \S+ \S+", result.out, re.M)


def test_a_dry_run_prints_the_layout_and_touches_nothing(train, tmp_path):
    result = train("--dry-run", "--out", "run", "--budget", "64M")
    assert result.code == 0 and "of 64 MB = 61.0 MiB" in result.out
    assert not re.search("^step", result.out, re.M) and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("preset", ["tiny", "small", "medium", "large", "gpt2"])
def test_the_parts_of_a_layout_are_the_whole(train, preset):
    said = layout(train("--preset", preset, "--dry-run", "--json"))
    parts = sum(said[f"{part}_bytes"] for part in ("weights", "optimizer", "gradients", "activations", "head", "inputs"))
    assert parts == said["plan_bytes"] >= said["least_bytes"]
    assert said["passes_bytes"] >= said["passes_lower_bound_bytes"]
    if preset == "gpt2":
        assert said["parameters"] == 124_439_808


@pytest.mark.slow
def test_gpt2_with_8_x_174_tokens_fits_into_2_2_gigabytes(tidemark):
    said = layout(tidemark("train", "lm", "--preset", "gpt2", "--batch", 8, "--seq", 174, "--budget", "2200MB", "--dry-run", "--json"))
    assert said["plan_bytes"] <= 2_200_000_000


@pytest.mark.parametrize("more", [(), ("--dtype", "bf16"), ("--clip", "0"), ("--accumulate", "2"), ("--preset", "small")], ids=" ".join)
def test_budgets_from_the_least_possible_upward_are_kept_to_the_byte(train, more):
    free = layout(train(*more, "--dry-run", "--json"))
    least, most = free["least_bytes"], free["plan_bytes"]
    for budget in sorted({least, (least + most) // 2, most}):
        last = reports(train(*more, "--steps", 1, "--budget", budget, "--json"))[-1]
        assert last["arena_high_bytes"] == last["plan_bytes"] <= budget


def test_what_fits_changes_no_bit_of_the_result(train, tmp_path):
    least = layout(train("--dry-run", "--json"))["least_bytes"]
    assert train("--steps", 3, "--out", "all").code == 0
    assert train("--steps", 3, "--out", "least", "--budget", least).code == 0
    same_checkpoint(tmp_path / "all/step-00000003", tmp_path / "least/step-00000003")


def test_a_budget_too_small_is_refused_with_what_would_fit(train, tmp_path):
    least = layout(train("--batch", 64, "--dry-run", "--json"))["least_bytes"]
    result = train("--batch", 64, "--budget", least - 1, "--out", "run")
    assert result.code == 2 and f"({least} bytes)" in result.err and result.out == ""
    assert list(tmp_path.iterdir()) == []
    batch = int(re.search(r"--batch (\d+) would fit", result.err)[1])
    assert train("--batch", batch, "--budget", least - 1, "--dry-run").code == 0
    assert train("--batch", batch + 1, "--budget", least - 1, "--dry-run").code == 2


def test_a_budget_below_the_model_itself_is_refused(train):
    result = train("--budget", "100K")
    assert result.code == 2 and "weights and optimizer alone take" in result.err


def test_each_phase_takes_what_was_planned(train):
    result = train("--steps", 4, "--eval-every", 2, "--out", "run", "--debug-memory")
    assert result.code == 0
    table = dict(re.findall(r"^(\w+) +([\d,]+ +[\d,]+)", result.out.split("resident")[1], re.M))
    assert list(table) == ["data", "forward", "backward", "update", "evaluation", "checkpoint", "arena"]
    for phase, numbers in table.items():
        planned, used = numbers.split()
        assert planned == used, phase
    owners = re.findall(r"^ +([\d,]+) +(.+)", result.out.split("at the peak")[1], re.M)
    assert sum(int(number.replace(",", "")) for number, _ in owners) == int(table["arena"].split()[0].replace(",", ""))


# ---- training


def test_json_has_a_line_per_report(train):
    lines = reports(train("--steps", 6, "--report-every", 2, "--eval-every", 4, "--json"))
    assert [line["step"] for line in lines] == [1, 2, 4, 6]
    assert [line["val_loss"] is None for line in lines] == [True, True, False, False]
    for line in lines:
        assert line["schema"] == "tidemark.train/1" and line["steps"] == 6
        assert line["loss"] > 0 and line["gradient_norm"] > 0 and line["tokens_per_second"] > 0 and line["steps_per_second"] > 0
        assert line["plan_bytes"] == line["arena_high_bytes"] < line["anonymous_bytes"] < line["rss_bytes"]
    assert [line["final"] for line in lines] == [False] * 3 + [True]


def test_the_document_names_every_field(train, root):
    table = (root / "docs/TRAIN.md").read_text().split("## JSON")[1]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", row)}
    last = reports(train("--steps", 1, "--sample-every", 1, "--json"))[-1]
    assert named == set(last) - {"schema"}


def test_the_answers_to_sums_are_checked(tidemark):
    lines = reports(tidemark("train", "lm", *SMALL, "--steps", 1, "--json"))
    assert 0 <= lines[-1]["accuracy"] < 0.5


def test_what_the_model_says_is_shown_on_one_line(train):
    result = train("--steps", 4, "--sample-every", 2)
    assert result.code == 0 and len(re.findall(r"^ +says '[^\n]+'$", result.out, re.M)) == 2
    lines = reports(train("--steps", 4, "--sample-every", 2, "--json"))
    assert [line["step"] for line in lines if "sample" in line] == [2, 4]


def test_a_text_is_learned(train):
    lines = reports(train("--steps", 100, "--lr", "3e-3", "--warmup", 10, "--json"))
    assert lines[0]["loss"] > 2 and lines[-1]["val_loss"] < 2


def test_a_token_file_is_learned(train, tmp_path):
    tokens = [(i * 7) % 50 for i in range(2000)]
    (tmp_path / "tokens.bin").write_bytes(struct.pack("<3i", 20240520, 1, len(tokens)).ljust(1024, b"\0")
                                          + struct.pack(f"<{len(tokens)}H", *tokens))
    lines = reports(train("--data", "tokens.bin", "--steps", 60, "--lr", "3e-3", "--warmup", 10, "--json"))
    assert lines[-1]["val_loss"] < lines[0]["loss"] - 1


def test_schedules_go_where_they_say(train):
    for schedule, last in (("inverse", 1), ("constant", 1), ("cosine", 0.1), ("linear", 0.1)):
        lines = reports(train("--steps", 8, "--warmup", 2, "--lr", "0.01", "--schedule", schedule, "--report-every", 1, "--json"))
        rates = [line["learning_rate"] for line in lines]
        assert rates[0] == pytest.approx(0.005) and max(rates) <= 0.0100001 and rates[-1] == pytest.approx(0.01 * last)


def test_a_config_file_makes_the_model(train, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"n_embd": 24, "n_head": 3, "n_layer": 1, "n_positions": 32, "vocab_size": 20}))
    said = layout(train("--config", "config.json", "--dry-run", "--json"))
    assert said["parameters"] == 20 * 24 + 32 * 24 + 12 * 24 * 24 + 13 * 24 + 2 * 24


@pytest.mark.parametrize("more", [(), ("--dtype", "bf16", "--accumulate", 2, "--schedule", "cosine")], ids=["f32", "bf16"])
def test_going_on_gives_the_same_bytes_as_not_stopping(train, tmp_path, more):
    every = ("--warmup", 3, *more)
    assert train(*every, "--steps", 8, "--save-every", 4, "--keep", 3, "--out", "whole").code == 0
    halves = tmp_path / "halves"
    halves.mkdir()
    (tmp_path / "whole/step-00000004").rename(halves / "step-00000004")
    result = train(*every, "--steps", 8, "--out", "halves", "--resume", "auto")
    assert result.code == 0 and "resumed  after step 4" in result.out
    same_checkpoint(tmp_path / "whole/step-00000008", halves / "step-00000008")


def test_more_steps_go_on_where_a_finished_run_ended(train, tmp_path):
    assert train("--steps", 6, "--out", "whole").code == 0
    assert train("--steps", 3, "--out", "parts").code == 0
    assert train("--steps", 6, "--out", "parts", "--resume", "auto").code == 0
    same_checkpoint(tmp_path / "whole/step-00000006", tmp_path / "parts/step-00000006")
    again = train("--steps", 6, "--out", "parts", "--resume", "auto")
    assert again.code == 0 and "nothing to do" in again.err


# Losses of steps 6 to 9 as the first edition went on itself.
FIRST_EDITION = pathlib.Path(__file__).resolve().parents[1] / "fixtures/first-edition"
FIRST_EDITIONS_LOSSES = (2.551955462, 2.535331249, 2.532390118, 2.539642096)


def test_a_checkpoint_of_the_first_edition_goes_on_as_it_did(tidemark, tmp_path):
    """Five steps of a model of 312 weights, saved before weights had types and optimizers names."""
    shutil.copytree(FIRST_EDITION, tmp_path / "run")
    done = reports(tidemark("train", "lm", "--resume", "auto", "--out", "run", "--steps", 9, "--threads", 1, "--eval-every", 0, "--json"))
    assert [line["step"] for line in done] == [6, 7, 8, 9]
    assert [line["loss"] for line in done] == pytest.approx(FIRST_EDITIONS_LOSSES, rel=1e-6)
    assert done[-1]["val_loss"] == pytest.approx(2.528251827, rel=1e-6)
    assert tidemark("sample", "run/step-00000005", "--prompt", "07+85=", "--tokens", 4).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_any_number_of_threads_gives_the_same_bits(tidemark, tmp_path, dtype):
    (tmp_path / "text").write_text("how many threads there are changes nothing\n" * 50)

    def run(name, threads, steps, *more):
        result = tidemark("train", "lm", "--data", "text", "--dtype", dtype, "--threads", threads, "--steps", steps, "--out", name, *more)
        assert result.code == 0 and not result.err, result.err

    run("once", 1, 6)
    for threads in range(1, 5):
        name = f"with-{threads}"
        run(name, threads, 3)
        run(name, threads % 4 + 1, 6, "--resume", "auto")
        same_checkpoint(tmp_path / "once/step-00000006", tmp_path / name / "step-00000006")


def test_the_last_checkpoints_are_kept(train, tmp_path):
    assert train("--steps", 5, "--save-every", 1, "--keep", 2, "--out", "run").code == 0
    assert sorted(path.name for path in (tmp_path / "run").glob("step-*")) == ["step-00000004", "step-00000005"]


# ---- memory


@pytest.mark.unsanitized  # a sanitizer keeps what was freed
def test_after_the_first_step_no_page_is_added(start):
    process = start("--steps", 400, "--report-every", 20, "--eval-every", 100, "--sample-every", 90, "--json")
    seen = []
    for line in process.stdout:
        try:
            rollup = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
            faults = int(pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[7])
        except (ProcessLookupError, AttributeError):
            break
        if not (anonymous := re.search(r"^Anonymous: +(\d+)", rollup, re.M)):
            break  # it has ended
        seen.append((json.loads(line)["step"], int(anonymous[1]), faults))
    process.wait()
    during = [entry for entry in seen if 20 <= entry[0] < 400]
    assert len(during) >= 5, seen
    assert len({anonymous for _, anonymous, _ in during}) == 1, seen
    assert during[-1][2] - during[0][2] <= 2, seen


def test_under_the_tracker_steps_and_phases_are_marks(tidemark, binary, tmp_path):
    result = tidemark("run", "-q", "-o", "run.tide", "--", binary, "train", "lm", *SMALL, "--steps", 12, "--eval-every", 5,
                      "--save-every", 6, "--out", "run")
    assert result.code == 0, result.err
    with sqlite3.connect(tmp_path / "run.tide") as db:
        steps = [row[0] for row in db.execute("select number from mark where kind = 1 and source = 1 order by t_ns")]
        names = [row[0] for row in db.execute("select name from mark where kind = 3 order by t_ns")]
        arena = db.execute("select number from mark where kind = 6 and name = 'arena'").fetchone()[0]
    assert steps == list(range(1, 13))
    assert [name for name in names if name != "sampling"] == ["evaluation", "checkpoint", "evaluation", "checkpoint", "evaluation"]
    assert names.count("sampling") == names.count("evaluation")  # for sums are asked
    assert arena > 1 << 20


def test_logits_are_kept_or_computed_twice_as_the_budget_says(tidemark):
    gpt2 = ("train", "lm", "--preset", "gpt2", "--batch", 4, "--seq", 64, "--threads", 2, "--dry-run")
    kept, spared = (tidemark(*gpt2, "--json", "--budget", budget).json for budget in ("2080M", "2040M"))
    assert kept["recomputed_logits_percent"] == 0 and kept["head_bytes"] > 50e6
    assert 0 < spared["recomputed_logits_percent"] < 100 and spared["head_bytes"] < 40e6
    assert f"{spared['recomputed_logits_percent']} % of its logits computed twice" in tidemark(*gpt2, "--budget", "2040M").out


@pytest.mark.long
@pytest.mark.parametrize("preset, steps, every", [("tiny", 1_000_000, 100_000), ("small", 10_000, 1000)])
def test_memory_is_flat_for_ever(tidemark, binary, tmp_path, preset, steps, every):
    result = tidemark("run", "-o", "run.tide", "--", binary, "train", "lm", "--preset", preset, "--threads", 1, "--batch", 1, "--seq", 8,
                      "--steps", steps, "--eval-every", every, "--json", timeout=3000)
    lines = [json.loads(line) for line in result.out.splitlines()]
    assert result.code == 0 and lines[-1]["step"] == steps
    assert len({line["anonymous_bytes"] for line in lines[1:]}) == 1
    assert lines[-1]["rss_bytes"] - lines[1]["rss_bytes"] < 1 << 20  # pages of the program itself, as code is first run
    verdict = tidemark("judge", "--json", "run.tide")
    assert verdict.code == 0 and (verdict.json["verdict"], verdict.json["growth_bytes"]) == ("flat", 0), verdict.out


# ---- faults


@pytest.mark.parametrize("budget", ["all", "least"])
def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint(train, tmp_path, budget):
    size = layout(train("--dry-run", "--json"))["plan_bytes" if budget == "all" else "least_bytes"]
    assert train("--steps", 2, "--out", "run", "--budget", size).code == 0
    result = train("--steps", 9, "--out", "run", "--resume", "auto", "--lr", "1e30", "--warmup", 0, "--save-every", 1000, "--budget", size)
    assert result.code == 2
    assert re.search(r"the (loss|norm of the gradients) of step [34] is not a finite number", result.err)
    assert "the last good checkpoint is 'run/step-00000002'" in result.err
    assert [path.name for path in (tmp_path / "run").glob("step-*")] == ["step-00000002"]


@pytest.mark.parametrize("args, words", [
    (("--seq", "300"), "longer than the model's 128 positions"),
    (("--data", "nothing.txt"), "nothing.txt"),
    (("--data", "empty.txt"), "it is empty"),
    (("--data", "short.txt"), "a sequence of 16 needs at least"),
    (("--data", "one.txt"), "one symbol only"),
    (("--data", "."), "not a regular file"),
    (("--config", "short.txt"), "not valid JSON"),
    (("--config", "config.json", "--preset", "tiny"), "cannot be used together"),
    (("--resume", "auto"), "needs the directory"),
    (("--resume", "nowhere"), "nowhere"),
    (("--out", "one.txt"), "one.txt"),
    (("--preset", "huge"), "huge"),
    (("--batch", "0"), "batch"),
    (("--lr", "nan"), "lr"),
    (("--lr", "-1"), "lr"),
    (("--batch", "1000000", "--seq", "128", "--preset", "large"), "and the system has"),
], ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "")
def test_what_cannot_be_is_refused_in_one_sentence(train, tmp_path, args, words):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "short.txt").write_text("abc")
    (tmp_path / "one.txt").write_text("a" * 1000)
    (tmp_path / "config.json").write_text("{}")
    before = sorted(path.name for path in tmp_path.iterdir())
    result = train("--steps", 1, *args)
    assert result.code == 2 and words in result.err and result.err.startswith("tidemark: "), result.err
    assert len(result.err.splitlines()) <= 2
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_another_model_or_another_text_does_not_go_on_with_a_run(train, text, tmp_path):
    assert train("--steps", 1, "--out", "run").code == 0
    (tmp_path / "other.txt").write_text("0123456789" * 200)
    config = json.loads((tmp_path / "run/step-00000001/config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"layer_norm_epsilon": 1e-3}))
    (tmp_path / "more.json").write_text(json.dumps(config | {"vocab_size": 500}))
    for args in (("--data", "other.txt"), ("--preset", "small"), ("--config", "config.json"), ("--config", "more.json")):
        result = train("--data", text, *args, "--steps", 2, "--out", "run", "--resume", "auto")
        assert result.code == 2 and result.err.startswith("tidemark: "), result.err
    assert train("--config", "run/step-00000001/config.json", "--steps", 2, "--out", "run", "--resume", "auto").code == 0


def test_what_to_train_must_be_said(tidemark):
    for words in ((), ("rl",), ("lm", "lm")):
        result = tidemark("train", *words)
        assert result.code == 2 and "tidemark train lm" in result.err


# ---- the terminal


@pytest.mark.slow
def test_a_terminal_gets_one_line_that_is_drawn_again(binary, tmp_path, env):
    ours, theirs = pty.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 24, 160, 0, 0))
    process = subprocess.Popen([str(a) for a in (binary, "train", "lm", *SMALL, "--steps", 600)], cwd=tmp_path, stdin=theirs, stdout=theirs,
                               stderr=theirs, env={**env, "TERM": "xterm"})
    os.close(theirs)
    written = b""
    try:
        while more := os.read(ours, 65536):
            written += more
    except OSError:
        pass  # its last writer is gone
    os.close(ours)
    assert process.wait() == 0
    screen = written.decode()
    assert re.search(r"\r\x1b\[Kstep \d+/600  loss [^\n]*eta [^\n]*\[=*>", screen)
    assert re.search(r"^step 600/600 [^\n]* flat\r$", screen.replace("\r\x1b[K", "\n"), re.M)
