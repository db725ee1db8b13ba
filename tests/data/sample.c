/* Loops, branches, a table and a call: small, yet every kind of pass finds something to do. */
struct item { int key, value; };

static const char *const kinds[] = {"small", "middle", "large"};
static struct item items[16];
int calls;

static int clamp(int x, int low, int high) {
    calls++;
    return x < low ? low : x > high ? high : x;
}

unsigned checksum(const unsigned char *data, unsigned n) {
    unsigned a = 1, b = 0;
    for (unsigned i = 0; i < n; i++) {
        a = (a + data[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

void sort(int *v, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && v[j - 1] > v[j]; j--) {
            int t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
}

int lookup(int key) {
    for (int i = 0; i < 16; i++)
        if (items[i].key == key)
            return items[i].value;
    return -1;
}

const char *kind(int x) {
    switch (clamp(x, 0, 2)) {
    case 0: return kinds[0];
    case 1: return kinds[1];
    default: return kinds[2];
    }
}

int dot(const int *a, const int *b, int n) {
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i] + clamp(a[i], -8, 8);
    return sum;
}
