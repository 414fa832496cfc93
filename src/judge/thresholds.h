/*
 * thresholds.h - every number that the judge decides by, with what it buys.
 *
 * The error rates are those of `make bench-judge` (docs/STATISTICS.md has the table). A number here changes
 * only together with that table.
 */
#ifndef TIDE_THRESHOLDS_H
#define TIDE_THRESHOLDS_H

/* Floor: how many windows a run is cut into. More windows see knees sharper, fewer are surer to hold a whole
 * period. */
#define TIDE_WINDOWS_MOST  96
#define TIDE_WINDOWS_LEAST 12
/* Of the window counts whose floor is at most this much rougher than the smoothest one, the largest is taken.
 */
#define TIDE_ROUGHNESS_SLACK 1.7
/* A floor of which less than this share is left when bumps are taken out was cut too fine. */
#define TIDE_KEPT_LEAST 0.6
/* Windows with at least this many moments give their second lowest: one broken sample cannot make a floor. */
#define TIDE_SECOND_LOWEST_FROM 10

/* Bumps of the floor narrower than this share of the run, and this many noise widths high, are spikes, not
 * floor. */
#define TIDE_BUMP_SHARE  0.125
#define TIDE_BUMP_NOISES 6.0
#define TIDE_END_BUMP    2   /* windows, at either end, where only one side of a bump can be seen */
#define TIDE_END_WOBBLES 3.0 /* at the end: times the largest move of the trend before */
/* a single window this many bump heights lower than both neighbours is a broken sample */
#define TIDE_DIP_BUMPS 2.0
/* a single window a bump's height above the line of its neighbours, which lie on it to within this share of
 * that height, is a look that came late */
#define TIDE_STRAY_STRAIGHT 0.25
/* the last window alone below that line is a look at a program that ended, if it stands for less of the run
 * than this: else the rise has stopped */
#define TIDE_STRAY_LAST 0.2

/* Warm-up: the first part of a run may be left out, up to this share. */
#define TIDE_WARMUP_SHARE  0.10
#define TIDE_WARMUP_NOISES 4.0

/* A leak needs its slope this many standard errors above zero (autocorrelation counted in), and the floor to
 * have risen by what matters: this, and this share of the level. Sound processes touch a page here and there
 * for as long as they live. */
#define TIDE_LEAK_Z     4.0
#define TIDE_LEAK_LEAST (512.0 * 1024)
#define TIDE_LEAK_SHARE 2e-3 /* of the level */
/* ... of a small process this share, up to so much: what libraries fill once is as large in it as in a large
 * one. */
#define TIDE_LEAK_SHARE_SMALL 5e-3
#define TIDE_LEAK_FILLED      (4.0 * 1024 * 1024)
/* ... and never to have come down again by more than this share of the rise: what does is a level that
 * wanders, as an allocator's that gives back a few megabytes now and then. */
#define TIDE_LEAK_RETREAT 0.3
/* ... and to rise in its last third at no less than this share of the mean rate; less is a plateau, or
 * undecided. */
#define TIDE_LEAK_STILL    0.25
#define TIDE_PLATEAU_STILL 0.12
#define TIDE_STILL_Z       2.5
/* of the slope since a bend: a slope in the last third that goes on, however small against before */
#define TIDE_STILL_SAME  0.6
#define TIDE_LATELY      (2.0 / 3) /* where the last third begins */
#define TIDE_TAIL_LATEST 0.9       /* a slope at the end is fitted to no less than the last tenth */

/* A leak is said to have begun at a bend if the floor moved by no more before than this share of its rise
 * since. */
#define TIDE_SINCE_SHARE 0.05

/* An accelerating leak is no higher a power than this: what is was level until a few jumps at its end, and
 * they cannot tell how it goes on. */
#define TIDE_POWER_MOST 5.0

/* Noise more correlated than this may be a walk at random; its mean step must then be this many standard
 * errors. From so many on it is driven beyond doubt, and its slope need be no surer than a walk's. */
#define TIDE_WANDER   0.85
#define TIDE_WANDER_Z 3.0
#define TIDE_DRIVEN_Z 5.0
/* ... Nor is it a walk if this share of its variance, or less, is about the line: of a million walks of 12
 * points 48 are so straight, and hardly any of more. */
#define TIDE_STRAIGHT 0.01

/* A floor whose noise has a long memory still gives this many degrees of freedom. */
#define TIDE_FREEDOM_LEAST 4

/* The autocorrelation is itself estimated, and low: intervals are wider by this factor, found on the corpus.
 */
#define TIDE_INTERVAL_WIDER 1.15

/* Below this many windows nothing but a one-pass plateau is decided. */
#define TIDE_FEWEST_WINDOWS 6
/* Flat: a slope this sure is not flat unless the growth is below this share of the level; a run of fewer
 * moments is only flat when growth of its (much smaller) share is ruled out, because a slow leak hides in any
 * short run. */
#define TIDE_FLAT_Z           2.5
#define TIDE_FLAT_SHARE       0.02
#define TIDE_FLAT_RETREAT     0.6 /* of a rise of no more than that: what came down by it is no rise */
#define TIDE_SHORT_MOMENTS    48
#define TIDE_FLAT_SHARE_BRIEF 5e-4
#define TIDE_FLAT_LEAST_BRIEF (64.0 * 1024) /* bytes */
/* A floor that ends this share of its level above where it began is not called flat. */
#define TIDE_LEVEL_RISE 0.05
/* A leak would have shown if it comes to so many times the range of the floor, over what is sure and matters:
 * less may be bent by the floor's own ups and downs into another shape. */
#define TIDE_SHOWN_RANGES 6.0
/* Undecided: the growth over the run, as a share of the level, whose decision is forecast. */
#define TIDE_MATTERS_SHARE 0.01

/* No floor is less noisy than a page's rounding, nor than this share of its level. */
#define TIDE_NOISE_LEAST 1200.0
#define TIDE_NOISE_SHARE 1e-5
#define TIDE_MAD_SIGMA   0.6745 /* median absolute deviation of a normal, in standard deviations */

/* Information criterion: a model must beat a simpler one by this much. */
#define TIDE_BIC_MARGIN 6.0

/* A knee is known to within the places whose criterion is this near to the best (two standard errors). A
 * curve that saturates has its knee where it is 95 % full: three time constants. */
#define TIDE_KNEE_BIC  4.0
#define TIDE_SATURATED 3.0

#define TIDE_BEHIND_KNEE 4 /* points that tell whether it is level */

/* Growth without a shape has stopped when the floor stays within this share of the rise for this last share
 * of the run, and for this many times as long as it ever did before. */
#define TIDE_STANDSTILL_WITHIN 0.02
#define TIDE_STANDSTILL_SHARE  (1.0 / 3)
#define TIDE_STANDSTILL_TIMES  2.0

/* Jump and plateau: size, against the noise and the level. */
#define TIDE_CHANGE_NOISES 6.0
#define TIDE_CHANGE_LEAST  (256.0 * 1024) /* bytes: less than that is a library's page here and there */
#define TIDE_CHANGE_SHARE  0.005

/* A knee whose interval, wider by this share of it, holds the end of one pass over the data is that end. */
#define TIDE_PASS_SLACK 0.04
/* Asked directly whether growth ends with one pass: the residual against a level and against a line, how near
 * the free knee must be, and how sure the rise. */
#define TIDE_PASS_FLAT 0.25
#define TIDE_PASS_LINE 0.5
#define TIDE_PASS_NEAR 0.1
#define TIDE_PASS_T    12.0
/* ... and by what share of the rise points before that end may be off an even rise, in the mean. */
#define TIDE_PASS_UNEVEN 0.1

/* A cache that fills early in a long run: looked for in this first share, at a rise of this share of the
 * level, over this many windows and this share of the run. */
#define TIDE_EARLY_SHARE   0.2
#define TIDE_EARLY_RISE    0.02
#define TIDE_EARLY_WINDOWS 6
#define TIDE_EARLY_LEAST   0.02

/* Staircase: jumps this many noise widths high must explain this share of the rise. */
#define TIDE_STAIR_NOISES  6.0
#define TIDE_STAIR_LEAST   (64.0 * 1024) /* bytes */
#define TIDE_STAIR_SHARE   0.75
#define TIDE_STAIRS_LEAST  3
#define TIDE_STAIR_DOWN    0.2  /* of the stairs: more downward steps are noise */
#define TIDE_STAIR_OVER    1.4  /* of the rise: stairs that add up to more are noise */
#define TIDE_STAIR_LATE    2.0  /* periods without a stair: it has stopped */
#define TIDE_STAIR_SPAN    0.4  /* of the run that stairs must be spread over */
#define TIDE_STAIR_WITH    0.8  /* of the stairs come with an epoch or a phase: they belong to it, */
#define TIDE_STAIR_MARKS   0.34 /* if there are fewer of those than this per window */
#define TIDE_STAIR_Z       2.5  /* standard deviations that the sum of stairs like these is above zero */
#define TIDE_STAIR_TALLEST 0.5  /* of all stairs together: more is a jump with noise */

/* Spikes: higher than this share of the level and this many noise widths of the samples, in at most this
 * share of moments. */
#define TIDE_SPIKE_SHARE  0.06
#define TIDE_SPIKE_NOISES 5.0
#define TIDE_SPIKE_MOST   0.40

/* A container that grows by a factor: jumps of at least this factor, alike to within this one, from this
 * share of its size on, that are at least so many and explain this share of the rise; sizes before a jump lie
 * on a line to within this share of their range, and the next jump is overdue past this many times the time
 * it takes. */
#define TIDE_DOUBLING_JUMP  1.2
#define TIDE_DOUBLING_ALIKE 1.35
#define TIDE_DOUBLING_FROM  0.01
#define TIDE_DOUBLING_JUMPS 3
#define TIDE_DOUBLING_SHARE 0.9
#define TIDE_DOUBLING_OFF   0.05
#define TIDE_DOUBLING_LATE  1.1

/* A jump is moved back to where most moments were first that high, when there are so many moments before that
 * and no more than this share of them had been. */
#define TIDE_JUMP_BEFORE 4
#define TIDE_JUMP_HABIT  0.2
/* One that is less than this share of the level is not a finding. A rise beside it that is not surely a leak
 * does not make it undecided if it comes to no more than this share of it. */
#define TIDE_JUMP_SHARE  0.01
#define TIDE_JUMP_BESIDE 0.05

/* Retention: what the program holds explains at most this share of the growth, by the upper end of its
 * interval; nor does what it holds at the most, which this share of the looks stay under. Where the allocator
 * can be asked, what it keeps free must have grown by at least this share of it. */
#define TIDE_RETENTION_LIVE  0.2
#define TIDE_RETENTION_LEAST 0.02 /* of the process: less, or too little for a leak, is not a finding */
#define TIDE_RETENTION_KEPT  0.5
#define TIDE_RETENTION_CREST 0.95

/* A sum over processes leaks only if those of them that leak, and those that came, explain this share of it.
 */
#define TIDE_SUM_EXPLAINED 0.5

/* A process that rises leaks only if it asked for at least this share of that in the meantime; otherwise it
 * touches what it had. */
#define TIDE_ASKED_SHARE 0.5

/* A program may still be starting for this many seconds in which it has a processor: on a machine where it
 * gets a tenth of one, for ten times as many. If it names steps: until there were so many of them.
 * If not: growth by then is called a leak only if it is linear, its rate is known to this share of it, and it
 * comes to so much. Libraries that load and data that is read come in bursts; a small program's cache fills
 * evenly, as SQLite's of 2 MiB. Where processes take over from each other, or one
 * is over before this last share of the recording, even that is not enough: a compiler grows evenly as long
 * as it reads. */
#define TIDE_STARTING_SECONDS 60.0
#define TIDE_STARTING_STEPS   24
#define TIDE_STARTING_STEADY  0.05
#define TIDE_STARTING_LEAST   (4.0 * 1024 * 1024)
#define TIDE_STARTING_OVER    0.1
/* A library may fill a buffer for this many steps: PyTorch keeps the last 2,000 collectives of a rank. Growth
 * by then is called a leak only if its rate is known to this share of it, or if it comes to so much of the
 * process. */
#define TIDE_STARTING_BUFFER  2000
#define TIDE_STARTING_VAGUE   0.2
#define TIDE_STARTING_MATTERS 0.25
/* What has become slower is still starting until it has gone on for this many times as long as it took to. */
#define TIDE_STARTING_SLOWED 3.0

#endif
