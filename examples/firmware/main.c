/* Reads a sensor, keeps a running mean and spread, reports them, and a checksum of all readings. */
#include "board.h"

#define WINDOW 32

static uint32_t readings[WINDOW];
static uint32_t crc = 0xffffffff;
static const char *const names[] = {"cold", "cool", "warm", "hot"};
static uint32_t limits[] = {100, 200, 300};

static void check(uint32_t value) {
    for (int byte = 0; byte < 4; byte++) {
        crc ^= (value >> (8 * byte)) & 0xff;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ 0xedb88320 : crc >> 1;
    }
}

static uint32_t root(uint32_t value) {
    uint32_t found = 0, bit = 1u << 30;
    while (bit > value)
        bit >>= 2;
    while (bit) {
        if (value >= found + bit) {
            value -= found + bit;
            found = (found >> 1) + bit;
        } else {
            found >>= 1;
        }
        bit >>= 2;
    }
    return found;
}

static const char *name_of(uint32_t value) {
    unsigned at = 0;
    while (at < sizeof limits / sizeof *limits && value >= limits[at])
        at++;
    return names[at];
}

static void report(uint32_t count) {
    uint32_t sum = 0, squares = 0, used = count < WINDOW ? count : WINDOW;
    for (uint32_t at = 0; at < used; at++)
        sum += readings[at];
    uint32_t mean = sum / used;
    for (uint32_t at = 0; at < used; at++) {
        uint32_t away = readings[at] > mean ? readings[at] - mean : mean - readings[at];
        squares += away * away;
    }
    put_text(name_of(mean));
    put_text(": mean ");
    put_number(mean, 10, 6);
    put_text(" spread ");
    put_number(root(squares / used), 10, 4);
    put_text(" checksum ");
    put_number(~crc, 16, 8);
    put('\n');
}

int main(void) {
    for (uint32_t count = 1;; count++) {
        uint32_t value = SENSOR[0] & 0x3ff;
        readings[count % WINDOW] = value;
        check(value);
        if (count % WINDOW == 0)
            report(count);
    }
}
