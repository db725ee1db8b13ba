/* What every pass and option is tried on: loops, nests, switches, structs, memory, calls,
 * recursion, floats, globals. Compile again with:
 *   clang -Oz -Xclang -disable-llvm-passes -S -emit-llvm --target=x86_64-unknown-linux-gnu smoke.c
 * and drop the lines of the target (triple, data layout, attributes that name a processor). */
typedef unsigned long size_t;
void *memcpy(void *, const void *, size_t);
void *memset(void *, int, size_t);
size_t strlen(const char *);
extern int printf(const char *, ...);
extern double sqrt(double);

struct point { int x, y; struct point *next; };
static int table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
static const char *names[] = {"zero", "one", "two", "three"};
static int counter;

static int clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }
static int clamp_too(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }

int sum(const int *a, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += a[i];
    return s;
}

void matmul(float *restrict c, const float *a, const float *b, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            float acc = 0;
            for (int k = 0; k < n; k++) acc += a[i * n + k] * b[k * n + j];
            c[i * n + j] = acc;
        }
}

int classify(int c) {
    switch (c) {
    case 0: return 7;
    case 1: return 12;
    case 2: return 9;
    case 3: return 44;
    case 4: return 2;
    case 9: counter++; return sum(table, 16);
    default: return clamp(c, -5, 100);
    }
}

struct point *reverse(struct point *list) {
    struct point *back = 0;
    while (list) {
        struct point *next = list->next;
        list->next = back;
        back = list;
        list = next;
    }
    return back;
}

static unsigned gcd(unsigned a, unsigned b) { return b ? gcd(b, a % b) : a; }

size_t copy_name(char *to, int which) {
    const char *name = names[which & 3];
    size_t n = strlen(name);
    memcpy(to, name, n + 1);
    for (size_t i = 0; i < n; i++) to[i] ^= 32;
    return n;
}

int search(const int *a, int n, int key) {
    int lo = 0, hi = n - 1;
    while (lo <= hi) {
        int mid = lo + (hi - lo) / 2;
        if (a[mid] == key) return mid;
        if (a[mid] < key) lo = mid + 1; else hi = mid - 1;
    }
    return -1;
}

int main(int argc, char **argv) {
    int a[64];
    double d = argc;
    memset(a, 0, sizeof a);
    for (int i = 0; i < 64; i++) a[i] = clamp_too(i * 7 - argc, 0, 300) + (int)gcd(i, 12);
    for (int i = 0; i < 4; i++) d += sqrt(d * i);
    printf("%d %d %d %f %s\n", sum(a, 64), search(a, 64, 21), classify(argc), d, argv[0]);
    return counter;
}
