/*
 * help.c - the text of -h, from the tables.
 */
#include "cli/command.h"
#include "base/text.h"

#include <string.h>

enum { WIDTH = 80, HELP_COLUMN = 26 };

/* Prints text filled to WIDTH and indented by `indent`; the cursor is already at column `at`. */
static void print_filled(const char *text, size_t len, size_t indent, size_t at, FILE *out)
{
    bool first = true;
    for (size_t i = 0; i < len;) {
        if (text[i] == ' ' || text[i] == '\n') {
            i++;
            continue;
        }
        size_t n = 0;
        while (i + n < len && text[i + n] != ' ' && text[i + n] != '\n')
            n++;
        size_t columns = tide_text_columns(text + i, n);
        if (!first && at + 1 + columns > WIDTH) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!first) {
            fputc(' ', out);
            at++;
        }
        fwrite(text + i, 1, n, out);
        at += columns;
        first = false;
        i += n;
    }
    fputc('\n', out);
}

static void print_paragraphs(const char *text, FILE *out)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (text[0] == ' ')
            fprintf(out, "%.*s\n", (int)len, text);
        else
            print_filled(text, len, 0, 0, out);
        fputc('\n', out);
        text += len;
        text += strspn(text, "\n");
    }
}

/* "-o, --output FILE" and the help beside it, or below it where the name is too long. */
static void print_option(const struct tide_option *o, FILE *out)
{
    char lead[8] = "    ";
    if (o->letter)
        snprintf(lead, sizeof lead, "-%c, ", o->letter);
    int at = fprintf(out, "  %s--%s%s%s", lead, o->name, o->arg ? " " : "", o->arg ? o->arg : "");
    if (at + 2 > HELP_COLUMN) {
        fputc('\n', out);
        at = 0;
    }
    fprintf(out, "%*s", HELP_COLUMN - at, "");
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s", o->help, o->choices ? ": " : "", o->choices ? o->choices : "");
    print_filled(text, strlen(text), HELP_COLUMN, HELP_COLUMN, out);
}

static void print_examples(const char *examples, FILE *out)
{
    fputs("\nExamples:\n", out);
    while (*examples) {
        size_t n = strcspn(examples, "\n");
        fprintf(out, "  %.*s\n", (int)n, examples);
        examples += n + (examples[n] == '\n');
    }
}

bool tide_help_takes_sizes(const struct tide_command *command)
{
    const struct tide_option *o;
    for (size_t i = 0; (o = tide_command_option(command, i)); i++)
        if (o->kind == TIDE_OPTION_SIZE || o->kind == TIDE_OPTION_BYTES)
            return true;
    return false;
}

void tide_help_command(const struct tide_command *command, FILE *out)
{
    fprintf(out, "Usage: tidemark %s%s%s\n\n", command->name, command->synopsis[0] ? " " : "",
            command->synopsis);
    print_paragraphs(command->details, out);
    if (command->exits) {
        char exits[512];
        snprintf(exits, sizeof exits, "Exit code: %s", command->exits);
        print_paragraphs(exits, out);
    }
    if (tide_help_takes_sizes(command))
        print_paragraphs(TIDE_HELP_SIZES, out);
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        fprintf(out, "%s  %-12s%s\n", i ? "" : "Tasks:\n", tide_command_task(command->parts[i]),
                command->parts[i]->summary);
    fprintf(out, "%sOptions:\n", command->parts ? "\n" : "");
    const struct tide_option *o;
    for (size_t i = 0; (o = tide_command_option(command, i)); i++)
        print_option(o, out);
    if (command->examples)
        print_examples(command->examples, out);
}

void tide_help_all(FILE *out)
{
    fputs("Usage: tidemark COMMAND [options] [--] ARGS\n\n", out);
    print_paragraphs(TIDE_HELP_ABOUT, out);
    fputs("Commands:\n", out);
    for (size_t i = 0; tide_commands[i]; i++)
        fprintf(out, "  %-12s%s\n", tide_commands[i]->name, tide_commands[i]->summary);
    fputs("\nOptions:\n", out);
    for (const struct tide_option *o = tide_own_options; o->name; o++)
        print_option(o, out);
    fputs("\nExit codes: 0 nothing found, 1 found, 2 trouble, 3 not enough data; 'run' passes\n"
          "on the status of the program it runs. 'tidemark COMMAND -h' says more.\n",
          out);
}
