"""``python -m tidemark`` is the command line, where it is installed."""

import os
import subprocess
import sys

import tidemark
from lanes import ROOT


def run(*args, **env):
    return subprocess.run([sys.executable, "-m", "tidemark", *args], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python"), **env})


def test_it_is_the_same_program(binary):
    plain = subprocess.run([binary, "version"], capture_output=True, text=True, check=True)
    through = run("version")
    assert (through.returncode, through.stdout) == (0, plain.stdout) == (0, f"tidemark {tidemark.__version__}\n")
    wrong = run("judg")
    assert wrong.returncode == 2 and "judge" in wrong.stderr


def test_what_it_runs_has_the_signals_and_the_environment_of_a_plain_run(binary, tmp_path):
    asked = "grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status; env -0 | grep -azvE '^(TIDEMARK_|_=)'"
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "python")}  # no locale: Python gives itself one
    plain, through = (subprocess.run([*program, "run", "-o", tmp_path / name, "--", "sh", "-c", asked], env=env, capture_output=True,
                                     timeout=60, check=True)
                      for name, program in (("plain.tide", [binary]), ("through.tide", [sys.executable, "-m", "tidemark"])))
    assert through.stdout == plain.stdout


def test_without_it_there_is_a_sentence(tmp_path):
    import shutil

    package = tmp_path / "python"
    shutil.copytree(ROOT / "python", package)  # a checkout without a build
    done = subprocess.run([sys.executable, "-m", "tidemark", "version"], capture_output=True, text=True, timeout=60, check=False,
                          env={"PATH": str(tmp_path), "PYTHONPATH": str(package)})
    assert done.returncode == 2
    assert done.stderr.startswith("tidemark: the program is not installed; ") and "\nhint: " in done.stderr


def test_a_script_of_the_same_name_is_not_taken(tmp_path, monkeypatch):
    from tidemark import _binary

    script = tmp_path / "tidemark"
    script.write_text("#!/bin/sh\nexec python3 -m tidemark\n")
    script.chmod(0o755)
    monkeypatch.setenv("TIDEMARK_BINARY", str(script))
    assert _binary.find() != str(script)
