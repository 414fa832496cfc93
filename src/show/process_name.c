#include "show/process_name.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

char *tide_process_name(const struct tide_history *h, const struct tide_history_process *p, char *out,
                        size_t size)
{
    char name[48], parent_name[48];
    tide_text_escape(p->row.name, strlen(p->row.name), name, sizeof name);
    int64_t id = p->row.parent;
    const struct tide_history_process *parent =
        id >= 1 && (size_t)id <= h->process_count ? &h->processes[id - 1] : NULL;
    if (!parent) {
        snprintf(out, size, "%s[%lld]", name, (long long)p->row.pid);
        return out;
    }
    tide_text_escape(parent->row.name, strlen(parent->row.name), parent_name, sizeof parent_name);
    snprintf(out, size, "%s[%lld] (child of %s[%lld])", name, (long long)p->row.pid, parent_name,
             (long long)parent->row.pid);
    return out;
}
