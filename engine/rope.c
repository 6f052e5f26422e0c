/* Angles of the rotary embedding: one table row a position, the same for every layer and head. */
#include <math.h>

#include "engine/model.h"

/* Pair i turns by position * base^(-2i / dims), over the linear scaling's factor and the file's own
 * factor for the pair. In double, each cosine and sine rounded to f32 once. */
void hke_rope_turns(const struct hke_model *m, size_t position, float *out)
{
    const struct hke_params *p = &m->params;
    for (uint32_t i = 0; i < p->rope_dims / 2; i++) {
        double frequency = pow(p->rope_base, -2.0 * i / p->rope_dims) / p->rope_divisor;
        if (m->rope_factors != NULL)
            frequency /= (double)m->rope_factors[i];
        double angle = (double)position * frequency;
        out[2 * i] = (float)cos(angle);
        out[2 * i + 1] = (float)sin(angle);
    }
}
