"""`tidemark train grpo` and Ctrl-C: in a rollout, in an update, and twice."""

import contextlib
import filecmp
import json
import os
import pathlib
import select
import signal
import subprocess
import sys

import pytest

from waiting import has, wait_for

# Rewards the share of letters 'a', and notes each group when it has answered. With a second argument, which is a FIFO, it
# answers no group after the first two until somebody has opened and closed that.
NOTING = """import json, sys
for number, line in enumerate(sys.stdin):
    group = json.loads(line)
    if number == 2 and sys.argv[2:]:
        open(sys.argv[2]).read()
    print(json.dumps([text.count("a") / max(1, len(text)) for text in group["completions"]]), flush=True)
    print("answered", file=open(sys.argv[1], "a"), flush=True)
"""
# Reads a question and never answers, nor sees that its input has ended.
HANGING = "read line; echo $$ > asked; sleep 1000; echo '[]'"
PROMPTS = 2
ROLLOUT = ("--group", 64, "--new-tokens", 24, "--micro-batch", 16)
# An update that takes long enough for a signal to come in it; with sanitizers a few epochs do.
LONG_UPDATE = ("--group", 4, "--new-tokens", 6, "--inner-epochs", 12 if os.environ.get("TIDEMARK_SANITIZED") == "1" else 60)


def opened(fifo):
    """A file that writes to it if somebody reads it."""
    with contextlib.suppress(OSError):
        return open(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK), "w")
    return None


def said_within(seconds, process):
    """The next line on its stderr."""
    assert select.select([process.stderr], [], [], seconds)[0], "it said nothing"
    return process.stderr.readline()


class Job:
    """A run in a folder, in the background or to its end."""

    def __init__(self, binary, env, folder, after):
        self.binary, self.env, self.folder, self.after = binary, env, folder, after
        self.answered = folder / "answered"
        (folder / "corpus.txt").write_text("abcd efgh abab cdcd\n" * 60)
        (folder / "reward.py").write_text(NOTING)
        (folder / "prompts.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in ("ab", "cd ef", "h")))
        self.command("lm", "--data", "corpus.txt", "--batch", 4, "--seq", 32, "--steps", 2, "--eval-every", 0, "--out", "model")

    def command(self, *args):
        argv = [self.binary, "train", args[0], "--threads", "1", *(str(arg) for arg in args[1:])]
        return subprocess.run(argv, cwd=self.folder, env=self.env, check=True, capture_output=True, text=True)

    def asked(self, *args):
        return ("grpo", "--prompts", "prompts.jsonl", "--reward", f"{sys.executable} reward.py answered", "--prompts-per-step", PROMPTS, *args)

    def begin(self, *args):
        argv = [self.binary, "train", *(str(arg) for arg in self.asked("--threads", 1, "--model", "model", *args))]
        process = subprocess.Popen(argv, cwd=self.folder, env=self.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.after.enter_context(process)
        self.after.callback(process.kill)
        wait_for(lambda: has(process, "SigCgt", signal.SIGINT) or process.poll() is not None)
        return process

    def groups(self):
        return self.answered.read_text().count("answered") if self.answered.exists() else 0


@pytest.fixture
def job(binary, plain_env, tmp_path):
    with contextlib.ExitStack() as after:
        yield Job(binary, plain_env, tmp_path, after)


def check_that_it_goes_on(job, process, how, step):
    """What goes on from a step that was saved has the bits of a run that was not stopped."""
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, err
    assert f"SIGINT: stopped after step {step} and saved it" in err
    job.command(*job.asked("--out", "stopped", "--resume", "auto"))
    job.command(*job.asked("--model", "model", *how, "--steps", step + 1, "--out", "whole"))
    for name in ("model.safetensors", "optimizer.safetensors"):
        stopped, whole = (job.folder / run / f"step-{step + 1:08}" / name for run in ("stopped", "whole"))
        assert filecmp.cmp(stopped, whole, shallow=False), name


@pytest.mark.slow  # with sanitizers; the signal in an update runs there
def test_a_signal_in_a_rollout_waits_for_the_step_and_saves_it(job):
    gate = job.folder / "gate"
    os.mkfifo(gate)
    process = job.begin(*ROLLOUT, "--steps", 3, "--report-every", 1, "--out", "stopped", "--reward", f"{sys.executable} reward.py answered gate")
    assert any(line.startswith("step 1/3") for line in process.stdout)
    with contextlib.closing(wait_for(lambda: opened(gate))):  # a group of the second step waits for its answer
        process.send_signal(signal.SIGINT)
        assert said_within(60, process).startswith("tidemark: finishing the step")
        assert job.groups() == PROMPTS and process.poll() is None
    check_that_it_goes_on(job, process, ROLLOUT, 2)


def test_a_signal_in_an_update_waits_for_the_step_and_saves_it(job):
    process = job.begin(*LONG_UPDATE, "--steps", 2, "--report-every", 1, "--out", "stopped")
    wait_for(lambda: job.groups() == PROMPTS)
    process.send_signal(signal.SIGINT)
    assert job.groups() == PROMPTS and process.poll() is None
    check_that_it_goes_on(job, process, LONG_UPDATE, 1)


def test_a_second_signal_ends_at_once(job, tmp_path):
    process = job.begin(*LONG_UPDATE, "--inner-epochs", 1 << 16, "--steps", 2, "--out", "run")
    wait_for(lambda: job.groups() >= PROMPTS)
    process.send_signal(signal.SIGINT)
    assert said_within(60, process) == "tidemark: finishing the step and saving it; a second signal ends it at once\n"
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    assert not list((tmp_path / "run").glob("step-*"))


def running(group):
    """Names of processes of a group that have not ended."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name, _, fields = path.read_text().partition("(")[2].rpartition(")")
            state, _, its_group = fields.split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.add(name)
    return found


@pytest.fixture
def hanging(job, tmp_path):
    """A run that waits for a reward, and the group of its command: the shell, and what it waits for."""
    process = job.begin("--reward", HANGING, "--reward-timeout", "1000s", "--group", 2, "--new-tokens", 2)
    asked = tmp_path / "asked"
    wait_for(lambda: asked.exists() and asked.read_text().endswith("\n"))
    group = int(asked.read_text())
    job.after.callback(lambda: running(group) and os.killpg(group, signal.SIGKILL))
    wait_for(lambda: "sleep" in running(group))
    return process, group


def test_a_second_signal_ends_a_reward_command_that_hangs(hanging):
    process, group = hanging
    process.send_signal(signal.SIGINT)
    assert said_within(60, process).startswith("tidemark: finishing the step")
    assert running(group) >= {"sh", "sleep"}
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == -signal.SIGINT
    wait_for(lambda: not running(group))


def test_a_reward_command_that_hangs_ends_with_a_run_that_is_killed(hanging):
    process, group = hanging
    process.kill()
    assert process.wait(timeout=60) == -signal.SIGKILL
    wait_for(lambda: not running(group))


@pytest.mark.long
def test_a_signal_ends_the_last_evaluation(binary, env, tmp_path):
    """A thousand sums, one after another, take minutes: whoever stops then waits for seconds. All steps are done and saved."""
    argv = [binary, "train", "grpo", "--preset", "large", "--steps", "1", "--group", "2", "--prompts-per-step", "1", "--new-tokens", "100",
            "--threads", "1", "--out", "run"]
    with subprocess.Popen(argv, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(lambda: (tmp_path / "run" / "step-00000001").is_dir())
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=40)[1]
        finally:
            process.kill()
    assert "a second signal ends it at once" in said and process.returncode == 0
