/*
 * completion.c - completion for bash, zsh and fish.
 *
 * The scripts know nothing of the commands: they pass the words typed so far to 'tidemark completion-words',
 * which answers from the same tables as -h: one candidate per line, then a tab and its description. A line
 * that begins with a colon stands for something that the shell completes itself: ":files", ":directories",
 * ":pids", or ":program" with the number of words before the program's own command line.
 */
#include "cli/command.h"

#include <string.h>

static const char bash_script[] =
    "# bash completion of tidemark\n"
    "_tidemark_reply() {\n"
    "    mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen \"$@\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
    "}\n"
    "_tidemark() {\n"
    "    local word about\n"
    "    COMPREPLY=()\n"
    "    while IFS=$'\\t' read -r word about; do\n"
    "        case $word in\n"
    "            :files) _tidemark_reply -f ;;\n"
    "            :directories) _tidemark_reply -d ;;\n"
    "            :pids) _tidemark_reply -W \"$(cd /proc && echo [0-9]*)\" ;;\n"
    "            :program) if ((COMP_CWORD == about)); then _tidemark_reply -c; else _tidemark_reply -f; fi ;;\n"
    "            *) _tidemark_reply -W \"$word\" ;;\n"
    "        esac\n"
    "    done < <(\"${COMP_WORDS[0]}\" completion-words \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
    "}\n"
    "complete -o filenames -F _tidemark tidemark\n";

static const char zsh_script[] =
    "#compdef tidemark\n"
    "_tidemark() {\n"
    "    local -a found\n"
    "    local word about\n"
    "    \"$words[1]\" completion-words \"${(@)words[2,CURRENT]}\" 2>/dev/null | while IFS=$'\\t' read -r word about; do\n"
    "        case $word in\n"
    "            :files) _files ;;\n"
    "            :directories) _directories ;;\n"
    "            :pids) _pids ;;\n"
    "            :program) shift $about words; ((CURRENT -= about)); _normal ;;\n"
    "            *) found+=(\"${word//:/\\\\:}:$about\") ;;\n"
    "        esac\n"
    "    done\n"
    "    (($#found)) && _describe tidemark found\n"
    "}\n"
    "if [[ $funcstack[1] == _tidemark ]]; then _tidemark \"$@\"; else compdef _tidemark tidemark; fi\n";

static const char fish_script[] =
    "# fish completion of tidemark\n"
    "function _tidemark_words\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    for line in ($words[1] completion-words $words[2..] 2>/dev/null)\n"
    "        switch $line\n"
    "            case ':files'\n"
    "                __fish_complete_path (commandline -ct)\n"
    "            case ':directories'\n"
    "                __fish_complete_directories (commandline -ct)\n"
    "            case ':pids'\n"
    "                __fish_complete_pids\n"
    "            case ':program*'\n"
    "                __fish_complete_subcommand --fcs-skip=(string split -f 2 \\t $line)\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c tidemark -f -a '(_tidemark_words)'\n";

static void put_commands(FILE *out)
{
    for (size_t i = 0; tide_commands[i]; i++)
        fprintf(out, "%s\t%s\n", tide_commands[i]->name, tide_commands[i]->summary);
}

static void put_options(const struct tide_command *command, FILE *out)
{
    const struct tide_option *o;
    for (size_t i = 0; (o = tide_command_option(command, i)); i++)
        fprintf(out, "--%s\t%s\n", o->name, o->help);
}

/* Writes the possible values of an option: only choices and paths are completed. */
static void put_values(const struct tide_option *o, FILE *out)
{
    if (o->kind == TIDE_OPTION_CHOICE)
        for (const char *p = o->choices, *next; *p; p = next) {
            size_t len = strcspn(p, "|");
            next = p + len + (p[len] == '|');
            fprintf(out, "%.*s\n", (int)len, p);
        }
    else if (o->kind == TIDE_OPTION_TEXT && !strcmp(o->arg, "FILE"))
        fputs(":files\n", out);
    else if (o->kind == TIDE_OPTION_TEXT && !strcmp(o->arg, "DIR"))
        fputs(":directories\n", out);
}

/* Returns the option that a word names if it takes a value, or NULL. */
static const struct tide_option *option_of(const struct tide_command *command, const char *word)
{
    const struct tide_option *o;
    for (size_t i = 0; (o = tide_command_option(command, i)); i++)
        if (o->kind != TIDE_OPTION_FLAG && word[0] == '-' &&
            ((word[1] == '-' && !strcmp(word + 2, o->name)) ||
             (o->letter && word[1] == o->letter && !word[2])))
            return o;
    return NULL;
}

void tide_help_candidates(int count, char **words, FILE *out)
{
    const char *typed = count ? words[count - 1] : "";
    if (count <= 1 && typed[0] == '-') {
        for (const struct tide_option *o = tide_own_options; o->name; o++)
            fprintf(out, "--%s\t%s\n", o->name, o->help);
        return;
    }
    if (count <= 1) {
        put_commands(out);
        return;
    }
    const struct tide_command *command = tide_command_find(words[0], NULL);
    if (!command)
        return;
    for (int i = 1; i < count - 1; i++) {
        if (!strcmp(words[i], "--")) {
            fprintf(out, ":program\t%d\n", i + 2);
            return;
        }
        const struct tide_command *part = tide_command_part(command, words[i]);
        command = part ? part : command;
    }
    const struct tide_option *option = option_of(command, words[count - 2]);
    if (option)
        put_values(option, out);
    else if (typed[0] == '-')
        put_options(command, out);
    else if (command->parts)
        for (size_t i = 0; command->parts[i]; i++)
            fprintf(out, "%s\t%s\n", tide_command_task(command->parts[i]), command->parts[i]->summary);
    else if (command->operands && !strcmp(command->operands, ":commands"))
        put_commands(out);
    else if (command->operands && !strcmp(command->operands, ":program"))
        fprintf(out, ":program\t%d\n", count);
    else if (command->operands)
        fprintf(out, "%s\n", command->operands);
}

int tide_help_completion(const char *shell, FILE *out, struct tide_err *err)
{
    static const struct {
        const char *shell, *script;
    } scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    for (size_t i = 0; shell && i < sizeof scripts / sizeof *scripts; i++)
        if (!strcmp(shell, scripts[i].shell)) {
            fputs(scripts[i].script, out);
            return 0;
        }
    tide_err_set(err, shell ? "completion: there is no script for that shell"
                            : "completion: the name of a shell is missing");
    return tide_err_hint(err, "the shells are bash, zsh and fish");
}
