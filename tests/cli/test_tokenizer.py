"""Text is cut as its model's tokenizer cuts it: what is learned, what is saved, what is said, and what is refused.

What `tokenizers` makes of texts is in tests/fixtures/tokenizers.json (tools/tokenizer-reference); tests/unit/test_tokenizer.c
compares all of it.
"""

import json
import os
import pathlib
import shutil
import struct

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = json.loads((ROOT / "tests/fixtures/tokenizers.json").read_text())
END = "<|endoftext|>"
TRAIN = ("train", "lm", "--preset", "tiny", "--threads", 1, "--batch", 2, "--seq", 16, "--steps", 2, "--eval-every", 0)


def family(name):
    return next(row for row in REFERENCE["tokenizers"] if row["name"] == name)


def contents(folder, *names):
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture
def corpus(tmp_path):
    """corpus(name) -> the tokens of corpus.txt: all texts of the reference, one after another, with the end of a text between."""

    def write(name):
        row = family(name)
        end = next(token["id"] for token in row["tokenizer"]["added_tokens"] if token["content"] == END)
        (tmp_path / "corpus.txt").write_bytes(END.join(REFERENCE["texts"]).encode())
        tokens = []
        for ids in row["ids"]:
            tokens += [*ids, end]
        return tokens[:-1]

    return write


@pytest.fixture
def tokenizer(tmp_path):
    """tokenizer(name) -> the folder of one of the reference's."""

    def write(name, folder="tokenizer"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "tokenizer.json").write_text(json.dumps(family(name)["tokenizer"]))
        return tmp_path / folder

    return write


def write_pair(folder, tokenizer):
    """The same vocabulary as vocab.json and merges.txt."""
    folder.mkdir(exist_ok=True)
    model = tokenizer["model"]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]))
    added = {str(token["id"]): {key: token[key] for key in token if key != "id"} for token in tokenizer["added_tokens"]}
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added, "tokenizer_class": "GPT2Tokenizer"}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))


def refused(result, *words):
    assert result.code == 2, result.out + result.err
    lines = result.err.strip().splitlines()
    assert lines[0].startswith("tidemark: ") and all(line.startswith("hint: ") for line in lines[1:]) and len(lines) <= 2
    for word in words:
        assert word in result.err


# ---- what is learned


@pytest.mark.parametrize("name", ["gpt2", "llama3", "qwen"])
def test_a_text_is_learned_in_the_tokens_of_its_tokenizer(tidemark, tokenizer, corpus, tmp_path, name):
    """The same bits come of the text and of a token file with what `tokenizers` makes of it."""
    tokens = corpus(name)
    head = struct.pack("<3i", 20240520, 1, len(tokens)).ljust(1024, b"\0")
    (tmp_path / "tokens.bin").write_bytes(head + struct.pack(f"<{len(tokens)}H", *tokens))
    for data in ("corpus.txt", "tokens.bin"):
        done = tidemark(*TRAIN, "--tokenizer", tokenizer(name), "--data", data, "--out", f"of-{data}")
        assert done.code == 0, done.err
        assert " tokens of tokenizer.json;" in done.out.splitlines()[0]
    names = ("config.json", "model.safetensors", "optimizer.safetensors", "vocabulary.json", "tokenizer.json")
    assert (contents(tmp_path / "of-corpus.txt/step-00000002", *names) == contents(tmp_path / "of-tokens.bin/step-00000002", *names))


@pytest.mark.parametrize("name", ["gpt2", "added"])
def test_two_files_are_gpt2s_tokenizer(tidemark, tokenizer, corpus, tmp_path, name):
    corpus("gpt2")
    write_pair(tmp_path / "pair", family(name)["tokenizer"])
    for folder in (tokenizer(name), "pair"):
        assert tidemark(*TRAIN, "--tokenizer", folder, "--data", "corpus.txt", "--out", f"{pathlib.Path(folder).name}-run").code == 0
    of = [contents(tmp_path / run / "step-00000002", "model.safetensors") for run in ("tokenizer-run", "pair-run")]
    assert of[0] == of[1]
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        assert (tmp_path / "pair-run/step-00000002" / name).read_bytes() == (tmp_path / "pair" / name).read_bytes()


def test_two_files_have_the_end_of_a_text_and_what_was_added(tidemark, corpus, tmp_path):
    corpus("gpt2")
    tokenizer = family("gpt2")["tokenizer"]
    write_pair(tmp_path / "pair", tokenizer)
    (tmp_path / "pair/tokenizer_config.json").unlink()
    vocab = {**tokenizer["model"]["vocab"], END: len(tokenizer["model"]["vocab"])}
    (tmp_path / "pair/vocab.json").write_text(json.dumps(vocab))
    (tmp_path / "pair/added_tokens.json").write_text(json.dumps({"Καλημέρα": len(vocab)}))
    assert tidemark(*TRAIN, "--tokenizer", "pair", "--data", "corpus.txt", "--out", "run").code == 0
    said = tidemark("sample", "run", "--prompt", f"Καλημέρα{END}Καλημέρα", "--tokens", 0, "--json").json
    assert said["prompt_tokens"] == 3


def test_without_a_tokenizer_a_token_is_a_byte_and_the_first_lines_say_so(tidemark, corpus):
    corpus("gpt2")
    done = tidemark(*TRAIN, "--data", "corpus.txt")
    assert done.code == 0 and " tokens of bytes;" in done.out.splitlines()[0] and "text by bytes" in done.out.splitlines()[1]


# ---- models that come with one


@pytest.fixture
def model(tidemark, tokenizer, corpus, tmp_path):
    """A model of Hugging Face with its tokenizer, in model/: what was trained here, without what only runs have."""
    corpus("gpt2")
    assert tidemark(*TRAIN, "--tokenizer", tokenizer("gpt2"), "--data", "corpus.txt", "--out", "first").code == 0
    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(tmp_path / "first/step-00000002" / name, tmp_path / "model")
    return tmp_path / "model"


def test_a_model_is_trained_on_in_its_own_tokens(tidemark, model, tmp_path):
    done = tidemark(*TRAIN, "--resume", "model", "--data", "corpus.txt", "--out", "on")
    assert done.code == 0, done.err
    assert " tokens of tokenizer.json;" in done.out.splitlines()[0] and "text by its tokenizer" in done.out.splitlines()[1]
    saved = tmp_path / "on/step-00000002"
    assert json.loads((saved / "vocabulary.json").read_text())["kind"] == "pairs"
    assert (saved / "tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    shutil.rmtree(model)
    shutil.rmtree(tmp_path / "tokenizer")
    done = tidemark("train", "lm", "--data", "corpus.txt", "--resume", "auto", "--out", "on", "--steps", 3, "--threads", 1)
    assert done.code == 0, done.err
    text = "Καλημέρα κόσμε, ἀρχή ὁ λόγος"
    document = tidemark("sample", "on", "--prompt", text + END, "--tokens", 3, "--json").json
    assert document["vocabulary"] == "pairs" and document["step"] == 3
    assert document["prompt_tokens"] == len(family("gpt2")["ids"][REFERENCE["texts"].index(text)]) + 1


def test_adapters_without_a_tokenizer_have_that_of_their_model(tidemark, model, tmp_path):
    """As PEFT saves them: two files, one of which says where the model is."""
    assert tidemark(*TRAIN, "--resume", "model", "--adapt", "lora:2", "--data", "corpus.txt", "--out", "tuned").code == 0
    (tmp_path / "loose").mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(tmp_path / "tuned/step-00000002" / name, tmp_path / "loose")
    done = tidemark(*TRAIN, "--resume", "loose", "--data", "corpus.txt", "--out", "on")
    assert done.code == 0 and " tokens of tokenizer.json;" in done.out.splitlines()[0], done.err
    assert (tmp_path / "on/step-00000002/tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    assert tidemark("sample", "loose", "--prompt", "x" + END, "--tokens", 0, "--json").json["vocabulary"] == "pairs"
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "x"}\n')
    done = tidemark("train", "grpo", "--model", "loose", "--prompts", "prompts.jsonl", "--reward", "cat", "--new-tokens", 4, "--dry-run")
    assert done.code == 0 and " tokens of tokenizer.json;" in done.out.splitlines()[0], done.err


def test_a_run_goes_on_with_its_own_tokenizer_alone(tidemark, tokenizer, model, tmp_path):
    before = contents(tmp_path / "first/step-00000002", "model.safetensors", "state.json")
    again = ("train", "lm", "--data", "corpus.txt", "--resume", "auto", "--out", "first", "--steps", 4, "--threads", 1)
    refused(tidemark(*again, "--tokenizer", tokenizer("digits", "other")), "other tokens than --tokenizer names", "leave --tokenizer out")
    (tmp_path / "first/step-00000002/tokenizer.json").write_text("{}")
    refused(tidemark(*again), "tokenizer.json has 2 bytes and was written with")
    assert contents(tmp_path / "first/step-00000002", "model.safetensors", "state.json") == before


def test_a_model_is_not_trained_on_in_the_tokens_of_another(tidemark, tokenizer, model, tmp_path):
    """One that has a tokenizer keeps it; one that has none takes what is named."""
    on = (*TRAIN, "--resume", "model", "--data", "corpus.txt", "--out", "on")
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "x"}\n')
    reward = ("train", "grpo", "--model", "model", "--prompts", "prompts.jsonl", "--reward", "cat", "--new-tokens", 4, "--dry-run")
    for command in (on, reward):
        refused(tidemark(*command, "--tokenizer", tokenizer("digits", "other")), "other tokens than --tokenizer names", "leave --tokenizer out")
        assert tidemark(*command, "--tokenizer", model).code == 0
    assert (tmp_path / "on/step-00000002/tokenizer.json").read_bytes() == (model / "tokenizer.json").read_bytes()
    shutil.rmtree(tmp_path / "on")
    (model / "tokenizer.json").unlink()
    for command in (on, reward):
        done = tidemark(*command, "--tokenizer", "tokenizer")
        assert done.code == 0 and " tokens of tokenizer.json;" in done.out.splitlines()[0], done.err


def test_sums_are_not_for_a_model_with_a_tokenizer(tidemark, model):
    refused(tidemark("train", "lm", "--resume", "model", "--steps", 2), "sums use 13 symbols", "--data FILE")


def test_what_is_said_is_text_again(tidemark, model):
    """All bytes of a prompt come back through its tokens, and a window may cut a rune."""
    text = "e\u0301 你好 👍🏽 \u00a0x"
    done = tidemark("sample", "model", "--prompt", text, "--tokens", 0, "--threads", 1)
    assert done.code == 0 and done.out == text
    said = tidemark("sample", "model", "--prompt", text, "--tokens", 40, "--temperature", 3, "--json", "--threads", 1).json
    known = {number: text for text, number in family("gpt2")["tokenizer"]["model"]["vocab"].items()}
    assert said["tokens"] and all(token in known or token == len(known) for token in said["tokens"])


# ---- what is refused


def change(folder, edit):
    tree = json.loads((folder / "tokenizer.json").read_text())
    edit(tree)
    (folder / "tokenizer.json").write_text(json.dumps(tree))


def configure(folder, **settings):
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def as_pair(folder, **settings):
    write_pair(folder, json.loads((folder / "tokenizer.json").read_text()))
    (folder / "tokenizer.json").unlink()
    configure(folder, **json.loads((folder / "tokenizer_config.json").read_text()), **settings)


@pytest.mark.parametrize("spoil,words", [
    (lambda f: (f / "tokenizer.json").write_text("{"), "tokenizer.json is not valid JSON"),
    (lambda f: (f / "tokenizer.json").write_text(""), "tokenizer.json is not valid JSON"),
    (lambda f: change(f, lambda t: t["model"].update(type="WordPiece")), "'WordPiece'"),
    (lambda f: change(f, lambda t: t["model"].update(type="Unigram")), "'Unigram'"),
    (lambda f: change(f, lambda t: t.update(normalizer={"type": "Lowercase"})), "'Lowercase'"),
    (lambda f: change(f, lambda t: t.update(pre_tokenizer={"type": "Metaspace"})), "'Metaspace'"),
    (lambda f: change(f, lambda t: t.update(pre_tokenizer={"type": "Split", "behavior": "Isolated",
                                                            "pattern": {"Regex": r"(?<=x)y|\b"}})), "'(?<'"),
    (lambda f: change(f, lambda t: t["model"]["vocab"].update(more=100000)), "it belongs to another model"),
    (lambda f: change(f, lambda t: t["added_tokens"].append({"id": 5000, "content": "<more>"})), "it belongs to another model"),
    (lambda f: configure(f, add_prefix_space=True), "tokenizer_config.json asks for add_prefix_space"),
    (lambda f: as_pair(f, add_prefix_space=True), "tokenizer_config.json asks for add_prefix_space"),
    (lambda f: configure(f, added_tokens_decoder={"5": {"content": "<x>"}}), "the token '<x>' with the number 5, which tokenizer.json does not have"),
    (lambda f: configure(f, added_tokens_decoder={"5": {"content": END}}), f"the token '{END}' with the number 5, which tokenizer.json does not have"),
    (lambda f: (f / "tokenizer_config.json").write_text("{"), "tokenizer_config.json is not valid JSON"),
    (lambda f: ((f / "tokenizer.json").unlink(), (f / "tokenizer.model").write_bytes(b"x")), "'tokenizer.model'"),
    (lambda f: ((f / "tokenizer.json").unlink(), (f / "vocab.json").write_text("{}")), "there is a vocab.json but no merges.txt"),
], ids=["cut", "empty", "WordPiece", "Unigram", "normalizer", "pre-tokenizer", "pattern", "token beyond the model",
        "added token beyond the model", "space before", "space before, two files", "token of the configuration alone", "token with two numbers",
        "cut configuration", "SentencePiece", "half a pair"])
def test_a_tokenizer_that_does_not_fit_is_refused(tidemark, model, tmp_path, spoil, words):
    spoil(model)
    refused(tidemark(*TRAIN, "--resume", "model", "--data", "corpus.txt", "--out", "on"), words)
    refused(tidemark("sample", "model", "--prompt", "x"), words)
    assert not (tmp_path / "on").exists()


def test_a_configuration_that_agrees_with_the_tokenizer_is_carried(tidemark, model, tmp_path):
    tree = json.loads((model / "tokenizer.json").read_text())
    added = {str(token["id"]): {key: token[key] for key in token if key != "id"} for token in tree["added_tokens"]}
    configure(model, add_prefix_space=False, added_tokens_decoder=added, eos_token=END)
    done = tidemark(*TRAIN, "--resume", "model", "--data", "corpus.txt", "--out", "on")
    assert done.code == 0, done.err
    assert (tmp_path / "on/step-00000002/tokenizer_config.json").read_bytes() == (model / "tokenizer_config.json").read_bytes()


def test_a_tokenizer_that_is_not_there_is_said(tidemark, corpus, tmp_path):
    corpus("gpt2")
    (tmp_path / "empty").mkdir()
    for path in ("empty", "nowhere"):
        refused(tidemark(*TRAIN, "--tokenizer", path, "--data", "corpus.txt"), f"there is no tokenizer in '{path}'", "merges.txt")


def test_a_pattern_that_takes_for_ever_is_stopped(tidemark, tokenizer, tmp_path):
    folder = tokenizer("llama3")
    change(folder, lambda t: t["pre_tokenizer"]["pretokenizers"][0].update(pattern={"Regex": "(?:(?:a+)+)+[bc]"}))
    (tmp_path / "corpus.txt").write_text("a" * 500)
    refused(tidemark(*TRAIN, "--tokenizer", folder, "--data", "corpus.txt", timeout=60), "match limit exceeded")


def test_a_full_disk_while_a_text_is_cut_is_said(tidemark, tokenizer, run, build, tmp_path):
    (tmp_path / "corpus.txt").write_text("the tide comes in " * 40000)
    line = f'ulimit -f 100; exec "{build / "tidemark"}" train lm --tokenizer "{tokenizer("gpt2")}" --data corpus.txt --steps 1'
    refused(run("sh", "-c", line), "cannot write its tokens: File too large", "TMPDIR")


# ---- memory


@pytest.mark.unsanitized
def test_memory_does_not_grow_with_the_text(tidemark, tokenizer, tmp_path):
    text = "".join(f"The tide number {i} comes in, and goes out at {i * 37 % 24}:00.\n" for i in range(20000))
    most = []
    for times in (1, 12):
        (tmp_path / "corpus.txt").write_text(text * times)
        done = tidemark(*TRAIN, "--tokenizer", tokenizer("gpt2"), "--data", "corpus.txt", "--json")
        assert done.code == 0, done.err
        line = json.loads(done.out.splitlines()[-1])
        most.append(line["anonymous_bytes"])
        assert line["anonymous_bytes"] < line["plan_bytes"] + 8 * 2**20
    assert most[1] < most[0] + 2**20


def write_large(folder, size):
    """A vocabulary of that many tokens: letters, pairs of them, and pairs of pairs."""
    letters = [chr(i) for i in range(ord("0"), ord("z") + 1)] + ["\u0120", "\u010a"]
    pairs = [a + b for a in letters for b in letters]
    merges = [(a, b) for a in letters for b in letters] + [(a, b) for a in pairs[:100] for b in pairs]
    merges = merges[:size - len(letters)]
    folder.mkdir()
    words = letters + [a + b for a, b in merges]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "vocab_size": size, "n_positions": 32, "n_embd": 8,
                                                    "n_layer": 1, "n_head": 1}))
    return folder


@pytest.mark.unsanitized  # a sanitizer takes memory of its own
def test_a_large_tokenizer_is_planned(tidemark, tmp_path):
    folder = write_large(tmp_path / "large", 200000)
    (tmp_path / "corpus.txt").write_text("the tide comes in\n" * 200)
    (tmp_path / "prompts.jsonl").write_text('{"prompt": "the tide"}\n')
    learn = ("train", "lm", "--config", folder / "config.json", "--tokenizer", folder, "--data", "corpus.txt", "--threads", 1,
             "--batch", 1, "--seq", 8, "--steps", 1, "--eval-every", 0, "--json")
    reward = "while read -r line; do echo '[1, 0]'; done"
    ask = ("train", "grpo", "--model", "run", "--prompts", "prompts.jsonl", "--reward", reward, "--group", 2, "--new-tokens", 4,
           "--threads", 1, "--steps", 1, "--json")
    planned = []
    for words, out in ((learn, ("--out", "run")), (ask, ())):
        said = tidemark(*words, *out, timeout=60)
        assert said.code == 0, said.err
        line = json.loads(said.out.splitlines()[-1])
        assert line["rss_bytes"] <= line["plan_bytes"] + (16 << 20)
        planned.append(tidemark(*words, "--dry-run").json["tokenizer_bytes"])
    files = sum((folder / name).stat().st_size for name in ("vocab.json", "merges.txt"))
    assert files < planned[0] < planned[1]  # grpo still splits prompts


# ---- with the library itself


@pytest.fixture
def library():
    """The Python that has `tokenizers`, where tools/cases-venv has got it."""
    venv = pathlib.Path(os.environ.get("TIDEMARK_CASES_VENV", pathlib.Path.home() / ".cache/tidemark/cases-venv"))
    if not (venv / "ready").exists():
        pytest.skip("tokenizers is not there: tools/cases-venv")
    return venv / "bin/python3"


@pytest.mark.long
@pytest.mark.parametrize("seed", [11, 12])
def test_random_texts_are_what_tokenizers_makes_of_them(run, build, library, tmp_path, env, seed):
    """With GPT-2's own vocabulary too, where TIDEMARK_GPT2 names the folder of its vocab.json and merges.txt."""
    gpt2 = os.environ.get("TIDEMARK_GPT2")
    for more in [[], [gpt2]] if gpt2 else [[]]:
        made = run(library, ROOT / "tools/tokenizer-reference", "--random", 1000, "--seed", seed, *more, timeout=300)
        assert made.code == 0, made.err
        (tmp_path / "reference.json").write_text(made.out)
        done = run("env", f"TIDEMARK_TOKENIZERS={tmp_path / 'reference.json'}", build / "tests/test_tokenizer", cwd=ROOT, timeout=300)
        assert done.code == 0 and "texts compared" in done.out, done.out + done.err


@pytest.mark.long
def test_transformers_opens_what_was_saved(run, library, model, tmp_path):
    program = """
import json, sys
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
AutoModelForCausalLM.from_pretrained(sys.argv[1])
print(json.dumps([tokenizer(text, add_special_tokens=False).input_ids for text in json.load(open(sys.argv[2]))["texts"]]))
"""
    done = run(library, "-c", program, tmp_path / "first/step-00000002", ROOT / "tests/fixtures/tokenizers.json", timeout=300)
    assert done.code == 0, done.err
    assert json.loads(done.out) == family("gpt2")["ids"]
