"""What a process has of shared memory: RssShmem counts each page once for each mapping of it, PSS does not."""

import pytest
from recording import GAUGE, MIB, STEP, Recording

LOOKS, EVERY = 200, 8  # looks, and how many of them there are for a reading of PSS
SHARED = "shared memory (/dev/shm, memfd)"


@pytest.fixture
def judged(tidemark, tmp_path):
    """judged(processes, ends={}, files=None) -> the verdict. processes: for each how much it maps of shared memory at a look, and
    what of that is its part (None: this was not recorded); ends: the looks from which on they are gone; files: what all files in memory have;
    seldom: the files are read at one look in so many."""

    def call(processes, ends=None, files=None, seldom=1):
        r = Recording(tmp_path / "a.tide")
        for number, _ in enumerate(processes, 1):
            r.process(100 + number, f"train{number}", ended=(ends or {}).get(number, LOOKS) / 4)
        for i in range(LOOKS):
            alive = [number for number in range(1, len(processes) + 1) if i < (ends or {}).get(number, LOOKS)]
            tick = r.tick(i / 4, dict.fromkeys(alive, 50 * MIB))
            for number in alive:
                mapped, part = processes[number - 1]
                r.db.execute("UPDATE sample SET shmem_bytes = ?, asked_bytes = ?, mapped_bytes = ? WHERE tick = ? AND process = ?",
                             (int(mapped(i)), 60 * MIB, int(900 * MIB + (0 if files else mapped(i))), tick, number))
                if i % EVERY == number % EVERY:
                    share = part and int(part(i))
                    r.put("smaps", tick=tick, process=number, pss_bytes=50 * MIB + (share or int(mapped(i))), uss_bytes=50 * MIB, pss_shmem_bytes=share)
            r.mark(i / 4, STEP, i)
            if files and i % seldom == 0:
                r.put("mark", t_ns=i * 10**9 // 4, process=0, kind=GAUGE, source=3, number=int(files(i)), name=SHARED)
        return tidemark("judge", "--json", r.close()).json

    return call


def rising(start, step):
    return lambda i: (start + step * i) * MIB


def level(size):
    return lambda _: size * MIB


def processes_of(verdict):
    return [series for series in verdict["series"] if series["subject"] == "process"]


def test_pages_that_a_process_maps_again_are_no_growth(judged):
    assert judged([(rising(200, 2), level(200))])["verdict"] == "flat"


def test_in_a_recording_without_its_part_all_of_it_is_the_processs(judged):
    verdict = judged([(rising(200, 2), None)])
    assert verdict["verdict"] == "leak"
    assert verdict["bytes_per_step"] == pytest.approx(2 * MIB, rel=0.01)


def test_a_heap_that_is_mapped_three_times_leaks_what_was_read(judged):
    verdict = judged([(rising(200, 3), rising(200, 1))], files=rising(210, 1))
    assert (verdict["verdict"], verdict["subject"]) == ("leak", "process")
    assert verdict["bytes_per_step"] == pytest.approx(MIB, rel=0.01)


def test_memory_that_was_taken_before_may_be_filled(judged):
    assert judged([(rising(200, 3), rising(200, 1))], files=level(500))["verdict"] == "undecided"


def test_each_of_five_that_map_a_segment_has_a_fifth_of_it(judged):
    verdict = judged([(rising(100, 2), rising(20, 0.4))] * 5)
    assert [series["verdict"] for series in processes_of(verdict)] == ["leak"] * 5
    for series in processes_of(verdict):
        assert series["bytes_per_step"] == pytest.approx(0.4 * MIB, rel=0.01)
    tree = next(series for series in verdict["series"] if series["subject"] == "tree")
    assert tree["bytes_per_step"] == pytest.approx(2 * MIB, rel=0.01)


def test_who_stays_does_not_grow_when_others_leave(judged):
    ends = {2: 50, 3: 90, 4: 130}
    sharers = lambda i: 1 + sum(i < end for end in ends.values())
    part = lambda i: 400 * MIB / sharers(i)
    verdict = judged([(level(400), part)] * 4, ends)
    assert verdict["verdict"] in ("flat", "spikes"), verdict["sentence"]
    assert processes_of(verdict)[0]["verdict"] == "flat"


def test_a_job_is_not_level_while_shared_memory_that_was_read_seldom_rises(judged):
    verdict = judged([(level(0), level(0))], files=rising(20, 1), seldom=30)
    assert (verdict["verdict"], verdict["subject"]) == ("undecided", "shared memory")
    assert "shared memory" in verdict["sentence"] and "+180 MiB" in verdict["sentence"], verdict["sentence"]
    assert "would have shown" not in verdict["sentence"]


@pytest.mark.parametrize("size", [level(50), lambda i: 50 * MIB * (i // 30 % 2), rising(20, 0.0001)])
def test_a_job_is_level_if_shared_memory_that_was_read_seldom_does_not_rise(judged, size):
    verdict = judged([(level(0), level(0))], files=size, seldom=30)
    assert (verdict["verdict"], verdict["subject"]) == ("flat", "process"), verdict["sentence"]
