/* Activations in registers, as a pair of rows meets them. */
#ifndef HKK_ARM_ACTS_H
#define HKK_ARM_ACTS_H

#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>

/* Sixteen columns: eight in each, of one token twice, or of two tokens. */
struct sixteen_acts {
    int8x16_t a, b;
};

static inline struct sixteen_acts acts_of_one(const int8_t *q)
{
    int64x2_t x = vreinterpretq_s64_s8(vld1q_s8(q));
    return (struct sixteen_acts){vreinterpretq_s8_s64(vdupq_laneq_s64(x, 0)),
                                 vreinterpretq_s8_s64(vdupq_laneq_s64(x, 1))};
}

static inline struct sixteen_acts acts_of_two(const int8_t *q, const int8_t *r)
{
    int64x2_t x = vreinterpretq_s64_s8(vld1q_s8(q)), y = vreinterpretq_s64_s8(vld1q_s8(r));
    return (struct sixteen_acts){vreinterpretq_s8_s64(vzip1q_s64(x, y)),
                                 vreinterpretq_s8_s64(vzip2q_s64(x, y))};
}

#endif
