/* Segments into one attention: both sides are brought to the larger of their two maxima.
 * mine = e^(a.most - most), its = e^(next.most - most);
 * weight = fma(next.weight, its, a.weight * mine), and each sum likewise. A segment of which
 * nothing is visible changes nothing. In the end sum / weight, IEEE's division. */

static void FN(merge)(struct hkk_attention *a, const struct hkk_attention *next, size_t value_dim)
{
    float most = next->most > a->most ? next->most : a->most;
    float both[16] = {a->most - most, next->most - most};
    v_store(both, v_exp(v_load(both)));
    vec mine = v_set(both[0]), its = v_set(both[1]);
    a->weight = fmaf(next->weight, both[1], a->weight * both[0]);
    a->most = most;
    size_t i = 0, rest = value_dim % 16;
    for (; i + 16 <= value_dim; i += 16)
        v_store(a->sum + i, v_fma(v_load(next->sum + i), its, v_mul(v_load(a->sum + i), mine)));
    v_store_some(
        a->sum + i,
        v_fma(v_load_some(next->sum + i, rest), its, v_mul(v_load_some(a->sum + i, rest), mine)),
        rest);
}

static void FN(finish)(struct hkk_attention *a, size_t value_dim)
{
    vec weight = v_set(a->weight);
    size_t i = 0, rest = value_dim % 16;
    for (; i + 16 <= value_dim; i += 16)
        v_store(a->sum + i, v_div(v_load(a->sum + i), weight));
    v_store_some(a->sum + i, v_div(v_load_some(a->sum + i, rest), weight), rest);
}
