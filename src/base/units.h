/*
 * units.h - sizes, durations and counts, read from and written for people.
 *
 * Sizes are bytes. Read: "4096", "64K", "1.5G", "24GiB". "G" and "GB" are powers of 1000, "Gi" and "GiB" of
 * 1024, in every command. Written: measurements in powers of 1024 ("208 KiB", "4.1 GiB"); what a model needs
 * in powers of 1000, as in papers and price lists ("2,177 MB", precise enough to compare plans that differ by
 * a few per cent); what somebody typed as both ("80 GB = 74.5 GiB").
 * Durations are nanoseconds. Read: "500ms", "5s", "2m", "1h", "90" (seconds). Written: "9 h 10 m", "250 ms".
 */
#ifndef TIDE_UNITS_H
#define TIDE_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* Upper bound on numbers of bytes, blocks and nanoseconds: the sum of two of them fits in an int64_t. */
#define TIDE_LARGEST (INT64_C(1) << 62)

/* The largest integer up to which a double, and so JavaScript and every JSON reader, is exact. */
#define TIDE_EXACT_MOST (INT64_C(1) << 53)

/* The sum of two such numbers, at most TIDE_LARGEST. */
static inline int64_t tide_bounded_sum(int64_t a, int64_t b)
{
    return a > TIDE_LARGEST - b ? TIDE_LARGEST : a + b;
}

/* 0 and a value >= 0, or -1 if text is not a size (empty, negative, trailing letters, over TIDE_LARGEST). */
int tide_size_parse(const char *text, int64_t *ret_bytes);
int tide_duration_parse(const char *text, int64_t *ret_ns);

/* Bytes in a unit, by its name in upper or lower case; NAN if it is not a unit. "" is not. */
double tide_size_unit(const char *name);

/* A whole decimal number with optional sign; digits may be grouped as 10_000. */
int tide_count_parse(const char *text, int64_t *ret_count);

/* Parses a finite decimal number with '.', whatever the locale. The whole text must be the number. */
int tide_real_parse(const char *text, double *ret_value);

enum { TIDE_UNITS_TEXT = 32 };

/* Each writes into out and returns it. bytes may be negative or fractional. */
char *tide_size_text(double bytes, char out[static TIDE_UNITS_TEXT]);
char *tide_memory_text(double bytes, char out[static TIDE_UNITS_TEXT]);
char *tide_typed_size_text(double bytes, char out[static TIDE_UNITS_TEXT]);
char *tide_duration_text(double seconds, char out[static TIDE_UNITS_TEXT]);
/* 118400 -> "118,400"; rounded to whole. */
char *tide_count_text(double count, char out[static TIDE_UNITS_TEXT]);

/* The same as expressions: the text is valid until the block ends. */
#define TIDE_SIZE(bytes)       tide_size_text(bytes, (char[TIDE_UNITS_TEXT]){0})
#define TIDE_MEMORY(bytes)     tide_memory_text(bytes, (char[TIDE_UNITS_TEXT]){0})
#define TIDE_DURATION(seconds) tide_duration_text(seconds, (char[TIDE_UNITS_TEXT]){0})
#define TIDE_COUNT(count)      tide_count_text(count, (char[TIDE_UNITS_TEXT]){0})

#endif
