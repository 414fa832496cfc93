"""Rewards for the two kinds of lines: `tidemark train grpo --reward 'python3 examples/rookworld/reward.py'`, for policy lines
`reward.py policy`.

Functions in TRL's form. Each line of the prompts carries its own truth. Environment (`A:`): the form of the answer, the whole
next position, the share of its ranks and fields that are right, the flags, the reward. Policy (`P:`): the best move, the form,
the share of Stockfish's five moves that are named, and of their values that are right to a quarter of a pawn, with the weights
of document 004's authors, 4 : 2 : 1.5 : 1.
"""

import sys

FIELDS = ("position", "reward", "terminated", "truncated")
END = "<|endoftext|>"
MOVES = 5


def split(answer):
    """The fields of an answer; None: it has not the form of one."""
    parts = answer.strip().removesuffix(END).split("+")
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


def similar(completions, **columns):
    """Of a position that is wrong somewhere, which ranks and fields are right: a group of which none is whole has a best."""
    shares = []
    for text, truth in zip(completions, columns["position"]):
        found = split(text)
        ours, theirs = (each.replace("/", " ").split(" ") for each in (found["position"] if found else "", truth))
        shares.append(sum(a == b for a, b in zip(ours, theirs)) / len(theirs))
    return shares


def flags(completions, **columns):
    return equal(completions, columns, "terminated", "truncated")


def value(completions, **columns):
    return equal(completions, columns, "reward")


# ---- policy lines


def split_policy(answer):
    """(moves, values, best move) of a policy line from its `M:` on; None: it has not the form of one."""
    words = answer.strip().removesuffix(END).split()
    count = words.index("E:") if "E:" in words else 0  # moves: five, or as many as there are
    if not 0 < count <= MOVES or len(words) != 2 * count + 3 or words[-2] != "B:":
        return None
    try:
        return words[:count], [float(word) for word in words[count + 1:-2]], words[-1]
    except ValueError:
        return None


def policy_form(completions, **columns):
    return [float(split_policy(text) is not None) for text in completions]


def best(completions, **columns):
    found = [split_policy(text) for text in completions]
    return [float(bool(each) and each[2] == truth) for each, truth in zip(found, columns["best"])]


def candidates(completions, **columns):
    found = [split_policy(text) for text in completions]
    return [len({*each[0]} & {*truth.split()}) / len(truth.split()) if each else 0.0 for each, truth in zip(found, columns["moves"])]


def values(completions, **columns):
    """Of moves that are named, with their values."""
    shares = []
    for text, moves, truth in zip(completions, columns["moves"], columns["values"]):
        found, known = split_policy(text), dict(zip(moves.split(), map(float, truth.split())))
        named = dict(zip(found[0], found[1])) if found else {}
        shares.append(sum(move in known and abs(known[move] - named[move]) <= 0.25 for move in named) / len(known))
    return shares


if __name__ == "__main__":
    import tidemark

    if sys.argv[1:] == ["policy"]:
        tidemark.reward(best, policy_form, candidates, values, weights=[4 / 8.5, 2 / 8.5, 1.5 / 8.5, 1 / 8.5])
    else:
        tidemark.reward(form, position, similar, flags, value, weights=[0.1, 0.3, 0.4, 0.1, 0.1])
