"""`tidemark sample`: what it says, what it refuses, and what reaches a terminal."""

import json
import os
import pty
import shutil
import struct
import subprocess

import pytest

pytestmark = pytest.mark.xdist_group("sample")  # its models are trained once

TEXT = "the tide comes in and the tide goes out; "
TRAIN = ("train", "lm", "--threads", 1, "--batch", 4, "--lr", "5e-3", "--warmup", 10)


def checkpoint(directory):
    return max(directory.glob("step-*"))


@pytest.fixture(scope="module")
def trained(binary, tmp_path_factory):
    """trained(name, corpus bytes, options...) -> the directory of a run of that corpus, made once."""
    made = {}

    def train(name, corpus, *options):
        if name not in made:
            folder = tmp_path_factory.mktemp(name)
            (folder / "corpus").write_bytes(corpus)
            argv = [binary, *TRAIN, "--data", folder / "corpus", "--out", folder / "run", *options]
            subprocess.run([str(a) for a in argv], check=True, capture_output=True, timeout=120)
            made[name] = folder / "run"
        return made[name]

    return train


@pytest.fixture(scope="module")
def tide(trained):
    """A model that has learned one line by heart, 32 symbols at a time."""
    return trained("tide", TEXT.encode() * 50, "--seq", 32, "--steps", 300, "--schedule", "cosine")


@pytest.fixture(scope="module")
def numbers(trained):
    """A model of the numbers 0 to 259, from a token file, which has no vocabulary."""
    tokens = [i * 7 % 260 for i in range(600)]
    head = struct.pack("<3i", 20240520, 1, len(tokens)).ljust(1024, b"\0")
    return trained("numbers", head + struct.pack(f"<{len(tokens)}H", *tokens), "--seq", 16, "--steps", 2)


@pytest.fixture
def say(tidemark):
    """say(directory, options...) -> the document of `tidemark sample --json`."""

    def call(directory, *args):
        done = tidemark("sample", directory, "--threads", 1, "--json", *args)
        assert done.code == 0, done.err
        assert done.json["schema"] == "tidemark.sample/1"
        return done.json

    return call


def test_a_text_that_was_learned_goes_on_as_it_does(tidemark, tide):
    done = tidemark("sample", tide, "--prompt", "and the tide ", "--tokens", 200, "--temperature", 0, "--threads", 1)
    assert done.code == 0 and done.err == ""
    # Beyond the 32 symbols that the model sees at a time, too.
    assert done.out == (TEXT * 7)[TEXT.index("and the"):][:13 + 200]


def test_the_document_says_what_the_text_says(say, tidemark, tide):
    options = ("--prompt", "the ", "--tokens", 50, "--temperature", 2, "--seed", 7)
    document = say(tide, *options)
    assert tidemark("sample", tide, "--threads", 1, *options).out == "the " + document["text"]
    assert document["prompt"] == "the " and document["prompt_tokens"] == 4 and len(document["tokens"]) == 50
    assert document["step"] == 300 and document["window"] == 32 and document["vocabulary"] == "bytes"
    symbols = sorted(set(TEXT))
    assert "".join(symbols[token] for token in document["tokens"]) == document["text"]


def test_a_seed_says_the_same_again_and_another_something_else(say, tide):
    texts = [say(tide, "--temperature", 3, "--seed", seed, "--top-k", 9, "--top-p", 0.99)["text"] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_likeliest_alone_is_the_same_for_every_seed(say, tide):
    ways = (("--temperature", 0), ("--top-k", 1), ("--top-p", "1e-9"))
    assert len({say(tide, "--prompt", "t", "--seed", seed, *way)["text"] for seed in (1, 2) for way in ways}) == 1


def test_without_a_prompt_the_model_begins(say, tidemark, tide):
    assert say(tide, "--tokens", 5)["prompt_tokens"] == 0
    assert tidemark("sample", tide, "--threads", 1, "--tokens", 5, "--prompt", "").code == 0
    assert tidemark("sample", tide, "--threads", 1, "--tokens", 0, "--prompt", "tide").out == "tide"


def test_of_a_prompt_longer_than_the_window_the_end_counts(say, tide):
    long, end = TEXT * 100, (TEXT * 100)[-32:]
    assert say(tide, "--prompt", long, "--tokens", 20)["text"] == say(tide, "--prompt", end, "--tokens", 20)["text"]


@pytest.mark.parametrize("prompt, symbol", [("the TIDE", "T"), ("the tide\u2013", "\u2013"), ("\x1b[31m", "\\x1b"), ("the\ntide", "\\x0a")])
def test_a_symbol_that_the_model_does_not_know_is_named(tidemark, tide, prompt, symbol):
    done = tidemark("sample", tide, "--prompt", prompt)
    assert done.code == 2 and done.out == ""
    assert done.err.startswith(f"tidemark: sample: --prompt: the model does not know the symbol '{symbol}'\n")
    assert "hint: it knows 15 symbols:  ;acdeghimnostu" in done.err


@pytest.mark.parametrize("options, why", [
    (("--temperature", "-1"), "temperature"), (("--temperature", "nan"), "temperature"), (("--temperature", "inf"), "temperature"),
    (("--top-p", "0"), "top-p"), (("--top-p", "1.5"), "top-p"), (("--top-p", "nan"), "top-p"), (("--top-p=-1",), "top-p"),
    (("--top-k=-1",), "top-k"), (("--tokens=-1",), "tokens"), (("--tokens", "10000000"), "tokens"), (("--tokens", "x"), "tokens"),
    (("--threads", "0"), "threads"), (("--seed=-3",), "seed"), (("--dtype", "f64"), "dtype"),
])
def test_values_that_make_no_sense_are_refused(tidemark, tide, options, why):
    done = tidemark("sample", tide, *options)
    assert done.code == 2 and done.out == "" and why in done.err and done.err.startswith("tidemark: sample: ")


def test_what_is_no_model_is_refused(tidemark, tide, tmp_path):
    (tmp_path / "empty").mkdir()
    for argv, why in (((), "one directory"), ((tide, tide), "one directory"), (("missing",), "missing"), (("empty",), "no model")):
        done = tidemark("sample", *argv)
        assert done.code == 2 and done.out == "" and why in done.err, done.err


def test_bf16_speaks_too(say, tide):
    assert say(tide, "--dtype", "bf16", "--prompt", "the tide ", "--temperature", 0, "--tokens", 9)["text"] in TEXT


def test_text_comes_while_more_is_made(binary, tide, env):
    argv = [str(a) for a in (binary, "sample", tide, "--threads", 1, "--tokens", 1000000)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert len(process.stdout.read(100)) == 100  # of a million
        process.stdout.close()
        assert process.wait(timeout=60) != 0  # nobody reads any more


# ---- terminals


def on_a_terminal(argv, env):
    """What a program writes to a terminal."""
    master, slave = pty.openpty()
    process = subprocess.Popen([str(a) for a in argv], stdout=slave, stderr=subprocess.DEVNULL, env=env)
    os.close(slave)
    output = b""
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:
            break  # the other end is closed
        if not piece:
            break
        output += piece
    os.close(master)
    assert process.wait(timeout=60) == 0
    return output


def test_what_could_drive_a_terminal_is_escaped_there_alone(binary, env, trained, tidemark):
    corpus = "\x1b[31m\u00e9\u202e\u20ac\n".encode() + b"\xff\0\x9b\t"
    run = trained("wild", corpus * 60, "--seq", 16, "--steps", 60)
    argv = (binary, "sample", run, "--threads", 1, "--tokens", 300, "--prompt", "\u00e9")
    raw = subprocess.run([str(a) for a in argv], capture_output=True, check=True, env=env).stdout
    assert b"\x1b[31m" in raw and b"\xff" in raw and b"\0" in raw and "\u202e".encode() in raw
    shown = on_a_terminal(argv, env).decode()  # all of it is UTF-8
    assert "\\x1b[31m\u00e9\\u{202e}\u20ac\r\n\\xff\\x00\\x9b\t" in shown
    assert not {c for c in shown if not c.isprintable()} - {"\r", "\n", "\t"}
    document = tidemark("sample", run, "--threads", 1, "--tokens", 300, "--json")
    assert "\\u001b[31m" in document.out and "\x1b" not in document.out and "\ufffd" in document.json["text"]


# ---- models of tokens


def byte_runes():
    """How GPT-2's files write bytes."""
    itself = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    others = [b for b in range(256) if b not in itself]
    return {**{b: chr(b) for b in itself}, **{b: chr(256 + i) for i, b in enumerate(others)}}


def write_pairs(folder, end=259):
    runes = byte_runes()
    vocabulary = {runes[b]: b for b in range(256)}
    vocabulary.update({"he": 256, "\u0120t": 257, "\u0120the": 258, "<|endoftext|>": end})
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\nh e\n\u0120 t\n\u0120t he\n")


def test_without_a_vocabulary_tokens_are_numbers(say, tidemark, numbers):
    document = say(numbers, "--prompt", "5, 12 19", "--tokens", 4)
    assert document["vocabulary"] == "numbers" and document["prompt_tokens"] == 3
    assert document["text"] == "".join(f"{token} " for token in document["tokens"])
    assert tidemark("sample", numbers, "--threads", 1, "--prompt", "5", "--tokens", 4).out.split()[0] == "5"
    for prompt in ("260", "-1", "x", "5 x", "99999999999999999999"):
        done = tidemark("sample", numbers, "--prompt", prompt)
        assert done.code == 2 and "not a list of its tokens' numbers" in done.err and "0 to 259" in done.err


def test_byte_pairs_beside_the_model_are_its_vocabulary(say, tidemark, numbers, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(numbers, run)
    write_pairs(run)
    document = say(run, "--prompt", " the he the\u00e9", "--tokens", 3)
    assert document["vocabulary"] == "pairs"
    assert document["prompt_tokens"] == 6  # ' the', ' ', 'he', ' the', and the two bytes of the last
    assert tidemark("sample", run, "--threads", 1, "--prompt", " the", "--tokens", 0).out == " the"


@pytest.mark.parametrize("spoil", [
    lambda folder: (folder / "vocab.json").write_text("{"),
    lambda folder: (folder / "vocab.json").write_text("[1]"),
    lambda folder: write_pairs(folder, end=260),
    lambda folder: write_pairs(folder, end=258),
    lambda folder: write_pairs(folder, end="x"),
    lambda folder: (folder / "merges.txt").write_text("h e\nhe\n"),
    lambda folder: (folder / "merges.txt").write_text("q q\n"),
    lambda folder: (folder / "vocab.json").write_text('{"h": 1}'),
], ids=["no JSON", "no object", "beyond the model", "twice", "no number", "no pair", "unknown pair", "few tokens"])
def test_a_vocabulary_that_lies_is_refused(tidemark, numbers, tmp_path, spoil):
    run = tmp_path / "run"
    shutil.copytree(numbers, run)
    write_pairs(run)
    spoil(run)
    done = tidemark("sample", run, "--prompt", "the")
    assert done.code == 2 and done.out == "" and ("vocabulary" in done.err or "merges" in done.err)


def test_a_model_from_elsewhere_is_its_configuration_and_weights(say, tide, tmp_path):
    for name in ("config.json", "model.safetensors"):
        shutil.copy(checkpoint(tide) / name, tmp_path)
    document = say(tmp_path, "--prompt", "1 2 3")
    assert document["step"] is None and document["vocabulary"] == "numbers" and document["window"] == 128


# ---- the memory of a run that speaks


def test_a_plan_has_room_for_a_decoder_that_takes_more_than_training(tidemark, tmp_path):
    (tmp_path / "deep.json").write_text(json.dumps({"n_embd": 8, "n_layer": 40, "n_head": 1, "n_inner": 1, "n_positions": 64,
                                                    "vocab_size": 15}))
    (tmp_path / "corpus").write_text(TEXT * 50)
    options = ("train", "lm", "--config", "deep.json", "--data", "corpus", "--steps", 2, "--batch", 1, "--seq", 64, "--threads", 1)
    told = tidemark(*options, "--sample-every", 1, "--budget", "1K").err
    least = int(told.split(" bytes)")[0].split("(")[-1])
    done = tidemark(*options, "--sample-every", 1, "--budget", f"{least}B", "--json")
    assert done.code == 0, done.err
    last = json.loads(done.out.splitlines()[-1])
    assert last["plan_bytes"] == last["arena_high_bytes"] == least and last["sample"]
