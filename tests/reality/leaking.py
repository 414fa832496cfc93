"""Programs that leak, each by another mechanism.

Their sources are in leaks/. They print their steps, one about every tenth of a second, so that what a step loses can be known by what the
code says; the lines that allocate it are marked with the word LEAK.
"""

from __future__ import annotations

import pathlib
import typing

from program import STEP, Program, Rate

HERE = pathlib.Path(__file__).resolve().parent / "leaks"
KIB, MIB = 1 << 10, 1 << 20
# Blocks from here on are mappings of their own: glibc up to 2.37 does not find the holes that aligned blocks leave, and memory
# would grow by more than what is kept.
MAPPED = (("MALLOC_MMAP_THRESHOLD_", str(32 * KIB)),)


def marked(source: str) -> str:
    """Its marked lines, each of which is right."""
    lines = (HERE / source).read_text().splitlines()
    return " or ".join(f"{source}:{number}" for number, line in enumerate(lines, 1) if "LEAK" in line)


def leak(name: str, source: str, command: typing.Union[str, tuple[str, ...]], mechanism: str, step: typing.Optional[float], **more) -> Program:
    return Program(name, command, leaks=True, mechanism=mechanism, rate=Rate(step, STEP) if step else None, **{"line": marked(source), **more})


def script(source: str, mechanism: str, step: typing.Optional[float], pip: tuple[str, ...] = (), **more) -> Program:
    """One in Python."""
    return leak(source[: -len(".py")], source, ("{python}", str(HERE / source), "{seconds}"), mechanism, step, pip=pip, **more)


def native(source: str, mechanism: str, step: typing.Optional[float], libraries: str = "", needs: tuple[str, ...] = (), name: str = "", **more) -> Program:
    """One in C or C++."""
    compiler = "c++" if source.endswith(".cpp") else "cc"
    build = f"{compiler} -g -O1 -o program {HERE / source} {libraries}"
    return leak(name or source.partition(".")[0], source, ("{work}/program", "{seconds}"), mechanism, step, prepare=build, needs=needs, **more)


def java(source: str, mechanism: str, step: float, *options: str, name: str = "") -> Program:
    """With a small nursery, so that a minute holds many collections. What regions, cards and threads add was measured beside it."""
    main = source[: -len(".java")]
    return leak(f"java-{name or main}", source, ("java", *options, "-cp", "{work}", main, "{seconds}"), mechanism, step,
                prepare=f"javac -d . {HERE / source}", needs=("default-jdk-headless",), seconds=60)


def golang(source: str, mechanism: str, step: float) -> Program:
    """Programs that make system calls by themselves: the hook sees nothing of them."""
    return leak(f"go-{source[:-3]}", source, ("{work}/program", "{seconds}"), mechanism, step,
                prepare=f"GOCACHE=$PWD/cache go build -o program {HERE / source}", needs=("golang-go",))


def other(interpreter: str, source: str, mechanism: str, step: float, package: str) -> Program:
    return leak(f"{interpreter}-{source.partition('.')[0]}", source, (interpreter, str(HERE / source), "{seconds}"), mechanism, step, needs=(package,))


TORCH = [
    script("loss_graph.py", "a running loss with its graph", 2 * 256 * KIB, ("torch",), environment=MAPPED),
    script("hidden_state.py", "a recurrent state that is not detached", 2 * 128 * KIB, ("torch",), environment=MAPPED),
    script("outputs_kept.py", "predictions in a list", 256 * KIB, ("torch",), environment=MAPPED),
    script("forward_hooks.py", "hooks that are never removed", 256 * KIB, ("torch",), environment=MAPPED),
    script("param_groups.py", "parameter groups that are added", 4 * 64 * KIB, ("torch",), environment=MAPPED),
    script("dataset_cache.py", "a dataset's cache in each of two workers", 4 * 36 * KIB, ("torch",), environment=MAPPED),
    script("iterable_list.py", "a list in a worker", 2 * 128 * KIB, ("torch",), environment=MAPPED),
    leak("ddp_rank", "ddp_rank.py", ("{python}", str(HERE / "ddp_rank.py"), "{seconds}", "{port}"), "one rank of two", 256 * KIB, pip=("torch",), environment=MAPPED),
    script("trainer_callback.py", "logits that a Trainer keeps", 4 * 64 * 512 * 4, ("torch", "transformers", "accelerate"), environment=MAPPED),
    script("lightning_outputs.py", "outputs that a module keeps", 256 * KIB, ("torch", "lightning"), environment=MAPPED),
]
PYTHON = [
    script("lru_cache.py", "a cache without a bound", 192_000, ("numpy",)),
    script("numpy_global.py", "arrays in a list of the module", MIB, ("numpy",)),
    script("small_objects.py", "many small objects", 137_600),
    script("pandas_concat.py", "a table that is copied and grows", 256 * KIB, ("pandas",)),
    script("models_kept.py", "fitted models with their data", 272_000, ("scikit-learn",)),
    script("figures.py", "figures that are not closed", 1_920_000, ("matplotlib",)),
    script("log_records.py", "log records with their arguments", 256 * KIB, ("numpy",)),
    script("log_handlers.py", "log handlers that are added anew", 5_850, seconds=60),
    script("threads_wait.py", "threads that wait for ever", 276 * KIB),  # 20 KiB of stack among them
    script("tasks.py", "asyncio tasks that wait for ever", 128 * KIB),
    script("cycles.py", "cycles without a collector", 200_000),
    script("ctypes_malloc.py", "malloc by ctypes", 200_000),
    script("mmap_kept.py", "mappings that are not closed", 384 * KIB),
    script("shared_memory.py", "shared memory that is not unlinked", 256 * KIB, line=""),
    script("memfds.py", "files in memory that stay open", 256 * KIB, line=""),
    script("tmpfs_files.py", "temporary files on a memory file system", 256 * KIB, line=""),
    script("pool_workers.py", "a pool's worker", 2 * 128 * KIB),
    script("parent_only.py", "a pool's parent", 256 * KIB, line="_handle_results"),  # the thread that receives them
    script("copy_on_write.py", "pages that a forked worker un-shares", 400 * 272, seconds=60),
    # twelve fit into a segment of mimalloc, whose memory was mapped long before
    script("arrow_tables.py", "tables in a library's own pool", 4 * MIB / 12, ("pyarrow",), line=""),
    script("tokenizers_gone.py", "a cache of each tokenizer that there was", 340_600, ("tokenizers",)),
    script("slow.py", "a slow leak beside much memory", 16 * KIB, ("numpy",)),
    script("stairs.py", "a leak in stairs", 256 * KIB, ("numpy",)),
    script("sawtooth.py", "a leak below a sawtooth", 128 * KIB, ("numpy",), environment=MAPPED),
]
NATIVE = [
    native("no_free.c", "malloc without free", 200_000),
    native("no_free.c", "malloc of jemalloc", 200_000, "-ljemalloc", ("libjemalloc-dev",), name="jemalloc"),
    native("no_free.c", "malloc of tcmalloc", 200_000, "-ltcmalloc_minimal", ("libgoogle-perftools-dev",), name="tcmalloc"),
    # its own operator new, of which the hook sees nothing
    native("shared_cycle.cpp", "new of tcmalloc", 128 * KIB, "-ltcmalloc_minimal", ("libgoogle-perftools-dev",), name="tcmalloc-new", line=""),
    native("small_nodes.c", "small nodes of a list", 2500 * 80),
    native("realloc_grows.c", "realloc that grows", 150_000),
    native("shared_cycle.cpp", "a cycle of shared_ptr", 128 * KIB),
    native("vector_doubles.cpp", "a vector that doubles", 200_000),
    native("map_grows.cpp", "a map of strings", 50 * 4100),
    native("glib_objects.c", "GObject references", 150_000, "$(pkg-config --cflags --libs gio-2.0)", ("libglib2.0-dev", "pkg-config")),
    native("sqlite_statements.c", "statements that are not finalized", 104_000, "-lsqlite3", ("libsqlite3-dev",)),
    native("curl_handles.c", "curl handles", 156_000, "-lcurl", ("libcurl4-openssl-dev",)),
    native("xml_documents.c", "XML documents", 200_000, "$(pkg-config --cflags --libs libxml-2.0)", ("libxml2-dev", "pkg-config")),
    native("ssl_contexts.c", "TLS contexts", 219_300, "-lssl -lcrypto", ("libssl-dev",)),
    native("zlib_streams.c", "zlib streams", 268_000, "-lz", ("zlib1g-dev",)),
    native("no_munmap.c", "mmap without munmap", 256 * KIB),
    native("no_join.c", "threads that are not joined", 24_860, "-lpthread", line=""),  # stacks are glibc's own mappings
    leak("rust-forget", "forget.rs", ("{work}/program", "{seconds}"), "a cycle of Rc", 2 * 128 * KIB,
         prepare=f"rustc -g -o program {HERE / 'forget.rs'}", needs=("rustc",)),
]
RUNTIMES = [
    java("StaticList.java", "a static list", 1.14 * MIB, "-Xmn16m", "-XX:+UseG1GC"),
    # what 31 arrays leave of a page of ZGC's is not touched
    java("StaticList.java", "a static list of ZGC's heap", MIB, "-Xms16m", "-XX:+UseZGC", name="zgc-StaticList"),
    java("Listeners.java", "listeners that are never removed", MIB, "-Xmn16m", "-XX:+UseSerialGC"),
    java("ThreadLocals.java", "thread locals", 1.1 * MIB, "-Xmn16m", "-XX:+UseParallelGC"),
    golang("slice.go", "a slice of the package", 256 * KIB),
    golang("goroutines.go", "goroutines that wait for ever", 4 * 69 * KIB),
    other("node", "closures.js", "closures of listeners", 256 * KIB, "nodejs"),
    other("node", "array.js", "objects of the V8 heap", 4000 * 312, "nodejs"),
    other("node", "timers.js", "timers that are never cleared", 256 * KIB, "nodejs"),
    other("ruby", "global.rb", "a global array", 256 * KIB, "ruby"),
    other("php", "registry.php", "a static registry", 256 * KIB, "php-cli"),
    other("perl", "cycles.pl", "cycles of references", 200_000, "perl"),
    other("Rscript", "list.R", "a list of vectors", MIB, "r-base-core"),
    leak("lua-table", "table.lua", ("lua5.4", str(HERE / "table.lua"), "{seconds}"), "a table", 20 * 12_830, needs=("lua5.4", "lua-socket")),
    leak("redis-keys", "redis_keys.py", "exec redis-server --port {port} --save '' --appendonly no", "keys without an expiry", 4 * 64 * KIB,
         load=f"sleep 1; {{python}} {HERE / 'redis_keys.py'} {{seconds}} {{port}}", needs=("redis-server",), line=""),
]
PROGRAMS = [*TORCH, *PYTHON, *NATIVE, *RUNTIMES]
