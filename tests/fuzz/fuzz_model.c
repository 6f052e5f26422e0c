/* A model of whatever a file says, and a few tokens through it with both kinds of activations. */
#include "engine/engine.h"
#include "kernels/kernels.h"
#include "tests/fuzz/fuzz.h"

/* A pass costs as much as its sizes say; these are enough for every shape of heads and blocks. */
enum { MAX_WIDTH = 1024, MAX_LAYERS = 4, POSITIONS = 4 };

static bool is_small(const struct hk_model_params *p)
{
    return p->layers <= MAX_LAYERS && p->hidden <= MAX_WIDTH && p->ffn <= MAX_WIDTH &&
           p->heads <= 32 && p->key_dim <= MAX_WIDTH && p->value_dim <= MAX_WIDTH &&
           p->vocab <= MAX_WIDTH;
}

static void evaluate(const struct hke_model *m, enum hke_activations activations)
{
    const struct hkk_table *generic;
    struct hke_context *c;
    struct hk_error err;
    const char *refused = hkk_select("generic", &generic);
    fuzz_require(refused == NULL, "there are generic kernels");
    const struct hke_context_options options = {.positions = POSITIONS,
                                                .batch = 2,
                                                .kernels = generic,
                                                .threads = 1,
                                                .activations = activations};
    if (!fuzz_may(hke_context_new(&c, m, &options, &err), &err))
        return;
    uint32_t last = hke_model_params(m)->vocab - 1;
    const uint32_t id[] = {0, last, last / 2}, outside = last + 1;
    bool evaluated = fuzz_may(hke_eval(c, id, 3, NULL, NULL, &err), &err);
    if (evaluated && fuzz_may(hke_eval(c, id, 1, NULL, NULL, &err), &err)) {
        uint32_t best;
        if (fuzz_may(hke_argmax(hke_logits(c), last + 1, &best, &err), &err))
            fuzz_require(best <= last, "a token of the vocabulary is chosen");
        fuzz_require(hke_eval(c, id, 1, NULL, NULL, &err) == HK_E_RANGE, "a context ends");
    }
    hke_context_reset(c);
    fuzz_require(hke_eval(c, &outside, 1, NULL, NULL, &err) == HK_E_RANGE, "ids are checked");
    hke_context_free(&c);
}

void fuzz_one(struct hk_bytes input)
{
    struct hk_file *f;
    struct hke_model *m;
    struct hk_error err;
    int fd = fuzz_file(input);
    if (fuzz_may(hk_open_fd(&f, fd, &err), &err)) {
        if (fuzz_may(hke_model_new(&m, f, &err), &err)) {
            if (is_small(hke_model_params(m))) {
                evaluate(m, HKE_ACTIVATIONS_F32);
                evaluate(m, HKE_ACTIVATIONS_Q8);
            }
            hke_model_free(&m);
        }
        hk_close(&f);
    }
    close(fd);
}
