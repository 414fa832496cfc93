"""Usage: evaluate.py MODEL PROMPTS [--most N] [--tidemark PROGRAM] [--wrong N]

The share of environment prompts that a model answers exactly, always taking the likeliest token: the whole answer, and each
field of it. MODEL is whatever `tidemark sample` takes; --wrong prints that many wrong answers beside the right ones.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess

from reward import FIELDS, split

NEW_TOKENS = 144


def ask(program, model, prompt):
    """What the model adds to a prompt."""
    done = subprocess.run([program, "sample", model, "--prompt", prompt, "--tokens", str(NEW_TOKENS), "--temperature", "0",
                           "--threads", "1", "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr.strip())
    return json.loads(done.stdout)["text"].removeprefix(prompt)


def main():
    asked = argparse.ArgumentParser(usage=__doc__.split("\n")[0].removeprefix("Usage: "))
    asked.add_argument("model")
    asked.add_argument("prompts", type=pathlib.Path)
    asked.add_argument("--most", type=int, default=1000)
    asked.add_argument("--tidemark", default="tidemark")
    asked.add_argument("--wrong", type=int, default=0)
    options = asked.parse_args()
    lines = [json.loads(line) for line in options.prompts.read_text().splitlines()][: options.most]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda line: ask(options.tidemark, options.model, line["prompt"]), lines))
    right = dict.fromkeys(("all", *FIELDS), 0)
    for line, answer in zip(lines, answers):
        found = split(answer)
        exact = [found is not None and found[field] == line[field] for field in FIELDS]
        for field, is_right in zip(FIELDS, exact):
            right[field] += is_right
        right["all"] += all(exact)
        if not all(exact) and options.wrong > 0:
            options.wrong -= 1
            print(f"{line['prompt']}\n  wanted {'+'.join(line[field] for field in FIELDS)}\n  got    {answer}")
    print(", ".join(f"{name} {100 * count / len(lines):.1f} %" for name, count in right.items()) + f" of {len(lines)}")


if __name__ == "__main__":
    main()
