/* Little-endian loads and stores on any host, and arithmetic on sizes that fails instead of
 * wrapping. Nowhere else in the library is a size from a file added, multiplied or compared by
 * hand. */
#ifndef HK_LE_H
#define HK_LE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t le16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t le64(const uint8_t *p)
{
    return le32(p) | (uint64_t)le32(p + 4) << 32;
}

static inline float hk_bits_f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t hk_f32_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float le_f32(const uint8_t *p)
{
    return hk_bits_f32(le32(p));
}

static inline double le_f64(const uint8_t *p)
{
    uint64_t bits = le64(p);
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static inline void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static inline void put32(uint8_t *p, uint32_t v)
{
    put16(p, (uint16_t)v);
    put16(p + 2, (uint16_t)(v >> 16));
}

static inline void put64(uint8_t *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static inline void put_f64(uint8_t *p, double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    put64(p, bits);
}

static inline bool add_ok(uint64_t a, uint64_t b, uint64_t *sum)
{
    return !__builtin_add_overflow(a, b, sum);
}

static inline bool mul_ok(uint64_t a, uint64_t b, uint64_t *product)
{
    return !__builtin_mul_overflow(a, b, product);
}

/* Round X up to a multiple of A, which is not 0. */
static inline bool align_ok(uint64_t x, uint64_t a, uint64_t *aligned)
{
    uint64_t rest = x % a;
    return rest == 0 ? (*aligned = x, true) : add_ok(x, a - rest, aligned);
}

/* [OFFSET, OFFSET+SIZE) lies inside [0, LENGTH). */
static inline bool range_ok(uint64_t offset, uint64_t size, uint64_t length)
{
    return offset <= length && size <= length - offset;
}

/* ceil(A / B) for B not 0, without overflow. */
static inline uint64_t div_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static inline void put_f32(uint8_t *p, float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    put32(p, bits);
}

#endif
