"""Programs that do not leak, from Debian and PyPI, under load."""

from __future__ import annotations

import typing

from program import Program

REPEAT, ASK = "{drivers}/repeat {seconds}", "{drivers}/ask {seconds} http://127.0.0.1:{port}"
AB = ("apache2-utils",)
POSTGRES = "setpriv --reuid=postgres --regid=postgres --clear-groups env HOME={work}"
# A repository with a history: 120 commits of files that change.
REPOSITORY = """
git init -q repository && cd repository && git config user.name t && git config user.email t@example.org && git config gc.auto 0
for turn in $(seq 120); do
    for file in $(seq 20); do seq $((turn * file)) $((turn * file + 400)) > file$file; done
    git add . && git commit -qm "turn $turn"
done
"""


def program(name: str, command: typing.Union[str, tuple[str, ...]], **more: typing.Any) -> Program:
    """Long enough to be past its start, short enough that all take an hour."""
    return Program(name, command, **{"seconds": 25, **more})


def python(name: str, *arguments: typing.Any, packages: tuple[str, ...] = (), called: str = "", **more: typing.Any) -> Program:
    """A driver in Python: its first argument is the seconds."""
    words = ("{python}", "{drivers}/" + name + ".py", "{seconds}", *map(str, arguments))
    return program(called or name, words, pip=packages, **more)


def server(name: str, command: str, path: str = "/", **more: typing.Any) -> Program:
    """Something that is asked for a page by four clients."""
    return program(name, f"exec {command}", load=ASK + path, needs=more.pop("needs", ()) + AB, **more)


def repeat(name: str, command: str, **more: typing.Any) -> Program:
    """A program that is done soon, and is therefore run again and again."""
    return program(name, f"exec {REPEAT} {command}", **more)


def java(collector: str) -> Program:
    return program(f"java-{collector.lower()}", ("java", f"-XX:+Use{collector}", "-Xmx256m", "-cp", "{work}", "Churn", "{seconds}"),
                   prepare="javac -d . {drivers}/Churn.java", needs=("openjdk-17-jdk-headless",))


COMPILERS = [
    repeat("gcc", "gcc -O2 -c big.c", prepare="/usr/bin/python3 {drivers}/source.py > big.c", needs=("gcc",)),
    repeat("g++", "g++ -O1 -c {drivers}/regex.cc", needs=("g++",)),
    repeat("clang", "clang -O2 -c big.c", prepare="/usr/bin/python3 {drivers}/source.py > big.c", needs=("clang",)),
    program("make-j2", "exec {drivers}/repeat {seconds} make -B -j2 -s", needs=("make", "gcc"),
            prepare="for i in $(seq 20); do /usr/bin/python3 {drivers}/source.py 40 > u$i.c; done; printf 'all: $(patsubst %%.c,%%.o,$(wildcard u*.c))\\n' > Makefile"),
    repeat("go-build", "go build -a -p 1 -o churn churn.go", prepare="cp {drivers}/churn.go .", needs=("golang-go",), heap=False,
           environment=(("GOCACHE", "/tmp/tidemark-reality-go"), ("GOFLAGS", "-mod=mod"), ("GO111MODULE", "off"))),
    repeat("ghc", "ghc -O1 -fforce-recomp sum.hs", prepare="cp {drivers}/sum.hs .", needs=("ghc",)),
    repeat("javac", "javac -d . {drivers}/Churn.java", needs=("openjdk-17-jdk-headless",)),
    repeat("cppcheck", "cppcheck -q --enable=all big.c", prepare="/usr/bin/python3 {drivers}/source.py 60 > big.c", needs=("cppcheck",)),
]

FILES = [
    repeat("sort", "sort -S 100M -o sorted numbers", prepare="seq 1 1000000 | shuf > numbers", needs=("coreutils",)),
    program("xz", "exec timeout {seconds} xz -6 -c /dev/urandom > out.xz", needs=("xz-utils",)),
    repeat("zstd", "zstd -q -f -15 numbers", prepare="seq 1 800000 | shuf > numbers", needs=("zstd",)),
    repeat("bzip2", "bzip2 -k -f numbers", prepare="seq 1 500000 | shuf > numbers", needs=("bzip2",)),
    repeat("tar", "tar -czf out.tar.gz /usr/share/perl", needs=("tar", "perl")),
    repeat("rsync", "sh -c 'rm -rf copy && rsync -a /usr/share/perl/ copy/'", needs=("rsync", "perl")),
    repeat("gawk", "gawk '{ seen[$1 % 5000] += $1 } END { for (k in seen) n++; print n }' numbers", prepare="seq 1 1000000 > numbers", needs=("gawk",)),
    repeat("jq", "jq -c 'map(.value) | add' rows.json", prepare="/usr/bin/python3 -c 'import json; print(json.dumps([dict(value=i) for i in range(100000)]))' > rows.json",
           needs=("jq", "python3")),
    repeat("git-gc", "git -C repository gc -q --aggressive", prepare=REPOSITORY, needs=("git",)),
    repeat("git-clone", "sh -c 'rm -rf copy && git clone -q --no-local repository copy && git -C copy log -p > log'", prepare=REPOSITORY, needs=("git",)),
    program("ffmpeg", "exec timeout {seconds} ffmpeg -nostdin -v error -y -f lavfi -i testsrc2=size=640x360:rate=30 -threads 2 -c:v libx264 -preset veryfast -f null -", needs=("ffmpeg",)),
    repeat("imagemagick", "convert -size 800x600 plasma:red-blue -blur 0x3 -rotate 17 -resize 50% out.png", needs=("imagemagick",)),
    program("openssl", "exec timeout {seconds} openssl speed -seconds 3 sha256 rsa2048 aes-256-cbc", needs=("openssl",)),
]

SERVERS = [
    program("sqlite", "exec timeout {seconds} sh -c '(echo \"create table t (i integer primary key, v text);\"; i=0; while :; do i=$((i + 1)); "
            "echo \"begin; insert or replace into t values ($i % 20000, hex(randomblob(50))); commit;\"; done) | sqlite3 base.db'", needs=("sqlite3",)),
    program("redis", "exec redis-server --port {port} --save '' --dir {work}", needs=("redis-server", "redis-tools"),
            load="end=$(($(date +%s) + {seconds})); sleep 1; while [ $(date +%s) -lt $end ]; do redis-benchmark -p {port} -q -n 50000 -r 10000 -t set,get,lpush,lpop,hset; done"),
    program("memcached", "exec memcached -u nobody -l 127.0.0.1 -p {port} -m 64", needs=("memcached", "python3"),
            load="exec /usr/bin/python3 {drivers}/ask_memcached.py {seconds} {port}"),
    server("nginx", "nginx -p {work} -c {work}/nginx.conf", prepare="mkdir -p html && seq 2000 > html/index.html && echo \"daemon off; worker_processes 2; pid {work}/pid; "
           "error_log stderr; events { } http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s; "
           "server { listen 127.0.0.1:{port}; root {work}/html; } }\" > nginx.conf && chmod -R a+rX .", needs=("nginx-light",)),
    program("postgres", f"exec {POSTGRES} $(ls -d /usr/lib/postgresql/*/bin)/postgres -D data -p {{port}} -k {{work}} -c listen_addresses= -c shared_buffers=32MB -c fsync=off",
            prepare=f"chmod 777 . && {POSTGRES} $(ls -d /usr/lib/postgresql/*/bin)/initdb -D data > /dev/null", needs=("postgresql",),
            load="bin=$(ls -d /usr/lib/postgresql/*/bin); until $bin/pg_isready -q -h {work} -p {port}; do sleep 0.2; done; "
            "$bin/pgbench -i -q -U postgres -h {work} -p {port} postgres && exec $bin/pgbench -U postgres -h {work} -p {port} -c 4 -T {seconds} postgres"),
    server("python-http", "/usr/bin/python3 -m http.server -b 127.0.0.1 {port}", prepare="seq 2000 > index.html", needs=("python3",)),
    server("node-http", "node {drivers}/server.js {port}", needs=("nodejs",)),
    server("php-http", "php -S 127.0.0.1:{port} {drivers}/page.php", needs=("php-cli",)),
    server("gunicorn-flask", "{python} -m gunicorn -w 2 -b 127.0.0.1:{port} --chdir {drivers} flask_app:app", pip=("gunicorn", "flask")),
    server("uvicorn-fastapi", "{python} -m uvicorn --log-level warning --port {port} --app-dir {drivers} fastapi_app:app", pip=("uvicorn", "fastapi")),
]

LANGUAGES = [
    java("SerialGC"), java("ParallelGC"), java("G1GC"), java("ZGC"),
    program("node", ("node", "{drivers}/churn.js", "{seconds}"), needs=("nodejs",)),
    program("go", ("./churn", "{seconds}"), prepare="go build -o churn {drivers}/churn.go", needs=("golang-go",), heap=False,
            environment=(("GOCACHE", "/tmp/tidemark-reality-go"), ("GO111MODULE", "off"))),
    program("haskell", ("./sum", "{seconds}"), prepare="cp {drivers}/sum.hs . && ghc -O1 sum.hs > /dev/null", needs=("ghc",)),
    program("ocaml", ("./churn", "{seconds}"), prepare="cp {drivers}/churn.ml . && ocamlopt -I +unix unix.cmxa churn.ml -o churn",
            needs=("ocaml-nox",)),
    program("r", ("Rscript", "{drivers}/models.R", "{seconds}"), needs=("r-base-core",)),
    program("ruby", ("ruby", "{drivers}/churn.rb", "{seconds}"), needs=("ruby",)),
    program("php", ("php", "{drivers}/churn.php", "{seconds}"), needs=("php-cli",)),
    program("perl", ("perl", "{drivers}/churn.pl", "{seconds}"), needs=("perl",)),
    program("lua", ("lua5.4", "{drivers}/churn.lua", "{seconds}"), needs=("lua5.4",)),
    program("qemu-user", ("qemu-x86_64", "/usr/bin/perl", "{drivers}/churn.pl", "{seconds}"), needs=("qemu-user", "perl")),
]

LIBRARIES = [
    python("numpy_products", packages=("numpy",)),
    python("scipy_sparse", packages=("scipy",)),
    python("sklearn_forest", 1, packages=("scikit-learn",)),
    python("sklearn_forest", 2, packages=("scikit-learn",), called="sklearn_forest-2"),
    python("lightgbm_boost", packages=("lightgbm", "scikit-learn"), threads=2),
    python("xgboost_boost", packages=("xgboost", "scikit-learn"), threads=2),
    python("polars_queries", packages=("polars", "numpy")),
    python("pandas_frames", packages=("pandas",)),
    python("arrow_churn", packages=("pyarrow",)),
    python("duckdb_queries", packages=("duckdb",)),
    python("numba_loops", packages=("numba",)),
    python("jax_train", packages=("jax",)),
    python("pillow_images", packages=("pillow",)),
    python("opencv_frames", packages=("opencv-python-headless",)),
    python("sqlalchemy_rows", packages=("sqlalchemy",)),
    python("tokenizer_train", packages=("tokenizers",)),
    python("pool_tasks", 0),
    python("pool_tasks", 4, called="pool_tasks-replaced"),
    python("thread_pool"),
    repeat("nbconvert", "{python} -m nbconvert --to html --execute --output-dir out book.ipynb", prepare="{python} {drivers}/notebook.py book.ipynb",
           pip=("nbconvert", "ipykernel", "numpy"), seconds=40),
    repeat("mypy", "{python} -m mypy --no-incremental --ignore-missing-imports {drivers}/pace.py {drivers}/thread_pool.py", pip=("mypy",)),
    repeat("black", "sh -c '{python} -m black -q --fast - < /usr/lib/python3.11/argparse.py > out.py'", pip=("black",)),
]

TRAINING = [
    python("torch_loop", 0, called="torch-0", seconds=60),
    python("torch_loop", 2, called="torch-2", seconds=60),
    python("torch_loop", 4, called="torch-4", seconds=60),
    python("torch_loop", 2, "persistent", called="torch-2-persistent", seconds=60),
    python("torch_loop", 4, "persistent", called="torch-4-persistent", seconds=60),
    program("torch-ddp", ("{python}", "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-port={port}", "{drivers}/torch_ddp.py", "{seconds}"), seconds=60),
    python("torch_hogwild", seconds=60),
    python("hf_trainer", 0, packages=("transformers", "accelerate"), seconds=60),
    python("hf_trainer", 2, packages=("transformers", "accelerate"), called="hf_trainer-2", seconds=60),
    python("lightning_fit", packages=("lightning",), seconds=60),
]

PROGRAMS = COMPILERS + FILES + SERVERS + LANGUAGES + LIBRARIES + TRAINING
