/* Eight rows by 256 columns as signed bytes, with the numbers that go with them: what weights are
 * unpacked to before they meet any token. */
#ifndef HKK_ARM_PANEL_H
#define HKK_ARM_PANEL_H

#include <arm_neon.h>
#include <stddef.h>

#define ALWAYS static inline __attribute__((always_inline))

enum { PANEL_ROWS = 8, PANEL_PAIRS = 4, PANEL_COLS = 256 };

struct panel {
    int8_t code[PANEL_PAIRS][PANEL_COLS / 8][16]; /* eight columns of both rows of a pair */
    int32_t scale[16][PANEL_PAIRS][4];            /* of a group: twice each row's of the pair */
    int16_t min[16][PANEL_ROWS];
    float d[16][PANEL_ROWS], m[8][PANEL_ROWS]; /* of a block or half of one; of a super-block */
};

/* Where row R's first eight columns go; the next eight go 16 bytes further. */
ALWAYS int8_t *panel_row(struct panel *p, size_t r)
{
    return p->code[r / 2][0] + 8 * (r % 2);
}

/* Columns 16 * I.. of a row that begins at TO. */
ALWAYS void put_16(int8_t *to, int i, int8x16_t v)
{
    vst1_s8(to + 32 * i, vget_low_s8(v));
    vst1_s8(to + 32 * i + 16, vget_high_s8(v));
}

ALWAYS void put_8(int8_t *to, int i, int8x8_t v)
{
    vst1_s8(to + 16 * i, v);
}

#endif
