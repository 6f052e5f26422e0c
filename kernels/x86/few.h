/* Products for few tokens, straight from the packed blocks: eight rows at a time, whose sums end up
 * in the eight lanes of a register, so that the float steps in sequence serve all of them. */
#ifndef HKK_X86_FEW_H
#define HKK_X86_FEW_H

#include "kernels/kernels.h"
#include "kernels/x86/codes_grid.h"
#include "kernels/x86/codes_small.h"
#include "kernels/x86/codes_super.h"

#define ALWAYS static inline __attribute__((always_inline))

/* How the codes of a type stand for its values. Of unsigned codes, ADDS products of pairs fit 16
 * bits: ADDS * 2 * 127 * largest code <= 32767. Signed ones reach 8 bits. */
struct form {
    bool is_signed;
    int offset; /* code - value */
    int adds;   /* 1, 2, 4 or 8 */
    bool minimums;
    bool two_scales; /* nvfp4 */
    bool by_16;      /* scales of neighbouring groups of 16 differ */
    int nibbles;     /* offset of 16 bytes of nibbles that are the codes, or index TABLE; or 0 */
    const int8_t *table;
};

/* The same number, in a register from here on: left to itself, gcc regroups sums, and keeps all
 * their terms in memory until the last one is there. */
ALWAYS __m256i keep_order(__m256i x)
{
    __asm__("" : "+v"(x));
    return x;
}

/* The scale of a block of 32; of mxfp4 half of it, as its codes are doubled. */
ALWAYS float small_scale(const uint8_t *block, unsigned type)
{
    return type == HKK_MXFP4 ? half_e8m0(block[0]) : le_half(block);
}

typedef __m256i small_fn(const uint8_t *block);
typedef void super_fn(const uint8_t *block, struct codes *s);

/* Sums of pairs of products; of signed codes the sign goes to the other side. */
ALWAYS __m256i pairs(__m256i c, __m256i q, struct form f)
{
    if (f.is_signed)
        return _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8(q, c));
    return _mm256_maddubs_epi16(c, q);
}

/* Four products to a lane. */
ALWAYS __m256i fours(__m256i acc, __m256i c, __m256i q, struct form f)
{
    if (f.is_signed)
        return dot_4(acc, _mm256_abs_epi8(c), _mm256_sign_epi8(q, c));
    return dot_4(acc, c, q);
}

/* v[i] added up within each half: halves of rows 0..3 in *A, of 4..7 in *B. */
ALWAYS void tree_of_8(const __m256i v[8], __m256i *a, __m256i *b)
{
    *a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
    *b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
}

/* Lane i is the sum of v[i]. */
ALWAYS __m256i sums_of_8(const __m256i v[8])
{
    __m256i a, b;
    tree_of_8(v, &a, &b);
    return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                            _mm256_permute2x128_si256(a, b, 0x31));
}

enum { FAR_ROW = 1536 }; /* bytes of a row, from which on the next rows are fetched far */

/* Ask for BYTES bytes at P; those of long rows would push each other out of the first cache. */
ALWAYS void fetch(const uint8_t *p, size_t bytes, bool far)
{
    if (far)
        for (size_t line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)p + line, _MM_HINT_T1);
    else
        for (size_t line = 0; line < bytes; line += 64)
            _mm_prefetch((const char *)p + line, _MM_HINT_T0);
}

/* Eight halves at P + AT[r]. */
ALWAYS __m256 halves_of_8(const uint8_t *p, const size_t at[8])
{
    __m128i h = _mm_cvtsi32_si128((int)load_le16(p + at[0]));
    h = _mm_insert_epi16(h, (short)load_le16(p + at[1]), 1);
    h = _mm_insert_epi16(h, (short)load_le16(p + at[2]), 2);
    h = _mm_insert_epi16(h, (short)load_le16(p + at[3]), 3);
    h = _mm_insert_epi16(h, (short)load_le16(p + at[4]), 4);
    h = _mm_insert_epi16(h, (short)load_le16(p + at[5]), 5);
    h = _mm_insert_epi16(h, (short)load_le16(p + at[6]), 6);
    h = _mm_insert_epi16(h, (short)load_le16(p + at[7]), 7);
    return _mm256_cvtph_ps(h);
}

/* half_e8m0() of each lane, which is a byte. */
ALWAYS __m256 e8m0_8(__m256i e)
{
    __m256i large = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i small = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
    __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(large, small, tiny));
}

/* half_e4m3() of each lane's lowest byte. */
ALWAYS __m256 e4m3_8(__m256i x)
{
    const __m256i nothing = _mm256_set1_epi32(127);
    x = _mm256_and_si256(x, _mm256_set1_epi32(255));
    __m256i c = _mm256_and_si256(x, nothing);
    __m256i large = _mm256_add_epi32(_mm256_slli_epi32(c, 20), _mm256_set1_epi32(119 << 23));
    __m256 small = _mm256_mul_ps(_mm256_cvtepi32_ps(c), _mm256_set1_ps(0x1p-10f));
    __m256i tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(8), c);
    large = _mm256_blendv_epi8(large, _mm256_castps_si256(small), tiny);
    return _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_cmpeq_epi32(x, nothing), large));
}

ALWAYS __m256 scales_of_8(const uint8_t *p, const size_t at[8], unsigned type, int which)
{
    if (type != HKK_MXFP4)
        return halves_of_8(p + 2 * which, at);
    return e8m0_8(_mm256_setr_epi32(p[at[0]], p[at[1]], p[at[2]], p[at[3]], p[at[4]], p[at[5]],
                                    p[at[6]], p[at[7]]));
}

/* Words at P + AT[r]. */
ALWAYS __m256i words_of_8(const uint8_t *p, const size_t at[8])
{
    return _mm256_setr_epi32((int)load_le32(p + at[0]), (int)load_le32(p + at[1]),
                             (int)load_le32(p + at[2]), (int)load_le32(p + at[3]),
                             (int)load_le32(p + at[4]), (int)load_le32(p + at[5]),
                             (int)load_le32(p + at[6]), (int)load_le32(p + at[7]));
}

/* The same for sixteen bytes of nibbles at P + AT[r]: rows r and r + 4 share a register. */
ALWAYS __m256i nibble_dots(const uint8_t *p, const size_t at[8], const int8_t *q, struct form f)
{
    const __m256i low = _mm256_set1_epi8(15), zero = _mm256_setzero_si256();
    __m256i first = _mm256_broadcastsi128_si256(load16(q)), v[4];
    __m256i second = _mm256_broadcastsi128_si256(load16(q + 16));
#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        __m256i x = _mm256_inserti128_si256(_mm256_castsi128_si256(load16(p + at[r])),
                                            load16(p + at[r + 4]), 1);
        __m256i a = _mm256_and_si256(x, low), b = _mm256_and_si256(_mm256_srli_epi16(x, 4), low);
        if (f.table != NULL) {
            a = look_up(load16(f.table), a);
            b = look_up(load16(f.table), b);
        }
        if (f.is_signed || WIDE_SUMS)
            v[r] = fours(fours(zero, a, first, f), b, second, f);
        else
            v[r] = dot_2(zero, _mm256_add_epi16(pairs(a, first, f), pairs(b, second, f)),
                         _mm256_set1_epi16(1));
        v[r] = keep_order(v[r]);
    }
    return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}

ALWAYS __m256i code_dots(const uint8_t *p, const size_t at[8], const int8_t *q, struct form f,
                         small_fn *codes)
{
    const __m256i x = load32(q);
    __m256i v[8];
#pragma GCC unroll 8
    for (int r = 0; r < 8; r++)
        v[r] = keep_order(fours(_mm256_setzero_si256(), codes(p + at[r]), x, f));
    return sums_of_8(v);
}

/* Row r begins AT[r] after P; the rows after these, at NEXT, are fetched meanwhile. */
ALWAYS __m256 few_small(const uint8_t *p, const size_t at[8], const uint8_t *next,
                        const struct hkk_acts *a, size_t t, unsigned type, size_t size,
                        struct form f, small_fn *codes)
{
    const bool far = size * a->blocks >= FAR_ROW;
    const int8_t *q = a->q + t * a->cols;
    const float *dx = a->d + t * a->blocks;
    const int16_t *sum = a->sum + t * a->sums;
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < a->blocks; b++, p += size, q += 32, next += 8 * size) {
        __m256i dot =
            f.nibbles > 0 ? nibble_dots(p + f.nibbles, at, q, f) : code_dots(p, at, q, f, codes);
        fetch(next, 8 * size, far);
        if (f.offset != 0)
            dot = _mm256_sub_epi32(dot, _mm256_set1_epi32(f.offset * sum[b]));
        __m256 x_scale = _mm256_set1_ps(dx[b]);
        __m256 d = _mm256_mul_ps(scales_of_8(p, at, type, 0), x_scale);
        acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(dot), acc);
        if (f.minimums) {
            __m256 m = _mm256_mul_ps(scales_of_8(p, at, type, 1), x_scale);
            acc = _mm256_fmadd_ps(m, _mm256_set1_ps((float)sum[b]), acc);
        }
    }
    return acc;
}

/* Twelve times the sums of q of two groups of 16, in the halves: what the offset of nvfp4's codes
 * adds. */
ALWAYS __m256i twelve_sums(__m256i q)
{
    __m256i s = fours(_mm256_setzero_si256(), _mm256_set1_epi8(12), q, (struct form){0});
    s = _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0x4e));
    return _mm256_add_epi32(s, _mm256_shuffle_epi32(s, 0xb1));
}

/* A block of 64 is two times 32; the halves of a register are groups of 16. */
ALWAYS __m256 few_nvfp4(const uint8_t *p, const size_t at[8], const uint8_t *next,
                        const struct hkk_acts *a, size_t t)
{
    const size_t each = 8 * sizeof(struct hk_nvfp4) / 2; /* bytes of eight rows and 32 columns */
    const int8_t *q = a->q + t * a->cols;
    __m256i scales = _mm256_setzero_si256();
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < a->blocks; b++, q += 32) {
        const uint8_t *block = p + b / 2 * sizeof(struct hk_nvfp4);
        __m256i v[8], low, high, x = load32(q), less = twelve_sums(x);
        fetch(next + b * each, each, each * a->blocks >= 8 * FAR_ROW);
        scales = b % 2 == 0 ? words_of_8(block, at) : scales;
#pragma GCC unroll 8
        for (int r = 0; r < 8; r++)
            v[r] = keep_order(fours(_mm256_setzero_si256(), codes_nvfp4(block + at[r] + b % 2 * 16),
                                    x, (struct form){0}));
        tree_of_8(v, &low, &high);
        low = _mm256_sub_epi32(low, less);
        high = _mm256_sub_epi32(high, less);
        __m256 x_scale = _mm256_set1_ps(a->d[t * a->blocks + b]);
        for (int g = 0; g < 2; g++, scales = _mm256_srli_epi32(scales, 8)) {
            __m256i dot = g == 0 ? _mm256_permute2x128_si256(low, high, 0x20)
                                 : _mm256_permute2x128_si256(low, high, 0x31);
            __m256 d = _mm256_mul_ps(e4m3_8(scales), x_scale);
            acc = _mm256_fmadd_ps(d, _mm256_cvtepi32_ps(dot), acc);
        }
    }
    return acc;
}

/* Group scales of 32 elements from all sixteen: bytes of group 2j in the lower half, of 2j + 1 in
 * the upper; SPREAD has the even groups' scales in the lower half and the odd ones' in the upper.
 */
ALWAYS __m256i scales_of_pair(__m256i spread, int j)
{
    return _mm256_shuffle_epi8(spread, _mm256_set1_epi16((short)((2 * j + 1) << 8 | 2 * j)));
}

ALWAYS __m256i even_and_odd(__m256i scales)
{
    const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0,
                                           1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(scales, order), 0xd8);
}

/* Eight parts of the sum of scale * code * q of a super-block, less the offset's. */
ALWAYS __m256i super_dot(const struct codes *s, const int8_t *q, const int16_t *sum, struct form f)
{
    __m256i spread = even_and_odd(s->scale), acc = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int j = 0; j < 8; j++) {
        __m256i p = pairs(s->c[j], load32(q + 32 * j), f);
        acc = keep_order(dot_2(acc, p, scales_of_pair(spread, j)));
    }
    if (f.offset == 0)
        return acc;
    __m256i all = _mm256_madd_epi16(s->scale, load32(sum));
    return _mm256_sub_epi32(acc, _mm256_mullo_epi32(all, _mm256_set1_epi32(f.offset)));
}

ALWAYS __m256 few_super(const uint8_t *p, const size_t at[8], const uint8_t *next,
                        const struct hkk_acts *a, size_t t, size_t size, struct form f,
                        super_fn *codes)
{
    const bool far = size * a->blocks >= FAR_ROW;
    __m256 acc = _mm256_setzero_ps();
    for (size_t b = 0; b < a->blocks; b++, p += size) {
        const int8_t *q = a->q + t * a->cols + 256 * b;
        const int16_t *sum = a->sum + t * a->sums + 16 * b;
        __m256i dot[8], min[8];
        float d[8], dmin[8];
#pragma GCC unroll 1
        for (int r = 0; r < 8; r++) {
            struct codes s;
            fetch(next, size, far);
            next += size;
            codes(p + at[r], &s);
            dot[r] = super_dot(&s, q, sum, f);
            d[r] = s.d;
            if (f.minimums) {
                min[r] = _mm256_madd_epi16(s.min, load32(sum));
                dmin[r] = -s.dmin;
            }
        }
        __m256 dx = _mm256_set1_ps(a->d[t * a->blocks + b]);
        __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(d), dx);
        acc = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums_of_8(dot)), acc);
        if (f.minimums) {
            scale = _mm256_mul_ps(_mm256_loadu_ps(dmin), dx);
            acc = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(sums_of_8(min)), acc);
        }
    }
    return acc;
}

/* Offsets of eight rows, of which COUNT exist: the last one stands for the others. */
ALWAYS void row_offsets(size_t at[8], size_t count, size_t bytes)
{
    for (size_t r = 0; r < 8; r++)
        at[r] = (r < count ? r : count - 1) * bytes;
}

/* To y[0..COUNT), at most 8. */
ALWAYS void store_rows(float *y, __m256 v, size_t count)
{
    if (count >= 8) {
        _mm256_storeu_ps(y, v);
        return;
    }
    float some[8];
    _mm256_storeu_ps(some, v);
    memcpy(y, some, count * sizeof *y);
}

#endif
