"""Makes recordings for tests, with the schema that docs/RECORDING.md tells users (a unit test holds that to the code)."""

import contextlib
import pathlib
import re
import sqlite3

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs" / "RECORDING.md"
MIB = 1 << 20
SECOND = 10**9
STEP, EPOCH, PHASE_BEGIN, PHASE_END, ITEMS, GAUGE = range(1, 7)


def blocks():
    """The SQL blocks of the document: the schema first, then the example queries."""
    return re.findall(r"^```sql\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)


class Recording:
    """Rows by column name; what is not given is NULL."""

    def __init__(self, path):
        self.path = path
        self.db = sqlite3.connect(path)
        self.db.executescript(blocks()[0] + "PRAGMA application_id = 0x54494445; PRAGMA user_version = 9;")
        self.ticks = 0

    def put(self, table, **row):
        places = ",".join("?" * len(row))
        self.db.execute(f"INSERT INTO {table}({','.join(row)}) VALUES ({places})", list(row.values()))

    def meta(self, **pairs):
        for key, value in pairs.items():
            self.put("meta", key=key, value=value)

    def process(self, pid, name, parent=0, role=None, began=0, ended=None, peak=0, command=""):
        ids = self.db.execute("SELECT count(*) + 1 FROM process").fetchone()[0]
        self.put("process", id=ids, pid=pid, parent=parent, start_ticks=pid, name=name, command=command,
                 role=name if role is None else role, began_ns=int(began * SECOND),
                 ended_ns=None if ended is None else int(ended * SECOND), peak_rss_bytes=peak)
        return ids

    def tick(self, t, anon, counted=None, **more):
        """anon: {process: bytes}."""
        self.ticks += 1
        total = sum(anon.values())
        self.put("tick", id=self.ticks, t_ns=int(t * SECOND), processes=len(anon), rss_bytes=total,
                 counted_bytes=total if counted is None else counted, **more)
        for process, size in anon.items():
            self.put("sample", tick=self.ticks, process=process, anon_bytes=size, file_bytes=0, shmem_bytes=0,
                     swap_bytes=0, huge_bytes=0, threads=1)
        return self.ticks

    def mark(self, t, kind, number=0, name="", process=1):
        self.put("mark", t_ns=int(t * SECOND), process=process, kind=kind, source=1, number=number, name=name)

    def site(self, process, frames, kind=1):
        """frames: innermost first, each {function, file, line, module, offset, python, inlined}; none: many small sites."""
        def count(table):
            return self.db.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {table}").fetchone()[0]

        stack = count("stack") if frames else 0
        for depth, frame in enumerate(frames):
            number = count("frame")
            self.put("frame", id=number, **{"function": "", "file": "", "module": "", "python": 0, "inlined": 0, **frame})
            self.put("stack", id=stack, depth=depth, frame=number)
        number = count("site")
        self.put("site", id=number, process=process, kind=kind, stack=stack)
        return number

    def hold(self, tick, site, size, blocks=1, total=None, total_blocks=None):
        """What a site holds from a tick on."""
        self.put("site_sample", tick=tick, site=site, live_bytes=size, live_blocks=blocks,
                 total_bytes=size if total is None else total, total_blocks=blocks if total_blocks is None else total_blocks)

    def heap(self, process, interval=512 << 10, state="on"):
        self.put("heap_state", process=process, t_ns=0, state=state, interval_bytes=interval)

    def close(self):
        self.db.commit()
        self.db.close()
        return self.path


@contextlib.contextmanager
def being_written(path):
    """Somebody has the recording open, as its tracker has until the end."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("SELECT count(*) FROM meta").fetchone()
        yield db
