/* Rotary position embedding: the angles' cosines and sines come from a table. */
#include "kernels/kernels.h"

/* a' = a * cos - b * sin, b' = a * sin + b * cos; each product rounded before the sum. */
static void turn_pair(float *a, float *b, const float *turn)
{
    float x = *a, y = *b;
    *a = x * turn[0] - y * turn[1];
    *b = x * turn[1] + y * turn[0];
}

void hkk_rope_f32(float *x, const float *turn, size_t pairs, bool neox)
{
    for (size_t i = 0; i < pairs; i++) {
        if (neox)
            turn_pair(x + i, x + pairs + i, turn + 2 * i);
        else
            turn_pair(x + 2 * i, x + 2 * i + 1, turn + 2 * i);
    }
}
