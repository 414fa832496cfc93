/*
 * manual.c - manual pages in mdoc, from the same tables as -h.
 */
#include "cli/command.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The date of this version, shown in the pages. */
#define VERSION_DATE "November 15, 2026"

/* Escapes text for roff: no escape, no control line, every '-' a hyphen that can be searched for. */
static void put_text(const char *text, size_t len, FILE *out)
{
    bool line_begins = true;
    for (size_t i = 0; i < len; i++) {
        if (line_begins && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", out);
        line_begins = text[i] == '\n';
        if (text[i] == '\\')
            fputs("\\e", out);
        else if (text[i] == '-')
            fputs("\\-", out);
        else
            fputc(text[i], out);
    }
}

/* Writes text as lines of its own; roff wants every sentence on a new line. */
static void put_line(const char *text, size_t len, FILE *out)
{
    size_t from = 0;
    for (size_t i = 0; i < len; i++) {
        bool sentence_ends = text[i] == '.' && i + 1 < len && (text[i + 1] == ' ' || text[i + 1] == '\n');
        if (!sentence_ends && text[i] != '\n')
            continue;
        size_t end = sentence_ends ? i + 1 : i;
        put_text(text + from, end - from, out);
        fputc('\n', out);
        for (i = end; i < len && (text[i] == ' ' || text[i] == '\n'); i++)
            continue;
        from = i--;
    }
    if (from < len) {
        put_text(text + from, len - from, out);
        fputc('\n', out);
    }
}

static void put_literal(const char *text, size_t len, FILE *out)
{
    fputs(".Bd -literal -offset indent\n", out);
    put_text(text, len, out);
    if (len && text[len - 1] != '\n')
        fputc('\n', out);
    fputs(".Ed\n", out);
}

static void put_paragraphs(const char *text, FILE *out)
{
    for (bool first = true; *text; first = false) {
        const char *end = strstr(text, "\n\n");
        size_t len = end ? (size_t)(end - text) : strlen(text);
        if (text[0] == ' ') {
            put_literal(text, len, out);
        } else {
            if (!first)
                fputs(".Pp\n", out);
            put_line(text, len, out);
        }
        text += len;
        text += strspn(text, "\n");
    }
}

static void put_option(const struct tide_option *o, FILE *out)
{
    fputs(".It ", out);
    if (o->letter)
        fprintf(out, "Fl %c , ", o->letter);
    fputs("Fl \\-", out);
    put_text(o->name, strlen(o->name), out);
    if (o->arg) {
        fputs(" Ar ", out);
        put_text(o->arg, strlen(o->arg), out);
    }
    fputc('\n', out);
    char text[1024];
    snprintf(text, sizeof text, "%s%s%s.", o->help, o->choices ? ": " : "", o->choices ? o->choices : "");
    text[0] = (char)toupper((unsigned char)text[0]);
    put_line(text, strlen(text), out);
}

static void put_head(const char *command, const char *summary, FILE *out)
{
    fprintf(out, ".Dd %s\n.Dt TIDEMARK", VERSION_DATE);
    if (command) {
        fputc('-', out);
        for (const char *p = command; *p; p++)
            fputc(toupper((unsigned char)*p), out);
    }
    fprintf(out, " 1\n.Os\n.Sh NAME\n.Nm tidemark%s%s\n.Nd ", command ? "-" : "", command ? command : "");
    put_text(summary, strlen(summary), out);
    fputc('\n', out);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In alphabetical order, as usual in manual pages. */
static void put_see_also(const struct tide_command *but, FILE *out)
{
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; tide_commands[i]; i++)
        if (tide_commands[i] != but)
            names[count++] = tide_commands[i]->name;
    /* cppcheck-suppress uninitvar ; as many are set as are read */
    qsort(names, count, sizeof *names, by_name);
    fprintf(out, ".Sh SEE ALSO\n%s", but ? ".Xr tidemark 1" : "");
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s.Xr tidemark\\-%s 1", i || but ? " ,\n" : "", names[i]);
    fputc('\n', out);
}

static void put_tidemark(FILE *out)
{
    put_head(NULL, "where the memory of a training run goes", out);
    fputs(".Sh SYNOPSIS\n.Nm\n.Ar COMMAND\n.Op options\n.Op Fl \\-\n.Ar ARGS\n.Sh DESCRIPTION\n", out);
    put_paragraphs(TIDE_HELP_ABOUT, out);
    fputs(".Pp\nThe commands:\n.Bl -tag -width completion\n", out);
    for (size_t i = 0; tide_commands[i]; i++) {
        fprintf(out, ".It Cm %s\n", tide_commands[i]->name);
        char text[512];
        snprintf(text, sizeof text, "%s.", tide_commands[i]->summary);
        text[0] = (char)toupper((unsigned char)text[0]);
        put_line(text, strlen(text), out);
    }
    fputs(".El\n.Sh OPTIONS\n.Bl -tag -width Ds\n", out);
    for (const struct tide_option *o = tide_own_options; o->name; o++)
        put_option(o, out);
    fputs(
        ".El\n.Sh ENVIRONMENT\n.Bl -tag -width TIDEMARK_CHANNEL\n"
        ".It Ev NO_COLOR\nWhen set and not empty, nothing is coloured.\n"
        ".It Ev TIDEMARK_CHANNEL\nSet by\n.Cm run\nfor the program: where its marks go.\n"
        ".It Ev TIDEMARK_ISA\nThe newest instruction set that\n.Cm train\nand\n.Cm sample\nmay use:\n.Cm plain , avx2 , avx512\nor\n.Cm amx .\n"
        ".It Ev TIDEMARK_RECORDING\nSet by\n.Cm run\nfor the program: the recording that is made of it.\n"
        ".El\n",
        out);
    fputs(".Sh EXIT STATUS\n"
          ".Bl -tag -width Ds\n"
          ".It 0\nNothing was found.\n"
          ".It 1\nSomething was found: a leak, or a jump over the limit.\n"
          ".It 2\nTrouble: the sentence on standard error says what.\n"
          ".It 3\nThere is not enough data to decide.\n"
          ".El\n"
          ".Pp\n.Cm run\nexits with the status of the program that it ran instead.\n"
          "The page of each command says more.\n",
          out);
    put_see_also(NULL, out);
}

/* Writes the description and, below that heading, the options. */
static void put_body(const struct tide_command *command, const char *heading, FILE *out)
{
    put_paragraphs(command->details, out);
    if (tide_help_takes_sizes(command)) {
        fputs(".Pp\n", out);
        put_paragraphs(TIDE_HELP_SIZES, out);
    }
    fputs(heading, out);
    const struct tide_option *o;
    fputs(".Bl -tag -width Ds\n", out);
    for (size_t i = 0; (o = tide_command_option(command, i)); i++)
        put_option(o, out);
    fputs(".El\n", out);
}

/* Writes a subcommand as a section of its command's page. */
static void put_part(const struct tide_command *part, FILE *out)
{
    fputs(".Sh ", out);
    for (const char *p = part->name; *p; p++)
        fputc(toupper((unsigned char)*p), out);
    fprintf(out, "\n.Nm tidemark\n.Cm %s\n", part->name);
    put_line(part->synopsis, strlen(part->synopsis), out);
    fputs(".Pp\n", out);
    put_body(part, "", out);
    fputs(".Pp\nExamples:\n", out);
    put_literal(part->examples, strlen(part->examples), out);
}

void tide_help_manual(const struct tide_command *command, FILE *out)
{
    if (!command) {
        put_tidemark(out);
        return;
    }
    put_head(command->name, command->summary, out);
    fprintf(out, ".Sh SYNOPSIS\n.Nm tidemark\n.Cm %s\n", command->name);
    put_line(command->synopsis, strlen(command->synopsis), out);
    fputs(".Sh DESCRIPTION\n", out);
    put_body(command, ".Sh OPTIONS\n", out);
    for (size_t i = 0; command->parts && command->parts[i]; i++)
        put_part(command->parts[i], out);
    const char *exits = command->exits ? command->exits : "0, or 2 if there is trouble.";
    fputs(".Sh EXIT STATUS\n", out);
    put_text((char[]){(char)toupper((unsigned char)exits[0])}, 1, out);
    put_line(exits + 1, strlen(exits + 1), out);
    if (command->examples) {
        fputs(".Sh EXAMPLES\n", out);
        put_literal(command->examples, strlen(command->examples), out);
    }
    put_see_also(command, out);
}
