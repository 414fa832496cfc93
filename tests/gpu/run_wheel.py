#!/usr/bin/env python3
"""A wheel on a machine that it was not built on: run_wheel.py WHEEL.

Installs the wheel, without a network, in a fresh virtual environment that sees the PyTorch of the python3 that runs this, in an
empty folder; lets a training loop on the GPU leak under `tidemark run --heap`; and checks what tidemark says of it. One line per
check, exit 1 if one failed. TIDEMARK_TRAIN_DEVICE=cpu tries it out without a GPU.
"""

import importlib.util
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

DEVICE = os.environ.get("TIDEMARK_TRAIN_DEVICE", "cuda")
MIB = 1 << 20
LEAK, STEPS = (24 * MIB, 150) if DEVICE == "cuda" else (1 * MIB, 150)
failures = []


def check(condition, sentence, detail=""):
    print(("ok: " if condition else "FAILED: ") + sentence + (f" ({detail})" if detail else ""), flush=True)
    if not condition:
        failures.append(sentence)
    return condition


def call(*argv, **more):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500,
                          stdin=subprocess.DEVNULL, check=False, **more)
    return done.returncode, done.stdout


def make_environment(place, wheel):
    """Where the system has no ensurepip, its own pip installs into the environment."""
    code, said = call(sys.executable, "-m", "venv", "--system-site-packages", place)
    pip = [place / "bin" / "python3", "-m", "pip"]
    if code:
        call(sys.executable, "-m", "venv", "--clear", "--without-pip", "--system-site-packages", place)
        pip = [sys.executable, "-m", "pip", "--python", place / "bin" / "python3"]
    torch = importlib.util.find_spec("torch")
    site = next(place.glob("lib/python3.*/site-packages"))
    if torch:  # also where this Python is of an environment itself
        (site / "torch_of_the_parent.pth").write_text(f"{pathlib.Path(torch.origin).parents[1]}\n")
    code, said = call(*pip, "install", "--no-index", "--no-deps", "--ignore-installed", "--disable-pip-version-check", wheel)
    check(code == 0, "pip installs it without a network", said.strip().splitlines()[-1] if said else "")
    return site


def check_the_leak(run, train):
    """The verdict on the program, and the line that holds the bytes."""
    code, said = run("tidemark", "run", "--heap", "-i", "100ms", "-o", "run.tide", "--", "python3", train, "--device", DEVICE, "--leak",
                     LEAK, "--steps", STEPS, "--pause", "0.05", "--width", "256" if DEVICE == "cuda" else "32")
    print("\n".join(f"    {line}" for line in said.splitlines()))
    check(code == 0, "the loop ends as it would alone", f"exit {code}")
    check(re.search(r"^tidemark: LEAK in .*train\.py", said, re.M), "the verdict is a leak")
    code, said = run("tidemark", "blame", "--json", "run.tide")
    first = (json.loads(said)["culprits"] or [{}])[0] if code < 2 else {}
    kind = "tensor" if DEVICE == "cuda" else "malloc"
    check(first.get("kind") == kind, f"the first culprit is of the kind '{kind}'", first.get("kind") or said)
    rate = first.get("bytes_per_step") or 0
    check(abs(rate / LEAK - 1) < 0.02, "it takes what was planted in each step", f"{rate / MIB:.3f} MiB of {LEAK / MIB:.0f} MiB")
    line = next(n for n, text in enumerate(train.read_text().split("\n"), 1) if "# the leak" in text)
    frames = [f"{pathlib.Path(f['file']).name}:{f['line']} {f['function']}" for f in first.get("frames", []) if f["file"]]
    check(f"{train.name}:{line} remember" in frames, "its line is named", ", ".join(frames[:3]))


def main():
    if len(sys.argv) != 2:
        raise SystemExit("usage: run_wheel.py WHEEL")
    wheel = pathlib.Path(sys.argv[1]).resolve()
    system = platform.freedesktop_os_release().get("PRETTY_NAME", "?") if hasattr(platform, "freedesktop_os_release") else "?"
    print(f"{wheel.name} on {system}, {' '.join(platform.libc_ver())}, Python {platform.python_version()}")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        site = make_environment(work / "venv", wheel)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TIDEMARK_", "PYTHON"))}
        env["PATH"] = f"{work}/venv/bin:{env['PATH']}"

        def run(name, *args):
            return call(work / "venv" / "bin" / name, *args, env=env, cwd=work)

        train = pathlib.Path(shutil.copy(pathlib.Path(__file__).with_name("train.py"), work))
        code, said = run("tidemark", "--version")
        check(code == 0 and re.fullmatch(r"tidemark \S+\n", said), "it says its version", said.strip())
        code, said = run("tidemark", "help", "run")
        check(code == 0 and said.startswith("Usage: tidemark run "), "it has the text of its manual")
        code, said = run("python3", "-c", "import tidemark, torch; tidemark.step(1); print(tidemark.__file__, torch.__version__)")
        check(code == 0 and said.startswith(str(site)), "the package is the one that was installed", said.strip())
        check_the_leak(run, train)
        code, said = run("tidemark", "report", "run.tide")
        check(code == 0 and train.name in (work / "run.html").read_text(), "there is a page", said.strip())
    print(f"{len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
