"""Adapters: what they cost, that they are saved as PEFT's, and what is refused."""

import functools
import json
import os
import pathlib
import shutil
import textwrap

import pytest

SMALL = ("train", "lm", "--data", "sums.txt", "--batch", 4, "--seq", 16, "--threads", 1, "--eval-every", 0)
pytestmark = pytest.mark.slow  # a second of training takes ten under a sanitizer; unit tests train adapters there
TORCH = pathlib.Path(os.environ.get("TIDEMARK_TORCH_VENV", pathlib.Path.home() / ".cache/tidemark/torch-venv")) / "bin/python3"


@pytest.fixture(autouse=True)
def sums(tmp_path):
    (tmp_path / "sums.txt").write_text("".join(f"{a:02}+{b:02}={a + b:03}\n" for a in range(20) for b in range(60, 99)))


@pytest.fixture
def train(tidemark):
    """train("--steps", 100, ...) -> Result"""
    return functools.partial(tidemark, *SMALL)


@pytest.fixture
def base(train):
    assert train("--steps", 60, "--out", "base").code == 0
    return "base"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(result, *words):
    assert result.code == 2, result
    for word in words:
        assert word in result.err


def tensors(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return {name: entry for name, entry in json.loads(data[8 : 8 + length]).items() if name != "__metadata__"}


def test_adapters_are_saved_alone_with_names_and_shapes_of_peft(train, base, tmp_path):
    assert train("--resume", base, "--adapt", "lora:3:6", "--steps", 10, "--out", "run").code == 0
    newest = tmp_path / "run/step-00000010"
    assert sorted(path.name for path in newest.iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "config.json", "optimizer.safetensors", "state.json", "vocabulary.json",
    ]  # fmt: skip
    config = json.loads((newest / "adapter_config.json").read_text())
    assert config["r"] == 3 and config["lora_alpha"] == 6 and config["fan_in_fan_out"] is True
    assert pathlib.Path(config["base_model_name_or_path"]) == tmp_path / "base/step-00000060"
    found = tensors(newest / "adapter_model.safetensors")
    prefix = "base_model.model.transformer.h.0."
    shapes = {name.removeprefix(prefix): entry["shape"] for name, entry in found.items() if name.startswith(prefix)}
    assert shapes == {
        "attn.c_attn.lora_A.weight": [3, 64], "attn.c_attn.lora_B.weight": [192, 3],
        "attn.c_proj.lora_A.weight": [3, 64], "attn.c_proj.lora_B.weight": [64, 3],
        "mlp.c_fc.lora_A.weight": [3, 64], "mlp.c_fc.lora_B.weight": [256, 3],
        "mlp.c_proj.lora_A.weight": [3, 256], "mlp.c_proj.lora_B.weight": [64, 3],
    }  # fmt: skip


@pytest.mark.parametrize("more", [(), ("--weights", "bf16", "--dtype", "bf16"), ("--weights", "int8"), ("--optimizer", "sgd", "--lr", "0.1")])
def test_a_run_with_adapters_goes_on_with_the_same_bits(train, base, tmp_path, more):
    assert train("--resume", base, "--adapt", "lora:4", "--steps", 20, "--out", "whole", *more).code == 0
    assert train("--resume", base, "--adapt", "lora:4", "--steps", 20, "--out", "parts", "--save-every", 10, *more).code == 0
    (tmp_path / "parts/step-00000020").rename(tmp_path / "apart")
    assert train("--resume", "auto", "--out", "parts").code == 0
    assert contents(tmp_path / "parts/step-00000020") == contents(tmp_path / "apart")
    one, two = contents(tmp_path / "whole/step-00000020"), contents(tmp_path / "apart")
    assert one["adapter_model.safetensors"] == two["adapter_model.safetensors"]


def test_the_model_stays_and_the_loss_falls(train, base, tidemark, tmp_path):
    before = contents(tmp_path / "base/step-00000060")
    result = train("--resume", base, "--adapt", "lora:8", "--steps", 200, "--lr", "0.005", "--out", "run", "--json", "--report-every", 1)
    losses = [json.loads(line).get("loss") for line in result.out.splitlines() if '"loss"' in line]
    assert sum(losses[-20:]) / 20 < 0.9 * sum(losses[:20]) / 20
    assert contents(tmp_path / "base/step-00000060") == before
    assert tidemark("sample", "run", "--prompt", "07+85=", "--tokens", 4).code == 0


def test_what_cannot_be_adapted_is_refused(train, base, tmp_path):
    refused(train("--adapt", "lora", "--steps", 1), "'lora' does not name adapters", "lora:16")
    for text in ("lora:0x10", "lora:4:0x8", "lora: 4", "lora:inf", "lora:4:", "lora:4:8:1", "lora:4-5:8", "lora::8"):
        refused(train("--adapt", text, "--steps", 1), f"'{text}' does not name adapters", "lora:16")
    refused(train("--adapt", "lora:0", "--steps", 1), "the rank of adapters")
    refused(train("--adapt", "lora:2:-1", "--steps", 1), "the alpha of adapters")
    refused(train("--weights", "int8", "--steps", 1), "int8 cannot be trained", "--adapt")
    assert train("--resume", base, "--adapt", "lora:2", "--steps", 2, "--out", "run").code == 0
    refused(train("--resume", "run", "--adapt", "lora:2", "--steps", 3), "has adapters", "leave --adapt out")
    newest = tmp_path / "run/step-00000002"
    good = json.loads((newest / "adapter_config.json").read_text())
    loose = tmp_path / "loose"
    loose.mkdir()
    (loose / "adapter_model.safetensors").write_bytes((newest / "adapter_model.safetensors").read_bytes())
    for change, words in [
        ({"peft_type": "IA3"}, "peft_type LORA"), ({"use_dora": True}, "use_dora"), ({"r": 0}, "rank"), ({"r": 5}, "lora_A.weight"),
        ({"bias": "all"}, "biases"), ({"layer_replication": [[0, 1]]}, "layer_replication"),
        ({"base_model_name_or_path": "/nowhere"}, "/nowhere"), ({"alpha_pattern": {"c_attn": 9}}, "alpha_pattern"), ({"rank_pattern": {"c_fc": 1}}, "rank_pattern"),
        ({"init_lora_weights": "pissa_niter_4"}, "'pissa_niter_4'"), ({"alora_invocation_tokens": [1, 2]}, "alora_invocation_tokens"),
    ]:  # fmt: skip
        (loose / "adapter_config.json").write_text(json.dumps(good | change))
        refused(train("--resume", "loose", "--steps", 3), words)
    unused = {"alpha_pattern": {}, "rank_pattern": None, "init_lora_weights": "gaussian", "layers_to_transform": None, "modules_to_save": [], "lora_bias": False}
    (loose / "adapter_config.json").write_text(json.dumps(good | unused))
    assert train("--resume", "loose", "--steps", 3).code == 0
    (tmp_path / "other.txt").write_text("other symbols, " * 99)
    refused(train("--resume", "loose", "--steps", 3, "--data", "other.txt"), "other symbols than this data has")
    (loose / "adapter_config.json").write_text("{")
    refused(train("--resume", "loose", "--steps", 3), "not valid JSON")


def rewrite(path, keep, rename=lambda name: name):
    """The same safetensors file with some of its tensors, or under other names."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header, kept, body = json.loads(data[8:8 + length]), {}, b""
    for name, entry in sorted(header.items()):
        if name != "__metadata__" and keep(name):
            begin, end = entry["data_offsets"]
            kept[rename(name)] = entry | {"data_offsets": [len(body), len(body) + end - begin]}
            body += data[8 + length:][begin:end]
    text = json.dumps(kept).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def test_tensors_say_which_layers_have_adapters(train, base, tidemark, tmp_path):
    """PEFT writes target_modules in many ways: "all-linear" becomes the paths of all layers."""
    assert train("--resume", base, "--adapt", "lora:2", "--steps", 2, "--out", "run").code == 0
    newest, loose = tmp_path / "run/step-00000002", tmp_path / "loose"
    layers = ["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"]
    for targets, kept in [
        ([f"transformer.h.{block}.{layer}" for block in (1, 0) for layer in layers], layers), ("all-linear", layers),
        (["attn.c_proj", "c_fc"], ["attn.c_proj", "mlp.c_fc"]), (["c_proj"], ["attn.c_proj", "mlp.c_proj"]), (r".*\.mlp\.c_\w+", ["mlp.c_fc", "mlp.c_proj"]),
    ]:  # fmt: skip
        loose.mkdir(exist_ok=True)
        config = json.loads((newest / "adapter_config.json").read_text()) | {"target_modules": targets}
        (loose / "adapter_config.json").write_text(json.dumps(config))
        (loose / "adapter_model.safetensors").write_bytes((newest / "adapter_model.safetensors").read_bytes())
        rewrite(loose / "adapter_model.safetensors", lambda name: any(layer in name for layer in kept))
        assert tidemark("sample", "loose", "--prompt", "07+", "--tokens", 2).code == 0
        assert train("--resume", "loose", "--steps", 1, "--out", "on").code == 0
        saved = tmp_path / "on/step-00000001"
        assert json.loads((saved / "adapter_config.json").read_text())["target_modules"] == kept
        assert sorted(tensors(saved / "adapter_model.safetensors")) == sorted(tensors(loose / "adapter_model.safetensors"))
        shutil.rmtree(tmp_path / "on")


@pytest.mark.parametrize("keep, rename, words", [
    (lambda name: ".h.0." in name or "c_attn" not in name, None, "it has adapters on attn.c_attn in some of the model's 2 blocks only"),
    (lambda name: True, lambda name: name.replace("h.1.", "h.2."), "'base_model.model.transformer.h.2.attn.c_attn.lora_A.weight'; only lora_A"),
    (lambda name: True, lambda name: name.replace("attn.c_attn", "self_attn.q_proj"), "self_attn.q_proj.lora_A.weight'; only lora_A.weight and lora_B.weight of c_attn"),
    (lambda name: True, lambda name: name.replace("h.1.attn.c_attn.lora_A.weight", "wte.lora_embedding_A"), "transformer.wte.lora_embedding_A'"),
    (lambda name: False, None, "it has no adapters"),
], ids=["some blocks", "another block", "another layer", "an embedding", "nothing"])  # fmt: skip
def test_adapters_that_are_not_there_are_refused_with_what_is(train, base, tmp_path, keep, rename, words):
    assert train("--resume", base, "--adapt", "lora:2", "--steps", 2, "--out", "run").code == 0
    (tmp_path / "loose").mkdir()
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        shutil.copy(tmp_path / "run/step-00000002" / name, tmp_path / "loose")
    rewrite(tmp_path / "loose/adapter_model.safetensors", keep, *([rename] if rename else []))
    refused(train("--resume", "loose", "--steps", 3), "adapter_model.safetensors: it has ", words)


@pytest.fixture
def peft(run):
    """peft(program, argument...) -> what it prints, as JSON; the real library, where tools/torch-venv has got it."""
    if not TORCH.exists() or run(TORCH, "-c", "import peft, transformers", timeout=300).code:
        pytest.skip("peft is not there: tools/torch-venv")

    def call(program, *args):
        head = "import sys, json, torch, peft\nfrom transformers import GPT2LMHeadModel\ntorch.manual_seed(1)\n"
        result = run(TORCH, "-c", head + textwrap.dedent(program), *args, timeout=600)
        assert result.code == 0, result.err
        return json.loads(result.out.splitlines()[-1])

    return call


GREEDY = """
    def greedy(model, prompt):
        tokens = list(prompt)
        for _ in range(8):
            with torch.no_grad():
                tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
        return tokens[len(prompt):]
"""


def said(tidemark, folder, symbols, text):
    result = tidemark("sample", folder, "--prompt", text, "--tokens", 8, "--temperature", 0, "--json")
    assert result.code == 0, result.err
    return [symbols.index(ord(symbol)) for symbol in result.json["text"].removeprefix(text)]


@pytest.mark.long
def test_peft_opens_ours_and_ours_opens_peft(train, base, tidemark, peft, tmp_path):
    assert train("--resume", base, "--adapt", "lora:4:8", "--steps", 100, "--lr", "0.01", "--out", "run").code == 0
    newest, model = tmp_path / "run/step-00000100", tmp_path / "base/step-00000060"
    symbols = json.loads((newest / "vocabulary.json").read_text())["symbols"]
    text = "07+85="
    prompt = json.dumps([symbols.index(ord(symbol)) for symbol in text])
    theirs = peft(GREEDY + """
    model = peft.PeftModel.from_pretrained(GPT2LMHeadModel.from_pretrained(sys.argv[1]), sys.argv[2]).eval()
    print(json.dumps(greedy(model, json.loads(sys.argv[3]))))
    """, model, newest, prompt)  # fmt: skip
    assert theirs == said(tidemark, newest, symbols, text)
    assert theirs != said(tidemark, model, symbols, text)
    for targets in (["c_attn", "c_fc"], ["attn.c_proj", "c_fc"], "all-linear", r".*mlp\.c_proj"):
        theirs = peft(GREEDY + """
    config = peft.LoraConfig(r=5, lora_alpha=20, target_modules=json.loads(sys.argv[4]), fan_in_fan_out=True, task_type="CAUSAL_LM", init_lora_weights=False)
    model = peft.get_peft_model(GPT2LMHeadModel.from_pretrained(sys.argv[1]), config).eval()
    model.save_pretrained(sys.argv[2])
    print(json.dumps(greedy(model, json.loads(sys.argv[3]))))
    """, model, tmp_path / "from peft", prompt, json.dumps(targets))  # fmt: skip
        assert theirs == said(tidemark, "from peft", symbols, text)
