"""What is called growth: not every difference between two censuses."""

import pytest
from frameworks import framework

torch = framework("torch")
census_of = framework("tidemark.torch")
tidemark = framework("tidemark")
growth = framework("tidemark._growth")
verdict = framework("tidemark._verdict")
pytestmark = [pytest.mark.unsanitized, pytest.mark.xdist_group("torch")]

MIB = 1 << 20


def series(*counts, steps=None, size=MIB, complete=True, holders_complete=None, kind="held"):
    """A census at each of the steps, with so many tensors in one list."""
    key = census_of.Key((512, 512), torch.float32, torch.device("cpu"), False, kind, "list `kept` in train.py:3")
    holders_complete = complete if holders_complete is None else holders_complete
    return [census_of.Census(step, {key: census_of.Group(count, count * size)}, 0, 0, complete, 0.0, holders_complete)
            for step, count in zip(steps or range(3, 3 + 50 * len(counts), 50), counts)]


def lengths(*sizes):
    """One tensor, of another size at each census."""
    return [each for step, size in enumerate(sizes) for each in series(1, steps=(3 + 50 * step,), size=size * MIB)]


@pytest.mark.parametrize("censuses, grows", [
    pytest.param(series(0, 1, steps=(3, 159)), False, id="one more tensor in 156 steps"),
    pytest.param(series(0, 3, steps=(3, 159)), False, id="three more tensors in 156 steps"),
    pytest.param(series(3, 159, steps=(3, 159)), True, id="one tensor in each step, two censuses"),
    pytest.param(series(0, 1, 1, 1), False, id="one more since the second census"),
    pytest.param(series(0, 0, 0, 1), False, id="one more in the last census"),
    pytest.param(series(0, 20, 40, 40, 40), False, id="a buffer that is full"),
    pytest.param(series(0, 1, 0, 1, 2), False, id="up and down"),
    pytest.param(series(0, 1, 2, 3), True, id="one tensor in 50 steps, on and on"),
    pytest.param(series(0, 0, 50, 100), True, id="a growth that began later"),
    pytest.param(lengths(1, 2, 3), False, id="a batch that was longer each time, as one in six is"),
    pytest.param(lengths(1, 2, 3, 4), True, id="a tensor that becomes larger"),
    pytest.param(lengths(1, 3, 2, 4), False, id="batches of changing length"),
    pytest.param(series(0, 50, 100, complete=False), False, id="censuses that were cut short"),
    pytest.param(series(0, 50, 100, complete=False, holders_complete=True), True, id="held, while graphs were cut short"),
    pytest.param(series(0, 50, 100, complete=False, holders_complete=True, kind="unknown"), False, id="unknown, as graphs were cut short"),
])
def test_growth_is_what_goes_on(censuses, grows):
    found = growth.lasting(censuses, 1)
    assert bool(found) == grows
    if grows:
        assert (found[0].count, found[0].bytes) == (
            censuses[-1].tensors - censuses[0].tensors, censuses[-1].bytes - censuses[0].bytes)


@pytest.mark.parametrize("judged, lines", [
    ("flat", []),
    ("undecided", []),
    ("leak", ["more than in step 3: +2 tensors of (512, 512) float32 (+2.0 MiB), held by list `kept` in train.py:3"]),
])
def test_a_mere_difference_is_told_when_the_judge_saw_the_process_grow(judged, lines):
    said = []
    log = tidemark.TrainingLog(census=False, out=said.append)
    log.censuses = series(0, 0, 2)
    log.verdicts = [verdict.Verdict(judged, "", "process", {})]
    log._growth_lines()
    log.close()
    assert said == lines


def test_small_tensors_that_become_more_are_told_when_the_process_grows():
    """A list of losses is small; what hangs on each of them is not."""
    said = []
    log = tidemark.TrainingLog(census=False, out=said.append)
    log.censuses = series(0, 50, 100, size=4)
    for judged in ("flat", "leak"):
        log.verdicts = [verdict.Verdict(judged, "", "process", {})]
        log._growth_lines()
    log.closed = True
    assert said == ["growing: +1 tensor of (512, 512) float32 per step (+4 B per step), held by list `kept` in train.py:3"]
