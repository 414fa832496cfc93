# The front door. `make demo`, `make check`, `make bench`, `make install`; docs/ARCHITECTURE.md says what is where.
#
# FLAVOUR picks compiler flags and the directory: release (default), debug, asan, tsan, fuzz.

FLAVOUR ?= release
CC      ?= cc
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc)
B       := build/$(FLAVOUR)
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' python/tidemark/__init__.py)
SOVERSION := 0

ifeq ($(FLAVOUR),fuzz)
CC := clang
endif
# gcc's own warning, whose name clang does not know.
GCC_WARN := $(if $(findstring clang,$(shell $(CC) --version 2>/dev/null)),,-Wno-format-truncation)
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith $(GCC_WARN) $(if $(CI),-Werror)
CPPFLAGS += -D_GNU_SOURCE -DTIDE_VERSION='"$(VERSION)"' -Isrc -Iinclude -Itests/corpus
# What ships notices a buffer or a stack that is written over, and nothing can be written where its calls go through.
HARDENED      := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
HARDENED_LINK := -Wl,-z,relro,-z,now
# Functions and lines: what a backtrace needs. Variables would take half as long again to compile.
CFLAGS_release := -O2 -g1 $(HARDENED)
CFLAGS_debug   := -O0 -g
# Undefined behaviour ends in a trap, which the address sanitizer reports with its stack (handle_sigill in tools/check):
# sentences about each place would be 10 MB of data, which every start loads and every search for leaks reads.
CFLAGS_asan    := -O1 -g1 -fsanitize=address,undefined -fsanitize-undefined-trap-on-error -fno-omit-frame-pointer
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
CFLAGS  += -std=c11 -fPIC $(CFLAGS_$(FLAVOUR)) $(WARN)
LDFLAGS += $(if $(filter release,$(FLAVOUR)),$(HARDENED_LINK))
# At a fixed address a program with sanitizers has no relocations: they are 9 MB, and a quarter of each start.
FIXED   := $(if $(filter asan,$(FLAVOUR)),-no-pie)
# Programs of tests, of which there are a hundred, are linked by what is there that does so in a third of the time.
TEST_LINK := $(if $(shell command -v ld.gold),-fuse-ld=gold)
LIBS     = -lsqlite3 -ljansson -lpcre2-8 -lutf8proc -ldw -lelf -lz -lncursesw -ltinfo -lpthread -ldl -lm

# Everything but main.c is two archives, so that tests link what they need.
LAYERS  := base record channel sense judge plan assess show/text term show/screen show/report show/export rt rt/cpu game train play
LIB_SRC := $(sort $(foreach layer,$(LAYERS),$(wildcard src/$(layer)/*.c)))
CLI_SRC := $(filter-out src/cli/main.c,$(sort $(wildcard src/cli/*.c)))
# What a program under observation links: the writing end of the channel and nothing else.
MARK_SRC := src/channel/mark.c src/channel/file.c
# What is preloaded into a program under observation.
HOOK_SRC := $(sort $(wildcard src/hook/*.c)) src/channel/file.c
objects = $(patsubst %.c,$(B)/%.o,$(1))
hook_objects = $(patsubst src/%.c,$(B)/hook/%.o,$(1))
CORE    := $(B)/libcli.a $(B)/libhook.a $(B)/libcore.a
# The page of `tidemark report` draws with d3, which comes from Debian (tools/setup) and is not in the tree.
D3         ?= /usr/share/nodejs/d3/dist/d3.min.js
D3_LICENCE ?= /usr/share/doc/node-d3/copyright
ASSETS     := $(B)/assets
# Labelled series and solved games, which tests and benchmarks share.
CORPUS_SRC := $(sort $(wildcard tests/corpus/*.c))
CORPUS  := $(if $(CORPUS_SRC),$(B)/libcorpus.a)

UNIT      := $(patsubst tests/unit/%.c,$(B)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))
FUZZERS   := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
WORKLOADS := $(patsubst tests/workloads/%.c,$(B)/workloads/%,$(sort $(wildcard tests/workloads/*.c)))
HOOK_TARGETS := $(patsubst tests/hook/%.c,$(B)/hook-targets/%,$(sort $(wildcard tests/hook/*.c))) \
             $(if $(shell command -v $(CXX)),$(patsubst tests/hook/%.cc,$(B)/hook-targets/%,$(sort $(wildcard tests/hook/*.cc))))
CASES     := $(B)/cases/001/train
HEAP_LOADS := $(patsubst bench/heap/%.c,$(B)/heap-loads/%,$(sort $(wildcard bench/heap/*.c)))
BENCHES   := $(patsubst bench/%.c,$(B)/bench/%,$(sort $(wildcard bench/*.c)))

.PHONY: all build test-programs benches setup demo check check-long check-unit check-cli check-fuzz check-sanitizers check-python check-reality \
        lint lint-format lint-layers lint-cppcheck lint-shell lint-clang format fuzz FORCE \
        cases cases-docs bench bench-judge bench-sense bench-record bench-marks bench-scale bench-overhead bench-unwind bench-heap bench-python bench-threads bench-train bench-optimizer bench-search bench-generate bench-losses bench-grpo bench-selfplay docs manuals pictures install uninstall wheel clean
.SECONDARY:
all: build

PROGRAMS  := $(addprefix $(B)/,tidemark libtidemark.so libtidemark.a libtidemark-hook.so)
build: $(PROGRAMS) $(WORKLOADS) $(HOOK_TARGETS) $(CASES)
test-programs: $(UNIT) $(FUZZERS)
benches: $(BENCHES) $(HEAP_LOADS)

# ---- programs and libraries

# Objects of other flags, or of another version, are made anew.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION) $(CFLAGS_$(FLAVOUR)) $(HARDENED)' | cmp -s - $@ || echo '$(VERSION) $(CFLAGS_$(FLAVOUR)) $(HARDENED)' > $@
FORCE:

$(B)/libcore.a: $(call objects,$(LIB_SRC)) $(B)/src/show/report/assets.o
$(B)/libcli.a: $(call objects,$(CLI_SRC))
$(B)/libcorpus.a: $(call objects,$(CORPUS_SRC))
# The hook's parts, for tests and benchmarks: the objects that ship, or with a sanitizer what it can look into.
HOOK_PARTS := $(filter-out src/hook/interpose%.c src/channel/%.c,$(HOOK_SRC))
$(B)/libhook.a: $(if $(filter release,$(FLAVOUR)),$(call hook_objects,$(HOOK_PARTS)),$(call objects,$(HOOK_PARTS)))
$(B)/libtidemark.a: $(call objects,$(MARK_SRC))
$(B)/%.a:
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/tidemark: $(B)/src/cli/main.o $(call objects,$(CLI_SRC)) $(B)/libcore.a
	$(CC) $(CFLAGS) $(or $(FIXED),-pie) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libtidemark.so: $(call objects,$(MARK_SRC))
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libtidemark.so.$(SOVERSION) -o $@ $^
	ln -sf libtidemark.so $(B)/libtidemark.so.$(SOVERSION)

# Never sanitized and always optimized: it runs in other people's programs, whatever this build is for.
HOOK_CFLAGS := -std=c11 -O2 -g $(HARDENED) -fPIC -fvisibility=hidden -fno-semantic-interposition -fno-builtin-malloc \
               -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -ftls-model=initial-exec $(WARN)
$(B)/hook/%.o: src/%.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(HOOK_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/libtidemark-hook.so: $(call hook_objects,$(HOOK_SRC))
	$(CC) $(HOOK_CFLAGS) $(LDFLAGS) $(HARDENED_LINK) -shared -Wl,-soname,libtidemark-hook.so -Wl,-Bsymbolic-functions -o $@ $^

# Inner loops: vectors, products of sums in one rounding.
$(B)/src/rt/%.o: CFLAGS += -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wno-psabi
$(B)/src/rt/cpu/%.o: CFLAGS += $(if $(filter release,$(FLAVOUR)),-O3)
# Short loops over the children of a position.
$(B)/src/game/%.o: CFLAGS += $(if $(filter release,$(FLAVOUR)),-O3) -fno-math-errno -fno-trapping-math
# Tests ask for the frames of functions that were inlined here.
$(B)/tests/%.o: CFLAGS += $(if $(filter release,$(FLAVOUR)),-g2)
# Most tests take longer to compile than to run. Those that compute much are optimized as what they test.
$(B)/tests/unit/%.o $(B)/tests/fuzz/%.o: CFLAGS += -O0 -U_FORTIFY_SOURCE
$(addprefix $(B)/tests/unit/,test_rt_%.o test_game.o test_search%.o test_hook_tables.o): CFLAGS += $(filter -O%,$(CFLAGS_$(FLAVOUR)))
# With the sanitizers only what tests spend their time in is worth optimizing: the rest compiles in half the time. How large an
# object is that a pointer leads to is known only there: elsewhere reaching past one into another goes unseen.
ifeq ($(FLAVOUR),asan)
$(B)/tests/unit/%.o $(B)/tests/fuzz/%.o: CFLAGS += -fno-sanitize=object-size
$(addprefix $(B)/,src/base/%.o src/channel/%.o src/cli/%.o src/record/%.o src/sense/%.o src/assess/%.o src/show/%.o src/term/%.o src/train/%.o src/play/%.o): CFLAGS += -O0 -fno-sanitize=object-size
# Loops over its small matrices are unrolled before the checks are put in.
$(B)/src/judge/fit.o: CFLAGS += -O2
endif
$(B)/%.o: %.c $(B)/flags
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# What the page is made of goes into the program as it is, with the hashes that its security policy names it by.
$(ASSETS)/d3.js: $(D3)
$(ASSETS)/d3.licence: $(D3_LICENCE)
$(ASSETS)/report.js: src/show/report/report.js
$(ASSETS)/report.css: src/show/report/report.css
$(ASSETS)/d3.js $(ASSETS)/d3.licence $(ASSETS)/report.js $(ASSETS)/report.css:
	@mkdir -p $(@D)
	cp $< $@
$(ASSETS)/%.hash: $(ASSETS)/%
	sha256sum < $< | cut -c 1-64 | tr a-f A-F | basenc --base16 -d | base64 -w 0 > $@
$(B)/src/show/report/assets.o: src/show/report/assets.S $(addprefix $(ASSETS)/,d3.js d3.js.hash d3.licence report.js report.js.hash report.css report.css.hash)
	@mkdir -p $(@D)
	$(CC) -c -Wa,-I$(ASSETS) -o $@ $<
$(D3) $(D3_LICENCE):
	@echo "tidemark: '$@' is not there: run 'tools/setup build', or set D3 and D3_LICENCE" >&2; exit 2

$(B)/tests/%: $(B)/tests/unit/%.o $(CORPUS) $(CORE)
	$(CC) $(CFLAGS) $(FIXED) $(LDFLAGS) $(TEST_LINK) -o $@ $< $(CORPUS) $(CORE) -lcmocka $(LIBS)

$(B)/workloads/%: $(B)/tests/workloads/%.o $(B)/libtidemark.a
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(B)/libtidemark.a -lpthread -lm

# Programs that the hook is preloaded into: as other people build theirs, whatever this build is for.
$(B)/hook-targets/%: tests/hook/%.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -Iinclude -std=c11 -O2 -g $(WARN) -Wno-missing-prototypes -fno-optimize-sibling-calls -rdynamic -o $@ $< -lpthread -ldl -lm
$(B)/hook-targets/%: tests/hook/%.cc
	@mkdir -p $(@D)
	$(CXX) -Iinclude -O2 -g -Wall -Wextra -rdynamic -o $@ $< -lpthread
$(B)/cases/%/train: cases/%/train.c $(wildcard cases/001/*.[ch])
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -std=c11 -O2 -g $(WARN) -o $@ $(wildcard cases/$*/*.c) -lm
$(B)/heap-loads/%: bench/heap/%.c
	@mkdir -p $(@D)
	$(CC) -D_GNU_SOURCE -Iinclude -std=c11 -O2 -g $(WARN) -o $@ $< -lpthread -lm

$(B)/bench/%: $(B)/bench/%.o $(CORPUS) $(CORE)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $< $(CORPUS) $(CORE) $(LIBS)

# Faults for the sanitizers to find.
$(B)/planted: $(B)/tests/planted/planted.o $(CORE)
	$(CC) $(CFLAGS) $(FIXED) $(LDFLAGS) -o $@ $< $(CORE) $(LIBS)

# With FLAVOUR=fuzz a fuzz target is a libFuzzer program; otherwise it replays the files it is given.
FUZZ_MAIN := $(if $(filter fuzz,$(FLAVOUR)),,$(B)/tests/fuzz/replay.o)
$(B)/fuzz/%: $(B)/tests/fuzz/%.o $(FUZZ_MAIN) $(CORE)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(FIXED) $(LDFLAGS) $(TEST_LINK) $(if $(FUZZ_MAIN),,-fsanitize=fuzzer) -o $@ $< $(FUZZ_MAIN) $(CORE) $(LIBS)

# ---- what a person runs

setup:
	@tools/setup build

demo:
	@tools/setup build
	@$(MAKE) --no-print-directory -s -j$(JOBS) build
	@tools/demo $(B)

check:
	@tools/setup test
	@JOBS=$(JOBS) PYTHON=$(PYTHON) tools/check build unit cli+lint+asan-build asan asan-cli

check-long:
	@tools/setup long
	@JOBS=$(JOBS) PYTHON=$(PYTHON) tools/check build unit-long asan-long tsan valgrind fuzzing asan-cli-long cli-long cases old-processors bare

# The five cases, broken, wrongly fixed and rightly fixed; the documents get their output from the same runs.
cases cases-docs:
	@tools/setup cases
	@tools/cases-venv
	@$(MAKE) --no-print-directory -s -j$(JOBS) FLAVOUR=release build
	@$(PYTHON) cases/check.py $(if $(filter cases-docs,$@),--docs) $(CASE)

# What Tidemark says of real programs, healthy and leaking: an hour. ARGS are those of tests/reality/run.py.
check-reality:
	@tools/setup wheel
	@tools/setup reality
	@tools/reality-venv
	@$(MAKE) --no-print-directory -s -j$(JOBS) FLAVOUR=release build
	@$(PYTHON) tests/reality/run.py $(ARGS)

check-unit:
	@tools/check build unit
check-cli:
	@tools/check build cli
check-python:
	@tools/setup test
	@tools/setup cases
	@$(MAKE) --no-print-directory -s -j$(JOBS) build
	@tools/check-python $(FRAMEWORKS)
check-fuzz:
	@tools/check fuzz
check-sanitizers:
	@tools/check build asan asan-cli
fuzz:
	@tools/check fuzzing

C_FILES = $(sort $(wildcard src/*/*.[ch] src/*/*/*.[ch] include/*.h tests/unit/*.[ch] tests/fuzz/*.[ch] tests/workloads/*.[ch] tests/corpus/*.[ch] tests/planted/*.c tests/fake/*.[ch] tests/gpu/*.[ch] tests/hook/*.c bench/*.[ch] bench/heap/*.c cases/*/*.[ch]))
SHELL_FILES = .ci/run tools/setup tools/demo tools/bare tools/cases-venv tools/torch-venv tools/reality-venv tools/rookworld-venv tools/openspiel-venv tools/check-python tests/gpu/run tests/gpu/bundle
# Each version of the formatter lays code out in another way. This is Debian 12's; with others the layout goes unchecked.
CODE_LAYOUT  := 14
CLANG_FORMAT ?= $(or $(shell command -v clang-format-$(CODE_LAYOUT)),clang-format)

lint:
	@tools/setup test
	@tools/check lint
lint-format:
	@if $(CLANG_FORMAT) --version | grep -q 'version $(CODE_LAYOUT)\.'; then $(CLANG_FORMAT) --dry-run -Werror $(C_FILES); \
	else echo "skipped: the code is laid out by clang-format $(CODE_LAYOUT), and here is $$($(CLANG_FORMAT) --version)"; fi
lint-layers:
	tools/layers
lint-cppcheck:
	@# Not the workloads: they leak on purpose. What it guesses at, others know: leaks are for the sanitizers and valgrind.
	cppcheck --quiet -j$(JOBS) --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,performance,portability \
	    $(addprefix --suppress=,memleak memleakOnRealloc arrayIndexThenCheck normalCheckLevelMaxBranches) \
	    $(CPPFLAGS) src bench
lint-shell:
	shellcheck $(wildcard $(SHELL_FILES))
lint-clang:
	@# It takes clang longer to start than to check a file, so one that starts with nothing is handed 64.
	@printf -- '-Xclang\n%s\n' $(wildcard src/*/*.c src/*/*/*.c tests/workloads/*.c) | xargs -P$(JOBS) -n128 clang $(CPPFLAGS) -std=c11 \
	    $(filter-out $(GCC_WARN),$(WARN)) -Werror -Wno-psabi -fsyntax-only -x c /dev/null
format:
	@$(CLANG_FORMAT) --version | grep -q 'version $(CODE_LAYOUT)\.' || \
	    { echo "tidemark: the code is laid out by clang-format $(CODE_LAYOUT), and here is $$($(CLANG_FORMAT) --version)" >&2; exit 2; }
	$(CLANG_FORMAT) -i $(C_FILES)

bench: bench-judge bench-sense bench-record bench-marks bench-overhead bench-unwind bench-heap bench-python
bench-judge bench-sense bench-record bench-marks bench-unwind bench-optimizer bench-search: bench-%: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(B)/bench/bench_$*
# Recordings of up to 2 GB are made in /tmp, one after the other.
bench-scale: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(B)/bench/bench_scale $(B)/tidemark
bench-overhead: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build
	@$(PYTHON) bench/overhead.py --build $(B)
# With the Python of the cases where that was made: it has the Trainer. PYTHON=... asks for another.
BENCH_PYTHON = $(if $(filter command% environment%,$(origin PYTHON)),$(PYTHON),$(or $(wildcard $(HOME)/.cache/tidemark/cases-venv/bin/python3),$(PYTHON)))
bench-python: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build
	@$(BENCH_PYTHON) bench/bench_python.py $(B)
# QUICK=1: six minutes instead of fifteen.
bench-train: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(PYTHON) bench/bench_train.py $(B) $(if $(QUICK),--quick)
bench-generate: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(PYTHON) bench/bench_generate.py $(B)
bench-losses: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build
	@$(PYTHON) bench/bench_losses.py $(B)
bench-grpo: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(PYTHON) bench/bench_grpo.py $(B) $(if $(QUICK),--quick)
bench-selfplay: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(PYTHON) bench/bench_selfplay.py $(B) $(if $(QUICK),--quick)
bench-heap: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(PYTHON) bench/bench_heap.py $(B)
	@TIDEMARK_TRAIN_DEVICE=cpu TIDEMARK_TRAIN_STEPS=5 TIDEMARK_LOOPS=3 SECONDS_MOST=150 $(PYTHON) tests/gpu/run_heap.py $(B) loop
bench-threads: setup
	@$(MAKE) --no-print-directory -s -j$(JOBS) build benches
	@$(PYTHON) bench/bench_heap.py $(B) --threads

# ---- manual pages, completion, installation

MAN := $(DESTDIR)$(PREFIX)/share/man/man1
BASH_COMPLETION := $(DESTDIR)$(PREFIX)/share/bash-completion/completions/tidemark
ZSH_COMPLETION  := $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_tidemark
FISH_COMPLETION := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/tidemark.fish
LIBDIR := $(DESTDIR)$(PREFIX)/lib

# Pages and scripts come from the program itself.
# Manuals and completions, which are built; the pictures of the README, which are in the tree.
docs: manuals pictures

manuals: $(B)/tidemark
	@rm -rf $(B)/man && mkdir -p $(B)/man $(B)/completion
	@$(B)/tidemark manual > $(B)/man/tidemark.1
	@set -e; for c in $$($(B)/tidemark help | sed -n '/^Commands:/,/^$$/s/^  \([a-z]*\) .*/\1/p'); do \
	    $(B)/tidemark manual $$c > $(B)/man/tidemark-$$c.1; done
	@set -e; for s in bash zsh fish; do $(B)/tidemark completion $$s > $(B)/completion/$$s; done

pictures:
	@tools/setup test
	@$(MAKE) --no-print-directory -s -j$(JOBS) build
	@$(PYTHON) tools/pictures $(B)

install: $(PROGRAMS) manuals
	install -D -m 755 $(B)/tidemark $(DESTDIR)$(PREFIX)/bin/tidemark
	install -D -m 644 include/tidemark.h $(DESTDIR)$(PREFIX)/include/tidemark.h
	install -D -m 755 $(B)/libtidemark.so $(LIBDIR)/libtidemark.so.$(VERSION)
	ln -sf libtidemark.so.$(VERSION) $(LIBDIR)/libtidemark.so.$(SOVERSION)
	ln -sf libtidemark.so.$(SOVERSION) $(LIBDIR)/libtidemark.so
	install -D -m 644 $(B)/libtidemark.a $(LIBDIR)/libtidemark.a
	install -D -m 755 $(B)/libtidemark-hook.so $(LIBDIR)/libtidemark-hook.so
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' tools/tidemark.pc.in > $(B)/tidemark.pc
	install -D -m 644 $(B)/tidemark.pc $(LIBDIR)/pkgconfig/tidemark.pc
	install -d $(MAN)
	install -m 644 $(B)/man/*.1 $(MAN)
	install -D -m 644 $(B)/completion/bash $(BASH_COMPLETION)
	install -D -m 644 $(B)/completion/zsh $(ZSH_COMPLETION)
	install -D -m 644 $(B)/completion/fish $(FISH_COMPLETION)

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/tidemark $(DESTDIR)$(PREFIX)/include/tidemark.h $(LIBDIR)/libtidemark.so* \
	    $(LIBDIR)/libtidemark-hook.so $(LIBDIR)/libtidemark.a $(LIBDIR)/pkgconfig/tidemark.pc $(MAN)/tidemark.1 $(MAN)/tidemark-*.1 \
	    $(BASH_COMPLETION) $(ZSH_COMPLETION) $(FISH_COMPLETION)

# The whole tool for pip, with the libraries it needs: build/wheel/tidemark-*.whl.
wheel:
	@tools/setup wheel
	@$(PYTHON) tools/wheel build/wheel

clean:
	rm -rf build

-include $(shell find $(B) -name '*.d' 2>/dev/null)
