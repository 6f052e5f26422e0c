/* Layouts of the ggml block types: what lies at which byte of a block. Everything is bytes, so a
 * block may start at any address; multi-byte fields are little-endian. The meaning of the fields is
 * with the decoders in dequant_*.c. Nothing of libhkfmt but this and tables.h is for the kernels.
 */
#ifndef HK_BLOCKS_H
#define HK_BLOCKS_H

#include <stdint.h>

#define HK_BLOCK_SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

/* d, m, dmin are f16 scales and offsets; qs are codes, qh their upper bits. */

struct hk_q4_0 {
    uint8_t d[2], qs[16];
};
HK_BLOCK_SIZE(hk_q4_0, 18);

struct hk_q4_1 {
    uint8_t d[2], m[2], qs[16];
};
HK_BLOCK_SIZE(hk_q4_1, 20);

struct hk_q5_0 {
    uint8_t d[2], qh[4], qs[16];
};
HK_BLOCK_SIZE(hk_q5_0, 22);

struct hk_q5_1 {
    uint8_t d[2], m[2], qh[4], qs[16];
};
HK_BLOCK_SIZE(hk_q5_1, 24);

struct hk_q8_0 {
    uint8_t d[2];
    int8_t qs[32];
};
HK_BLOCK_SIZE(hk_q8_0, 34);

struct hk_q8_1 {
    uint8_t d[2], s[2]; /* s: d times the sum of the codes */
    int8_t qs[32];
};
HK_BLOCK_SIZE(hk_q8_1, 36);

struct hk_q1_0 {
    uint8_t d[2], bits[16];
};
HK_BLOCK_SIZE(hk_q1_0, 18);

struct hk_q2_0 {
    uint8_t d[2], qs[16];
};
HK_BLOCK_SIZE(hk_q2_0, 18);

struct hk_q2_k {
    uint8_t scales[16], qs[64], d[2], dmin[2];
};
HK_BLOCK_SIZE(hk_q2_k, 84);

struct hk_q3_k {
    uint8_t qh[32], qs[64], scales[12], d[2];
};
HK_BLOCK_SIZE(hk_q3_k, 110);

struct hk_q4_k {
    uint8_t d[2], dmin[2], scales[12], qs[128];
};
HK_BLOCK_SIZE(hk_q4_k, 144);

struct hk_q5_k {
    uint8_t d[2], dmin[2], scales[12], qh[32], qs[128];
};
HK_BLOCK_SIZE(hk_q5_k, 176);

struct hk_q6_k {
    uint8_t ql[128], qh[64];
    int8_t scales[16];
    uint8_t d[2];
};
HK_BLOCK_SIZE(hk_q6_k, 210);

struct hk_q8_k {
    uint8_t d[4]; /* f32 */
    int8_t qs[256];
    uint8_t sums[32]; /* 16 i16, of 16 codes each */
};
HK_BLOCK_SIZE(hk_q8_k, 292);

struct hk_iq1_s {
    uint8_t d[2], qs[32], qh[16];
};
HK_BLOCK_SIZE(hk_iq1_s, 50);

struct hk_iq1_m {
    uint8_t qs[32], qh[16], scales[8];
};
HK_BLOCK_SIZE(hk_iq1_m, 56);

struct hk_iq2_xxs {
    uint8_t d[2];
    struct {
        uint8_t qs[4], signs[4]; /* signs: four sign codes of 7 bits, then the scale */
    } group[8];
};
HK_BLOCK_SIZE(hk_iq2_xxs, 66);

struct hk_iq2_xs {
    uint8_t d[2], qs[64], scales[8];
};
HK_BLOCK_SIZE(hk_iq2_xs, 74);

struct hk_iq2_s {
    uint8_t d[2], qs[32], signs[32], qh[8], scales[8];
};
HK_BLOCK_SIZE(hk_iq2_s, 82);

struct hk_iq3_xxs {
    uint8_t d[2], qs[64], signs[32];
};
HK_BLOCK_SIZE(hk_iq3_xxs, 98);

struct hk_iq3_s {
    uint8_t d[2], qs[64], qh[8], signs[32], scales[4];
};
HK_BLOCK_SIZE(hk_iq3_s, 110);

struct hk_iq4_nl {
    uint8_t d[2], qs[16];
};
HK_BLOCK_SIZE(hk_iq4_nl, 18);

struct hk_iq4_xs {
    uint8_t d[2], scales_h[2], scales_l[4], qs[128];
};
HK_BLOCK_SIZE(hk_iq4_xs, 136);

struct hk_tq1_0 {
    uint8_t qs[48], qh[4], d[2];
};
HK_BLOCK_SIZE(hk_tq1_0, 54);

struct hk_tq2_0 {
    uint8_t qs[64], d[2];
};
HK_BLOCK_SIZE(hk_tq2_0, 66);

struct hk_mxfp4 {
    uint8_t e, qs[16];
};
HK_BLOCK_SIZE(hk_mxfp4, 17);

struct hk_nvfp4 {
    uint8_t d[4], qs[32];
};
HK_BLOCK_SIZE(hk_nvfp4, 36);

#undef HK_BLOCK_SIZE

#endif
