"""What a verdict costs when a run is long and when many processes came and went: processor seconds and memory of `judge`.

The bounds are many times what it takes and a fraction of what it took when something was searched from the beginning for
every row, so that neither a busy machine nor a slow one fails them. `make bench-scale` measures.
"""

import re

import pytest
from measured import measured
from recording import GAUGE, MIB, SECOND, STEP, Recording

pytestmark = pytest.mark.unsanitized  # a sanitizer takes memory and time of its own

LOOKS_PER_SECOND = 4
DAY = 24 * 3600 * LOOKS_PER_SECOND


@pytest.fixture
def judge(binary, plain_env, tmp_path):
    """(exit code, output, processor seconds, peak memory in MiB) of `tidemark judge`, or of another command."""
    def run(path, *command):
        return measured([binary, *(command or ["judge"]), path], plain_env)
    return run


def looks(recording, count, level, smaps=False):
    """`count` looks at process 1, with what `level` says of each; a step every two seconds."""
    db = recording.db
    db.executemany("INSERT INTO tick(id, t_ns, processes, rss_bytes, counted_bytes, pss_known_bytes) VALUES (?, ?, 1, ?, ?, ?)",
                   ((i + 1, i * SECOND // LOOKS_PER_SECOND, level(i), level(i), level(i)) for i in range(count)))
    db.executemany("INSERT INTO sample(tick, process, anon_bytes, file_bytes, shmem_bytes, swap_bytes, huge_bytes, threads)"
                   " VALUES (?, 1, ?, 0, 0, 0, 0, 1)", ((i + 1, level(i)) for i in range(count)))
    if smaps:
        db.executemany("INSERT INTO smaps(tick, process, pss_bytes, uss_bytes, swap_pss_bytes, cost_ns) VALUES (?, 1, ?, ?, 0, 0)",
                       ((i + 1, level(i) + MIB, level(i)) for i in range(count)))
    db.executemany(f"INSERT INTO mark(t_ns, process, kind, source, number, name) VALUES (?, 1, {STEP}, 1, ?, '')",
                   ((i * SECOND // LOOKS_PER_SECOND, i // 8) for i in range(0, count, 8)))


def helpers(recording, count, role, looks_each=4):
    """Processes that live for a few looks each, one after the other, and are read once."""
    db = recording.db
    began = [DAY * i // count for i in range(count)]
    db.executemany("INSERT INTO process(id, pid, parent, start_ticks, name, command, role, began_ns, ended_ns, peak_rss_bytes)"
                   " VALUES (?, ?, 1, ?, 'helper', 'helper --once', ?, ?, ?, ?)",
                   ((i + 2, 1000 + i, i, role(i), at * SECOND // LOOKS_PER_SECOND,
                     (at + looks_each) * SECOND // LOOKS_PER_SECOND, 40 * MIB) for i, at in enumerate(began)))
    rows = sorted((at + k + 1, i + 2, (30 + k + i % 5) * MIB) for i, at in enumerate(began) for k in range(looks_each))
    rows = [row for row in rows if row[0] <= DAY]
    db.executemany("INSERT INTO sample(tick, process, anon_bytes, file_bytes, shmem_bytes, swap_bytes, huge_bytes, threads)"
                   " VALUES (?, ?, ?, 0, 0, 0, 0, 1)", rows)
    db.executemany("INSERT INTO smaps(tick, process, pss_bytes, uss_bytes, swap_pss_bytes, cost_ns) VALUES (?, ?, ?, 0, 0, 0)",
                   rows[::2])


def leak(i):
    return 200 * MIB + i * 2048 + i % 7 * 4096


def says_leak(said):
    rate = re.search(r"LEAK in python\[100\].*: ([0-9.]+) KiB per step", said, re.S)
    return rate and abs(float(rate[1]) - 16) < 0.01


def test_a_day_of_one_process_that_is_read_at_every_look_is_judged_in_seconds(judge, tmp_path):
    recording = Recording(tmp_path / "day.tide")
    recording.process(100, "python")
    looks(recording, DAY, leak, smaps=True)
    code, said, seconds, _ = judge(recording.close())
    assert code == 1 and says_leak(said)
    assert seconds < 10


def test_a_hundred_thousand_processes_of_two_roles_fit_into_300_mib(judge, tmp_path):
    recording = Recording(tmp_path / "seen.tide")
    recording.process(100, "python")
    looks(recording, DAY, leak)
    helpers(recording, 100_000, lambda i: ("compiler", "helper")[i % 2])
    code, said, seconds, mib = judge(recording.close())
    assert code == 1 and says_leak(said)
    assert mib < 300 and seconds < 30


@pytest.mark.long  # the one before shows the size, with two roles
def test_a_hundred_thousand_processes_of_as_many_roles_are_judged_in_seconds(judge, tmp_path):
    recording = Recording(tmp_path / "roles.tide")
    recording.process(100, "python")
    looks(recording, DAY, leak)
    helpers(recording, 100_000, lambda i: f"helper {i // 2}")
    code, said, seconds, mib = judge(recording.close())
    assert code == 1 and says_leak(said)
    assert mib < 300 and seconds < 30


def test_a_hundred_thousand_siblings_at_once_are_judged_in_seconds(judge, tmp_path):
    recording = Recording(tmp_path / "siblings.tide")
    recording.process(100, "python", ended=14400)
    looks(recording, 14400, leak)
    recording.db.executemany("INSERT INTO process(id, pid, parent, start_ticks, name, command, role, began_ns, ended_ns, peak_rss_bytes) "
                             f"VALUES (?, ?, 1, ?, 'helper', '', 'helper', ?, {14400 * SECOND}, {MIB})",
                             ((i + 2, i + 101, i + 101, i) for i in range(100_000)))
    code, said, seconds, _ = judge(recording.close())
    assert code == 1 and says_leak(said)
    assert seconds < 3


def test_twenty_thousand_gauges_are_judged_in_seconds(judge, tmp_path):
    recording = Recording(tmp_path / "gauges.tide")
    recording.process(100, "python")
    looks(recording, 14400, leak)
    recording.db.executemany(f"INSERT INTO mark(t_ns, process, kind, source, number, name) VALUES (?, 1, {GAUGE}, 1, ?, ?)",
                             ((k * 400 * SECOND + i, MIB, f"gauge {i}") for k in range(8) for i in range(20_000)))
    code, said, seconds, _ = judge(recording.close())
    assert code == 1 and says_leak(said)
    assert "gauge" in said and seconds < 10


def test_of_many_limits_the_lowest_that_still_applies_is_found(judge, tmp_path):
    recording = Recording(tmp_path / "limits.tide")
    recording.process(100, "python")
    looks(recording, 14400, leak)
    recording.db.executemany('INSERT INTO memory_limit(t_ns, name, bytes) VALUES (?, ?, ?)',
                             ((i, f"cgroup /job{i % 60_000} memory.max", (1 << 40) - i if i >= 60_000 else 1 << 30)
                              for i in (*range(1_000), *range(60_000, 120_000))))
    path = recording.close()
    code, said, seconds, _ = judge(path)
    assert code == 1 and "cgroup /job59999 memory.max" in said
    assert seconds < 3
    code, said, seconds, _ = judge(path, "export", "--format", "openmetrics")
    told = re.findall(r'tidemark_limit_bytes\{limit="cgroup /job(\d+) memory.max"\} (\d+)', said)
    assert code == 0 and [(int(n), int(b)) for n, b in told] == [(i, (1 << 40) - 60_000 - i) for i in range(60_000)]
    assert seconds < 2


def test_a_death_at_one_of_many_limits_is_told_in_seconds(judge, tmp_path):
    recording = Recording(tmp_path / "death.tide")
    recording.process(100, "python", ended=3600)
    looks(recording, 14400, leak)
    recording.db.executemany("INSERT INTO memory_limit(t_ns, name, bytes) VALUES (?, ?, ?)",
                             ((i, f"cgroup /job{i}", 230 * MIB) for i in range(60_000)))
    recording.db.execute(f"INSERT INTO note(t_ns, text, kills) VALUES ({3600 * SECOND}, 'the kernel killed 1 process', 1)")
    _, said, seconds, _ = judge(recording.close())
    assert re.search(r"^tidemark: KILLED by the OOM killer: .*, at the limit of 230 MiB \(cgroup /job59999\)$", said, re.M), said
    assert seconds < 2


def test_sites_of_a_hundred_thousand_processes_are_named_in_seconds(judge, tmp_path):
    recording = Recording(tmp_path / "sites.tide")
    recording.process(100, "python")
    looks(recording, 400, leak)
    helpers(recording, 100_000, lambda i: "helper", looks_each=1)
    recording.db.execute("UPDATE process SET began_ns = 0, ended_ns = NULL")
    recording.hold(1, recording.site(1, [{"function": "keep"}]), MIB)
    recording.db.executemany("INSERT INTO site(id, process, kind, stack) VALUES (?, ?, 1, 1)", ((i, i) for i in range(2, 100_001)))
    recording.db.executemany("INSERT INTO site_sample(tick, site, live_bytes, live_blocks) VALUES (1, ?, 4096, 1)",
                             ((i,) for i in range(2, 100_001)))
    code, said, seconds, _ = judge(recording.close(), "export", "--format", "collapsed")
    assert code == 0 and len(said.splitlines()) == 100_000 and "helper 99998[100998];keep 4096" in said
    assert seconds < 20
