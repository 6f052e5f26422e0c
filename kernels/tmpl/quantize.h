/* Activations to int8. For each block of 32 or 256: amax, the largest magnitude, found as the
 * largest of the numbers' bits without sign, so that NaN counts as the largest of all.
 *   amax infinite or NaN: d = NaN, all q 0
 *   amax < 2^-120:        d = 0, all q 0 (127 / amax would overflow)
 *   else                  d = amax / 127, q = x * (127 / amax) to the nearest integer, ties to even
 * with IEEE's division. |q| <= 127: the product exceeds 127 by at most three roundings. Sums are of
 * 32 q in blocks of 32 and of 16 in blocks of 256: below 2^15. */

/* One block of BLOCK numbers, a sum each STEP. */
static inline float FN(quantize_block)(const float *x, size_t block, size_t step, int8_t *q,
                                       int16_t *sum)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < block; i += 16)
        bits = v_magnitude(v_load(x + i), bits);
    float amax = bits_f32(bits);
    if (bits >= 0x7f800000 || amax < 0x1p-120f) {
        memset(q, 0, block);
        memset(sum, 0, block / step * sizeof *sum);
        return bits >= 0x7f800000 ? bits_f32(0x7fc00000) : 0.0f;
    }
    vec scale = v_set(127.0f / amax);
    for (size_t i = 0; i < block; i += step) {
        int s = 0;
        for (size_t j = i; j < i + step; j += 16)
            s += v_store_q(q + j, v_mul(v_load(x + j), scale));
        sum[i / step] = (int16_t)s;
    }
    return amax / 127.0f;
}

static void FN(quantize)(const struct hkk_acts *a, size_t first, size_t n)
{
    for (size_t b = first * a->blocks; b < (first + n) * a->blocks; b++) {
        if (a->kind == HKK_KIND_Q8_32)
            a->d[b] = FN(quantize_block)(a->x + 32 * b, 32, 32, a->q + 32 * b, a->sum + b);
        else
            a->d[b] = FN(quantize_block)(a->x + 256 * b, 256, 16, a->q + 256 * b, a->sum + 16 * b);
    }
}
