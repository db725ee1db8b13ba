/* What runs before main: memory is set up as the linker script says. */
#include "board.h"

extern uint8_t data_start[], data_end[], data_load[], bss_start[], bss_end[], stack_top[];

void *memset(void *to, int value, size_t count) {
    uint8_t *at = to;
    while (count--)
        *at++ = (uint8_t)value;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t count) {
    uint8_t *at = to;
    const uint8_t *source = from;
    while (count--)
        *at++ = *source++;
    return to;
}

void reset(void) {
    memcpy(data_start, data_load, (size_t)(data_end - data_start));
    memset(bss_start, 0, (size_t)(bss_end - bss_start));
    main();
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static void *const vectors[] = {stack_top, (void *)reset};
