/*
 * channel_fixture.h - a channel for every test, children that speak on it, and what was heard.
 *
 * A process attaches once in its life, so every writer is a child: the test program itself never leaves a
 * mark.
 */
#ifndef CHANNEL_FIXTURE_H
#define CHANNEL_FIXTURE_H

#include "channel/channel.h"
#include "tidemark.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { SEEN_MOST = 1 << 16 };

struct seen {
    size_t count;
    struct {
        int64_t pid;
        struct tide_lane_slot event;
    } at[SEEN_MOST];
    struct tide_channel_counts totals;
};

static struct seen *seen;
static struct tide_channel *channel;
static struct tide_descriptors descriptors;

static inline void remember(void *context, int64_t pid, uint64_t start_ticks,
                            const struct tide_lane_slot *event)
{
    struct seen *s = context;
    (void)start_ticks;
    assert_true(s->count < SEEN_MOST);
    assert_true(strlen(event->name) < TIDE_LANE_NAME);
    s->at[s->count].pid = pid;
    s->at[s->count++].event = *event;
}

static inline void drain(void)
{
    struct tide_err err;
    assert_int_equal(tide_channel_drain(channel, remember, seen, &seen->totals, &err), 0);
}

static inline int set_up(void **state)
{
    (void)state;
    struct tide_err err;
    seen = calloc(1, sizeof *seen);
    tide_descriptors_init(&descriptors);
    return !seen || tide_channel_new(&descriptors, &channel, &err);
}

static inline int tear_down(void **state)
{
    (void)state;
    tide_channel_free(channel);
    free(seen);
    return 0;
}

static inline pid_t start(void (*work)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setenv(TIDE_CHANNEL_ENV, tide_channel_path(channel), 1);
        work();
        exit(0);
    }
    return pid;
}

static inline int finish(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static inline void run(void (*work)(void))
{
    assert_int_equal(finish(start(work)), 0);
}

static inline size_t lane_files(void)
{
    DIR *dir = opendir(tide_channel_path(channel));
    assert_non_null(dir);
    size_t count = 0;
    struct dirent *entry;
    while ((entry = readdir(dir)))
        count += !strncmp(entry->d_name, "marks-", strlen("marks-"));
    closedir(dir);
    return count;
}

#define SPOKEN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
