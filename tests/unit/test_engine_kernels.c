/* The float primitives: bit for bit where they have a definition in sums, within a bound of double
 * arithmetic where they approximate. */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/unit/tap.h"

/* Numbers in -1..1 that are the same everywhere. */
static float next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / 8388608.0f - 1.0f;
}

static void fill(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = next(&seed);
}

static bool near(double a, double b, double bound)
{
    return fabs(a - b) <= bound * fmax(1, fabs(b));
}

/* The definition in kernels.h, as plainly as it can be written. */
static float dot_by_definition(const float *w, const float *x, size_t n)
{
    float lane[16] = {0};
    for (size_t i = 0; i < n; i++) {
        volatile float product = w[i] * x[i];
        lane[i % 16] += product;
    }
    for (size_t step = 8; step > 0; step /= 2)
        for (size_t l = 0; l < step; l++)
            lane[l] += lane[l + step];
    return lane[0];
}

static void check_dot(void)
{
    float w[600], x[600];
    fill(w, 600, 1);
    fill(x, 600, 2);
    bool same = true;
    for (size_t n = 0; n < 590; n++)
        for (size_t at = 0; at < 4; at++) {
            float a = hkk_dot_f32(w + at, x + at + 1, n);
            float b = dot_by_definition(w + at, x + at + 1, n);
            same = same && memcmp(&a, &b, sizeof a) == 0;
        }
    ok(same, "dot: 16 lanes and the tree, for every length and alignment");
    same = true;
    for (size_t n = 0; n < 290; n++) {
        float two[2], one[2] = {hkk_dot_f32(w + 1, x + 2, n), hkk_dot_f32(w + 1 + n, x + 2, n)};
        hkk_dot2_f32(w + 1, x + 2, n, two);
        same = same && memcmp(one, two, sizeof one) == 0;
    }
    ok(same, "dot: two rows at once are each as alone");
}

static void check_exp(void)
{
    double worst = 0;
    for (double x = -87.3; x < 88.3; x += 0.00037) {
        float f = (float)x;
        worst = fmax(worst, fabs(hkk_exp(f) / exp((double)f) - 1));
    }
    ok(worst < ldexp(1, -23), "exp: relative error %g is below 2^-23", worst);
    ok(hkk_exp(0) == 1 && hkk_exp(-88) == 0 && hkk_exp(-INFINITY) == 0 && hkk_exp(89) == INFINITY &&
           hkk_exp(INFINITY) == INFINITY && isnan(hkk_exp(NAN)),
       "exp: one, nothing, infinity and NaN");
}

static void check_norm(void)
{
    enum { N = 173 };
    float x[N], w[N], y[N];
    fill(x, N, 3);
    fill(w, N, 4);
    hkk_rms_norm_f32(y, x, w, N, 1e-5f);
    double squares = 0;
    for (size_t i = 0; i < N; i++)
        squares += (double)x[i] * (double)x[i];
    bool good = true;
    for (size_t i = 0; i < N; i++)
        good = good &&
               near((double)y[i], (double)x[i] / sqrt(squares / N + 1e-5) * (double)w[i], 1e-6);
    ok(good, "rms norm: agrees with double");
    float again[N];
    memcpy(again, x, sizeof x);
    hkk_rms_norm_f32(again, again, w, N, 1e-5f);
    ok(memcmp(again, y, sizeof y) == 0, "rms norm: in place is the same");
    memset(x, 0, sizeof x);
    hkk_rms_norm_f32(y, x, w, N, 1e-5f);
    ok(y[0] == 0 && y[N - 1] == 0, "rms norm: zeros stay zeros");
}

static void check_rope(void)
{
    const float turn[4] = {0.6f, 0.8f, 0, 1}; /* about 53 and 90 degrees */
    float norm[5] = {1, 2, 3, 4, 5}, neox[5] = {1, 2, 3, 4, 5};
    hkk_rope_f32(norm, turn, 2, false);
    hkk_rope_f32(neox, turn, 2, true);
    ok(near((double)norm[0], -1, 1e-6) && near((double)norm[1], 2, 1e-6) && norm[2] == -4 &&
           norm[3] == 3 && norm[4] == 5,
       "rope: neighbours turn against each other, the rest stays");
    ok(near((double)neox[0], -1.8, 1e-6) && near((double)neox[2], 2.6, 1e-6) && neox[1] == -4 &&
           neox[3] == 2 && neox[4] == 5,
       "rope: halves turn against each other, the rest stays");
}

static void check_silu(void)
{
    float gate[5] = {0, 1, -1, 100, -100}, up[5] = {3, 2, 2, 1, 1};
    hkk_silu_mul_f32(gate, up, 5);
    ok(gate[0] == 0 && near((double)gate[1], 2 / (1 + exp(-1)), 1e-6) &&
           near((double)gate[2], -2 / (1 + exp(1)), 1e-6) && gate[3] == 100 &&
           fabsf(gate[4]) < 1e-30f,
       "silu: values and both ends");
}

enum { KEY = 24, VALUE = 19, PAST = 300 };

/* Attention over all of the past at once, in double. */
static void attend_in_double(const float *q, const float *keys, const float *values, double *out)
{
    double score[PAST], most = -INFINITY, sum = 0;
    for (size_t i = 0; i < PAST; i++) {
        score[i] = 0;
        for (size_t d = 0; d < KEY; d++)
            score[i] += (double)q[d] * (double)keys[i * KEY + d];
        most = fmax(most, score[i]);
    }
    memset(out, 0, VALUE * sizeof *out);
    for (size_t i = 0; i < PAST; i++) {
        sum += exp(score[i] - most);
        for (size_t d = 0; d < VALUE; d++)
            out[d] += exp(score[i] - most) * (double)values[i * VALUE + d];
    }
    for (size_t d = 0; d < VALUE; d++)
        out[d] /= sum;
}

/* Whether CUT positions merged with the rest give the attention of the whole. */
static bool merges(const float *q, const float *keys, const float *values, size_t cut)
{
    float scores[PAST], first[VALUE], second[VALUE];
    double whole[VALUE];
    struct hkk_attention a = {.sum = first}, b = {.sum = second};
    hkk_attend_f32(&a, q, keys, values, cut, KEY, VALUE, 1, scores);
    hkk_attend_f32(&b, q, keys + cut * KEY, values + cut * VALUE, PAST - cut, KEY, VALUE, 1,
                   scores);
    hkk_attention_merge_f32(&a, &b, VALUE);
    hkk_attention_finish_f32(&a, VALUE);
    attend_in_double(q, keys, values, whole);
    bool good = true;
    for (size_t d = 0; d < VALUE; d++)
        good = good && near((double)first[d], whole[d], 2e-6);
    return good;
}

static void check_attention(void)
{
    static float keys[PAST * KEY], values[PAST * VALUE];
    float q[KEY];
    fill(q, KEY, 5);
    fill(keys, PAST * KEY, 6);
    fill(values, PAST * VALUE, 7);
    for (size_t d = 0; d < KEY; d++)
        q[d] *= 8; /* scores far apart */
    ok(merges(q, keys, values, 1) && merges(q, keys, values, 256) && merges(q, keys, values, 299),
       "attention: two segments merge to the whole, as in double");
}

int main(void)
{
    check_dot();
    check_exp();
    check_norm();
    check_rope();
    check_silu();
    check_attention();
    return tap_done();
}
