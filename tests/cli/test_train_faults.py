"""What a training run on disk survives: kills, signals, full disks, damage, and input that cannot be right.

Everything runs `tiny` with small batches: a run of two hundred steps takes a tenth of a second."""

import contextlib
import functools
import json
import os
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import textwrap
import zlib

import pytest

from waiting import has, wait_for

# A text and not sums made up: those are asked a thousand times at the end of a run, which takes longer than the run.
SMALL = ("train", "lm", "--data", "sums.txt", "--batch", 2, "--seq", 16, "--threads", 1, "--eval-every", 0)
FILES = ["config.json", "model.safetensors", "optimizer.safetensors", "state.json", "vocabulary.json"]


@pytest.fixture(autouse=True)
def sums(tmp_path):
    """What is learned, thirteen symbols."""
    (tmp_path / "sums.txt").write_text("".join(f"{a:02}+{b:02}={a + b:03}\n" for a in range(20) for b in range(60, 99)))


@pytest.fixture
def train(tidemark):
    """train("--steps", 100, ...) -> Result"""
    return functools.partial(tidemark, *SMALL)


@pytest.fixture
def background(binary, env, tmp_path):
    """The same without waiting for its end; what is still there after the test is killed."""
    with contextlib.ExitStack() as after:

        def call(*args, **more):
            argv = [str(arg) for arg in (binary, *SMALL, *args)]
            process = subprocess.Popen(argv, cwd=tmp_path, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
            after.enter_context(process)
            after.callback(process.kill)
            return process

        yield call


def steps(run):
    """The steps of the checkpoints in a run's directory."""
    return sorted(int(path.name[5:]) for path in run.glob("step-*"))


def contents(checkpoint):
    return {path.name: path.read_bytes() for path in sorted(checkpoint.iterdir())}


def is_whole(checkpoint):
    """Whether every file is as state.json says, by other code than the program's."""
    text = (checkpoint / "state.json").read_bytes()
    files = json.loads(text)["files"]
    assert json.loads(text)["crc32"] == zlib.crc32(text[:text.rindex(b",")])
    return all((checkpoint / name).stat().st_size == part["bytes"] and zlib.crc32((checkpoint / name).read_bytes()) == part["crc32"]
               for name, part in files.items())


def tensors(path):
    """Name -> (type, shape, bytes) of a safetensors file, read by its definition and held to it."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    assert length % 8 == 0 and header.pop("__metadata__") == {"format": "pt"}
    body, at, found = data[8 + length:], 0, {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        count = 1
        for dim in entry["shape"]:
            count *= dim
        assert begin == at and end - begin == 4 * count and entry["dtype"] == "F32"
        found[name], at = (entry["dtype"], entry["shape"], body[begin:end]), end
    assert at == len(body)
    return found


def refused(result, *words):
    """Exit 2, one sentence (and perhaps a hint) that has the words in it."""
    assert result.code == 2, result.out + result.err
    lines = result.err.strip().splitlines()
    assert lines[0].startswith("tidemark: ") and all(line.startswith("hint: ") for line in lines[1:])
    for word in words:
        assert word in result.err


# ---- what is saved


def test_a_checkpoint_has_the_names_and_shapes_of_hugging_face(train, tmp_path):
    assert train("--steps", 3, "--out", "run").code == 0
    newest = tmp_path / "run/step-00000003"
    assert sorted(contents(newest)) == FILES and is_whole(newest)
    weights, moments = tensors(newest / "model.safetensors"), tensors(newest / "optimizer.safetensors")
    config = json.loads((newest / "config.json").read_text())
    C, H = config["n_embd"], config["n_inner"]
    expected = {"wte.weight": [13, C], "wpe.weight": [config["n_positions"], C], "ln_f.weight": [C], "ln_f.bias": [C]}
    for n in range(config["n_layer"]):
        for name, rows, columns in (("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C), ("mlp.c_fc", C, H), ("mlp.c_proj", H, C)):
            expected |= {f"h.{n}.{name}.weight": [rows, columns], f"h.{n}.{name}.bias": [columns]}
        for name in ("ln_1", "ln_2"):
            expected |= {f"h.{n}.{name}.weight": [C], f"h.{n}.{name}.bias": [C]}
    assert {name: shape for name, (_, shape, _) in weights.items()} == {f"transformer.{k}": v for k, v in expected.items()}
    assert {name: shape for name, (_, shape, _) in moments.items()} == {
        f"transformer.{k}.{which}": v for k, v in expected.items() for which in ("exp_avg", "exp_avg_sq")}
    assert any(moments["transformer.wte.weight.exp_avg_sq"][2])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_going_on_gives_the_bytes_of_a_run_that_never_stopped(train, tidemark, tmp_path, dtype):
    more = ("--dtype", dtype, "--seed", 7, "--accumulate", 2, "--lr", 0.0123, "--warmup", 17, "--weight-decay", 0.3, "--clip", 0.7)
    assert train("--steps", 200, "--out", "once", *more).code == 0
    assert train("--steps", 100, "--out", "twice", *more).code == 0
    # What is not given again is as the run had it.
    result = tidemark("train", "lm", "--data", "sums.txt", "--steps", 200, "--out", "twice", "--resume", "auto", "--threads", 1)
    assert result.code == 0 and "resumed  after step 100" in result.out
    assert contents(tmp_path / "once/step-00000200") == contents(tmp_path / "twice/step-00000200")
    assert contents(tmp_path / "twice/step-00000100") != contents(tmp_path / "twice/step-00000200")


def tensors_of(data):
    """{name: (entry of the header, bytes)} of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: (entry, data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
            for name, entry in header.items()}


def safetensors_of(tensors):
    at, header = 0, {}
    for name, (entry, data) in tensors.items():
        header[name] = {**entry, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"".join(data for _, data in tensors.values())


@pytest.fixture
def in_shards(train, tmp_path, request):
    """model/, whose weights lie in three files and an index as Hugging Face writes them; what the one file has is in run/."""
    assert train("--steps", 3, "--weights", getattr(request, "param", "f32"), "--out", "run").code == 0
    model, whole = tmp_path / "model", tmp_path / "run/step-00000003"
    model.mkdir()
    for name in ("config.json", "vocabulary.json"):
        (model / name).write_bytes((whole / name).read_bytes())
    tensors = list(tensors_of((whole / "model.safetensors").read_bytes()).items())
    parts = {f"model-{i + 1:05}-of-00003.safetensors": dict(tensors[i::3]) for i in range(3)}
    for name, part in parts.items():
        (model / name).write_bytes(safetensors_of(part))
    where = {tensor: name for name, part in parts.items() for tensor in part}
    (model / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": where}))
    return model


@pytest.mark.parametrize("in_shards, weights", [("f32", "f32"), ("bf16", "bf16")], indirect=["in_shards"])
def test_a_model_in_several_files_is_read(train, tidemark, in_shards, weights, tmp_path):
    (tmp_path / "whole").mkdir()
    for name in ("config.json", "vocabulary.json", "model.safetensors"):
        (tmp_path / "whole" / name).write_bytes((tmp_path / "run/step-00000003" / name).read_bytes())
    said = [tidemark("sample", folder, "--prompt", "12+34=", "--seed", 4, "--threads", 1).out for folder in ("whole", "model")]
    assert said[0] == said[1] != ""
    for source in ("model", "whole"):
        assert train("--steps", 2, "--resume", source, "--weights", weights, "--out", f"on-{source}").code == 0
    assert contents(tmp_path / "on-model/step-00000002") == contents(tmp_path / "on-whole/step-00000002")


SHARD = "model-00002-of-00003.safetensors"
INDEX = "model.safetensors.index.json"


def change_index(folder, change):
    index = json.loads((folder / INDEX).read_text())
    change(index["weight_map"])
    (folder / INDEX).write_text(json.dumps(index))


def move_tensor(folder):
    """The file has a tensor that the index has elsewhere, and another file has it too."""
    first = folder / "model-00001-of-00003.safetensors"
    tensors = tensors_of((folder / SHARD).read_bytes())
    tensors.update(list(tensors_of(first.read_bytes()).items())[:1])
    (folder / SHARD).write_bytes(safetensors_of(tensors))


@pytest.mark.parametrize("spoil,words", [
    (lambda folder: (folder / INDEX).write_text("{}"), "no weight_map"),
    (lambda folder: (folder / INDEX).write_text("{"), "not valid JSON"),
    (lambda folder: (folder / INDEX).unlink(), "there is a config.json but no model.safetensors"),
    (lambda folder: (folder / SHARD).unlink(), f"{SHARD}': No such file"),
    (lambda folder: (folder / SHARD).write_bytes((folder / SHARD).read_bytes()[:-5]), SHARD),
    (lambda folder: (folder / SHARD).write_bytes(b""), "too short"),
    (lambda folder: change_index(folder, lambda m: m.update(more=SHARD)), "tensor 'more' in"),
    (lambda folder: change_index(folder, lambda m: m.pop(next(iter(m)))), "the index does not name"),
    (lambda folder: change_index(folder, lambda m: m.update({next(iter(m)): SHARD})), "that the index has in"),
    (move_tensor, "that the index has in"),
    (lambda folder: change_index(folder, lambda m: m.update({next(iter(m)): "../model/" + SHARD})), "not a file beside it"),
    (lambda folder: change_index(folder, lambda m: m.update({next(iter(m)): ".."})), "not a file beside it"),
    (lambda folder: change_index(folder, lambda m: m.update({next(iter(m)): 7})), "not a file beside it"),
], ids=["no map", "no JSON", "no index", "missing file", "cut file", "empty file", "missing tensor", "unnamed tensor",
        "tensor elsewhere", "tensor twice", "a path", "the folder above", "no name"])
def test_files_of_a_model_that_lie_are_refused(train, tidemark, in_shards, tmp_path, spoil, words):
    spoil(in_shards)
    refused(tidemark("sample", "model", "--prompt", "1"), words)
    refused(train("--steps", 2, "--resume", "model", "--out", "on"), words)
    assert not list((tmp_path / "on").glob("step-*"))


def test_a_run_can_go_on_in_another_directory(train, tmp_path):
    assert train("--steps", 20, "--out", "a").code == 0
    before = contents(tmp_path / "a/step-00000020")
    assert train("--steps", 40, "--out", "b", "--resume", "a/step-00000020").code == 0
    assert train("--steps", 40, "--out", "c", "--resume", "a").code == 0
    assert contents(tmp_path / "b/step-00000040") == contents(tmp_path / "c/step-00000040")
    assert steps(tmp_path / "a") == [20] and contents(tmp_path / "a/step-00000020") == before


def test_a_run_is_not_written_over_by_another(train, tmp_path):
    assert train("--steps", 20, "--out", "run").code == 0
    before = contents(tmp_path / "run/step-00000020")
    refused(train("--steps", 20, "--out", "run", "--seed", 2), "'run' already holds a run", "--resume auto")
    assert train("--steps", 2, "--out", "other").code == 0
    refused(train("--steps", 30, "--out", "run", "--resume", "other"), "'run' already holds a run")
    assert contents(tmp_path / "run/step-00000020") == before


@pytest.mark.parametrize("more", [(), ("--resume", "auto"), ("--resume", "model")], ids=["new", "auto", "itself"])
def test_checkpoints_are_not_saved_beside_a_model(train, tmp_path, more):
    assert train("--steps", 2, "--out", "a").code == 0
    foreign(tmp_path / "a/step-00000002")
    shutil.move(tmp_path / "a/step-00000002", tmp_path / "model")
    before = contents(tmp_path / "model")
    refused(train("--steps", 3, "--out", "model", *more), "'model' is a model or a checkpoint, not the directory of a run", "--resume model --out DIR")
    assert contents(tmp_path / "model") == before


@pytest.mark.parametrize("more", [(), ("--resume", "auto")], ids=["new", "auto"])
def test_only_one_process_trains_into_a_directory(train, background, tidemark, tmp_path, more):
    assert train("--steps", 5, "--out", "run").code == 0
    first = background("--steps", 10, "--out", "run", "--resume", "auto", "--accumulate", 10**6)  # a step of minutes
    wait_for(lambda: has(first, "SigCgt", signal.SIGTERM))
    refused(train("--steps", 20, "--out", "run", "--seed", 2, *more), "another process is training into 'run'", "--out")
    assert tidemark("sample", "run", "--prompt", "07+", "--tokens", 2).code == 0
    assert train("--steps", 20, "--out", "run", "--resume", "auto", "--dry-run").code == 0
    assert tidemark("plan", "--", *SMALL, "--out", "run", "--resume", "auto").code == 0
    first.kill()
    first.wait()
    assert train("--steps", 10, "--out", "run", "--resume", "auto").code == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["step-00000005", "step-00000010"]


def test_a_second_run_is_refused_before_the_first_has_saved(train, background, tmp_path):
    first = background("--steps", 10, "--accumulate", 10**6, "--out", "run")  # a step of minutes
    wait_for(lambda: has(first, "SigCgt", signal.SIGTERM))
    refused(train("--steps", 20, "--out", "run"), "another process is training into 'run'")
    assert first.poll() is None and not list((tmp_path / "run").iterdir())


def test_saving_goes_on_if_the_directory_of_the_run_is_removed(background, tmp_path):
    run = tmp_path / "run"
    first = background("--steps", 10**6, "--save-every", 5, "--out", "run")
    wait_for(lambda: steps(run))
    run.rename(tmp_path / "moved")
    wait_for(lambda: run.exists() and steps(run))
    first.terminate()
    _, err = first.communicate(timeout=60)
    assert first.returncode == 128 + signal.SIGTERM and is_whole(run / f"step-{steps(run)[-1]:08}"), err


@pytest.fixture
def transformers(run):
    """transformers(program, argument...) -> what it prints, as JSON; the real library, where tools/cases-venv has got it."""
    venv = pathlib.Path(os.environ.get("TIDEMARK_CASES_VENV", pathlib.Path.home() / ".cache/tidemark/cases-venv"))
    if not (venv / "ready").exists():
        pytest.skip("transformers is not there: tools/cases-venv")

    def call(program, *args):
        head = "import sys, json, torch\nfrom transformers import GPT2Config, GPT2LMHeadModel\n"
        result = run(venv / "bin/python3", "-c", head + textwrap.dedent(program), *args, timeout=300)
        assert result.code == 0, result.err
        return json.loads(result.out)

    return call


GREEDY = """
    model, info = GPT2LMHeadModel.from_pretrained(sys.argv[1], output_loading_info=True)
    model.eval()
    said = []
    for prompt in json.loads(sys.argv[2]):
        tokens = list(prompt)
        for _ in range(12):
            with torch.no_grad():
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        said.append(tokens[len(prompt):])
    print(json.dumps({"info": {key: list(value) for key, value in info.items()}, "said": said}))
"""


def said_by_tidemark(tidemark, folder, symbols, prompts):
    """What the likeliest are, as tokens."""
    said = []
    for prompt in prompts:
        text = "".join(chr(symbols[token]) for token in prompt)
        result = tidemark("sample", folder, "--prompt", text, "--tokens", 12, "--temperature", 0, "--json")
        assert result.code == 0, result.err
        said.append([symbols.index(ord(symbol)) for symbol in result.json["text"].removeprefix(text)])
    return said


@pytest.mark.long
def test_transformers_says_what_tidemark_says(train, tidemark, transformers, tmp_path):
    assert train("--steps", 300, "--batch", 8, "--seq", 32, "--out", "run").code == 0  # room for prompt and answer
    newest = tmp_path / "run/step-00000300"
    symbols = json.loads((newest / "vocabulary.json").read_text())["symbols"]
    prompts = [[symbols.index(ord(symbol)) for symbol in text] for text in ("07+85=", "12+34=046\n9", "+", "55+5")]
    theirs = transformers(GREEDY, newest, json.dumps(prompts))
    assert not any(theirs["info"].values()), theirs["info"]
    assert theirs["said"] == said_by_tidemark(tidemark, newest, symbols, prompts)


@pytest.mark.long
@pytest.mark.parametrize("dtype,files", [("float32", "1GB"), ("float16", "1GB"), ("bfloat16", "1GB"), ("float32", "20KB")],
                         ids=["float32", "float16", "bfloat16", "several files"])
def test_tidemark_says_what_a_model_of_transformers_says(train, tidemark, transformers, tmp_path, dtype, files):
    assert train("--steps", 1, "--out", "run").code == 0
    symbols = json.loads((tmp_path / "run/step-00000001/vocabulary.json").read_text())["symbols"]
    transformers("""
        torch.manual_seed(5)
        config = GPT2Config(vocab_size=13, n_positions=40, n_embd=48, n_layer=3, n_head=4, n_inner=100, initializer_range=0.4)
        model = GPT2LMHeadModel(config).to(getattr(torch, sys.argv[2]))
        model.save_pretrained(sys.argv[1], safe_serialization=True, max_shard_size=sys.argv[3])
        model.float().save_pretrained(sys.argv[1] + "-wide", safe_serialization=True)
        print("{}")
        """, tmp_path / "theirs", dtype, files)
    assert (len(list((tmp_path / "theirs").glob("*.safetensors"))) > 1) == (files == "20KB")
    (tmp_path / "theirs/vocabulary.json").write_text((tmp_path / "run/step-00000001/vocabulary.json").read_text())
    prompts = [[3, 1, 4, 1, 5], [9], [2, 6, 5, 3, 5, 8, 9, 7, 9]]
    theirs = transformers(GREEDY, tmp_path / "theirs-wide", json.dumps(prompts))
    assert said_by_tidemark(tidemark, "theirs", symbols, prompts) == theirs["said"]
    result = train("--steps", 3, "--out", "on", "--resume", "theirs")
    assert result.code == 0, result.err


def resident_kb(process):
    """Of the whole process, exactly: the counters in statm are put together from those of the processors now and then."""
    text = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Rss:"))


@pytest.mark.unsanitized
def test_saving_adds_no_page(background, tmp_path):
    process = background("--steps", 10**6, "--out", "run", "--save-every", 100, "--report-every", 10)
    assert any(line.startswith("step 20/") for line in process.stdout)
    before = resident_kb(process)
    wait_for(lambda: steps(tmp_path / "run") and steps(tmp_path / "run")[-1] >= 500)
    assert resident_kb(process) <= before


# ---- kills and signals


def kill_while_saving(process, run, files):
    """Kills when a checkpoint is being written and has so many files. False: it was not caught at that."""

    def caught():
        for partial in run.glob(".step-*.partial"):
            try:
                if len(list(partial.iterdir())) == files:
                    return True
            except OSError:
                pass
        return process.poll() is not None

    wait_for(caught)
    process.kill()
    process.wait()
    return any(run.glob(".step-*.partial"))


def test_a_kill_while_saving_costs_no_more_than_that_checkpoint(train, background, tmp_path):
    run, last, caught = tmp_path / "run", 0, 0
    for files in [0, 1, 2, 3, 4, 5, 3, 4]:
        process = background("--steps", 10**6, "--out", "run", "--save-every", 1, "--resume", "auto")
        wait_for(lambda: steps(run) and steps(run)[-1] > last)
        caught += kill_while_saving(process, run, files)
        there = steps(run)
        assert there and there[-1] >= last and all(is_whole(run / f"step-{step:08}") for step in there)
        last = there[-1]
    assert caught > 0  # else this test shows nothing
    end = last + 5
    result = train("--steps", end, "--out", "run", "--resume", "auto")
    assert result.code == 0 and f"resumed  after step {last}:" in result.out
    assert not list(run.glob(".*")) and len(steps(run)) == 2
    assert train("--steps", end, "--out", "unbroken").code == 0
    assert contents(run / f"step-{end:08}") == contents(tmp_path / f"unbroken/step-{end:08}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_saves_and_ends(train, background, tmp_path, number):
    run = tmp_path / "run"
    process = background("--steps", 10**6, "--out", "run", "--save-every", 1, "--schedule", "cosine", "--warmup", 2)
    wait_for(lambda: steps(run))
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    last = steps(run)[-1]
    assert f"{number.name}: stopped after step {last} and saved it" in err
    assert is_whole(run / f"step-{last:08}")
    process = background("--out", "run", "--resume", "auto", "--save-every", 1)  # to the end that it had
    wait_for(lambda: steps(run)[-1] > last + 1)
    process.send_signal(number)
    assert process.wait(timeout=60) == 128 + number
    state = json.loads((run / f"step-{steps(run)[-1]:08}/state.json").read_text())
    assert state["steps"] == 10**6 and state["schedule"] == "cosine" and state["warmup"] == 2


def pending(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return any(int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd", "ShdPnd")))


def test_a_signal_that_was_ignored_stays_ignored(background):
    """As nohup and shells that start something in the background want it."""
    process = background("--steps", 10, "--accumulate", 10**6, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))

    wait_for(lambda: has(process, "SigCgt", signal.SIGTERM) and has(process, "SigCgt", signal.SIGINT))
    assert not has(process, "SigCgt", signal.SIGHUP)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(train, background, tmp_path, number):
    assert train("--steps", 5, "--out", "run").code == 0
    process = background("--steps", 10, "--out", "run", "--resume", "auto", "--accumulate", 10**6)  # a step of minutes
    assert any(line.startswith("resumed") for line in process.stdout)
    wait_for(lambda: has(process, "SigCgt", number))
    process.send_signal(number)
    wait_for(lambda: not pending(process))
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    assert steps(tmp_path / "run") == [5] and is_whole(tmp_path / "run/step-00000005")


# ---- full disks


@pytest.fixture
def small_disk(tmp_path):
    """A file system for two checkpoints of `tiny` and not for three."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", folder], check=False,
                                           capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_told_and_training_goes_on(train, small_disk, tmp_path):
    result = train("--steps", 50, "--save-every", 10, "--out", "disk/run")
    assert result.code == 2 and "step 50/50" in result.out
    told = [line for line in result.err.splitlines() if line.startswith("tidemark: ")]
    assert [line.split(":")[1] for line in told] == [f" cannot save step {step}" for step in (30, 40, 50)]
    assert all("No space left on device" in line and "'disk/run'" in line for line in told)
    run = small_disk / "run"
    assert steps(run) == [10, 20] and all(is_whole(run / f"step-000000{step}") for step in (10, 20))
    assert not list(run.glob(".*"))
    result = train("--steps", 50, "--out", "room", "--resume", "disk/run")
    assert result.code == 0 and "after step 20" in result.out
    assert train("--steps", 50, "--out", "unbroken").code == 0
    assert contents(tmp_path / "room/step-00000050") == contents(tmp_path / "unbroken/step-00000050")


def test_a_full_disk_is_found_before_the_first_step(train, small_disk):
    (small_disk / "other").write_bytes(bytes(3 << 20))
    refused(train("--steps", 50, "--out", "disk"), "cannot save a checkpoint in 'disk'", "No space left on device")


def test_a_limit_on_files_is_a_full_disk(background, tmp_path):
    process = background("--steps", 20, "--save-every", 10, "--out", "run",
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "step 20/20" in out, err
    assert err.count("File too large") == 2 and not (tmp_path / "run").exists()


def test_a_signal_whose_checkpoint_cannot_be_saved_is_trouble(background, tmp_path):
    process = background("--steps", 10**6, "--out", "run",
                         preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)))
    wait_for(lambda: has(process, "SigCgt", signal.SIGTERM))
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "cannot save step " in err and "SIGTERM: stopped after step " in err and "saved it" not in err, err


def test_a_directory_that_cannot_be_is_found_before_the_first_step(train, tmp_path):
    (tmp_path / "file").write_text("mine")
    for out in ("file", "file/run"):
        refused(train("--steps", 5, "--out", out), "Not a directory")
    assert (tmp_path / "file").read_text() == "mine"


# ---- data that change while they are learned


def overwrite(path):
    with path.open("r+b") as file:
        file.seek(1024)
        file.write(b"\xff" * (path.stat().st_size - 1024))


def cut(path):
    os.truncate(path, 1025)


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("harm, words", [(overwrite, "it was changed while in use: the model does not know token"),
                                         (cut, "it was truncated while in use: it had 9024 bytes")])
def test_a_corpus_that_changes_stops_the_run_and_keeps_the_last_checkpoint(background, tmp_path, harm, words, accumulate):
    corpus = tmp_path / "corpus.bin"
    corpus.write_bytes(struct.pack("<256i", 20240520, 1, 4000, *[0] * 253) + struct.pack("<4000H", *(i % 50 for i in range(4000))))
    process = background("--data", corpus.name, "--steps", 10_000_000, "--out", "run", "--save-every", 5, "--accumulate", accumulate)
    wait_for(lambda: steps(tmp_path / "run"))
    harm(corpus)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2, out + err
    lines = err.splitlines()
    last = tmp_path / "run" / f"step-{steps(tmp_path / 'run')[-1]:08}"
    assert len(lines) == 2 and lines[0].startswith("tidemark: step ") and f"corpus.bin: {words}" in lines[0], err
    assert lines[1] == f"hint: the last good checkpoint is 'run/{last.name}'"
    assert is_whole(last)


# ---- damage


def damage(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["a bit", "an end", "a file", "state"])
def test_a_damaged_checkpoint_is_passed_over_and_told(train, tmp_path, how):
    assert train("--steps", 20, "--save-every", 10, "--out", "run").code == 0
    newest = tmp_path / "run/step-00000020"
    if how == "a bit":
        damage(newest / "model.safetensors")
    elif how == "an end":
        os.truncate(newest / "optimizer.safetensors", 1000)
    elif how == "a file":
        (newest / "vocabulary.json").unlink()
    else:
        (newest / "state.json").write_text('{"format": "tidemark-checkpoint-1", "step": -5}')
    result = train("--steps", 30, "--out", "run", "--resume", "auto")
    assert result.code == 0 and "after step 10" in result.out
    assert "step-00000020" in result.err and result.err.count("tidemark: ") == 1
    assert train("--steps", 30, "--out", "unbroken").code == 0
    assert contents(tmp_path / "run/step-00000030") == contents(tmp_path / "unbroken/step-00000030")


def test_a_bit_of_the_state_that_changes_does_not_go_unseen(train, tmp_path):
    """Each digit of numbers and each letter of names by one bit: what is taken means what was written."""
    assert train("--steps", 5, "--out", "run").code == 0
    path = tmp_path / "run/step-00000005/state.json"
    good = path.read_bytes()
    document = json.loads(good)
    assert document["crc32"] == zlib.crc32(good[:good.rindex(b",")])
    for at in range(0, len(good), 11):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1:])
        result = train("--steps", 9, "--out", "run", "--resume", "auto", "--dry-run")
        assert result.code == 2 or json.loads(path.read_bytes()) == document, (at, good[at - 20:at + 20])
    for old, new in ((b'"step": 5', b'"step": 1'), (b'"rate": "0.00', b'"rate": "0.01'), (b'"crc32": ', b'"crc33": ')):
        path.write_bytes(new.join(good.rsplit(old, 1)))
        refused(train("--steps", 9, "--out", "run", "--resume", "auto"), "run/step-00000005: state.json is not what was written")
    path.write_text(json.dumps({key: document[key] for key in document if key != "crc32"}, indent=2))  # as older programs wrote it
    assert train("--steps", 9, "--out", "run", "--resume", "auto").code == 0


def test_a_run_of_which_nothing_is_whole_is_refused(train, tmp_path):
    assert train("--steps", 5, "--out", "run").code == 0
    damage(tmp_path / "run/step-00000005/model.safetensors")
    before = contents(tmp_path / "run/step-00000005")
    for more in (("--resume", "auto"), ("--resume", "run/step-00000005"), ()):
        refused(train("--steps", 10, "--out", "run", *more), "model.safetensors is not what was written")
    assert steps(tmp_path / "run") == [5] and contents(tmp_path / "run/step-00000005") == before


def foreign(folder, config=None, **changes):
    """A checkpoint as a model from elsewhere: without what is ours. Changed tensors: name -> (type, shape, data)."""
    (folder / "state.json").unlink()
    (folder / "optimizer.safetensors").unlink()
    (folder / "vocabulary.json").unlink()
    found = tensors(folder / "model.safetensors")
    for name, value in changes.items():
        found[name] = value
    header, body = {}, b""
    for name, (kind, shape, data) in found.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    if config:
        old = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(old | config))


def test_a_model_from_elsewhere_is_trained_on(train, tmp_path):
    assert train("--steps", 20, "--out", "a").code == 0
    foreign(tmp_path / "a/step-00000020", **{"lm_head.weight": ("F16", [1, 2], b"1234"),
                                             "transformer.h.0.attn.bias": ("BOOL", [1, 1, 1, 2], b"12")})
    result = train("--steps", 5, "--out", "b", "--resume", "a/step-00000020")
    assert result.code == 0, result.err
    assert steps(tmp_path / "b") == [5]


@pytest.mark.parametrize("config, words", [
    ({"n_layer": 3}, "the model has a tensor 'h.2.ln_1.weight' (64), which the file does not have"),
    ({"n_layer": 1}, "the file has a tensor 'transformer.h.1.attn.c_attn.bias', which the model does not have"),
    ({"n_embd": 128}, "tensor 'wte.weight' is (13, 128) in the model and (13, 64) in the file"),
    ({"n_positions": 64, "n_ctx": 64}, "tensor 'wpe.weight' is (64, 64) in the model and (128, 64) in the file"),
    ({"n_head": 7}, "is not a multiple of n_head"),
    ({"n_layer": 10**9}, "n_layer"),
    ({"model_type": "llama"}, "'llama'"),
    ({"activation_function": "relu"}, "'relu'"),
    ({"activation_function": 5}, "activation_function"),
    ({"scale_attn_weights": False}, "scale_attn_weights"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
    ({"add_cross_attention": True}, "add_cross_attention"),
    ({"num_attention_heads": 7}, "is not a multiple of n_head"),
    ({"eos_token_id": "</s>"}, "'eos_token_id' must be"),
])
def test_a_configuration_that_does_not_match_is_refused_by_name(train, tmp_path, config, words):
    assert train("--steps", 2, "--out", "a").code == 0
    foreign(tmp_path / "a/step-00000002", config=config)
    refused(train("--steps", 5, "--out", "b", "--resume", "a/step-00000002"), words)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("tokens", [{"bos_token_id": 1, "eos_token_id": 2}, {"eos_token_id": [2, 5, 7], "pad_token_id": None}, {}],
                         ids=["numbers", "list and null", "none"])
def test_the_tokens_that_end_a_text_are_kept(train, tmp_path, tokens):
    """Without them `generate` of transformers would not stop."""
    assert train("--steps", 2, "--out", "a").code == 0
    foreign(tmp_path / "a/step-00000002", config=tokens | {"scale_attn_weights": True, "reorder_and_upcast_attn": True})
    assert train("--steps", 3, "--out", "b", "--resume", "a/step-00000002").code == 0
    assert train("--steps", 4, "--out", "b", "--resume", "auto").code == 0
    assert train("--steps", 2, "--out", "c", "--resume", "b", "--adapt", "lora:2").code == 0
    for saved in ("b/step-00000003", "b/step-00000004", "c/step-00000002"):
        config = json.loads((tmp_path / saved / "config.json").read_text())
        assert {key: config[key] for key in config if key.endswith("token_id")} == tokens


def test_weights_that_lie_are_refused(train, tmp_path):
    assert train("--steps", 2, "--out", "a").code == 0
    folder = tmp_path / "a/step-00000002"
    foreign(folder)
    good = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", good)
    header = json.loads(good[8:8 + length])
    first, second = sorted(header, key=lambda name: header[name]["data_offsets"])[:2]

    def with_header(change):
        changed = json.loads(json.dumps(header))
        change(changed)
        text = json.dumps(changed).encode()
        return struct.pack("<Q", len(text)) + text + good[8 + length:]

    begin, end = header[first]["data_offsets"]
    without_scales = {name: ({**entry, "dtype": "I8"}, data[::4]) for name, (entry, data) in tensors_of(good).items()}
    for data, words in (
        (b"", "too short"),
        (safetensors_of(without_scales), "numbers of type I8"),
        (good[:100], "its header does not fit"),
        (good[:-1000], "outside the file"),
        (good + b"more", "more in it than its tensors"),
        (struct.pack("<Q", 2**63) + good[8:], "its header does not fit"),
        (good[:8] + b"[" + good[9:], "not an object"),
        (with_header(lambda h: h[second].update(data_offsets=[begin, begin + h[second]["data_offsets"][1] - end])), "overlap"),
        (with_header(lambda h: h[first].update(shape=[2**40, 2**40])), "impossible shape"),
        (with_header(lambda h: h[first].update(data_offsets=[begin, 2**62])), "outside the file"),
    ):
        (folder / "model.safetensors").write_bytes(data)
        refused(train("--steps", 5, "--out", "b", "--resume", "a/step-00000002"), words)
        assert not (tmp_path / "b").exists()


# ---- input that cannot be right


@pytest.mark.parametrize("data", [b"a\0b\0\0c" * 500, b"\xff\xfe\x80gr\xc3\xbc\xc3" * 500, bytes(range(256)) * 20],
                         ids=["NULs", "not UTF-8", "every byte"])
def test_any_bytes_are_a_text(train, tmp_path, data):
    (tmp_path / "text").write_bytes(data)
    assert train("--steps", 5, "--data", "text", "--out", "run").code == 0
    assert json.loads((tmp_path / "run/step-00000005/vocabulary.json").read_text())["symbols"] == sorted(set(data))
    assert train("--steps", 7, "--data", "text", "--out", "run", "--resume", "auto").code == 0


def test_weights_that_were_never_numbers_are_not_blamed_on_the_rate(train, tmp_path):
    assert train("--steps", 2, "--out", "run").code == 0
    model = tmp_path / "model"
    shutil.copytree(tmp_path / "run/step-00000002", model)
    (model / "state.json").unlink()
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-4096:] = b"\xff" * 4096
    (model / "model.safetensors").write_bytes(weights)
    result = train("--steps", 3, "--resume", "model")
    assert result.code == 2 and "of step 1 is not a finite number" in result.err and "damaged" in result.err, result.err


@pytest.mark.parametrize("more", [("--clip", 0), ("--clip", 0, "--budget", "1.7M")])
def test_without_a_clip_too_no_weights_are_saved_that_are_no_numbers(train, tmp_path, more):
    assert train("--steps", 10, "--out", "run").code == 0
    before = contents(tmp_path / "run/step-00000010")
    result = train("--steps", 1000, "--save-every", 1, "--out", "run", "--resume", "auto", "--lr", "1e30", "--warmup", 0, *more)
    assert result.code == 2 and "is not a finite number" in result.err and "of step " in result.err, result.err
    for step in steps(tmp_path / "run"):
        assert is_whole(tmp_path / f"run/step-{step:08}")
        for _, _, data in tensors(tmp_path / f"run/step-{step:08}/model.safetensors").values():
            assert all(value == value and abs(value) != float("inf") for (value,) in struct.iter_unpack("<f", data))
    if 10 in steps(tmp_path / "run"):
        assert contents(tmp_path / "run/step-00000010") == before
