"""Reads a table of live memory as src/channel/heap.h lays it out, for tests of the hook alone.

Not the tracker's reader: it trusts what it reads, and fails loudly where the layout is broken.
"""

import dataclasses
import functools
import pathlib
import struct
import subprocess

HEAD = struct.Struct("<QIIQ40xQQIIII5Q13Q8Q")
SITE = struct.Struct("<IHHIIQIIqqqq")
CODE = struct.Struct("<IIII")
MODULE = struct.Struct("<IIQQQI20sQ")
SITES, FRAMES, CODES, MODULES = 65536, 2097152, 32768, 4096  # the areas hold as many
MAGIC = int.from_bytes(b"tidheap1", "little")
STATES = ["starting", "on", "replaced", "sanitized", "unknown libc", "own new"]
CUDA = ["none", "on", "incomplete", "second"]
PYTHON = ["none", "on", "version", "check"]
KINDS = {1: "malloc", 2: "mmap", 3: "cuda", 4: "pool", 5: "tensor"}
COUNTERS = ["sampled", "dropped_sites", "dropped_pointers", "lost_frees", "nested", "truncated", "python_failed",
            "unwinds", "unwinds_timed", "unwind_ns", "coarsened", "own_bytes", "live_pointers",
            "allocator_readings", "allocator_ns", "allocator_system", "allocator_mapped", "allocator_free", "allocator_pieces",
            "allocator_top", "table_bytes"]


@dataclasses.dataclass
class Module:
    path: str
    base: int
    start: int
    end: int
    build_id: str


@dataclasses.dataclass
class Site:
    kind: str
    truncated: bool
    frames: list  # (address, module or None) or (file, function, line)
    live_bytes: int
    live_blocks: int
    total_bytes: int
    total_blocks: int

    @property
    def python(self):
        return [f for f in self.frames if isinstance(f[0], str)]


class Table:
    """One file, read now."""

    def __init__(self, path):
        data = pathlib.Path(path).read_bytes()
        (magic, self.pid, self.image, self.start, self.exact, self.interval, state, python, self.python_version, cuda, site_count,
         frame_count, code_count, module_count, text_count, *counters) = HEAD.unpack_from(data)
        assert magic == MAGIC
        self.state, self.python, self.cuda = STATES[state], PYTHON[python], CUDA[cuda]
        self.counters = dict(zip(COUNTERS, counters))
        sites_at = 4096
        frames_at = sites_at + SITES * 64
        codes_at = frames_at + FRAMES * 8
        modules_at = codes_at + CODES * 16
        text_at = modules_at + MODULES * 64
        assert site_count <= SITES and frame_count <= FRAMES and text_count <= len(data) - text_at

        def text(at):
            assert at < text_count
            return data[text_at + at:data.index(b"\0", text_at + at)].decode()

        self.modules = []
        for i in range(module_count):
            ready, path, base, start, end, id_bytes, build_id, _ = MODULE.unpack_from(data, modules_at + i * 64)
            assert ready
            self.modules.append(Module(text(path), base, start, end, build_id[:id_bytes].hex()))
        self.codes = []
        for i in range(code_count):
            ready, file, name, line = CODE.unpack_from(data, codes_at + i * 16)
            assert ready
            self.codes.append((text(file), text(name), line))
        self.sites = []
        for i in range(site_count):
            (ready, kind, flags, at, depth, _hash, known, _, *values) = SITE.unpack_from(data, sites_at + i * 64)
            assert ready and 0 < depth <= 128 and at + depth <= frame_count
            words = struct.unpack_from(f"<{depth}Q", data, frames_at + at * 8)
            self.sites.append(Site(KINDS[kind], bool(flags & 1), [self.frame(w, known) for w in words], *values))

    def frame(self, word, known):
        if word >> 63:
            file, name, _ = self.codes[word >> 32 & 0x7fffffff]
            return file, name, word & 0xffffffff
        covering = [m for m in self.modules[:known] if m.start <= word - 1 < m.end]
        covering = covering[-1:] or [m for m in self.modules[known:] if m.start <= word - 1 < m.end]
        return word, covering[0] if covering else None

    def live(self, kind=None):
        return sum(s.live_bytes for s in self.sites if kind in (None, s.kind))


def tables(directory):
    """All tables of a channel directory, by (pid, image)."""
    found = [Table(p) for p in sorted(pathlib.Path(directory).glob("heap-*"))]
    return {(t.pid, t.image): t for t in found}


@functools.cache
def addr2line(*arguments):
    return subprocess.run(["addr2line", "-f", *arguments], capture_output=True, text=True, check=True).stdout


def symbols(path, addresses, *more):
    """Names of the functions at addresses of an ELF file."""
    return addr2line(*more, "-e", path, *addresses).splitlines()[::2]


def family(done, found):
    """The table of the program that was run, and those of its children. Numbers of processes begin again from the lowest, so
    that their order says nothing."""
    parent, = (t for t in found.values() if t.pid == done.pid)
    return parent, [t for t in found.values() if t.pid != done.pid]
