/* kernels.h: the arithmetic of the engine. Plain pointers and sizes; no files, no names, no state.
 *
 * Every primitive has one definition, written above its portable version, down to the order of its
 * sums and the places of its roundings: a result is a function of the inputs and of nothing else.
 * Multiplies and adds are separate everywhere (contraction is off). Sums over a row run in 16
 * lanes, lane = index mod 16, each lane in order; the lanes are then added 8 apart, 4, 2 and 1. */
#ifndef HKK_KERNELS_H
#define HKK_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* Sum of w[i] * x[i]. */
float hkk_dot_f32(const float *w, const float *x, size_t n);
/* The same for the row W and the row W + N, to y[0] and y[1]. */
void hkk_dot2_f32(const float *w, const float *x, size_t n, float *y);

/* x[i] += y[i] */
void hkk_add_f32(float *x, const float *y, size_t n);

/* out[i] = (x[i] * s) * w[i] with s = 1 / sqrt(dot(x, x) / n + epsilon); OUT may be X. */
void hkk_rms_norm_f32(float *out, const float *x, const float *w, size_t n, float epsilon);

/* Turn PAIRS pairs of X by angles given as cosine, sine, cosine, sine, ... A pair is x[2i],
 * x[2i+1], or with NEOX x[i], x[i+pairs]. Elements past the pairs stay as they are. */
void hkk_rope_f32(float *x, const float *turn, size_t pairs, bool neox);

/* e^x: relative error below 2^-23. 0 below -87.33, infinity above 88.37, NaN for NaN. */
float hkk_exp(float x);

/* gate[i] = (gate[i] / (1 + e^-gate[i])) * up[i] */
void hkk_silu_mul_f32(float *gate, const float *up, size_t n);

/* Softmax-weighted values of one segment of a head's past, or of several merged. */
struct hkk_attention {
    float most;   /* largest score */
    float weight; /* sum of e^(score - most) */
    float *sum;   /* of values times e^(score - most), one for each value dimension */
};

/* Attend to N positions (at least 1), whose keys and values lie one after the other; SCORES is room
 * for N floats. */
void hkk_attend_f32(struct hkk_attention *out, const float *q, const float *keys,
                    const float *values, size_t n, size_t key_dim, size_t value_dim, float scale,
                    float *scores);
/* Put the segment that follows into A. */
void hkk_attention_merge_f32(struct hkk_attention *a, const struct hkk_attention *next,
                             size_t value_dim);
/* sum /= weight: the attended value. */
void hkk_attention_finish_f32(struct hkk_attention *a, size_t value_dim);

#endif
