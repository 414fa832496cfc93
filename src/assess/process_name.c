#include "assess/process_name.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

enum { TITLE = 56 }; /* two of them and the words between fit into a name */

/* True if a role is the beginning of a command with each run of digits as '#'. */
static bool is_unnumbered(const char *role, const char *command)
{
    for (; *role; role++) {
        size_t digits = *role == '#' ? strspn(command, "0123456789") : 0;
        if (!digits && *role != *command)
            return false;
        command += digits ? digits : 1;
    }
    return true;
}

char *tide_process_title(const struct tide_history_process *p, char *out, size_t size)
{
    char number[40] = "";
    const char *called = p->row.role[0] ? p->row.role : p->row.name;
    bool alone = p->number < 0 && p->row.rank == TIDE_UNKNOWN;
    if (alone && strchr(called, '#') && is_unnumbered(called, p->row.command))
        called = p->row.command; /* as the process called itself */
    if (p->row.rank != TIDE_UNKNOWN)
        snprintf(number, sizeof number, " rank %lld", (long long)p->row.rank);
    else if (p->number >= 0)
        snprintf(number, sizeof number, " %lld", (long long)p->number);
    size_t room = size > strlen(number) ? size - strlen(number) : 1;
    tide_text_shown(called, out, room); /* a long title is cut, its number is not */
    return strcat(out, number);
}

char *tide_process_short(const struct tide_history_process *p, char *out, size_t size)
{
    char pid[32] = "";
    if (p->row.pid != TIDE_UNKNOWN)
        snprintf(pid, sizeof pid, "[%lld]", (long long)p->row.pid);
    tide_process_title(p, out, size > strlen(pid) ? size - strlen(pid) : 1);
    return strcat(out, pid);
}

char *tide_process_name(const struct tide_history *h, const struct tide_history_process *p, char *out,
                        size_t size)
{
    char own[TITLE], parent_own[TITLE];
    const struct tide_history_process *parent = tide_history_process(h, p->row.parent);
    snprintf(out, size, "%s", tide_process_short(p, own, sizeof own));
    if (parent)
        snprintf(out, size, "%s (child of %s)", own,
                 tide_process_short(parent, parent_own, sizeof parent_own));
    return out;
}

bool tide_process_is_python(const struct tide_history_process *p)
{
    char program[TITLE];
    snprintf(program, sizeof program, "%.*s", (int)strcspn(p->row.command, " "), p->row.command);
    return !strncmp(tide_text_last_part(program), "python", 6) || !strncmp(p->row.name, "python", 6);
}
