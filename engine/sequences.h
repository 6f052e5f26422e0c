/* sequences.h: many texts at once. A runner computes batches that have tokens of any of its
 * sequences; what a text gives is the same, bit for bit, as if it were alone. Each may have
 * adapters of its own.
 *
 * The KV cache of all sequences of a runner is one pool of blocks, each of HKE_BLOCK positions of a
 * sequence. Forks share blocks; a block that several have is copied when one of them writes to it.
 * A runner and its sequences belong to one thread. Nothing here prints, exits or reads the
 * environment. */
#ifndef HKE_SEQUENCES_H
#define HKE_SEQUENCES_H

#include "engine/engine.h"

/* ---- a runner: threads, kernels, buffers and KV cache, for one model ---- */

struct hke_runner;

/* As hke_context_new(). OPT->every_logit: logits of many tokens are wanted together, and computed
 * together; OPT->adapters are left alone, since each sequence has its own. */
HK_MUST enum hk_status hke_runner_new(struct hke_runner **out, const struct hke_model *m,
                                      const struct hke_context_options *opt, struct hk_error *err);
/* After all its sequences. *R becomes NULL. NULL is allowed. */
void hke_runner_free(struct hke_runner **r);
size_t hke_runner_positions(const struct hke_runner *r); /* most of a sequence */
/* What it computes with. */
unsigned hke_runner_threads(const struct hke_runner *r);
const char *hke_runner_kernels(const struct hke_runner *r);
/* Bytes of weights that stay in memory, of how many that every pass needs; those of experts, which
 * are chosen, count as neither. */
uint64_t hke_runner_weights_kept(const struct hke_runner *r, uint64_t *total);

struct hke_cache_blocks { /* of those layers that have most; shared ones count once */
    size_t used, most;    /* most: that may be in use, SIZE_MAX for no bound */
};
struct hke_cache_blocks hke_runner_blocks(const struct hke_runner *r);

/* ---- a sequence: the past of one text ---- */

struct hke_sequence;

/* An empty one. R must outlive it, and so must ADAPTERS (NULL: none). HK_E_USE: they are another
 * model's. */
HK_MUST enum hk_status hke_sequence_new(struct hke_sequence **out, struct hke_runner *r,
                                        const struct hke_adapters *adapters, struct hk_error *err);
/* One that has the past and the adapters of S, and goes its own way from here on. Shares the blocks
 * of S: no keys or values are copied, until one of the two writes into a block that is not full
 * yet. */
HK_MUST enum hk_status hke_sequence_fork(struct hke_sequence **out, const struct hke_sequence *s,
                                         struct hk_error *err);
/* Its blocks, as far as no other sequence has them, are free for others. *S becomes NULL. NULL is
 * allowed. */
void hke_sequence_free(struct hke_sequence **s);
/* Forget all but the first POSITIONS, as long as there are more; blocks behind them become free.
 * Gives how many are left: in a model whose layers see a window those 256 before the last that were
 * evaluated can be come back to, and then none, since what others see is not there any more. */
size_t hke_sequence_rewind(struct hke_sequence *s, size_t positions);
size_t hke_sequence_used(const struct hke_sequence *s);

/* ---- evaluating ---- */

struct hke_part { /* SEQUENCE goes on with N ids (at least 1) */
    struct hke_sequence *sequence;
    const uint32_t *id;
    size_t n;
    size_t wanted; /* logits are wanted after the last WANTED of them: 0 .. N */
};

/* Given the VOCAB logits after id INDEX of part PART, valid during the call, in which nothing is
 * done with the runner or its sequences; anything but HK_OK ends hke_runner_eval() with that
 * status. */
typedef enum hk_status hke_part_fn(void *arg, size_t part, size_t index, const float *logits,
                                   size_t vocab, struct hk_error *err);

/* Continue sequences of R, each at most once, in batches that take the parts' ids in order. FN (may
 * be NULL) is called for all logits that are wanted, those of a part in order. HK_E_USE: an empty
 * part, a sequence twice or of another runner; HK_E_RANGE: an id outside the embedding, or more ids
 * than a sequence has positions left; HK_E_NOMEM: out of memory, or of the blocks that the runner
 * may have (once others are freed the call may be made again). No sequence has changed then. After
 * a failure of FN, or HK_E_IO with sys EINTR since the watch ended it, hke_sequence_used() says how
 * far each was evaluated. */
HK_MUST enum hk_status hke_runner_eval(struct hke_runner *r, const struct hke_part *part,
                                       size_t parts, hke_part_fn *fn, void *arg,
                                       struct hk_error *err);

#endif
