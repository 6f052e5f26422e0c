/* The rotary embedding's angles: a frequency for each pair, and one table row a position, the same
 * for every layer and head. */
#include <math.h>
#include <stdlib.h>

#include "engine/model.h"

enum hk_status hke_rope_prepare(struct hke_model *m, struct hk_error *err)
{
    uint32_t pairs = m->params.rope_dims / 2;
    m->rope_frequency = calloc(pairs, sizeof *m->rope_frequency);
    if (m->rope_frequency == NULL)
        return hk_fail_nomem(err);
    hk_rope_frequencies(&m->params.rope, m->params.rope_dims, m->rope_factors, m->rope_frequency);
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
