/* A made-up board: one serial port and one sensor behind fixed addresses. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

#define UART ((volatile uint32_t *)0x40001000)
#define SENSOR ((volatile uint32_t *)0x40002000)

void put(char c);
void put_text(const char *text);
void put_number(uint32_t value, unsigned base, unsigned width);
int main(void);

#endif
