/* Guarded buffers, comparisons and inputs of checkkern. */
#include "tests/kernels/checkkern.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CANARY = 0xa5 };

struct buffer buffer_new(size_t bytes, enum place place, size_t offset)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (bytes + offset + page) / page * page;
    struct buffer b = {.map_bytes = inner + 2 * page, .bytes = bytes};
    b.map = mmap(NULL, b.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (b.map == MAP_FAILED || mprotect(b.map + page, inner, PROT_READ | PROT_WRITE) != 0) {
        perror("checkkern: mmap");
        exit(2);
    }
    memset(b.map + page, CANARY, inner);
    b.p = place == AT_END ? b.map + page + inner - bytes : b.map + page + offset;
    memset(b.p, 0, bytes);
    return b;
}

bool buffer_intact(const struct buffer *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (const uint8_t *p = b->map + page; p < b->map + b->map_bytes - page; p++)
        if ((p < b->p || p >= b->p + b->bytes) && *p != CANARY)
            return false;
    return true;
}

void buffer_free(struct buffer *b)
{
    munmap(b->map, b->map_bytes);
}

bool differs(struct run *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(r->what, sizeof r->what, fmt, ap);
    va_end(ap);
    return false;
}

bool same_floats(struct run *r, const float *a, const float *b, size_t n, const char *note)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i])))
            return differs(r, "%s: [%zu] of %zu is %a, the reference has %a", note, i, n,
                           (double)a[i], (double)b[i]);
    return true;
}

bool same_bytes(struct run *r, const void *a, const void *b, size_t n, const char *note)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return differs(r, "%s: byte %zu of %zu is %d, the reference has %d", note, i, n, x[i],
                           y[i]);
    return true;
}

static float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static float hostile_float(struct random *r)
{
    static const uint32_t bits[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f7fffff,
                                    0xff7fffff, 0x00000001, 0x80000001, 0x80000000, 0x03800000,
                                    0x037fffff, 0x00800000, 0x7f000000, 0x42b17218, 0xc2ae0000};
    return from_bits(bits[random_below(r, sizeof bits / sizeof *bits)]);
}

void random_floats(struct random *r, float *x, size_t n, unsigned kind)
{
    float large = random_float(r) * 1e30f;
    for (size_t i = 0; i < n; i++) {
        uint32_t any = (uint32_t)random_bits(r);
        switch (kind) {
        case 1:
            x[i] = 0;
            break;
        case 2:
            x[i] = i % 3 == 0 ? -large : large;
            break;
        case 3:
            x[i] = from_bits(any & 0x807fffff);
            break;
        case 4:
            x[i] = from_bits((any & 0x7f800000) == 0x7f800000 ? any & 0xbfffffff : any);
            break;
        case 5:
            x[i] = any % 16 == 0 ? hostile_float(r) : random_float(r);
            break;
        default:
            x[i] = random_float(r) * 4;
        }
    }
}
