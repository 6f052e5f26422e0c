/* Rotary embedding: kinds of scaling, and the frequencies that they give. */
#include <math.h>
#include <string.h>

#include "libhkfmt/model/model.h"

static const double turn = 6.283185307179586476925286766559;

static const char *const kinds[] = {
    [HK_ROPE_NONE] = "none",     [HK_ROPE_LINEAR] = "linear", [HK_ROPE_DYNAMIC] = "dynamic",
    [HK_ROPE_LLAMA3] = "llama3", [HK_ROPE_YARN] = "yarn",
};

const char *hk_rope_name(enum hk_rope_kind kind)
{
    return kinds[kind];
}

bool hk_rope_kind_of(struct hk_bytes name, enum hk_rope_kind *out)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (hk_bytes_are(name, kinds[i])) {
            *out = i;
            return true;
        }
    return false;
}

const char *hk_rope_style(bool halves)
{
    return halves ? "neox" : "norm";
}

static double plain_frequency(const struct hk_rope *r, uint32_t dims, uint32_t i)
{
    return pow(r->base, -2.0 * i / dims);
}

/* Pairs that turn fewer than low_freq times in the original context are slowed down by the factor,
 * those of more than high_freq turns are left alone, those between are blended. */
float hk_rope_factor(const struct hk_rope *r, uint32_t dims, uint32_t i)
{
    const double turns = r->original * plain_frequency(r, dims, i) / turn;
    if (turns > r->high_freq)
        return 1;
    if (turns < r->low_freq)
        return (float)r->factor;
    const double smooth = (turns - r->low_freq) / (r->high_freq - r->low_freq);
    return (float)(1 / ((1 - smooth) / r->factor + smooth));
}

double hk_rope_pair_of_turns(const struct hk_rope *r, uint32_t dims, double turns)
{
    return dims * log(r->original / (turns * turn)) / (2 * log(r->base));
}

double hk_yarn_magnitude(double factor, double scale)
{
    return factor > 1 ? 1 + 0.1 * scale * log(factor) : 1;
}

/* As llama.cpp blends (YaRN's "by parts"): up to LOW pairs are left alone, from HIGH on they are
 * slowed down. */
static double blend_yarn(const struct hk_rope *r, uint32_t dims, uint32_t i, double frequency)
{
    const double first = hk_rope_pair_of_turns(r, dims, r->beta_fast);
    const double last = hk_rope_pair_of_turns(r, dims, r->beta_slow);
    const double low = fmax(0, r->between_pairs ? first : floor(first));
    const double high = fmin(dims - 1, r->between_pairs ? last : ceil(last));
    const double slowed = (i - low) / fmax(0.001, high - low);
    const double keep = (1 - fmin(1, fmax(0, slowed))) * r->ext_factor;
    return frequency / r->factor * (1 - keep) + frequency * keep;
}

static double scale_frequency(const struct hk_rope *r, uint32_t dims, uint32_t i, double frequency)
{
    switch (r->kind) {
    case HK_ROPE_LINEAR:
        return frequency / r->factor;
    case HK_ROPE_YARN:
        return blend_yarn(r, dims, i, frequency);
    default:
        return frequency;
    }
}

void hk_rope_frequencies(const struct hk_rope *r, uint32_t dims, const float *factors, double *out)
{
    for (uint32_t i = 0; i < dims / 2; i++) {
        const float factor = factors != NULL             ? factors[i]
                             : r->kind == HK_ROPE_LLAMA3 ? hk_rope_factor(r, dims, i)
                                                         : 1;
        out[i] = scale_frequency(r, dims, i, plain_frequency(r, dims, i) / (double)factor);
    }
}
