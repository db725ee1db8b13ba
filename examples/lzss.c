/* A small LZSS compressor with an adaptive range coder: something real to shrink.
 *
 *     cc -o lzss lzss.c && ./lzss -c < file > file.lz && ./lzss -d < file.lz | cmp - file
 *     ./lzss -t         self-test: several inputs, there and back; prints a checksum
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 1 << 15, HASH_BITS = 13, MIN_MATCH = 3, MAX_MATCH = 66, CHAIN = 32 };
enum { PROB_BITS = 11, PROB_ONE = 1 << PROB_BITS, ADAPT = 4, TOP = 1 << 24 };

typedef struct {
    uint8_t *data;
    size_t size, room;
} buffer;

static int buffer_put(buffer *out, uint8_t byte) {
    if (out->size == out->room) {
        size_t room = out->room ? out->room * 2 : 256;
        uint8_t *data = realloc(out->data, room);
        if (!data) return 0;
        out->data = data;
        out->room = room;
    }
    out->data[out->size++] = byte;
    return 1;
}

/* -- range coder ------------------------------------------------------------------------- */

typedef struct {
    uint64_t low;
    uint32_t range, code;
    uint8_t cache;
    uint64_t pending;
    buffer *out;
    const uint8_t *in, *end;
} coder;

typedef struct {
    uint16_t literal[256], flag[4], length[64], slot[32], spare[16];
} model;

static void model_init(model *m) {
    uint16_t *probabilities = (uint16_t *)m;
    for (size_t i = 0; i < sizeof *m / sizeof *probabilities; i++) probabilities[i] = PROB_ONE / 2;
}

static void encoder_init(coder *c, buffer *out) {
    memset(c, 0, sizeof *c);
    c->range = 0xffffffffu;
    c->pending = 1;
    c->out = out;
}

static void shift_low(coder *c) {
    if ((uint32_t)c->low < 0xff000000u || (c->low >> 32)) {
        uint8_t carry = (uint8_t)(c->low >> 32), byte = c->cache;
        do {
            buffer_put(c->out, (uint8_t)(byte + carry));
            byte = 0xff;
        } while (--c->pending);
        c->cache = (uint8_t)(c->low >> 24);
    }
    c->pending++;
    c->low = (c->low & 0x00ffffffu) << 8;
}

static void encode_bit(coder *c, uint16_t *p, int bit) {
    uint32_t bound = (c->range >> PROB_BITS) * *p;
    if (bit) {
        c->low += bound;
        c->range -= bound;
        *p -= *p >> ADAPT;
    } else {
        c->range = bound;
        *p += (PROB_ONE - *p) >> ADAPT;
    }
    while (c->range < TOP) {
        c->range <<= 8;
        shift_low(c);
    }
}

static void encode_direct(coder *c, uint32_t value, int bits) {
    while (bits--) {
        c->range >>= 1;
        if (value >> bits & 1) c->low += c->range;
        while (c->range < TOP) {
            c->range <<= 8;
            shift_low(c);
        }
    }
}

static void encode_tree(coder *c, uint16_t *tree, int bits, uint32_t value) {
    uint32_t node = 1;
    while (bits--) {
        int bit = value >> bits & 1;
        encode_bit(c, tree + node, bit);
        node = node << 1 | (uint32_t)bit;
    }
}

static uint8_t next_byte(coder *c) { return c->in < c->end ? *c->in++ : 0; }

static void decoder_init(coder *c, const uint8_t *in, size_t size) {
    memset(c, 0, sizeof *c);
    c->range = 0xffffffffu;
    c->in = in + 1; /* the first byte is the encoder's empty cache */
    c->end = in + size;
    for (int i = 0; i < 4; i++) c->code = c->code << 8 | next_byte(c);
}

static void normalise(coder *c) {
    while (c->range < TOP) {
        c->range <<= 8;
        c->code = c->code << 8 | next_byte(c);
    }
}

static int decode_bit(coder *c, uint16_t *p) {
    uint32_t bound = (c->range >> PROB_BITS) * *p;
    int bit = c->code >= bound;
    if (bit) {
        c->code -= bound;
        c->range -= bound;
        *p -= *p >> ADAPT;
    } else {
        c->range = bound;
        *p += (PROB_ONE - *p) >> ADAPT;
    }
    normalise(c);
    return bit;
}

static uint32_t decode_direct(coder *c, int bits) {
    uint32_t value = 0;
    while (bits--) {
        c->range >>= 1;
        uint32_t bit = c->code >= c->range;
        if (bit) c->code -= c->range;
        value = value << 1 | bit;
        normalise(c);
    }
    return value;
}

static uint32_t decode_tree(coder *c, uint16_t *tree, int bits) {
    uint32_t node = 1;
    for (int i = 0; i < bits; i++) node = node << 1 | (uint32_t)decode_bit(c, tree + node);
    return node - (1u << bits);
}

/* -- matches ----------------------------------------------------------------------------- */

typedef struct {
    int32_t head[1 << HASH_BITS], previous[WINDOW];
} chains;

static uint32_t hash3(const uint8_t *p) {
    return (p[0] * 0x9e3779b1u ^ p[1] * 0x85ebca6bu ^ p[2] * 0xc2b2ae35u) >> (32 - HASH_BITS);
}

static int longest_match(const chains *ch, const uint8_t *in, int32_t at, int32_t size, int32_t *from) {
    int best = 0, limit = size - at < MAX_MATCH ? size - at : MAX_MATCH;
    if (limit < MIN_MATCH) return 0;
    int32_t candidate = ch->head[hash3(in + at)];
    for (int tries = CHAIN; candidate >= 0 && at - candidate < WINDOW && tries; tries--) {
        int length = 0;
        while (length < limit && in[candidate + length] == in[at + length]) length++;
        if (length > best) {
            best = length;
            *from = candidate;
            if (length == limit) break;
        }
        candidate = ch->previous[candidate & (WINDOW - 1)];
    }
    return best >= MIN_MATCH ? best : 0;
}

static void chains_add(chains *ch, const uint8_t *in, int32_t at, int32_t size) {
    if (size - at < MIN_MATCH) return;
    uint32_t h = hash3(in + at);
    ch->previous[at & (WINDOW - 1)] = ch->head[h];
    ch->head[h] = at;
}

static int slot_of(uint32_t distance) {
    int bits = 0;
    while (distance >> bits > 1) bits++;
    return bits;
}

/* -- the format -------------------------------------------------------------------------- */

int lzss_compress(const uint8_t *in, size_t size, buffer *out) {
    chains *ch = malloc(sizeof *ch);
    if (!ch) return 0;
    memset(ch->head, 0xff, sizeof ch->head);
    model m;
    coder c;
    model_init(&m);
    encoder_init(&c, out);
    encode_direct(&c, (uint32_t)size, 32);
    int last = 0;
    for (int32_t at = 0; at < (int32_t)size;) {
        int32_t from = 0;
        int length = longest_match(ch, in, at, (int32_t)size, &from);
        encode_bit(&c, &m.flag[last], length > 0);
        if (length) {
            uint32_t distance = (uint32_t)(at - from);
            int slot = slot_of(distance);
            encode_tree(&c, m.length, 6, (uint32_t)(length - MIN_MATCH));
            encode_tree(&c, m.slot, 4, (uint32_t)slot);
            encode_direct(&c, distance - (1u << slot), slot);
        } else {
            encode_tree(&c, m.literal, 8, in[at]);
            length = 1;
        }
        last = length > 1;
        while (length--) chains_add(ch, in, at++, (int32_t)size);
    }
    for (int i = 0; i < 5; i++) shift_low(&c);
    free(ch);
    return 1;
}

int lzss_expand(const uint8_t *in, size_t size, buffer *out) {
    model m;
    coder c;
    if (size < 5) return 0;
    model_init(&m);
    decoder_init(&c, in, size);
    uint32_t expected = decode_direct(&c, 32);
    int last = 0;
    while (out->size < expected) {
        if (decode_bit(&c, &m.flag[last])) {
            uint32_t length = decode_tree(&c, m.length, 6) + MIN_MATCH;
            uint32_t slot = decode_tree(&c, m.slot, 4);
            uint32_t distance = (1u << slot) + decode_direct(&c, (int)slot);
            if (distance > out->size || length > expected - out->size) return 0;
            while (length--)
                if (!buffer_put(out, out->data[out->size - distance])) return 0;
            last = 1;
        } else {
            if (!buffer_put(out, (uint8_t)decode_tree(&c, m.literal, 8))) return 0;
            last = 0;
        }
    }
    return 1;
}

/* -- the program ------------------------------------------------------------------------- */

static uint32_t checksum(const uint8_t *data, size_t size) {
    uint32_t a = 1, b = 0;
    for (size_t i = 0; i < size; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

static int there_and_back(const char *name, const uint8_t *data, size_t size) {
    buffer packed = {0}, back = {0};
    int ok = lzss_compress(data, size, &packed) && lzss_expand(packed.data, packed.size, &back) &&
             back.size == size && (!size || !memcmp(back.data, data, size));
    printf("%-10s %8zu -> %8zu  %08x  %s\n", name, size, packed.size,
           checksum(packed.data, packed.size), ok ? "ok" : "FAILED");
    free(packed.data);
    free(back.data);
    return ok;
}

static int self_test(void) {
    enum { SIZE = 70000 };
    uint8_t *data = calloc(1, SIZE);
    uint32_t seed = 1;
    if (!data) return 0;
    int ok = there_and_back("empty", data, 0) & there_and_back("zeros", data, SIZE);
    for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)((seed = seed * 1103515245u + 12345u) >> 24);
    ok &= there_and_back("random", data, SIZE) & there_and_back("one", data, 1);
    for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)("planish smooths metal "[i % 22] + (i % 977 == 0));
    ok &= there_and_back("text", data, SIZE);
    for (size_t i = 0; i < SIZE; i++) data[i] = (uint8_t)(i * i >> 7 ^ i);
    ok &= there_and_back("waves", data, SIZE);
    free(data);
    return ok;
}

static int read_all(FILE *file, buffer *in) {
    int byte;
    while ((byte = getc(file)) != EOF)
        if (!buffer_put(in, (uint8_t)byte)) return 0;
    return !ferror(file);
}

int main(int argc, char **argv) {
    const char *mode = argc == 2 ? argv[1] : "";
    if (!strcmp(mode, "-t")) return self_test() ? 0 : 1;
    if (strcmp(mode, "-c") && strcmp(mode, "-d")) {
        fprintf(stderr, "usage: lzss -c|-d|-t\n");
        return 2;
    }
    buffer in = {0}, out = {0};
    if (!read_all(stdin, &in)) return 1;
    int ok = mode[1] == 'c' ? lzss_compress(in.data, in.size, &out) : lzss_expand(in.data, in.size, &out);
    if (!ok) fprintf(stderr, "lzss: the input is damaged, or memory ran out\n");
    else fwrite(out.data, 1, out.size, stdout);
    free(in.data);
    free(out.data);
    return ok ? 0 : 1;
}
