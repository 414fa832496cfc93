/*
 * shared_parts.c - how much of the shared memory that a process maps is its own.
 *
 * RssShmem counts a page once for each mapping: in every process that has one, and several times in a process
 * that has several. PSS does not, but is read only now and then. So at each look a process gets the part of
 * RssShmem that the readings of its PSS say. If it may share with others, that is the same for its whole
 * life, by medians over the readings: a process that comes or goes is no growth of those that stay, and one
 * that is read while the others end has, for a moment, all that is left. What it maps in addition may be its
 * own although the rest is not: USS tells, which counts no page that anybody else maps. If nobody else maps
 * that much, the process itself maps pages several times (the heap of Java's ZGC is at three addresses). Then
 * RssShmem between two readings tells nothing, and the line from one reading to the next is used.
 */
#include "assess/history_private.h"
#include "judge/floor.h"

#include <math.h>

static const double OWN = 0.9; /* from this part on all of it is its own: PSS is read later than RssShmem */
static const double TELLING = 0.5; /* of the most it maps: readings at less are of its start */

static const double MATTERS = 0.05; /* of a process: less is not worth judging it by readings alone */

enum { READ_MOST = 64 }; /* readings that are used: the last ones */

/* The most that any process maps of shared memory, and the second most. */
struct largest {
    int64_t first, second;
};

static struct largest find_largest(const struct tide_history *history)
{
    struct largest most = {0, 0};
    for (size_t i = 0; i < history->process_count; i++) {
        int64_t mine = history->processes[i].shares.most_bytes;
        if (mine > most.first)
            most = (struct largest){mine, most.first};
        else if (mine > most.second)
            most.second = mine;
    }
    return most;
}

/* Returns what it maps of shared memory at a reading; 0: not known. */
static double mapped_at(const struct tide_history_process *p, const struct tide_history_smaps *reading)
{
    const struct tide_history_point *then = tide_history_point_at(p, reading->t_ns);
    return then && reading->pss_shmem_bytes >= 0 ? (double)then->shmem_bytes : 0;
}

/* Returns what it maps of shared memory and nobody else does, at a reading; with it its private pages of
 * files, which hardly change. */
static double alone_at(const struct tide_history_process *p, const struct tide_history_smaps *reading)
{
    const struct tide_history_point *then = tide_history_point_at(p, reading->t_ns);
    return then ? (double)(reading->uss_bytes - (then->private_bytes - then->shared_bytes)) : 0;
}

struct shared_reading {
    double mapped, own, alone; /* of what it maps: its part, and what nobody else maps */
};

/* Returns the part that belongs to the process of what it maps in addition, by pairs of readings: the median
 * of what nobody else maps, the lower of two, and no less than of all that it maps. */
static double find_part_of_more(const struct shared_reading *readings, size_t count, double part)
{
    double slopes[READ_MOST * (READ_MOST - 1) / 2];
    size_t pairs = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = i + 1; k < count; k++)
            if (readings[i].mapped != readings[k].mapped)
                slopes[pairs++] =
                    (readings[i].alone - readings[k].alone) / (readings[i].mapped - readings[k].mapped);
    return pairs ? fmax(part, fmin(tide_kth(slopes, pairs, (pairs - 1) / 2), 1)) : part;
}

/* Finds what belongs to the process of what it maps: all if no reading tells. */
static struct tide_history_shares find_shares(const struct tide_history_process *p)
{
    struct shared_reading readings[READ_MOST];
    double values[READ_MOST];
    size_t count = 0;
    for (size_t i = p->smaps_count; i-- > 0 && count < READ_MOST;) {
        double now = mapped_at(p, &p->smaps[i]);
        if (now > 0 && now >= TELLING * (double)p->shares.most_bytes)
            readings[count++] =
                (struct shared_reading){now, (double)p->smaps[i].pss_shmem_bytes, alone_at(p, &p->smaps[i])};
    }
    for (size_t i = 0; i < count; i++)
        values[i] = readings[i].own / readings[i].mapped;
    double part = tide_median(values, count);
    if (!(part < OWN)) /* also if it is NAN */
        return (struct tide_history_shares){.part = 1};
    double of_more = find_part_of_more(readings, count, part);
    for (size_t i = 0; i < count; i++)
        values[i] = readings[i].own - of_more * readings[i].mapped;
    return (struct tide_history_shares){.part = of_more,
                                        .rest_bytes = of_more > part ? tide_median(values, count) : 0};
}

static double own_part(const struct tide_history_shares *shares, double mapped)
{
    return shares->rest_bytes + shares->part * mapped;
}

static void put(struct tide_history_point *point, double bytes)
{
    double most = (double)point->shmem_bytes;
    int64_t shared = (int64_t)(bytes < 0 ? 0 : bytes < most ? bytes : most);
    point->private_bytes += shared - point->shared_bytes;
    point->shared_bytes = shared;
}

/* Returns the value at a time between two readings, on the line through them. */
static double between(const struct tide_history_smaps *from, const struct tide_history_smaps *to,
                      int64_t t_ns)
{
    double along = (double)(t_ns - from->t_ns) / (double)(to->t_ns - from->t_ns);
    return (double)from->pss_shmem_bytes +
           along * ((double)to->pss_shmem_bytes - (double)from->pss_shmem_bytes);
}

/* Gives the points from `first` on what was read while they held, else the value on the line between two
 * readings. Points before the first or after the last reading get the part of that reading. */
static void draw_lines(struct tide_history_process *p, size_t first)
{
    size_t next = TIDE_UNTIL(p->smaps, p->smaps_count, p->points[first].t_ns);
    for (size_t i = first; i < p->point_count; i++) {
        struct tide_history_point *point = &p->points[i];
        int64_t until_ns = i + 1 < p->point_count ? p->points[i + 1].t_ns : INT64_MAX;
        size_t before = next;
        while (next < p->smaps_count && p->smaps[next].t_ns < until_ns)
            next++;
        const struct tide_history_smaps *last = &p->smaps[next ? next - 1 : 0];
        double mapped = mapped_at(p, last);
        if (next > before || (next > 0 && last->t_ns == point->t_ns))
            put(point, (double)last->pss_shmem_bytes);
        else if (next > 0 && next < p->smaps_count)
            put(point, between(last, &p->smaps[next], point->t_ns));
        else if (mapped > (double)last->pss_shmem_bytes)
            put(point, (double)last->pss_shmem_bytes / mapped * (double)point->shmem_bytes);
    }
}

static void settle(struct tide_history_process *p, int64_t others_bytes)
{
    struct tide_history_shares before = p->shares;
    bool news = before.readings != p->smaps_count;
    struct tide_history_shares shares = news ? find_shares(p) : before;
    double most = (double)before.most_bytes, not_its_own = most - own_part(&shares, most);
    int64_t now = p->point_count ? p->points[p->point_count - 1].rss_bytes : 0;
    double size = (double)(now > p->row.peak_rss_bytes ? now : p->row.peak_rss_bytes);
    shares.alone = (double)others_bytes < not_its_own && not_its_own >= MATTERS * size;
    size_t first = news || shares.alone != before.alone ? 0 : before.settled;
    if (shares.alone && first < p->point_count)
        draw_lines(p, first);
    for (size_t i = first; !shares.alone && i < p->point_count; i++)
        put(&p->points[i], own_part(&shares, (double)p->points[i].shmem_bytes));
    shares.most_bytes = before.most_bytes;
    shares.settled = p->point_count;
    shares.readings = p->smaps_count;
    p->shares = shares;
}

void tide_shared_parts_settle(struct tide_history *history)
{
    struct largest most = find_largest(history);
    for (size_t i = 0; i < history->process_count; i++) {
        struct tide_history_process *p = &history->processes[i];
        int64_t mine = p->shares.most_bytes;
        if (mine > 0 && p->smaps_count > 0)
            settle(p, mine == most.first ? most.second : most.first);
    }
}
