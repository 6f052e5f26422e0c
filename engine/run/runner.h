/* runner.h: what a runner consists of, and a sequence's room for what comes. */
#ifndef HKE_RUNNER_H
#define HKE_RUNNER_H

#include "engine/plan/model.h"
#include "engine/run/blocks.h"

struct hke_watched { /* an evaluation, for the watch of a runner */
    hke_watch_fn *fn;
    void *arg;
    size_t done, batch, all; /* ids evaluated, those being so, and all */
    bool stopped;
};

struct hke_runner {
    const struct hke_model *model;
    struct hke_device *device;
    struct hke_blocks blocks;
    size_t positions, batch;
    struct hke_watched watched;
    struct hke_token *token;   /* of a batch */
    struct hke_origin *origin; /* of each of these */
};

/* Have blocks for N positions more of S, and for writing into the last one that is begun; of layers
 * with a window as many as a batch needs, which hke_sequence_slide() uses again. After a failure
 * some may be there. */
HK_MUST enum hk_status hke_sequence_reserve(struct hke_sequence *s, size_t n, struct hk_error *err);
/* Free the blocks that S, which has gone on, does not see any more, not even after it has gone back
 * HKE_REWIND positions; or use them for what comes. */
void hke_sequence_slide(struct hke_sequence *s);
/* Drop the blocks behind its positions. */
void hke_sequence_trim(struct hke_sequence *s);

#endif
