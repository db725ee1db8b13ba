#include "board.h"

void put(char c) {
    while (UART[1] & 1) {
    }
    UART[0] = (uint32_t)c;
}

void put_text(const char *text) {
    while (*text) {
        if (*text == '\n')
            put('\r');
        put(*text++);
    }
}

void put_number(uint32_t value, unsigned base, unsigned width) {
    char digits[32];
    unsigned count = 0;
    do {
        unsigned digit = value % base;
        digits[count++] = (char)(digit < 10 ? '0' + digit : 'a' + digit - 10);
        value /= base;
    } while (value);
    while (width > count) {
        put(' ');
        width--;
    }
    while (count)
        put(digits[--count]);
}

/* Nobody calls it: whole-program mode and --gc-sections drop it. */
void put_table(const uint32_t *values, size_t count) {
    for (size_t at = 0; at < count; at++) {
        put_number(values[at], 16, 8);
        put(at % 8 == 7 ? '\n' : ' ');
    }
}
