/*
 * thresholds.h - every number that the judge decides by, with what it buys.
 *
 * The error rates are those of `make bench-judge` (docs/STATISTICS.md has the table). A number here changes
 * only together with that table.
 */
#ifndef TIDE_THRESHOLDS_H
#define TIDE_THRESHOLDS_H

/* Number of windows that a run is cut into. More windows place a knee more exactly; fewer are surer to hold a
 * whole period each. */
#define TIDE_WINDOWS_MOST  96
#define TIDE_WINDOWS_LEAST 12
/* The largest window count is taken whose floor is at most this many times as rough as the smoothest. */
#define TIDE_ROUGHNESS_SLACK 1.7
/* A floor that keeps less than this share of its windows without bumps was cut too fine. */
#define TIDE_KEPT_LEAST 0.6
/* A window with at least this many moments gives its second lowest: one broken sample makes no floor. */
#define TIDE_SECOND_LOWEST_FROM 10

/* A bump narrower than this share of the run and this many noise widths high is a spike, not floor. */
#define TIDE_BUMP_SHARE  0.125
#define TIDE_BUMP_NOISES 6.0
#define TIDE_END_BUMP    2   /* windows that a bump cut off by the end of the run may be longer than others */
#define TIDE_END_WOBBLES 3.0 /* such a bump is this many times as high as the trend before it ever moved */
/* The last moment is no floor if it is lower than this many before it, by a fall larger than any before. */
#define TIDE_END_MOMENTS 3
/* Windows left out at the end may be a leak if memory rises in them by TIDE_END_RISES of their height, to
 * above TIDE_END_ABOVE of all moments before, and if no bump before was as long and TIDE_END_BEFORE as high.
 */
#define TIDE_END_RISES  0.25
#define TIDE_END_ABOVE  0.9
#define TIDE_END_BEFORE 0.5
/* A single window this many bump heights lower than both neighbours is a broken sample. */
#define TIDE_DIP_BUMPS 2.0
/* A single window more than a bump's height above the line through its neighbours is a look that came late,
 * if they lie on that line to within this share of its height above it. */
#define TIDE_STRAY_STRAIGHT 0.25
/* A last window below that line is a look at a program that was ending, if it spans less than this share of
 * the run; otherwise the rise has stopped. */
#define TIDE_STRAY_LAST 0.2

/* Warm-up: up to this share of the run, at its beginning, is left out where it lies this many noise widths
 * off the fit of the rest. */
#define TIDE_WARMUP_SHARE  0.10
#define TIDE_WARMUP_NOISES 4.0

/* A leak needs a slope this many standard errors above zero (corrected for autocorrelation), and the floor
 * must have risen by at least this many bytes and this share of the level. Sound processes touch a page now
 * and then for as long as they live. */
#define TIDE_LEAK_Z     4.0
#define TIDE_LEAK_LEAST (512.0 * 1024)
#define TIDE_LEAK_SHARE 2e-3 /* of the level */
/* ... In a small process by this share, but no more than this: what libraries fill once is as large in it as
 * in a large process. */
#define TIDE_LEAK_SHARE_SMALL 5e-3
#define TIDE_LEAK_FILLED      (4.0 * 1024 * 1024)
/* ... The floor must never have dropped by more than this share of the rise. One that did is a level that
 * wanders, like that of an allocator that returns a few megabytes now and then. */
#define TIDE_LEAK_RETREAT 0.3
/* ... In the last third, a leak rises at TIDE_LEAK_STILL of its mean rate or more, a plateau at no more than
 * TIDE_PLATEAU_STILL of the rate before its knee. Less than TIDE_STILL_Z standard errors is no rise. */
#define TIDE_LEAK_STILL    0.25
#define TIDE_PLATEAU_STILL 0.12
#define TIDE_STILL_Z       2.5
/* After a bend, growth goes on, however slow against before, if the last third rises at this share of the
 * slope since the bend. */
#define TIDE_STILL_SAME  0.6
#define TIDE_LATELY      (2.0 / 3) /* where the last third begins */
#define TIDE_TAIL_LATEST 0.9       /* a slope at the end is fitted to no less than the last tenth */
/* A bend that changes the slope by less than this share of it is noise of a line: steps are seen late now and
 * then, and then are no longer as far apart as the looks. */
#define TIDE_BEND_LEAST 0.1

/* A leak is said to begin at a bend if the floor moved before it by at most this share of the rise since. */
#define TIDE_SINCE_SHARE 0.05

/* An accelerating leak has at most this exponent. A higher one means a level run with a few jumps at its end,
 * which cannot tell how it goes on. */
#define TIDE_POWER_MOST 5.0

/* A floor whose noise is more correlated than this may be a random walk. The mean of its differences must
 * then be TIDE_WANDER_Z standard errors above zero. From TIDE_DRIVEN_Z on, the floor rises beyond doubt, and
 * its slope needs only TIDE_WANDER_Z standard errors. */
#define TIDE_WANDER   0.85
#define TIDE_WANDER_Z 3.0
#define TIDE_DRIVEN_Z 5.0
/* ... Nor is it a walk if at most this share of its variance is about the line: of a million walks of 12
 * points 48 are so straight, and hardly any of more. */
#define TIDE_STRAIGHT 0.01

/* A fit has at least this many degrees of freedom, however correlated the noise. */
#define TIDE_FREEDOM_LEAST 4

/* Intervals are wider by this factor, found on the corpus: the autocorrelation is an estimate, and low. */
#define TIDE_INTERVAL_WIDER 1.15

/* Below this many windows nothing but a one-pass plateau is decided. */
#define TIDE_FEWEST_WINDOWS 6
/* A slope of TIDE_FLAT_Z standard errors is not flat unless the growth is below TIDE_FLAT_SHARE of the level.
 * A run of fewer than TIDE_SHORT_MOMENTS is flat only if growth of TIDE_FLAT_SHARE_BRIEF is ruled out,
 * because a slow leak hides in any short run. */
#define TIDE_FLAT_Z           2.5
#define TIDE_FLAT_SHARE       0.02
#define TIDE_FLAT_RETREAT     0.6 /* a rise that small is none if the floor dropped by this share of it */
#define TIDE_SHORT_MOMENTS    48
#define TIDE_FLAT_SHARE_BRIEF 5e-4
#define TIDE_FLAT_LEAST_BRIEF (64.0 * 1024) /* bytes */
/* A rise that is not surely a leak is none if the median of the moments rises by less than this share of it,
 * and not by what matters: a leak's rises by half. */
#define TIDE_USUAL_RISE 0.25
/* A floor that ends this share of its level above where it began is not called flat. */
#define TIDE_LEVEL_RISE 0.05
/* A leak would have shown if it exceeds what is sure and matters by this many times the range of the floor.
 * The floor's own ups and downs may bend a smaller one into another shape. */
#define TIDE_SHOWN_RANGES 6.0
/* An undecided verdict says how much longer it takes to settle growth of at least this share of the level. */
#define TIDE_MATTERS_SHARE 0.01

/* The noise of a floor is at least that of rounding to pages (bytes), and this share of the level. */
#define TIDE_NOISE_LEAST 1200.0
#define TIDE_NOISE_SHARE 1e-5
#define TIDE_MAD_SIGMA   0.6745 /* median absolute deviation of a normal, in standard deviations */

/* A floor that falls by this share of the level is said as falling, not as a level. */
#define TIDE_LEVEL_FALL 0.1

/* Only what follows the last drop of the floor is judged. A drop falls at once by at least TIDE_DROP_SHARE of
 * what was held, and by TIDE_DROP_ALONE times as much as any fall that is no drop. Before it, the floor was
 * for at most TIDE_DROP_UNUSUAL of the time lower than the drop's end plus TIDE_DROP_BELOW of the drop. What
 * rises after it may be a sawtooth, unless the floor rose in the windows before it at no more than
 * TIDE_DROP_LEVEL of the rate, or it has risen by TIDE_DROP_PAST of the drop. */
#define TIDE_DROP_SHARE   0.05
#define TIDE_DROP_ALONE   3.0
#define TIDE_DROP_BELOW   0.5
#define TIDE_DROP_UNUSUAL 0.25
#define TIDE_DROP_WINDOWS 4
#define TIDE_DROP_RUN     3   /* windows that a drop takes at the most */
#define TIDE_DROP_REST    0.1 /* of the least drop: a window that falls by less is not part of one */
#define TIDE_DROP_MOMENTS 3   /* before it: the lowest of them is where it began */
#define TIDE_DROP_LEVEL   0.2
#define TIDE_DROP_PAST    1.25

/* Information criterion: a model must beat a simpler one by this much. */
#define TIDE_BIC_MARGIN 6.0

/* The interval of a knee holds the places whose criterion is this near to the best (two standard errors). The
 * knee of a saturating curve is where it is 95 % full: three time constants. */
#define TIDE_KNEE_BIC  4.0
#define TIDE_SATURATED 3.0

#define TIDE_BEHIND_KNEE 4 /* points after a knee that are enough to tell whether the floor is level */

/* Growth that fits no shape has stopped when the floor stays within this share of the rise for this last
 * share of the run, and for this many times as long as it ever did before. */
#define TIDE_STANDSTILL_WITHIN 0.02
#define TIDE_STANDSTILL_SHARE  (1.0 / 3)
#define TIDE_STANDSTILL_TIMES  2.0

/* Least size of a jump or a plateau: in noise widths, in bytes, and as a share of the level. */
#define TIDE_CHANGE_NOISES 6.0
#define TIDE_CHANGE_LEAST  (256.0 * 1024) /* bytes: libraries touch less than that now and then */
#define TIDE_CHANGE_SHARE  0.005

/* A knee is the end of one pass over the data if its interval, widened by this share of the pass, has it. */
#define TIDE_PASS_SLACK 0.04
/* Growth ends with one pass if the residual sum of squares is below these shares of that of a level and of a
 * line, the knee that fits best is within this share of the pass, and the rise stands out or has this t. */
#define TIDE_PASS_FLAT 0.25
#define TIDE_PASS_LINE 0.5
#define TIDE_PASS_NEAR 0.1
#define TIDE_PASS_T    12.0
/* ... and the points before that end are off an even rise by at most this share of it (root mean square). */
#define TIDE_PASS_UNEVEN 0.1

/* A cache that fills early in a long run is looked for in this first share of it. It must rise by this share
 * of the level, over this many windows and this share of the run. */
#define TIDE_EARLY_SHARE   0.2
#define TIDE_EARLY_RISE    0.02
#define TIDE_EARLY_WINDOWS 6
#define TIDE_EARLY_LEAST   0.02

/* Staircase: jumps this many noise widths high must explain this share of the rise. */
#define TIDE_STAIR_NOISES  6.0
#define TIDE_STAIR_LEAST   (64.0 * 1024) /* bytes */
#define TIDE_STAIR_SHARE   0.75
#define TIDE_STAIRS_LEAST  3
#define TIDE_STAIR_RAMP    0.9  /* of the stairs: more that follow another at once are a ramp */
#define TIDE_STAIR_DOWN    0.2  /* of the stairs: more downward steps are noise */
#define TIDE_STAIR_OVER    1.4  /* of the rise: stairs that add up to more are noise */
#define TIDE_STAIR_LATE    2.0  /* periods without a stair: growth has stopped */
#define TIDE_STAIR_SPAN    0.4  /* of the run that stairs must be spread over */
#define TIDE_STAIR_WITH    0.8  /* of the stairs come with an epoch or a phase: they belong to it, */
#define TIDE_STAIR_MARKS   0.34 /* if there are fewer of those than this per window */
#define TIDE_STAIR_Z       2.5  /* standard deviations that the sum of such stairs must be above zero */
#define TIDE_STAIR_TALLEST 0.5  /* of all stairs together: more is a jump with noise */
#define TIDE_STAIR_EVEN    0.25 /* of the mean gap, its standard deviation: stairs have no period above it */

/* Spikes: higher than this share of the level and this many noise widths of the samples, in at most this
 * share of moments. */
#define TIDE_SPIKE_SHARE  0.06
#define TIDE_SPIKE_NOISES 5.0
#define TIDE_SPIKE_MOST   0.40

/* A container that grows by a factor jumps by at least TIDE_DOUBLING_JUMP each time, by factors that are
 * alike to within TIDE_DOUBLING_ALIKE. Jumps count from TIDE_DOUBLING_FROM of its size on; at least
 * TIDE_DOUBLING_JUMPS of them explain TIDE_DOUBLING_SHARE of the rise. Sizes before a jump lie on a line to
 * within TIDE_DOUBLING_OFF of their range. The next jump is overdue after TIDE_DOUBLING_LATE of its time. */
#define TIDE_DOUBLING_JUMP  1.2
#define TIDE_DOUBLING_ALIKE 1.35
#define TIDE_DOUBLING_FROM  0.01
#define TIDE_DOUBLING_JUMPS 3
#define TIDE_DOUBLING_SHARE 0.9
#define TIDE_DOUBLING_OFF   0.05
#define TIDE_DOUBLING_LATE  1.1

/* A jump is moved back to the earliest moment since which most moments were that high, if at least this many
 * moments came before it and at most this share of them were that high. */
#define TIDE_JUMP_BEFORE 4
#define TIDE_JUMP_HABIT  0.2
/* A jump of less than this share of the level is not reported. A rise beside it that is not surely a leak
 * does not make it undecided if the rise is at most this share of the jump; nor is such a rise after it a
 * leak as long as its rate is known worse than to TIDE_JUMP_VAGUE of it, or for TIDE_SHORT_MOMENTS. */
#define TIDE_JUMP_SHARE  0.01
#define TIDE_JUMP_BESIDE 0.05
#define TIDE_JUMP_VAGUE  0.2

/* Retention: what the program holds explains at most TIDE_RETENTION_LIVE of the growth, by the upper end of
 * its interval, and so do its peaks, the bytes that TIDE_RETENTION_CREST of the looks stay under. Where the
 * allocator can be asked, its free bytes must have grown by at least TIDE_RETENTION_KEPT of the growth. */
#define TIDE_RETENTION_LIVE  0.2
#define TIDE_RETENTION_LEAST 0.02 /* of the process: less, or too little for a leak, is not reported */
#define TIDE_RETENTION_KEPT  0.5
#define TIDE_RETENTION_CREST 0.95

/* A sum of processes leaks only if those that leak, and those that came, explain this share of its growth. */
#define TIDE_SUM_EXPLAINED 0.5
/* A tree is judged from when a process came that has half of it, if this share at most was there before. */
#define TIDE_SUM_BEFORE 0.25

/* A process that rises leaks only if it asked for at least this share of the rise in the meantime; otherwise
 * it touches memory that it had. */
#define TIDE_ASKED_SHARE 0.5

/* A program may still be starting for TIDE_STARTING_SECONDS in which it has a processor (on a machine where
 * it gets a tenth of one, for ten times as long), and, if it names steps, until TIDE_STARTING_STEPS of them.
 * Without steps, growth by then is a leak only if it is linear, its rate is known to TIDE_STARTING_STEADY of
 * it, and it comes to TIDE_STARTING_LEAST: libraries load and data is read in bursts, but a small cache fills
 * evenly, like SQLite's of 2 MiB. Even that is not enough if processes take over from each other or one ends
 * before the last TIDE_STARTING_OVER of the recording: a compiler grows evenly as long as it reads. */
#define TIDE_STARTING_SECONDS 60.0
#define TIDE_STARTING_STEPS   24
#define TIDE_STARTING_STEADY  0.05
#define TIDE_STARTING_LEAST   (4.0 * 1024 * 1024)
#define TIDE_STARTING_OVER    0.1
/* A library may fill a buffer for this many steps. Growth by then is a leak only if its rate is known to this
 * share of it, or if it is this share of the process. PyTorch keeps the last 2,000 collectives of a rank (43
 * MiB at most were seen): in a rank of a job the growth has to come to TIDE_STARTING_RECORD, too. */
#define TIDE_STARTING_BUFFER  2000
#define TIDE_STARTING_RECORD  (48.0 * 1024 * 1024)
#define TIDE_STARTING_VAGUE   0.2
#define TIDE_STARTING_MATTERS 0.25
/* Growth that slowed down is still a start until it has gone on for this many times as long as that took. */
#define TIDE_STARTING_SLOWED 3.0

#endif
