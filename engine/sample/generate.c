/* From a prompt to the tokens that follow it. */
#include <time.h>

#include "engine/engine.h"
#include "engine/sample/sampler.h"

static double read_monotonic_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static enum hk_status check_prompt_fits(const struct hke_context *c,
                                        const struct hke_generate_options *opt,
                                        struct hk_error *err)
{
    size_t positions = hke_context_positions(c);
    if (opt->prompt_count == 0)
        return hk_fail(err, HK_E_USE, HK_NO_OFFSET, "the prompt is empty");
    if (opt->prompt_count > positions)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET,
                       "the prompt has %zu tokens, the context %zu positions; --ctx sets more",
                       opt->prompt_count, positions);
    return HK_OK;
}

/* Rows of the embedding without a token are no choice. */
static enum hk_status pick_token(const struct hke_context *c, struct hke_sampler *sampler,
                                 uint32_t *id, struct hk_error *err)
{
    const float *logits = hke_logits(c);
    size_t n = hke_model_tokens(hke_context_model(c));
    if (sampler == NULL)
        return hke_argmax(logits, n, id, err);
    enum hk_status st = hke_sampler_pick(sampler, logits, n, id, err);
    if (st == HK_OK)
        hke_sampler_accept(sampler, id, 1);
    return st;
}

/* Choose the next token into *ID; *GO_ON is false where it is not to be evaluated. */
static enum hk_status choose_token(const struct hke_context *c,
                                   const struct hke_generate_options *opt,
                                   struct hke_generated *out, uint32_t *id, bool *go_on,
                                   struct hk_error *err)
{
    *go_on = false;
    enum hk_status st = pick_token(c, opt->sampler, id, err);
    if (st != HK_OK)
        return st;
    if (opt->tokenizer != NULL && hke_is_end_token(opt->tokenizer, *id)) {
        out->finish = HKE_FINISH_STOP;
        return HK_OK;
    }
    out->count++;
    bool wanted = opt->token(opt->arg, *id);
    out->finish = wanted ? HKE_FINISH_LENGTH : HKE_FINISH_CALLER;
    *go_on =
        wanted && out->count < opt->max_tokens && hke_context_used(c) < hke_context_positions(c);
    return HK_OK;
}

enum hk_status hke_generate(struct hke_context *c, const struct hke_generate_options *opt,
                            struct hke_generated *out, struct hk_error *err)
{
    struct hke_generated g = {.finish = HKE_FINISH_LENGTH};
    enum hk_status st = check_prompt_fits(c, opt, err);
    if (st != HK_OK)
        return st;
    if (opt->sampler != NULL)
        hke_sampler_accept(opt->sampler, opt->prompt, opt->prompt_count);
    double start = read_monotonic_seconds();
    st = hke_eval(c, opt->prompt, opt->prompt_count, NULL, NULL, err);
    double prompted = read_monotonic_seconds();
    g.prompt_seconds = prompted - start;
    bool go_on = opt->max_tokens > 0;
    while (st == HK_OK && go_on) {
        uint32_t id;
        st = choose_token(c, opt, &g, &id, &go_on, err);
        if (st == HK_OK && go_on) {
            st = hke_eval(c, &id, 1, NULL, NULL, err);
            g.decoded += st == HK_OK;
        }
    }
    g.decode_seconds = read_monotonic_seconds() - prompted;
    if (st != HK_OK && hke_context_stopped(c)) {
        g.finish = HKE_FINISH_STOPPED;
        st = HK_OK;
    }
    if (st == HK_OK)
        *out = g;
    return st;
}
