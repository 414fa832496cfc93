"""reward(): functions written for TRL as commands that answer line by line."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from lanes import ROOT


def serve(tmp_path, program, *questions):
    """(exit status, answers, standard error) of a program that is asked all of it."""
    path = tmp_path / "reward.py"
    path.write_text("import tidemark\n" + textwrap.dedent(program))
    lines = "".join(each if isinstance(each, str) else json.dumps(each) + "\n" for each in questions)
    done = subprocess.run([sys.executable, path], input=lines.encode(), capture_output=True, timeout=60, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    return done.returncode, [json.loads(line) for line in done.stdout.decode().splitlines()], done.stderr.decode()


ASKED = {"prompt": "07+85=", "answer": 92, "completions": ["092\n", "91\n", "é�"]}


def test_a_function_gets_lists_as_trl_passes_them(tmp_path):
    code, answers, said = serve(tmp_path, """
        import json, sys
        def f(completions, prompts=None, **columns):
            columns.pop("log_extra")("column", [1]), columns.pop("log_metric")("name", 1)
            print(json.dumps([completions, prompts, columns]))
            return [len(each) for each in completions]
        tidemark.reward(f)
        """, ASKED, {"prompt": "x", "list": [1, {"a": None}], "completions": [""]})
    assert (code, answers) == (0, [[4, 3, 2], [0]])
    assert [json.loads(line) for line in said.splitlines()] == [
        [["092\n", "91\n", "é�"], ["07+85="] * 3, {"answer": [92] * 3}],
        [[""], ["x"], {"list": [[1, {"a": None}]]}],
    ]


def test_a_function_without_keywords_gets_what_it_names(tmp_path):
    program = """
        def f(completions, answer):
            return [float(int(text) == each) if text.strip().isdigit() else 0 for text, each in zip(completions, answer)]
        tidemark.reward(f)
        """
    assert serve(tmp_path, program, ASKED)[:2] == (0, [[1.0, 0.0, 0.0]])


def test_several_functions_are_added_up_by_their_weights(tmp_path):
    program = """
        class Length:
            def __call__(self, completions, **columns):
                return [len(each) for each in completions]
        async def right(completions, answer, **columns):
            return [each.strip() == "092" for each in completions]
        tidemark.reward(Length(), right, weights=[0.5, 10])
        """
    assert serve(tmp_path, program, ASKED)[:2] == (0, [[12.0, 1.5, 1.0]])
    assert serve(tmp_path, program.replace(", weights=[0.5, 10]", ""), ASKED)[:2] == (0, [[5.0, 3.0, 2.0]])


def test_none_adds_nothing_and_what_nobody_scores_is_the_mean(tmp_path):
    program = """
        def f(completions, **columns):
            return [1.0, None, None]
        def g(completions, **columns):
            return [2, 5, None]
        tidemark.reward(f, g)
        """
    code, answers, said = serve(tmp_path, program, ASKED, ASKED)
    assert (code, answers) == (0, [[3.0, 5.0, 4.0]] * 2)
    assert said == "tidemark: no reward function scored a completion; it counts as the mean of its group\n", "once"
    alone = "def f(completions, **columns):\n    return [None] * 3\ntidemark.reward(f)\n"
    assert serve(tmp_path, alone, ASKED)[:2] == (0, [[0.0] * 3])


def test_what_is_printed_and_read_does_not_touch_the_protocol(tmp_path):
    code, answers, said = serve(tmp_path, """
        import os, subprocess, sys
        def f(completions, **columns):
            print("by print")
            sys.stdout.flush()
            os.write(1, b"by write\\n")
            subprocess.run(["sh", "-c", "cat; echo by a child"], check=True)
            return [0.5] * len(completions)
        tidemark.reward(f)
        """, ASKED, ASKED)
    assert (code, answers) == (0, [[0.5] * 3] * 2)
    assert said == "by print\nby write\nby a child\n" * 2


@pytest.mark.parametrize("body, last", [
    ("raise KeyError('answer')", "KeyError: 'answer'"),
    ("return [1.0]", "ValueError: f() returned 1 rewards for 3 completions"),
    ("return [1.0] * 4", "ValueError: f() returned 4 rewards for 3 completions"),
    ("return [1.0, float('nan'), 0]", "ValueError: f() returned nan as a reward; None means that there is none"),
    ("return [1.0, float('inf'), 0]", "ValueError: f() returned inf as a reward; None means that there is none"),
    ("return None", "TypeError: f() returned None instead of a list of rewards"),
    ("return 0.5", "TypeError: f() returned 0.5 instead of a list of rewards"),
    ("return [1.0, 'a', 0]", "ValueError: could not convert string to float: 'a'"),
])
def test_an_exception_shows_its_traceback_and_ends_with_1(tmp_path, body, last):
    code, answers, said = serve(tmp_path, f"def f(completions, **columns):\n    {body}\ntidemark.reward(f)\n", ASKED, ASKED)
    assert (code, answers) == (1, [])
    assert said.startswith("Traceback (most recent call last):\n") and said.splitlines()[-1] == last


def test_mistakes_are_said_before_the_first_line(tmp_path):
    for call, last in (("reward()", "TypeError: reward() takes at least one function"),
                       ("reward([len, max])", "TypeError: reward() takes functions, as in reward(f, g), not a list"),
                       ("reward(len, weights=[1, 2])", "ValueError: there are 1 reward functions and 2 weights")):
        code, answers, said = serve(tmp_path, f"tidemark.{call}\n", ASKED)
        assert (code, answers, said.splitlines()[-1]) == (1, [], last)


def test_what_is_async_lives_on_from_question_to_question(tmp_path):
    program = """
        import asyncio
        jobs = []
        async def f(completions, **columns):
            if jobs:
                return [await jobs[0]] * len(completions)
            jobs.append(asyncio.create_task(asyncio.sleep(0.01, result=1)))
            return [0] * len(completions)
        tidemark.reward(f)
    """
    assert serve(tmp_path, program, ASKED, ASKED) == (0, [[0.0] * 3, [1.0] * 3], "")


def test_a_field_that_is_called_like_an_argument_is_named(tmp_path):
    program = "def f(completions, **columns):\n    return [0]\ntidemark.reward(f)\n"
    code, _, said = serve(tmp_path, program, {"prompt": "a", "prompts": 1, "completions": ["b"]})
    assert code == 1
    assert said.splitlines()[-1] == "ValueError: a field of the prompts is called 'prompts', which is the name of a reward function's argument"


def test_whatever_has_numbers_in_it_is_rewards(tmp_path):
    program = "import array\ndef f(completions, **columns):\n    return array.array('d', [1, 2, 3])\ntidemark.reward(f)\n"
    assert serve(tmp_path, program, ASKED)[:2] == (0, [[1.0, 2.0, 3.0]])
