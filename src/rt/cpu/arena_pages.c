#include "rt/cpu/arena_pages.h"
#include "rt/cpu/threads.h"

#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

enum { SMALLEST_PAGE = 4096 };

int tide_pages_map(struct tide_pages *pages, size_t bytes, size_t from, size_t to, struct tide_err *err)
{
    size_t huge = (size_t)2 << 20, whole = bytes / huge * huge, mapped = (bytes + huge - 1) / huge * huge;
    char *start =
        mmap(NULL, mapped + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return tide_err_set(err, "cannot take %zu bytes from the system: %s", bytes, strerror(errno));
    size_t skip = (huge - (size_t)start % huge) % huge;
    if (skip)
        munmap(start, skip);
    start += skip;
    munmap(start + mapped, huge - skip);
    /* Not the last part: a huge page there would reach beyond the plan, now or when khugepaged gets to it. */
    madvise(start, whole, MADV_HUGEPAGE);
    madvise(start + whole, mapped - whole, MADV_NOHUGEPAGE);
    from = (from + huge - 1) / huge * huge;
    to = to / huge * huge;
    if (from < to)
        madvise(start + from, to - from, MADV_NOHUGEPAGE);
    *pages = (struct tide_pages){start, mapped};
    return 0;
}

static void touch_some(void *context, int64_t first, int64_t last)
{
    volatile char *page = (char *)context + first * SMALLEST_PAGE;
    for (; first < last; first++, page += SMALLEST_PAGE)
        *page = 0;
}

/* Reads the pages of code and constants. Else a page of libm for rare numbers could be faulted in at any
 * step. */
static int touch_object(struct dl_phdr_info *info, size_t size, void *context)
{
    static const char *const names[] = {"/libc.so", "/libm.so"};
    bool is_one = !info->dlpi_name[0]; /* the program */
    (void)size;
    (void)context;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_one = is_one || strstr(info->dlpi_name, names[i]);
    for (int i = 0; is_one && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr, skipped = start % SMALLEST_PAGE;
        if (part->p_type == PT_LOAD && !(part->p_flags & PF_W)) /* fails before Linux 5.14 */
            madvise((void *)(start - skipped), part->p_memsz + skipped, MADV_POPULATE_READ);
    }
    return 0;
}

void tide_pages_touch(const struct tide_pages *pages, size_t bytes)
{
    int64_t count = (int64_t)((bytes + SMALLEST_PAGE - 1) / SMALLEST_PAGE);
    tide_parallel(count, 4096, touch_some, pages->start);
    dl_iterate_phdr(touch_object, NULL);
}

void tide_pages_release(struct tide_pages *pages)
{
    if (pages->start)
        munmap(pages->start, pages->mapped);
    *pages = (struct tide_pages){0};
}
