/* Sampling without sorting: candidates stay in the order of their ids all the time, and a cut finds
 * the last one to keep by histograms, in linear time.
 *
 * A logit is kept as an integer that orders as the float does, so that the largest of them, and
 * digits of it, do not hang on how a compiler arranges float comparisons. Loops over a whole
 * vocabulary go by blocks of a constant size, which compilers turn into vector code. */
#include "engine/sample/sampler.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/sample/random.h"

enum { BLOCK = 256, LANES = 8, BUCKETS = 2048 };

struct hke_sampler {
    struct hke_sampling opt;
    struct hke_random random;
    size_t vocab;

    size_t n;      /* candidates */
    int32_t *key;  /* their logits, key_of_logit() */
    uint32_t *id;  /* rising */
    float *weight; /* of the heaviest: 1 */
    uint32_t *tie; /* candidates that a cut is still undecided about */
    double bucket[BUCKETS];

    uint32_t *seen; /* how often each token is in the window; NULL: nothing is penalised */
    uint32_t *window;
    size_t filled, oldest;
};

/* ---- setting up ---- */

struct hke_sampling hke_sampling_neutral(void)
{
    return (struct hke_sampling){.top_p = 1, .repeat_penalty = 1, .repeat_last = 64};
}

static bool is_within_bounds(double v, double min, double max)
{
    return v >= min && v <= max;
}

static enum hk_status check_sampling(const struct hke_sampling *o, struct hk_error *err)
{
    const double max = HKE_MAX_PENALTY;
    const char *bad = NULL;
    if (!is_within_bounds(o->temperature, 0, HKE_MAX_TEMPERATURE))
        bad = "temperature";
    else if (!is_within_bounds(o->top_p, 0, 1))
        bad = "top-p";
    else if (!is_within_bounds(o->min_p, 0, 1))
        bad = "min-p";
    else if (!is_within_bounds(o->repeat_penalty, 1 / max, max))
        bad = "repeat penalty";
    else if (!is_within_bounds(o->frequency_penalty, -max, max))
        bad = "frequency penalty";
    else if (!is_within_bounds(o->presence_penalty, -max, max))
        bad = "presence penalty";
    else if (o->repeat_last > HKE_MAX_REPEAT_LAST)
        bad = "number of tokens looked back at";
    if (bad != NULL)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the %s is out of bounds", bad);
    return HK_OK;
}

static bool has_penalties(const struct hke_sampling *o)
{
    return o->repeat_last > 0 &&
           (o->repeat_penalty != 1 || o->frequency_penalty != 0 || o->presence_penalty != 0);
}

static enum hk_status allocate_candidates(struct hke_sampler *s, struct hk_error *err)
{
    s->key = calloc(s->vocab, sizeof *s->key);
    s->id = calloc(s->vocab, sizeof *s->id);
    s->weight = calloc(s->vocab, sizeof *s->weight);
    s->tie = calloc(s->vocab, sizeof *s->tie);
    bool good = s->key != NULL && s->id != NULL && s->weight != NULL && s->tie != NULL;
    if (good && has_penalties(&s->opt)) {
        s->seen = calloc(s->vocab, sizeof *s->seen);
        s->window = calloc(s->opt.repeat_last, sizeof *s->window);
        good = s->seen != NULL && s->window != NULL;
    }
    return good ? HK_OK : hk_fail_nomem(err);
}

enum hk_status hke_sampler_new(struct hke_sampler **out, const struct hke_sampling *opt,
                               size_t vocab, struct hk_error *err)
{
    enum hk_status st = check_sampling(opt, err);
    if (st != HK_OK)
        return st;
    if (vocab == 0 || vocab > INT32_MAX)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "a vocabulary of %zu tokens", vocab);
    struct hke_sampler *s = calloc(1, sizeof *s);
    if (s == NULL)
        return hk_fail_nomem(err);
    s->opt = *opt;
    s->vocab = vocab;
    hke_random_seed(&s->random, opt->seed);
    st = allocate_candidates(s, err);
    if (st != HK_OK)
        hke_sampler_free(&s);
    else
        *out = s;
    return st;
}

void hke_sampler_free(struct hke_sampler **s)
{
    if (*s == NULL)
        return;
    free((*s)->key);
    free((*s)->id);
    free((*s)->weight);
    free((*s)->tie);
    free((*s)->seen);
    free((*s)->window);
    free(*s);
    *s = NULL;
}

/* ---- logits as integers ---- */

/* The way there and back are the same: of a negative float all bits but the sign turn over. */
static inline int32_t flip_negative_bits(int32_t bits)
{
    return bits ^ (bits >> 31 & 0x7fffffff);
}

/* -0 becomes 0, which it equals. */
static inline int32_t key_of_logit(float x)
{
    int32_t bits;
    x += 0.0f;
    memcpy(&bits, &x, sizeof bits);
    return flip_negative_bits(bits);
}

static inline float logit_of_key(int32_t key)
{
    float x;
    key = flip_negative_bits(key);
    memcpy(&x, &key, sizeof x);
    return x;
}

/* Gives whether one of the logits is not finite. */
static inline int32_t load_block(int32_t *restrict key, const float *restrict logits, size_t n)
{
    int32_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t k = key_of_logit(logits[i]);
        key[i] = k;
        bad |= (flip_negative_bits(k) & 0x7fffffff) >= 0x7f800000;
    }
    return bad;
}

static bool load_logits(struct hke_sampler *s, const float *logits, size_t n)
{
    int32_t bad = 0;
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK)
        bad |= load_block(s->key + i, logits + i, BLOCK);
    bad |= load_block(s->key + i, logits + i, n - i);
    s->n = n;
    return bad == 0;
}

static inline void move_candidate(struct hke_sampler *s, size_t to, size_t from)
{
    s->key[to] = s->key[from];
    s->id[to] = s->id[from];
    s->weight[to] = s->weight[from];
}

struct span {
    int32_t min, max;
};

static inline struct span widen_span(const int32_t *key, size_t n, struct span span)
{
    int32_t min = span.min, max = span.max;
    for (size_t i = 0; i < n; i++) {
        min = key[i] < min ? key[i] : min;
        max = key[i] > max ? key[i] : max;
    }
    return (struct span){min, max};
}

static struct span find_key_span(const struct hke_sampler *s)
{
    struct span span = {INT32_MAX, INT32_MIN};
    size_t i = 0;
    for (; s->n - i >= BLOCK; i += BLOCK)
        span = widen_span(s->key + i, BLOCK, span);
    return widen_span(s->key + i, s->n - i, span);
}

/* ---- penalties ---- */

void hke_sampler_accept(struct hke_sampler *s, const uint32_t *id, size_t n)
{
    if (s->seen == NULL)
        return;
    size_t room = s->opt.repeat_last;
    for (size_t i = n > room ? n - room : 0; i < n; i++) {
        uint32_t *slot = &s->window[s->oldest];
        if (s->filled == room && *slot < s->vocab)
            s->seen[*slot]--;
        s->filled += s->filled < room;
        *slot = id[i];
        if (*slot < s->vocab)
            s->seen[*slot]++;
        s->oldest = (s->oldest + 1) % room;
    }
}

/* In double, rounded once, and finite as every logit. */
static float penalise_logit(const struct hke_sampling *o, float logit, uint32_t times)
{
    double v = (double)logit;
    v = v > 0 ? v / o->repeat_penalty : v * o->repeat_penalty;
    v -= (double)times * o->frequency_penalty + o->presence_penalty;
    v = v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v;
    return (float)v;
}

/* A token that is in the window twice is done twice, from the same logit. */
static void penalise_window(struct hke_sampler *s, const float *logits)
{
    for (size_t i = 0; i < s->filled; i++) {
        uint32_t id = s->window[i];
        if (id < s->n)
            s->key[id] = key_of_logit(penalise_logit(&s->opt, logits[id], s->seen[id]));
    }
}

/* ---- temperature ---- */

/* e^x for x <= 0, within a few units of the last place; 0 below -86, where the bits of the exponent
 * would run out. 2^n times a polynomial of the rest, which is within log(2) / 2 of 0 and makes an
 * error below 2^-22. Adding 1.5 * 2^23 rounds to the integer n and leaves it in the lowest bits. */
static inline float exp_of_nonpositive(float x)
{
    const float magic = 12582912.0f;
    float t = x * 1.44269504f + magic, n = t - magic;
    float r = x - n * 0.693359375f - n * -2.12194440e-4f; /* log(2), the first part times n exact */
    float p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t exponent, bits, given;
    memcpy(&exponent, &t, sizeof exponent);
    memcpy(&bits, &p, sizeof bits);
    memcpy(&given, &x, sizeof given);
    bits += exponent << 23;
    bits &= given > 0xc2ac0000 ? 0 : UINT32_MAX; /* -86 and below; x has a sign or is 0 */
    memcpy(&p, &bits, sizeof p);
    return p;
}

static inline void weigh_block(float *restrict weight, const int32_t *restrict key, size_t n,
                               float max, float factor)
{
    for (size_t i = 0; i < n; i++)
        weight[i] = exp_of_nonpositive((logit_of_key(key[i]) - max) * factor);
}

static void weigh_candidates(struct hke_sampler *s, int32_t largest_key)
{
    double inverse = 1 / s->opt.temperature;
    float max = logit_of_key(largest_key), factor = inverse > FLT_MAX ? FLT_MAX : (float)inverse;
    size_t i = 0;
    for (; s->n - i >= BLOCK; i += BLOCK)
        weigh_block(s->weight + i, s->key + i, BLOCK, max, factor);
    weigh_block(s->weight + i, s->key + i, s->n - i, max, factor);
}

/* ---- cuts ---- */

/* Element i goes to sum i % LANES; then those are added in order. */
static double sum_block(const float *w, size_t n)
{
    double lane[LANES] = {0}, sum = 0;
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES) {
        for (size_t j = 0; j < LANES; j++)
            lane[j] += (double)w[i + j];
    }
    for (size_t j = 0; j < n - whole; j++)
        lane[j] += (double)w[whole + j];
    for (size_t j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

static size_t size_of_block_at(const struct hke_sampler *s, size_t i)
{
    return s->n - i < BLOCK ? s->n - i : BLOCK;
}

static double sum_weights(const struct hke_sampler *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->n; i += BLOCK)
        sum += sum_block(s->weight + i, size_of_block_at(s, i));
    return sum;
}

/* The bucket, the best ones first, in which the sum reaches NEED, or else the last with a weight;
 * *ABOVE grows by the buckets before it. */
static size_t find_reaching_bucket(const struct hke_sampler *s, double need, double *above)
{
    size_t last = 0;
    double sum = *above;
    for (size_t b = 0; b < BUCKETS; b++) {
        if (!(s->bucket[b] > 0))
            continue;
        last = b;
        *above = sum;
        sum += s->bucket[b];
        if (sum >= need)
            break;
    }
    return last;
}

static inline void bucket_block(uint32_t *restrict bucket, const int32_t *restrict key, size_t n,
                                float max, float scale)
{
    for (size_t i = 0; i < n; i++)
        bucket[i] = (uint32_t)(int32_t)((max - logit_of_key(key[i]) * 0.5f) * scale);
}

/* Each candidate's bucket by its distance from the largest logit, which spreads usual logits well.
 * Half the distance, since the whole one may not be finite. */
static void bucket_candidates(struct hke_sampler *s)
{
    struct span span = find_key_span(s);
    float max = logit_of_key(span.max) * 0.5f, range = max - logit_of_key(span.min) * 0.5f;
    float scale = range > 1e-30f ? (BUCKETS - 1) / range : 0;
    size_t i = 0;
    for (; s->n - i >= BLOCK; i += BLOCK)
        bucket_block(s->tie + i, s->key + i, BLOCK, max, scale);
    bucket_block(s->tie + i, s->key + i, s->n - i, max, scale);
}

/* Drops the candidates behind the bucket in question, collects those in it and gives their number.
 */
static size_t cut_by_buckets(struct hke_sampler *s, double need, double *above)
{
    bucket_candidates(s);
    memset(s->bucket, 0, sizeof s->bucket);
    for (size_t i = 0, n = s->n; i < n; i++)
        s->bucket[s->tie[i]] += (double)s->weight[i];
    size_t b = find_reaching_bucket(s, need, above), kept = 0, found = 0;
    for (size_t i = 0, n = s->n; i < n; i++) {
        size_t own = s->tie[i];
        if (own > b)
            continue;
        if (own == b)
            s->tie[found++] = (uint32_t)kept;
        move_candidate(s, kept++, i);
    }
    s->n = kept;
    return found;
}

/* Of the I-th undecided candidate; small for a large logit. */
static size_t digit_of_key(const struct hke_sampler *s, size_t i, int shift)
{
    uint32_t falling = (uint32_t)s->key[s->tie[i]] ^ 0x7fffffff;
    return falling >> shift & (BUCKETS - 1);
}

/* Then by digits of the integers, whatever they are, until all of them are equal. */
static size_t cut_by_digit(struct hke_sampler *s, size_t n, int shift, double need, double *above)
{
    memset(s->bucket, 0, sizeof s->bucket);
    for (size_t i = 0; i < n; i++)
        s->bucket[digit_of_key(s, i, shift)] += (double)s->weight[s->tie[i]];
    size_t b = find_reaching_bucket(s, need, above), kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (digit_of_key(s, i, shift) == b)
            s->tie[kept++] = s->tie[i];
    }
    return kept;
}

/* Keep the fewest best candidates whose weights reach NEED together, at least one. */
static void cut_to_weight(struct hke_sampler *s, double need)
{
    double above = 0;
    size_t n = cut_by_buckets(s, need, &above);
    for (int shift = 22; shift >= 0; shift -= 11)
        n = cut_by_digit(s, n, shift, need, &above);
    size_t last = s->tie[0];
    for (size_t i = 0; i < n && above < need; i++) {
        last = s->tie[i];
        above += (double)s->weight[last];
    }
    int32_t edge = s->key[last];
    size_t kept = 0;
    for (size_t i = 0, all = s->n; i < all; i++) {
        if (s->key[i] > edge || (s->key[i] == edge && i <= last))
            move_candidate(s, kept++, i);
    }
    s->n = kept;
}

/* Temperature keeps the order, so this may come before it and save the weights of all others. */
static void cut_top_k(struct hke_sampler *s)
{
    if (s->opt.top_k == 0 || s->opt.top_k >= s->n)
        return;
    for (size_t i = 0; i < s->n; i++)
        s->weight[i] = 1;
    cut_to_weight(s, (double)s->opt.top_k);
}

static void cut_min_p(struct hke_sampler *s)
{
    float min = (float)s->opt.min_p;
    size_t kept = 0;
    for (size_t i = 0, n = s->n; i < n; i++) {
        if (s->weight[i] >= min)
            move_candidate(s, kept++, i);
    }
    s->n = kept;
}

/* ---- the draw ---- */

/* Rounding may leave a rest behind the last weight; it goes to the last candidate that has one. */
static uint32_t draw_candidate(struct hke_sampler *s)
{
    double rest = hke_random_unit(&s->random) * sum_weights(s);
    size_t i = 0;
    for (; s->n - i > BLOCK; i += BLOCK) {
        double sum = sum_block(s->weight + i, BLOCK);
        if (rest < sum)
            break;
        rest -= sum;
    }
    for (; i < s->n && rest >= (double)s->weight[i]; i++)
        rest -= (double)s->weight[i];
    if (i == s->n) {
        do
            i--;
        while (!(s->weight[i] > 0));
    }
    return s->id[i];
}

static uint32_t find_first_largest(const struct hke_sampler *s)
{
    int32_t max = find_key_span(s).max;
    uint32_t i = 0;
    while (s->key[i] != max)
        i++;
    return i;
}

static uint32_t sample_candidate(struct hke_sampler *s)
{
    int32_t max = find_key_span(s).max;
    for (size_t i = 0; i < s->n; i++)
        s->id[i] = (uint32_t)i;
    cut_top_k(s);
    weigh_candidates(s, max);
    if (s->opt.top_p < 1)
        cut_to_weight(s, s->opt.top_p * sum_weights(s));
    if (s->opt.min_p > 0)
        cut_min_p(s);
    return draw_candidate(s);
}

enum hk_status hke_sampler_pick(struct hke_sampler *s, const float *logits, size_t n, uint32_t *out,
                                struct hk_error *err)
{
    if (n == 0 || n > s->vocab)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "%zu logits for a vocabulary of %zu", n,
                       s->vocab);
    if (s->seen == NULL && !(s->opt.temperature > 0))
        return hke_argmax(logits, n, out, err);
    uint32_t ignored;
    if (!load_logits(s, logits, n))
        return hke_argmax(logits, n, &ignored, err); /* fails, and says which one */
    if (s->seen != NULL)
        penalise_window(s, logits);
    *out = s->opt.temperature > 0 ? sample_candidate(s) : find_first_largest(s);
    return HK_OK;
}
