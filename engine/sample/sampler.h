/* sampler.h: the next token drawn from logits.
 *
 * Steps, in this order; each one is left out where its option has the neutral value:
 *
 *   1. penalties     change the logits of tokens among the last REPEAT_LAST of prompt and text
 *   2. temperature   weight of a token: e^((logit - largest logit) / temperature)
 *   3. top-k         the TOP_K heaviest stay
 *   4. top-p         of these the fewest heaviest that together weigh TOP_P of the whole
 *   5. min-p         of these the ones that weigh at least MIN_P of the heaviest
 *   6. a draw        in proportion to the weights that are left
 *
 * Temperature comes before the cuts so that top-p and min-p speak of the very probabilities that
 * are drawn from: what 0.9 leaves out would have come up once in ten times. (llama.cpp cuts first
 * and applies its temperature last; at temperature 1, and for top-k at any, both agree.) Among
 * equal logits the lower id goes first in every step.
 *
 * Temperature 0 is the largest logit after the penalties, of equals the lowest id; no random number
 * is used up then, and exactly one otherwise.
 *
 * A seed gives the same ids on every host: the generator is random.h's, e^x a polynomial of its
 * own, and sums have a fixed order. Time is linear in the vocabulary, whatever the logits. */
#ifndef HKE_SAMPLER_H
#define HKE_SAMPLER_H

#include "libhkfmt/hkfmt.h"

struct hke_sampling {
    double temperature; /* 0..HKE_MAX_TEMPERATURE */
    size_t top_k;       /* 0: no bound */
    double top_p;       /* 0..1; 1: no bound, 0: the heaviest alone */
    double min_p;       /* 0..1; 0: no bound */
    /* A logit above 0 is divided by REPEAT_PENALTY, another one multiplied with it; then it loses
     * FREQUENCY_PENALTY for each time the token is there, and PRESENCE_PENALTY once. */
    double repeat_penalty;                      /* 1/HKE_MAX_PENALTY..HKE_MAX_PENALTY; 1: none */
    double frequency_penalty, presence_penalty; /* -HKE_MAX_PENALTY..HKE_MAX_PENALTY; 0: none */
    size_t repeat_last; /* tokens looked back at; at most HKE_MAX_REPEAT_LAST, 0: no penalties */
    uint64_t seed;
};

enum { HKE_MAX_TEMPERATURE = 100, HKE_MAX_PENALTY = 100, HKE_MAX_REPEAT_LAST = 1 << 24 };

/* Everything neutral: temperature 0, no cuts, no penalties (for which 64 tokens would be looked
 * back at), seed 0. */
struct hke_sampling hke_sampling_neutral(void);

struct hke_sampler; /* belongs to one thread and one text */

/* For logits of up to VOCAB tokens (at least 1). HK_E_USE: an option out of bounds, named. All
 * memory is allocated here: 16 bytes a token, 4 more with penalties, and 4 for each token looked
 * back at. */
HK_MUST enum hk_status hke_sampler_new(struct hke_sampler **out, const struct hke_sampling *opt,
                                       size_t vocab, struct hk_error *err);
/* *S becomes NULL. NULL is allowed. */
void hke_sampler_free(struct hke_sampler **s);

/* N ids became part of the text: penalties take notice. Ids from VOCAB on count for nothing. */
void hke_sampler_accept(struct hke_sampler *s, const uint32_t *id, size_t n);

/* Choose among the N logits (1..VOCAB); the choice is not yet accepted. HK_E_FORMAT: a logit is not
 * a number, or infinite. HK_E_USE: N out of bounds. */
HK_MUST enum hk_status hke_sampler_pick(struct hke_sampler *s, const float *logits, size_t n,
                                        uint32_t *out, struct hk_error *err);

#endif
