/* Segments into one attention: both sides are brought to the larger of their two maxima.
 * mine = e^(a.max - max), its = e^(next.max - max);
 * denominator = fma(next.denominator, its, a.denominator * mine), and the accumulator likewise. A
 * segment of which nothing is visible changes nothing. In the end accumulator / denominator, IEEE's
 * division. */

static void FN(merge)(struct hkk_attention *a, const struct hkk_attention *next, size_t value_dim)
{
    float max = next->max > a->max ? next->max : a->max;
    float both[16] = {a->max - max, next->max - max};
    v_store(both, v_exp(v_load(both)));
    vec mine = v_set(both[0]), its = v_set(both[1]);
    a->denominator = fmaf(next->denominator, both[1], a->denominator * both[0]);
    a->max = max;
    size_t i = 0, rest = value_dim % 16;
    for (; i + 16 <= value_dim; i += 16)
        v_store(a->accumulator + i,
                v_fma(v_load(next->accumulator + i), its, v_mul(v_load(a->accumulator + i), mine)));
    v_store_some(a->accumulator + i,
                 v_fma(v_load_some(next->accumulator + i, rest), its,
                       v_mul(v_load_some(a->accumulator + i, rest), mine)),
                 rest);
}

/* As a segment of one position whose value is zeros. */
static void FN(sink)(struct hkk_attention *a, float score, size_t value_dim)
{
    float max = score > a->max ? score : a->max;
    float both[16] = {a->max - max, score - max};
    v_store(both, v_exp(v_load(both)));
    a->denominator = a->denominator * both[0] + both[1];
    a->max = max;
    vec mine = v_set(both[0]);
    size_t i = 0, rest = value_dim % 16;
    for (; i + 16 <= value_dim; i += 16)
        v_store(a->accumulator + i, v_mul(v_load(a->accumulator + i), mine));
    v_store_some(a->accumulator + i, v_mul(v_load_some(a->accumulator + i, rest), mine), rest);
}

static void FN(finish)(struct hkk_attention *a, size_t value_dim)
{
    vec denominator = v_set(a->denominator);
    size_t i = 0, rest = value_dim % 16;
    for (; i + 16 <= value_dim; i += 16)
        v_store(a->accumulator + i, v_div(v_load(a->accumulator + i), denominator));
    v_store_some(a->accumulator + i, v_div(v_load_some(a->accumulator + i, rest), denominator),
                 rest);
}
