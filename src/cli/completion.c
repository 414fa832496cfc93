/*
 * completion.c - completion scripts for bash, zsh and fish, from the same tables as -h.
 *
 * What follows an option comes from its kind: a choice from its choices, FILE and DIR from the file system,
 * anything else is not guessed. What a command's operands are comes from its synopsis: FILE, DIR, PID, CMD,
 * COMMAND, or words to choose from, which it then begins with.
 */
#include "cli/command.h"
#include "cli/help.h"

#include <string.h>

enum operand {
    OPERAND_NONE = 0,
    OPERAND_FILE = 1,
    OPERAND_PID = 2,
    OPERAND_PROGRAM = 4,
    OPERAND_COMMAND = 8,
    OPERAND_DIR = 16
};

/* How much of the synopsis is words to choose from, as in "bash|zsh|fish"; 0: none of it. */
static size_t words_of(const struct tide_command *command)
{
    char first = command->synopsis[0];
    return first >= 'a' && first <= 'z' ? strcspn(command->synopsis, " ") : 0;
}

/* Operands stand outside the brackets that hold an option: "[-o FILE]" says nothing about operands. */
static unsigned operands_of(const struct tide_command *command)
{
    static const struct {
        const char *word;
        enum operand what;
    } words[] = {{"FILE", OPERAND_FILE},
                 {"PID", OPERAND_PID},
                 {"CMD", OPERAND_PROGRAM},
                 {"COMMAND", OPERAND_COMMAND},
                 {"DIR", OPERAND_DIR}};
    unsigned found = 0;
    bool option = false;
    for (const char *p = command->synopsis; *p;) {
        size_t space = strspn(p, " []().");
        if (memchr(p, ']', space))
            option = false;
        p += space;
        size_t n = strcspn(p, " []()."), lead = strspn(p, "-");
        if (lead && n > lead)
            option = true;
        else if (lead)
            option = false;
        for (size_t i = 0; !option && i < sizeof words / sizeof words[0]; i++)
            if (strlen(words[i].word) == n && !memcmp(p, words[i].word, n))
                found |= words[i].what;
        p += n;
    }
    return found;
}

static bool takes_path(const struct tide_option *o)
{
    return o->arg && o->kind == TIDE_OPTION_TEXT && (!strcmp(o->arg, "FILE") || !strcmp(o->arg, "DIR"));
}

static void put_choices(const char *choices, size_t length, const char *between, FILE *out)
{
    for (const char *end = choices + length; choices < end; choices++)
        if (*choices == '|')
            fputs(between, out);
        else
            fputc(*choices, out);
}

static void put_names(const char *between, FILE *out)
{
    for (size_t i = 0; tide_commands[i]; i++)
        fprintf(out, "%s%s", i ? between : "", tide_commands[i]->name);
}

/* For a single-quoted string of a shell; zsh's _arguments also wants brackets and colons kept apart. */
static void put_quoted(const char *text, const char *escaped, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'') {
            fputs("'\\''", out);
            continue;
        }
        if (strchr(escaped, *text))
            fputc('\\', out);
        fputc(*text, out);
    }
}

/* -- bash -- */

static void bash_option_values(const struct tide_command *command, FILE *out)
{
    for (const struct tide_option *o = command->options; o->name; o++) {
        if (o->kind == TIDE_OPTION_FLAG)
            continue;
        fprintf(out, "        %s:--%s", command->name, o->name);
        if (o->letter)
            fprintf(out, "|%s:-%c", command->name, o->letter);
        fputs(") ", out);
        if (o->kind == TIDE_OPTION_CHOICE) {
            fputs("_tidemark_reply -W '", out);
            put_choices(o->choices, strlen(o->choices), " ", out);
            fputc('\'', out);
        } else if (takes_path(o)) {
            fprintf(out, "_tidemark_reply -%c", strcmp(o->arg, "DIR") ? 'f' : 'd');
        } else {
            fputs(":", out);
        }
        fputs("; return ;;\n", out);
    }
}

static void bash_operands(const struct tide_command *command, FILE *out)
{
    unsigned operands = operands_of(command);
    size_t words = words_of(command);
    if (!operands && !words)
        return;
    fprintf(out, "        %s)\n", command->name);
    if (operands & OPERAND_FILE)
        fputs("            _tidemark_reply -f\n", out);
    if (operands & OPERAND_PID)
        fputs("            _tidemark_reply -W \"$(cd /proc && echo [0-9]*)\"\n", out);
    if (operands & OPERAND_PROGRAM && !(operands & ~(unsigned)OPERAND_PROGRAM))
        fputs("            _tidemark_reply -c\n", out);
    if (operands & OPERAND_COMMAND)
        fputs("            _tidemark_reply -W \"$commands\"\n", out);
    if (operands & OPERAND_DIR)
        fputs("            _tidemark_reply -d\n", out);
    if (words) {
        fputs("            _tidemark_reply -W '", out);
        put_choices(command->synopsis, words, " ", out);
        fputs("'\n", out);
    }
    fputs("            ;;\n", out);
}

static void put_bash(FILE *out)
{
    fputs("# bash completion of tidemark\n"
          "_tidemark_reply() {\n"
          "    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen \"$@\" -- \"$cur\")\n"
          "}\n"
          "_tidemark() {\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} i dashes=0\n"
          "    local command=${COMP_WORDS[1]} options=''\n"
          "    local commands='",
          out);
    put_names(" ", out);
    fputs("'\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        _tidemark_reply -W \"$commands -h --help -V --version\"\n"
          "        return\n"
          "    fi\n"
          "    for ((i = 2; i < COMP_CWORD; i++)); do\n"
          "        if [[ ${COMP_WORDS[i]} == -- ]]; then dashes=$i; break; fi\n"
          "    done\n"
          "    if ((dashes)); then\n"
          "        if ((COMP_CWORD == dashes + 1)); then\n"
          "            _tidemark_reply -c\n"
          "        else\n"
          "            _tidemark_reply -f\n"
          "        fi\n"
          "        return\n"
          "    fi\n"
          "    case $command:$prev in\n",
          out);
    for (size_t i = 0; tide_commands[i]; i++)
        bash_option_values(tide_commands[i], out);
    fputs("    esac\n    case $command in\n", out);
    for (size_t i = 0; tide_commands[i]; i++) {
        fprintf(out, "        %s) options='", tide_commands[i]->name);
        for (const struct tide_option *o = tide_commands[i]->options; o->name; o++)
            fprintf(out, "--%s ", o->name);
        fputs("--help' ;;\n", out);
    }
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        _tidemark_reply -W \"$options\"\n"
          "        return\n"
          "    fi\n"
          "    case $command in\n",
          out);
    for (size_t i = 0; tide_commands[i]; i++)
        bash_operands(tide_commands[i], out);
    fputs("    esac\n}\ncomplete -o filenames -F _tidemark tidemark\n", out);
}

/* -- zsh -- */

static void zsh_option(char letter, const char *name, const char *help, const struct tide_option *o,
                       FILE *out)
{
    const char *value = o && o->kind != TIDE_OPTION_FLAG ? "=" : "";
    if (letter)
        fprintf(out, "                '(-%c --%s)'{-%c%s,--%s%s}'[", letter, name, letter,
                value[0] ? "+" : "", name, value);
    else
        fprintf(out, "                '--%s%s[", name, value);
    put_quoted(help, "[]:\\", out);
    fputc(']', out);
    if (value[0]) {
        fputc(':', out);
        put_quoted(o->arg, ":", out);
        fputc(':', out);
        if (o->kind == TIDE_OPTION_CHOICE) {
            fputc('(', out);
            put_choices(o->choices, strlen(o->choices), " ", out);
            fputc(')', out);
        } else if (takes_path(o)) {
            fputs(strcmp(o->arg, "DIR") ? "_files" : "_directories", out);
        }
    }
    fputs("' \\\n", out);
}

static const char *zsh_operand(unsigned operands)
{
    if (operands & OPERAND_DIR)
        return "'1:directory:_directories'";
    if (operands == OPERAND_PROGRAM)
        return "'*::program:_normal'";
    if (operands & OPERAND_COMMAND)
        return "'1:command:_tidemark_commands'";
    if ((operands & OPERAND_FILE) && (operands & OPERAND_PID))
        return "'*: :_alternative pids\\:pid\\:_pids files\\:file\\:_files'";
    if (operands & OPERAND_PID)
        return "'*:pid:_pids'";
    return operands & OPERAND_FILE ? "'*:file:_files'" : "";
}

static void put_zsh(FILE *out)
{
    fputs("#compdef tidemark\n"
          "_tidemark_commands() {\n"
          "    local -a commands=(\n",
          out);
    for (size_t i = 0; tide_commands[i]; i++) {
        fprintf(out, "        '%s:", tide_commands[i]->name);
        put_quoted(tide_commands[i]->summary, "", out);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    _describe command commands\n"
          "}\n"
          "_tidemark() {\n"
          "    local curcontext=$curcontext state line\n"
          "    _arguments -C '(-h --help)'{-h,--help}'[" TIDE_HELP_OPTION "]' "
          "'(-V --version)'{-V,--version}'[" TIDE_VERSION_OPTION "]' \\\n"
          "        '1:command:_tidemark_commands' '*::arg:->args'\n"
          "    [[ $state == args ]] || return\n"
          "    case $words[1] in\n",
          out);
    for (size_t i = 0; tide_commands[i]; i++) {
        fprintf(out, "        %s)\n            _arguments -S \\\n", tide_commands[i]->name);
        for (const struct tide_option *o = tide_commands[i]->options; o->name; o++)
            zsh_option(o->letter, o->name, o->help, o, out);
        zsh_option('h', "help", TIDE_HELP_OPTION, NULL, out);
        size_t words = words_of(tide_commands[i]);
        if (words) {
            fputs("                '1:word:(", out);
            put_choices(tide_commands[i]->synopsis, words, " ", out);
            fputs(")'\n            ;;\n", out);
        } else {
            fprintf(out, "                %s\n            ;;\n", zsh_operand(operands_of(tide_commands[i])));
        }
    }
    fputs("    esac\n}\n"
          "if [[ $funcstack[1] == _tidemark ]]; then _tidemark \"$@\"; else compdef _tidemark tidemark; fi\n",
          out);
}

/* -- fish -- */

static void fish_option(const char *command, char letter, const char *name, const char *help,
                        const struct tide_option *o, FILE *out)
{
    fprintf(out, "complete -c tidemark -n '__fish_seen_subcommand_from %s'", command);
    if (letter)
        fprintf(out, " -s %c", letter);
    fprintf(out, " -l %s -d '", name);
    for (; *help; help++) {
        if (*help == '\'' || *help == '\\')
            fputc('\\', out);
        fputc(*help, out);
    }
    fputc('\'', out);
    if (o && o->kind == TIDE_OPTION_CHOICE) {
        fputs(" -x -a '", out);
        put_choices(o->choices, strlen(o->choices), " ", out);
        fputc('\'', out);
    } else if (o && takes_path(o)) {
        fputs(" -r -F", out);
    } else if (o && o->kind != TIDE_OPTION_FLAG) {
        fputs(" -x", out);
    }
    fputc('\n', out);
}

static void fish_operands(const struct tide_command *command, FILE *out)
{
    unsigned operands = operands_of(command);
    const char *const head = "complete -c tidemark -n '__fish_seen_subcommand_from %s' ";
    static const struct {
        enum operand what;
        const char *how;
    } hows[] = {{OPERAND_FILE, "-F\n"},
                {OPERAND_PID, "-a '(__fish_complete_pids)'\n"},
                {OPERAND_PROGRAM, "-a '(__fish_complete_subcommand --fcs-skip=2)'\n"},
                {OPERAND_DIR, "-a '(__fish_complete_directories)'\n"}};
    for (size_t i = 0; i < sizeof hows / sizeof hows[0]; i++)
        if (operands & hows[i].what) {
            fprintf(out, head, command->name);
            fputs(hows[i].how, out);
        }
    if (operands & OPERAND_COMMAND) {
        fprintf(out, head, command->name);
        fputs("-a '", out);
        put_names(" ", out);
        fputs("'\n", out);
    }
    size_t words = words_of(command);
    if (words) {
        fprintf(out, head, command->name);
        fputs("-a '", out);
        put_choices(command->synopsis, words, " ", out);
        fputs("'\n", out);
    }
}

static void put_fish(FILE *out)
{
    fputs("# fish completion of tidemark\n"
          "complete -c tidemark -f\n"
          "complete -c tidemark -n __fish_use_subcommand -s h -l help -d '" TIDE_HELP_OPTION "'\n"
          "complete -c tidemark -n __fish_use_subcommand -s V -l version -d '" TIDE_VERSION_OPTION "'\n",
          out);
    for (size_t i = 0; tide_commands[i]; i++) {
        const struct tide_command *command = tide_commands[i];
        fprintf(out, "complete -c tidemark -n __fish_use_subcommand -a %s -d '", command->name);
        put_quoted(command->summary, "", out);
        fputs("'\n", out);
        for (const struct tide_option *o = command->options; o->name; o++)
            fish_option(command->name, o->letter, o->name, o->help, o, out);
        fish_option(command->name, 'h', "help", TIDE_HELP_OPTION, NULL, out);
        fish_operands(command, out);
    }
}

int tide_help_completion(const char *shell, FILE *out, struct tide_err *err)
{
    if (!strcmp(shell, "bash"))
        put_bash(out);
    else if (!strcmp(shell, "zsh"))
        put_zsh(out);
    else if (!strcmp(shell, "fish"))
        put_fish(out);
    else {
        tide_err_set(err, "completion: no script for that shell");
        return tide_err_hint(err, "bash, zsh or fish");
    }
    return 0;
}
