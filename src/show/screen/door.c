#include "show/screen/door.h"

#include "base/clock.h"
#include "show/screen/view.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define IDLE_NS INT64_C(1000000000)

struct event {
    enum tide_term_event what;
    int key;
};

struct tide_door {
    struct tide_screen_config config;
    pthread_mutex_t lock;
    int events[2]; /* a pipe to the view, which ends when the terminal's side has left */
    int wake;      /* signals a frame or the end to the terminal's thread */
    int columns, rows;
    struct tide_cells frame; /* the newest frame */
    bool fresh, redraw;
    bool interrupted; /* the program was interrupted once */
    bool asks, asked; /* leaving needs a question; the view wants it asked now */
    bool left;        /* the terminal's side has left */
    bool ended;       /* the view has ended */
    enum tide_screen_end end;
    struct tide_err err; /* "": the view did not fail */
    char *said;
    int users;
};

struct tide_door *tide_door_new(const struct tide_term *term, const struct tide_screen_config *config)
{
    struct tide_door *door = calloc(1, sizeof *door);
    if (!door)
        return NULL;
    door->config = *config;
    door->asks = config->interrupt != NULL;
    door->users = 2;
    tide_term_size(term, &door->columns, &door->rows);
    tide_cells_init(&door->frame, false);
    door->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (door->wake < 0 || tide_cells_resize(&door->frame, door->columns, door->rows) ||
        pipe2(door->events, O_CLOEXEC | O_NONBLOCK)) {
        close(door->wake);
        tide_cells_release(&door->frame);
        free(door);
        return NULL;
    }
    pthread_mutex_init(&door->lock, NULL);
    return door;
}

void tide_door_close(struct tide_door *door)
{
    if (!door)
        return;
    pthread_mutex_lock(&door->lock);
    int users = --door->users;
    pthread_mutex_unlock(&door->lock);
    if (users > 0)
        return;
    pthread_mutex_destroy(&door->lock);
    tide_cells_release(&door->frame);
    close(door->wake);
    close(door->events[0]);
    if (!door->left)
        close(door->events[1]);
    free(door->said);
    free(door);
}

/* ---- the view's side */

void tide_door_size(struct tide_door *door, int *ret_columns, int *ret_rows)
{
    pthread_mutex_lock(&door->lock);
    *ret_columns = door->columns;
    *ret_rows = door->rows;
    pthread_mutex_unlock(&door->lock);
}

static bool copy_cells(struct tide_cells *to, const struct tide_cells *from)
{
    if ((to->columns != from->columns || to->rows != from->rows) &&
        tide_cells_resize(to, from->columns, from->rows))
        return false;
    to->ascii = from->ascii;
    memcpy(to->cells, from->cells, (size_t)to->columns * (size_t)to->rows * sizeof *to->cells);
    return true;
}

void tide_door_show(struct tide_door *door, const struct tide_cells *cells)
{
    pthread_mutex_lock(&door->lock);
    door->fresh |= copy_cells(&door->frame, cells);
    eventfd_write(door->wake, 1);
    pthread_mutex_unlock(&door->lock);
}

enum tide_term_event tide_door_wait(struct tide_door *door, int64_t timeout_ns, int *ret_key)
{
    struct event event = {.what = TIDE_TERM_NOTHING};
    struct pollfd fd = {.fd = door->events[0], .events = POLLIN};
    if (poll(&fd, 1, (int)(timeout_ns / TIDE_NS_PER_MS)) > 0 &&
        read(door->events[0], &event, sizeof event) == 0)
        event.what = TIDE_TERM_LEAVE;
    *ret_key = event.key;
    return event.what;
}

void tide_door_tell(struct tide_door *door, enum tide_door_word word)
{
    pthread_mutex_lock(&door->lock);
    door->redraw |= word == TIDE_DOOR_REDRAW;
    door->asked |= word == TIDE_DOOR_LEAVE;
    door->asks &= word != TIDE_DOOR_PROGRAM_ENDED;
    eventfd_write(door->wake, 1);
    pthread_mutex_unlock(&door->lock);
}

void tide_door_say(struct tide_door *door, const char *text)
{
    char *copy = strdup(text);
    pthread_mutex_lock(&door->lock);
    free(door->said);
    door->said = copy;
    pthread_mutex_unlock(&door->lock);
}

bool tide_door_program_ended(struct tide_door *door)
{
    pthread_mutex_lock(&door->lock);
    bool ended = !door->left && door->config.ended && door->config.ended(door->config.context);
    pthread_mutex_unlock(&door->lock);
    return ended;
}

void tide_door_end(struct tide_door *door, enum tide_screen_end end, const struct tide_err *err)
{
    pthread_mutex_lock(&door->lock);
    door->ended = true;
    door->end = end;
    if (err)
        door->err = *err;
    eventfd_write(door->wake, 1);
    pthread_mutex_unlock(&door->lock);
}

/* ---- the terminal's side */

/* What is on the terminal: the newest frame, and the question over it while it is asked. */
struct picture {
    struct tide_term *term;
    struct tide_cells cells;
    bool question;
};

static void show(struct tide_door *door, struct picture *picture, bool changed)
{
    pthread_mutex_lock(&door->lock);
    bool redraw = door->redraw, fresh = (door->fresh || changed) && copy_cells(&picture->cells, &door->frame);
    door->fresh = door->redraw = false;
    pthread_mutex_unlock(&door->lock);
    if (redraw)
        tide_term_redraw(picture->term);
    if (fresh && picture->question)
        tide_view_question(&picture->cells);
    if (fresh)
        tide_term_show(picture->term, &picture->cells);
}

/* Handles a key at the door. True if it ends the view. *ret_taken: the view does not get it. */
static bool take_key(struct tide_door *door, struct picture *picture, int key, bool *ret_taken)
{
    bool answer = picture->question;
    if (key == TIDE_KEY_INTERRUPT && door->asks && !answer && !door->interrupted) {
        door->interrupted = true;
        door->config.interrupt(door->config.context);
        return false; /* the view reports it when it gets the key */
    }
    *ret_taken = answer || key == 'q' || key == 'Q' || key == TIDE_KEY_INTERRUPT;
    if (!*ret_taken)
        return false;
    picture->question = !answer && door->asks; /* any other key withdraws the question */
    door->end = answer && key == 's' ? TIDE_SCREEN_STOP : TIDE_SCREEN_QUIT;
    return answer ? key == 's' || key == 'd' : !door->asks;
}

/* Handles an event, with the lock held. True if it is the end. */
static bool take_event(struct tide_door *door, struct picture *picture, enum tide_term_event what, int key)
{
    bool taken = false;
    if (door->ended)
        return true;
    if (what == TIDE_TERM_LEAVE) {
        door->end = TIDE_SCREEN_QUIT;
        return true;
    }
    bool leaving = picture->question || door->asked;
    picture->question = leaving && door->asks;
    door->asked = false;
    if (leaving && !door->asks) { /* the program has ended: nothing is left to decide */
        door->end = TIDE_SCREEN_QUIT;
        return true;
    }
    if (what == TIDE_TERM_RESIZED)
        tide_term_size(picture->term, &door->columns, &door->rows);
    if (what == TIDE_TERM_KEY && take_key(door, picture, key, &taken))
        return true;
    if (what == TIDE_TERM_NOTHING || taken)
        return false;
    ssize_t ignored = write(door->events[1], &(struct event){what, key}, sizeof(struct event));
    (void)ignored; /* keys that a busy view leaves no room for are lost */
    return false;
}

int tide_door_serve(struct tide_door *door, struct tide_term *term, struct tide_screen_outcome *ret_outcome,
                    struct tide_err *err)
{
    struct picture picture = {.term = term};
    bool over = false;
    tide_cells_init(&picture.cells, false);
    while (!over) {
        bool was_asked = picture.question;
        int key = 0;
        eventfd_t ignored;
        enum tide_term_event what = tide_term_wait(term, IDLE_NS, door->wake, &key);
        pthread_mutex_lock(&door->lock);
        eventfd_read(door->wake, &ignored);
        over = take_event(door, &picture, what, key);
        pthread_mutex_unlock(&door->lock);
        if (!over)
            show(door, &picture, was_asked != picture.question);
    }
    pthread_mutex_lock(&door->lock);
    door->left = true;
    close(door->events[1]);
    *ret_outcome = (struct tide_screen_outcome){.end = door->end, .said = door->said};
    door->said = NULL;
    bool bad = door->err.text[0];
    if (bad)
        *err = door->err;
    pthread_mutex_unlock(&door->lock);
    tide_cells_release(&picture.cells);
    return bad ? -1 : 0;
}
