# The front door. `make demo`, `make check`, `make bench`, `make install`; docs/ARCHITECTURE.md says what is where.
#
# FLAVOUR picks compiler flags and the directory: release (default), debug, asan, tsan, fuzz.

FLAVOUR ?= release
CC      ?= cc
PYTHON  ?= /usr/bin/python3
PREFIX  ?= /usr/local
DESTDIR ?=
B       := build/$(FLAVOUR)

WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wno-format-truncation $(if $(CI),-Werror)
CPPFLAGS += -D_GNU_SOURCE -Isrc -Iinclude
CFLAGS_release := -O2 -g
CFLAGS_debug   := -O0 -g
CFLAGS_asan    := -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
CFLAGS_tsan    := -O1 -g -fsanitize=thread
CFLAGS_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifeq ($(FLAVOUR),fuzz)
CC := clang
endif
CFLAGS  += -std=c11 -fPIC $(CFLAGS_$(FLAVOUR)) $(WARN)
LDFLAGS += $(filter -fsanitize=address% -fsanitize=thread,$(CFLAGS_$(FLAVOUR)))
LIBS    := -lsqlite3 -ljansson -lncursesw -ltinfo -lpthread -ldl -lm

# Everything but the command line itself is one archive, so that tests link what they need.
LAYERS  := base record channel sense judge plan show
LIB_SRC := $(sort $(foreach layer,$(LAYERS),$(wildcard src/$(layer)/*.c)))
CLI_SRC := $(sort $(wildcard src/cli/*.c))
# What a program under observation links: the writing end of the channel and nothing else.
MARK_SRC := $(wildcard src/channel/mark.c)
objects = $(patsubst %.c,$(B)/%.o,$(1))

UNIT      := $(patsubst tests/unit/%.c,$(B)/tests/%,$(sort $(wildcard tests/unit/test_*.c)))
FUZZERS   := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(sort $(wildcard tests/fuzz/fuzz_*.c)))
WORKLOADS := $(patsubst tests/workloads/%.c,$(B)/workloads/%,$(sort $(wildcard tests/workloads/*.c)))
BENCHES   := $(patsubst bench/%.c,$(B)/bench/%,$(sort $(wildcard bench/*.c)))

.PHONY: all build setup demo check check-unit check-cli check-fuzz check-sanitizers check-long lint format bench bench-judge bench-sense bench-marks fuzz docs install uninstall clean
all: build

build: $(B)/tidemark $(if $(MARK_SRC),$(B)/libtidemark.so $(B)/libtidemark.a) $(WORKLOADS)

$(B)/libcore.a: $(call objects,$(LIB_SRC))
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/tidemark: $(call objects,$(CLI_SRC)) $(B)/libcore.a
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(B)/libtidemark.so: $(call objects,$(MARK_SRC))
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libtidemark.so.0 -o $@ $^
	ln -sf libtidemark.so $(B)/libtidemark.so.0

$(B)/libtidemark.a: $(call objects,$(MARK_SRC))
	@rm -f $@
	$(AR) rcs $@ $^

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(B)/tests/%: tests/unit/%.c $(B)/libcore.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(B)/libcore.a -lcmocka $(LIBS)

$(B)/workloads/%: tests/workloads/%.c $(B)/libtidemark.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(B)/libtidemark.a -lpthread -lm

$(B)/bench/%: bench/%.c $(B)/libcore.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MMD -MP -o $@ $< $(B)/libcore.a $(LIBS)

# With FLAVOUR=fuzz a fuzz target is a libFuzzer program; otherwise it replays the files it is given.
FUZZ_MAIN := $(if $(filter fuzz,$(FLAVOUR)),-fsanitize=fuzzer,tests/fuzz/replay.c)
$(B)/fuzz/%: tests/fuzz/%.c tests/fuzz/replay.c $(B)/libcore.a
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $< $(FUZZ_MAIN) $(B)/libcore.a $(LIBS)

check-unit: $(UNIT)
	@set -e; for t in $(UNIT); do echo "== $$t"; $$t; done

clean:
	rm -rf build

-include $(shell find build -name '*.d' 2>/dev/null)
