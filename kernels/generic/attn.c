/* Attention of one query over segments of the past. Segments have fixed places (the cache's), are
 * computed each for itself and merged in order: neither batches nor threads can change a result. */
#include "kernels/generic/lanes.h"
#include "kernels/kernels.h"

/* y[i] = y[i] + a * x[i], the product rounded before the sum. */
static void add_scaled(float *y, const float *x, float a, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        store4(y + i, load4(y + i) + a * load4(x + i));
    for (; i < n; i++)
        y[i] += a * x[i];
}

static float scores_of(float *scores, const float *q, const float *keys, size_t n, size_t key_dim,
                       float scale)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        scores[i] = hkk_dot_f32(q, keys + i * key_dim, key_dim) * scale;
        most = i == 0 || scores[i] > most ? scores[i] : most;
    }
    return most;
}

/* Scores are dot products times scale; weights e^(score - most), summed in 16 lanes; values are
 * added position by position. */
void hkk_attend_f32(struct hkk_attention *out, const float *q, const float *keys,
                    const float *values, size_t n, size_t key_dim, size_t value_dim, float scale,
                    float *scores)
{
    out->most = scores_of(scores, q, keys, n, key_dim, scale);
    memset(out->sum, 0, value_dim * sizeof *out->sum);
    struct lanes weight = {0};
    for (size_t i = 0; i < n; i++) {
        float e = hkk_exp(scores[i] - out->most);
        weight.v[i % 16 / 4][i % 4] += e;
        add_scaled(out->sum, values + i * value_dim, e, value_dim);
    }
    out->weight = lanes_sum(&weight);
}

/* Both sides are brought to the larger of the two maxima: x = x * e^(most - larger), then added. */
void hkk_attention_merge_f32(struct hkk_attention *a, const struct hkk_attention *next,
                             size_t value_dim)
{
    float most = next->most > a->most ? next->most : a->most;
    float mine = hkk_exp(a->most - most), its = hkk_exp(next->most - most);
    a->weight = a->weight * mine + next->weight * its;
    for (size_t i = 0; i < value_dim; i++)
        a->sum[i] = a->sum[i] * mine + next->sum[i] * its;
    a->most = most;
}

void hkk_attention_finish_f32(struct hkk_attention *a, size_t value_dim)
{
    for (size_t i = 0; i < value_dim; i++)
        a->sum[i] /= a->weight;
}
