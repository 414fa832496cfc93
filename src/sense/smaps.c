#include "sense/smaps.h"

#include "base/clock.h"
#include "base/grow.h"
#include "sense/proc_read.h"

#include <errno.h>
#include <stdlib.h>

static const double first_ns_per_byte = 13.0e6 / (1 << 30);
static const int64_t least_cost_ns = 25 * TIDE_NS_PER_US;
static const int64_t most_debt_ns = 20 * TIDE_NS_PER_MS;
static const int64_t follow_up_ns = (int64_t)10 * TIDE_NS_PER_S;
static const int64_t idle_again_ns = (int64_t)250 * TIDE_NS_PER_MS;
static const int64_t tiny_again_ns = (int64_t)60 * TIDE_NS_PER_S;

enum {
    TINY_BYTES = 1 << 20,     /* a process this small is rarely read */
    TELLING_BYTES = 64 << 20, /* from this RSS on, pages dominate the cost of a read */
    CHANGE_BYTES = 1 << 20,   /* least change that is followed up, plus */
    CHANGE_PART = 20,         /* one part in so many of RSS */
};

/* Of the whole budget. */
static const double share[TIDE_SMAPS_REASONS] = {0.2, 0.2, 1.0};

struct tide_smaps_wish {
    struct tide_member *member;
    enum tide_smaps_reason reason;
    int64_t weight; /* bytes or age; higher ones are read first */
};

void tide_smaps_init(struct tide_smaps_budget *budget, int64_t ppm)
{
    *budget = (struct tide_smaps_budget){.ppm = ppm, .clock = tide_clock_ns, .last_ns = TIDE_UNKNOWN};
}

void tide_smaps_release(struct tide_smaps_budget *budget)
{
    free(budget->wishes);
    budget->wishes = NULL;
    budget->wish_capacity = 0;
}

/* Pages that were there at the last read cost what they cost then. The last read is a measure for newer ones
 * only if pages and not the mere system call dominated its cost. */
int64_t tide_smaps_predict_ns(const struct tide_member *member)
{
    const struct tide_member_smaps *smaps = &member->smaps;
    double rss = (double)tide_member_rss(member), seen = 0, cost = 0;
    if (smaps->ns_per_byte > 0) {
        seen = (double)(smaps->rss_then > TINY_BYTES ? smaps->rss_then : TINY_BYTES);
        cost = smaps->ns_per_byte * (rss < seen ? rss : seen);
    }
    if (rss > seen)
        cost += (rss - seen) * (seen >= TELLING_BYTES ? smaps->ns_per_byte : first_ns_per_byte);
    return cost < (double)least_cost_ns ? least_cost_ns : cost > 1e15 ? (int64_t)1e15 : (int64_t)cost;
}

/* RSS of a process never read, without the pages that count with its parent. */
static int64_t unread_bytes(const struct tide_tree *tree, const struct tide_member *member, int64_t rss)
{
    if (!member->forked || member->first_rss_bytes <= 0)
        return rss;
    const struct tide_member *parent = tide_tree_find(tree, member->parent_pid);
    int64_t own = tide_clamp_zero(rss - member->first_rss_bytes);
    /* A parent read after the fork has counted its share of each page; this process's share is as large. */
    if (parent && parent->smaps.row.pss_bytes >= 0 && parent->smaps.read_ns >= member->began_ns)
        own += tide_clamp_zero(parent->smaps.row.pss_bytes - tide_clamp_zero(parent->smaps.row.uss_bytes));
    return own < rss ? own : rss;
}

int64_t tide_smaps_counted(const struct tide_tree *tree, const struct tide_member *member, bool *ret_known)
{
    const struct tide_member_smaps *smaps = &member->smaps;
    int64_t rss = tide_member_rss(member);
    int64_t swap = tide_clamp_zero(member->now.counters.swap_bytes);
    *ret_known = false;
    if (rss < 0)
        return TIDE_UNKNOWN;
    if (smaps->row.pss_bytes < 0)
        return unread_bytes(tree, member, rss) + swap;
    *ret_known = true;
    int64_t anon = tide_clamp_zero(member->now.counters.anon_bytes);
    int64_t swap_part = smaps->row.swap_pss_bytes >= 0 ? smaps->row.swap_pss_bytes : smaps->swap_then;
    int64_t counted =
        smaps->row.pss_bytes + (anon - smaps->anon_then) + swap_part + (swap - smaps->swap_then);
    return counted < 0 ? 0 : counted > rss + swap ? rss + swap : counted;
}

/* Fills the purses for the time that has passed. They hold at most the cost of the longest read, so that a
 * pause is not followed by a burst. Returns what the whole budget gained. */
static int64_t fill(struct tide_smaps_budget *budget, int64_t now_ns)
{
    int64_t passed_ns = budget->last_ns == TIDE_UNKNOWN ? 0 : now_ns - budget->last_ns;
    budget->last_ns = now_ns;
    if (passed_ns < 0)
        passed_ns = 0;
    double gain = (double)passed_ns * (double)budget->ppm / 1e6;
    for (int i = 0; i < TIDE_SMAPS_REASONS; i++) {
        double purse = (double)budget->purse_ns[i] + gain * share[i];
        double most = (double)TIDE_SMAPS_LONGEST_NS;
        budget->purse_ns[i] = (int64_t)(purse < most ? purse : most);
    }
    return (int64_t)gain;
}

/* True if the sharing of pages with its children, parent or siblings may have changed since its last read. */
static bool is_unsettled(const struct tide_tree *tree, const struct tide_member *member)
{
    if (member->smaps.shared_ns > member->smaps.read_ns)
        return true;
    const struct tide_member *parent = member->forked ? tide_tree_find(tree, member->parent_pid) : NULL;
    return parent && parent->smaps.shared_ns > member->smaps.read_ns;
}

/* A child that shares much with its parent was forked or ended, so their PSS has changed. */
static void unsettle_parent(const struct tide_tree *tree, const struct tide_member *child, int64_t when_ns)
{
    const struct tide_member_smaps *smaps = &child->smaps;
    struct tide_member *parent = child->forked ? tide_tree_find(tree, child->parent_pid) : NULL;
    if (parent && smaps->row.pss_bytes >= 0 &&
        smaps->rss_then - smaps->row.uss_bytes >= smaps->rss_then / CHANGE_PART + CHANGE_BYTES)
        parent->smaps.shared_ns = when_ns > parent->smaps.shared_ns ? when_ns : parent->smaps.shared_ns;
}

/* True if a member should be read; *ret_wish says why and how urgently. */
static bool wish_for(const struct tide_tree *tree, struct tide_member *member, int64_t now_ns,
                     struct tide_smaps_wish *ret_wish)
{
    const struct tide_member_smaps *smaps = &member->smaps;
    int64_t rss = tide_member_rss(member);
    if (member->ended || smaps->refused || rss <= 0)
        return false;
    int64_t age_ns = now_ns - smaps->read_ns;
    int64_t change = llabs(rss - smaps->rss_then);
    if (smaps->read_ns == 0 && smaps->row.pss_bytes < 0)
        *ret_wish = (struct tide_smaps_wish){member, TIDE_SMAPS_UNREAD, rss};
    else if (age_ns >= idle_again_ns && is_unsettled(tree, member))
        *ret_wish = (struct tide_smaps_wish){member, TIDE_SMAPS_CHANGED, rss};
    else if (age_ns >= follow_up_ns && change >= rss / CHANGE_PART + CHANGE_BYTES)
        *ret_wish = (struct tide_smaps_wish){member, TIDE_SMAPS_CHANGED, change};
    else if (age_ns >= (rss < TINY_BYTES ? tiny_again_ns : idle_again_ns))
        *ret_wish = (struct tide_smaps_wish){member, TIDE_SMAPS_IDLE, age_ns};
    else
        return false;
    return tide_smaps_predict_ns(member) <= TIDE_SMAPS_LONGEST_NS;
}

static int most_wanted_first(const void *a, const void *b)
{
    const struct tide_smaps_wish *x = a, *y = b;
    if (x->reason != y->reason)
        return x->reason > y->reason ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->member->pid > y->member->pid) - (x->member->pid < y->member->pid);
}

static size_t collect_wishes(struct tide_smaps_budget *budget, struct tide_tree *tree, int64_t now_ns)
{
    size_t count = 0;
    if (TIDE_GROW(budget->wishes, budget->wish_capacity, tree->member_count, TIDE_TREE_MEMBERS) != 0)
        return 0;
    for (size_t i = 0; i < tree->member_count; i++)
        if (wish_for(tree, tree->members[i], now_ns, &budget->wishes[count]))
            count++;
    if (count > 1)
        qsort(budget->wishes, count, sizeof *budget->wishes, most_wanted_first);
    return count;
}

/* RSS of the mappings without a reservation, from all of smaps; TIDE_UNKNOWN if it cannot be read. */
static int64_t read_unreserved(const struct tide_tree *tree, int64_t pid)
{
    struct tide_proc_smaps smaps = {0};
    char *line = NULL;
    size_t size = 0;
    FILE *file = tide_proc_stream_pid(tree->proc_fd, pid, "smaps");
    while (file && getline(&line, &size, file) > 0)
        tide_proc_parse_smaps_line(&smaps, line);
    bool complete = file && feof(file);
    free(line);
    if (file)
        fclose(file);
    return complete ? smaps.unreserved_bytes : TIDE_UNKNOWN;
}

/* Only a process that asked for much memory that it has not touched can have such mappings. One that had none
 * has none until it asks for more. */
static void find_unreserved(const struct tide_tree *tree, struct tide_member *member)
{
    struct tide_member_smaps *smaps = &member->smaps;
    int64_t asked = member->now.counters.asked_bytes,
            untouched = asked - tide_clamp_zero(member->now.counters.anon_bytes);
    if (asked < 0 || untouched < TIDE_PROC_LARGE) {
        smaps->row.unreserved_bytes = TIDE_UNKNOWN;
        return;
    }
    if (smaps->row.unreserved_bytes == 0 && asked < smaps->asked_then + TIDE_PROC_LARGE)
        return;
    smaps->row.unreserved_bytes = read_unreserved(tree, member->pid);
    smaps->asked_then = asked;
}

/* Reads one member and returns the cost. The budget pays wall time. The rate that predicts the next read
 * comes from CPU time, so that one preemption does not make a process look too expensive for ever. */
static int64_t read_rollup(const struct tide_smaps_budget *budget, struct tide_tree *tree,
                           struct tide_member *member, int64_t now_ns)
{
    struct tide_member_smaps *smaps = &member->smaps;
    char text[4096];
    int64_t wall_ns = budget->clock(), cpu_ns = tide_clock_thread_ns();
    ssize_t len = tide_proc_read_pid(tree->proc_fd, member->pid, "smaps_rollup", text, sizeof text);
    if (len > 0)
        find_unreserved(tree, member);
    cpu_ns = tide_clock_thread_ns() - cpu_ns;
    wall_ns = budget->clock() - wall_ns;
    struct tide_proc_rollup rollup = {.row = smaps->row};
    struct tide_smaps *row = &rollup.row;
    bool first = row->pss_bytes < 0;
    smaps->read_ns = now_ns;
    if (len == -EACCES || len == -EPERM)
        smaps->refused = true;
    if (len <= 0 || tide_proc_parse_rollup(text, &rollup) != 0)
        return wall_ns;
    int64_t rss = tide_member_rss(member);
    int64_t hook = member->hook_anon_bytes + member->hook_shmem_bytes; /* not shared with any process */
    row->pss_bytes = tide_bytes_less(row->pss_bytes, hook);
    row->uss_bytes = tide_bytes_less(row->uss_bytes, hook);
    row->pss_shmem_bytes = tide_bytes_less(row->pss_shmem_bytes, member->hook_shmem_bytes);
    row->cost_ns = wall_ns;
    smaps->row = *row;
    /* By the same read as PSS: since the look, much may have been freed. */
    smaps->anon_then = rollup.anon_bytes < 0 ? tide_clamp_zero(member->now.counters.anon_bytes)
                                             : tide_clamp_zero(rollup.anon_bytes - member->hook_anon_bytes);
    smaps->swap_then = tide_clamp_zero(member->now.counters.swap_bytes);
    smaps->rss_then = rss;
    smaps->ns_per_byte = (double)cpu_ns / (double)(rss > TINY_BYTES ? rss : TINY_BYTES);
    smaps->fresh = true;
    if (first)
        unsettle_parent(tree, member, member->began_ns);
    return wall_ns;
}

/* On a busy machine a read can take many times longer than predicted. Such a debt is paid back only in part;
 * otherwise one bad moment would leave PSS unknown for minutes. */
static void pay(int64_t *purse_ns, int64_t cost_ns, double part)
{
    int64_t least_ns = -(int64_t)((double)most_debt_ns * part);
    *purse_ns -= cost_ns;
    if (*purse_ns < least_ns)
        *purse_ns = least_ns;
}

int64_t tide_smaps_spend(struct tide_smaps_budget *budget, struct tide_tree *tree, int64_t now_ns)
{
    for (size_t i = 0; i < tree->member_count; i++) {
        struct tide_member *member = tree->members[i];
        member->smaps.fresh = false;
        if (member->ended && !member->smaps.end_seen) {
            member->smaps.end_seen = true;
            unsettle_parent(tree, member, now_ns);
        }
    }
    if (budget->ppm <= 0)
        return 0;
    int64_t spare_ns = fill(budget, now_ns) / 2;
    int64_t *purses = budget->purse_ns, *whole = &purses[TIDE_SMAPS_UNREAD];
    if (*whole < least_cost_ns)
        return 0;
    int64_t spent_ns = 0;
    size_t count = collect_wishes(budget, tree, now_ns);
    bool closed[TIDE_SMAPS_REASONS] = {false, false, false}, saving = false;
    for (size_t i = 0; i < count; i++) {
        const struct tide_smaps_wish *wish = &budget->wishes[i];
        int64_t predicted_ns = tide_smaps_predict_ns(wish->member);
        if (closed[wish->reason])
            continue;
        /* A process that costs too much waits until enough is saved. Half of the income is saved for it;
         * those behind it share the other half. */
        if (predicted_ns > *whole) {
            saving = true;
            continue;
        }
        if (saving && predicted_ns > spare_ns)
            continue;
        if (predicted_ns > purses[wish->reason]) {
            closed[wish->reason] = true;
            continue;
        }
        int64_t cost_ns = read_rollup(budget, tree, wish->member, now_ns);
        spent_ns += cost_ns;
        spare_ns -= saving ? cost_ns : 0;
        pay(whole, cost_ns, 1);
        if (wish->reason != TIDE_SMAPS_UNREAD)
            pay(&purses[wish->reason], cost_ns, share[wish->reason]);
    }
    return spent_ns;
}
