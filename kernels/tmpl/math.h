/* The exponential and what is built on it, sixteen lanes at a time. */
#ifndef HKK_TMPL_MATH_H
#define HKK_TMPL_MATH_H

/* e^x = 2^n * e^r: n = x / ln 2 rounded to nearest even (adding 1.5 * 2^23 leaves it in the low
 * bits), r = x - n * ln 2 in two fused steps, |r| <= 0.3466, and e^r by a polynomial of degree 6 in
 * Horner's order, all steps fused; its own error is below 2^-28, the whole below 2^-23. e^0 is 1.
 * Below -87.33 the result is 0 and above 88.37 infinity, so n stays in -126..127. NaN gives NaN.
 * This is for x that is at most 88.37. */
static inline vec v_exp_low(vec x)
{
    const vec shift = v_set(12582912.0f);
    vec biased = v_fma(x, v_set(0x1.715476p+0f), shift);
    vec n = v_sub(biased, shift);
    vec r = v_fma(n, v_set(-0x1.62e43p-1f), x);
    r = v_fma(n, v_set(0x1.05c61p-29f), r);
    vec p = v_set(0x1.6b6a1p-10f);
    p = v_fma(p, r, v_set(0x1.1230bp-7f));
    p = v_fma(p, r, v_set(0x1.55568ep-5f));
    p = v_fma(p, r, v_set(0x1.5554a2p-3f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_fma(p, r, v_set(1.0f));
    p = v_mul(p, v_power(biased));
    return v_below(x, v_set(-87.33f), v_set(0), p);
}

static inline vec v_exp(vec x)
{
    return v_below(v_set(88.37f), x, v_set(INFINITY), v_exp_low(x));
}

/* x / (1 + e^-z) */
static inline vec v_gate(vec x, vec z)
{
    vec e = v_exp(v_sub(v_set(0), z));
    return v_div(x, v_add(v_set(1), e));
}

static inline vec v_silu(vec x)
{
    return v_gate(x, x);
}

/* x * (1 + tanh(u)) / 2 = x / (1 + e^-2u), 2u = x * 2 * sqrt(2 / pi) * (1 + 0.044715 x^2). */
static inline vec v_gelu(vec x)
{
    vec t = v_fma(v_mul(x, x), v_set(0.044715f), v_set(1));
    return v_gate(x, v_mul(v_mul(x, v_set(1.5957691216f)), t));
}

#endif
