/* Root mean square norm. */
#include <math.h>

#include "kernels/kernels.h"

/* The mean of squares is the dot product of x with itself over n; square root and division are
 * IEEE's, so the scale has one value everywhere. */
void hkk_rms_norm_f32(float *out, const float *x, const float *w, size_t n, float epsilon)
{
    float mean = hkk_dot_f32(x, x, n) / (float)n;
    float scale = 1.0f / sqrtf(mean + epsilon);
    for (size_t i = 0; i < n; i++)
        out[i] = (x[i] * scale) * w[i];
}
