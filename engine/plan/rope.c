/* The rotary embedding's angles: a frequency for each pair, and one table row a position, the same
 * for every layer and head. */
#include <math.h>
#include <stdlib.h>

#include "engine/model.h"

static const double turn = 6.283185307179586476925286766559;

/* Pairs that turn fewer than low_freq times in the original context are slowed down by the factor,
 * those of more than high_freq turns are left alone, those between are blended. */
static double llama3(const struct hke_rope *r, double frequency)
{
    double turns = r->original * frequency / turn;
    if (turns < r->low_freq)
        return frequency / r->factor;
    if (turns > r->high_freq)
        return frequency;
    double smooth = (turns - r->low_freq) / (r->high_freq - r->low_freq);
    return (1 - smooth) * frequency / r->factor + smooth * frequency;
}

/* The number of the pair that turns TURNS times in the original context. */
static double pair_of(const struct hke_rope *r, uint32_t dims, double turns)
{
    return dims * log(r->original / (turns * turn)) / (2 * log(r->base));
}

/* As llama.cpp blends (YaRN's "by parts"): up to LOW pairs are left alone, from HIGH on they are
 * slowed down. */
static double yarn(const struct hke_rope *r, uint32_t dims, uint32_t i, double frequency)
{
    double low = fmax(0, floor(pair_of(r, dims, r->beta_fast)));
    double high = fmin(dims - 1, ceil(pair_of(r, dims, r->beta_slow)));
    double slowed = (i - low) / fmax(0.001, high - low);
    double keep = (1 - fmin(1, fmax(0, slowed))) * r->mix;
    return frequency / r->factor * (1 - keep) + frequency * keep;
}

static double scaled(const struct hke_model *m, uint32_t i)
{
    const struct hke_params *p = &m->params;
    const struct hke_rope *r = &p->rope;
    double frequency = pow(r->base, -2.0 * i / p->rope_dims);
    if (m->rope_factors != NULL)
        frequency /= (double)m->rope_factors[i];
    switch (r->scaling) {
    case HKE_ROPE_PLAIN:
    case HKE_ROPE_DYNAMIC:
        return frequency;
    case HKE_ROPE_LINEAR:
        return frequency / r->factor;
    case HKE_ROPE_LLAMA3: /* factors in the file are these already */
        return m->rope_factors != NULL ? frequency : llama3(r, frequency);
    case HKE_ROPE_YARN:
        return yarn(r, p->rope_dims, i, frequency);
    }
    return frequency;
}

enum hk_status hke_rope_prepare(struct hke_model *m, struct hk_error *err)
{
    uint32_t pairs = m->params.rope_dims / 2;
    m->rope_frequency = calloc(pairs, sizeof *m->rope_frequency);
    if (m->rope_frequency == NULL)
        return hk_fail_nomem(err);
    for (uint32_t i = 0; i < pairs; i++)
        m->rope_frequency[i] = scaled(m, i);
    return HK_OK;
}

void hke_rope_turns(const struct hke_model *m, size_t position, float *out)
{
    for (uint32_t i = 0; i < m->params.rope_dims / 2; i++) {
        double angle = (double)position * m->rope_frequency[i];
        out[2 * i] = (float)(cos(angle) * m->params.rope.magnitude);
        out[2 * i + 1] = (float)(sin(angle) * m->params.rope.magnitude);
    }
}
