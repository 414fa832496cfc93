"""``reward(function)``: turns any reward function written for TRL into a command for ``tidemark train grpo --reward``.

Questions come on standard input and answers go to standard output, one line of JSON each. What the function, or a
program that it starts, writes to standard output goes to standard error. Only this module reads standard input.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import os
import sys
from typing import Any, BinaryIO, Callable, Dict, List, Optional, Sequence, Tuple

from ._fault import say, say_once


def _nothing(*_args: Any, **_named: Any) -> None:
    """In place of the functions that TRL passes to log a column or a metric; nothing is shown here."""


def _arguments(function: Callable[..., Any], given: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the arguments that the function takes; all of them, if it takes any keyword."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return given
    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return given
    return {each.name: given[each.name] for each in parameters if each.name in given}


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _scores(function: Callable[..., Any], given: Dict[str, Any], loop: asyncio.AbstractEventLoop) -> List[Optional[float]]:
    """One number or None for each completion."""
    found = function(**_arguments(function, given))
    if inspect.isawaitable(found):

        async def wait() -> Any:
            return await found

        found = loop.run_until_complete(wait())
    if not hasattr(found, "__iter__") and not hasattr(found, "__getitem__"):
        raise TypeError(f"{_name(function)}() returned {found!r} instead of a list of rewards")
    scores = [None if each is None else float(each) for each in found]
    count = len(given["completions"])
    if len(scores) != count:
        raise ValueError(f"{_name(function)}() returned {len(scores)} rewards for {count} completions")
    bad = [each for each in scores if each is not None and not math.isfinite(each)]
    if bad:
        raise ValueError(f"{_name(function)}() returned {bad[0]} as a reward; None means that there is none")
    return scores


def _sum(rows: Sequence[Sequence[Optional[float]]], weights: Sequence[float]) -> List[float]:
    """Returns a weighted sum for each completion. One without any score gets the mean of the others: advantage 0, as in TRL."""
    sums: List[Optional[float]] = []
    for scores in zip(*rows):
        parts = [weight * score for weight, score in zip(weights, scores) if score is not None]
        sums.append(sum(parts) if parts else None)
    known = [each for each in sums if each is not None]
    if len(known) < len(sums):
        say_once("no reward function scored a completion; it counts as the mean of its group")
    mean = sum(known) / len(known) if known else 0.0
    return [mean if each is None else each for each in sums]


def _columns(question: Dict[str, Any]) -> Dict[str, Any]:
    """Turns a question into TRL's keywords: lists as long as the completions."""
    completions = question.pop("completions")
    prompt = question.pop("prompt")
    clash = {"prompts", "log_extra", "log_metric"} & set(question)
    if clash:
        raise ValueError(f"a field of the prompts is called '{clash.pop()}', which is the name of a reward function's argument")
    columns = {name: [value] * len(completions) for name, value in question.items()}
    return {"prompts": [prompt] * len(completions), "completions": completions, "log_extra": _nothing, "log_metric": _nothing, **columns}


def _take_streams() -> Tuple[BinaryIO, BinaryIO]:
    """Returns standard input and output for this module alone. From now on, prints go to standard error and reads get EOF."""
    sys.stdout.flush()
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return questions, answers


def reward(*functions: Callable[..., Any], weights: Optional[Sequence[float]] = None) -> None:
    """Answers ``tidemark train grpo`` until it ends. Call it as the last line of a program for ``--reward``.

        def right(completions, answer, **columns):
            return [float(text.strip() == each) for text, each in zip(completions, answer)]

        if __name__ == "__main__":
            tidemark.reward(right)

    A function gets what TRL passes, as lists with an item for each completion: ``completions``, ``prompts`` and the
    other fields of the prompt's line. ``log_extra`` and ``log_metric`` do nothing; there are no ``completion_ids`` and
    no ``trainer_state``. A function without ``**columns`` gets only what it names. It returns a number for each
    completion, or None for one that it does not score. It may be ``async``.

    ``weights`` are those of several functions, whose rewards are added up; 1 each by default. None adds nothing. A
    completion that no function scores gets the mean of its group, so its advantage is 0, as in TRL. It still counts in
    our spread of the group; TRL's spread leaves it out.

    An exception ends the program with its traceback and status 1, and the training with one sentence.
    """
    if not functions:
        raise TypeError("reward() takes at least one function")
    for each in functions:
        if not callable(each):
            raise TypeError(f"reward() takes functions, as in reward(f, g), not a {type(each).__name__}")
    factors = [1.0] * len(functions) if weights is None else [float(each) for each in weights]
    if len(factors) != len(functions):
        raise ValueError(f"there are {len(functions)} reward functions and {len(factors)} weights")
    if os.isatty(0):
        say("tidemark: this program gives rewards: a line of JSON comes in, a line of numbers goes out. "
            "It is for 'tidemark train grpo --reward', and waits for a line now")
    questions, answers = _take_streams()
    loop = asyncio.new_event_loop()  # one for all questions, as in TRL: sessions and locks belong to a loop
    for line in questions:
        given = _columns(json.loads(line))
        rewards = _sum([_scores(function, given, loop) for function in functions], factors)
        answers.write(json.dumps(rewards).encode() + b"\n")
        answers.flush()
    loop.close()
