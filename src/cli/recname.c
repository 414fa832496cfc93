#include "cli/recname.h"

#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool is_one_of(const char *word, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(word, *names))
            return true;
    return false;
}

static bool is_python(const char *name)
{
    return !strncmp(name, "python", 6) && strspn(name + 6, "0123456789.") == strlen(name + 6);
}

/* True for programs whose first operand is the program to run, perhaps after a verb ("uv run"). */
static bool is_launcher(const char *name)
{
    static const char *const names[] = {
        "env",        "nice",    "nohup", "time",   "stdbuf", "setsid", "timeout", "torchrun", "deepspeed",
        "accelerate", "uv",      "uvx",   "poetry", "pipenv", "conda",  "mpirun",  "mpiexec",  "srun",
        "taskset",    "numactl", "xargs", "sudo",   "bash",   "sh",     "dash",    "zsh",      "node",
        "perl",       "ruby",    "rye",   "pdm",    "hatch",  "ionice", "chrt",    NULL};
    return is_python(name) || is_one_of(name, names);
}

static bool looks_like_setting(const char *word)
{
    size_t name = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return (name && word[name] == '=') || (*word && strspn(word, "0123456789.smhx,") == strlen(word));
}

/* Returns the argument that names the command, or NULL when it is the launcher itself. */
static const char *behind_launcher(char *const *argv, bool python)
{
    static const char *const verbs[] = {"run", "launch", "exec", "tool", NULL};
    for (int i = 1; argv[i]; i++) {
        const char *word = argv[i];
        if (python && !strcmp(word, "-m") && argv[i + 1])
            return argv[i + 1];
        if (!strcmp(word, "-c"))
            return NULL;
        if (word[0] == '-' || looks_like_setting(word) || is_one_of(word, verbs))
            continue;
        const char *name = tide_text_last_part(word);
        const char *behind = is_launcher(name) ? behind_launcher(argv + i, is_python(name)) : NULL;
        return behind ? behind : word;
    }
    return NULL;
}

void tide_recname_word(char *const *argv, char *ret_word, size_t size)
{
    const char *name = tide_text_last_part(argv[0]);
    const char *behind = is_launcher(name) ? behind_launcher(argv, is_python(name)) : NULL;
    if (behind)
        name = tide_text_last_part(behind);
    size_t len = strlen(name), used = 0;
    if (len > 3 && (!strcmp(name + len - 3, ".py") || !strcmp(name + len - 3, ".sh")))
        len -= 3;
    for (size_t i = 0; i < len && used + 1 < size && used < 64; i++) {
        unsigned char c = (unsigned char)name[i];
        bool fine = c < 0x80 && (isalnum(c) || c == '_' || (used && (c == '-' || c == '.')));
        ret_word[used++] = fine ? (char)c : '_';
    }
    if (!used && size > 1)
        ret_word[used++] = '_';
    ret_word[used] = '\0';
}

int tide_recname_path(const char *word, char *ret_path, size_t size, bool *ret_elsewhere)
{
    char folder[2048] = "", stamp[32] = "";
    *ret_elsewhere = access(".", W_OK | X_OK) != 0;
    if (*ret_elsewhere) {
        const char *tmp = secure_getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/", tmp && *tmp && !access(tmp, W_OK | X_OK) ? tmp : "/tmp");
    }
    time_t now = time(NULL);
    struct tm local;
    if (localtime_r(&now, &local))
        strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &local);
    for (int n = 1; n < 1000; n++) {
        char more[16] = "";
        if (n > 1)
            snprintf(more, sizeof more, "-%d", n);
        int len = snprintf(ret_path, size, "%s%s-%s%s.tide", folder, word, stamp, more);
        if (len < 0 || (size_t)len >= size)
            return -1;
        if (access(ret_path, F_OK))
            return 0;
    }
    return -1;
}
