/*
 * keys.h - keys that are not characters, numbered above all characters.
 */
#ifndef TIDE_KEYS_H
#define TIDE_KEYS_H

enum tide_key {
    TIDE_KEY_UP = 0x110000,
    TIDE_KEY_DOWN,
    TIDE_KEY_LEFT,
    TIDE_KEY_RIGHT,
    TIDE_KEY_FAR_LEFT, /* with shift */
    TIDE_KEY_FAR_RIGHT,
    TIDE_KEY_PAGE_UP,
    TIDE_KEY_PAGE_DOWN,
    TIDE_KEY_HOME,
    TIDE_KEY_END,
    TIDE_KEY_ENTER,
    TIDE_KEY_ESCAPE,
    TIDE_KEY_INTERRUPT, /* Ctrl-C */
};

#endif
