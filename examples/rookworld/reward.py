"""Rewards for environment lines (`A:`): `tidemark train grpo --reward 'python3 examples/rookworld/reward.py'`.

Four functions in TRL's form, with the weights that document 004's authors came to: the form of the answer 4, the next
position 3, the flags 2, the reward 1. Each line of the prompts carries its own truth.
"""

FIELDS = ("position", "reward", "terminated", "truncated")


def split(answer):
    """The fields of an answer; None: it has not the form of one."""
    parts = answer.strip().removesuffix("<|endoftext|>").split("+")
    if len(parts) != len(FIELDS) or len(parts[0].split(" ")) != 6 or parts[0].count("/") != 7:
        return None
    return dict(zip(FIELDS, parts))


def form(completions, **columns):
    return [float(split(text) is not None) for text in completions]


def equal(completions, truths, *fields):
    found = [split(text) or {} for text in completions]
    return [float(all(each.get(field) == truths[field][i] for field in fields)) for i, each in enumerate(found)]


def position(completions, **columns):
    return equal(completions, columns, "position")


def flags(completions, **columns):
    return equal(completions, columns, "terminated", "truncated")


def value(completions, **columns):
    return equal(completions, columns, "reward")


if __name__ == "__main__":
    import tidemark

    tidemark.reward(form, position, flags, value, weights=[0.4, 0.3, 0.2, 0.1])
