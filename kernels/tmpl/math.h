/* The exponential and what is built on it, sixteen lanes at a time. */
#ifndef HKK_TMPL_MATH_H
#define HKK_TMPL_MATH_H

/* e^x = 2^n * e^r: n = x / ln 2 rounded to nearest even (adding 1.5 * 2^23 leaves it in the low
 * bits), r = x - n * ln 2 in two fused steps, |r| <= 0.3466, and e^r by a polynomial of degree 6 in
 * Horner's order, all steps fused; its own error is below 2^-28, the whole below 2^-23. e^0 is 1.
 * Below -87.33 the result is 0 and above 88.37 infinity, so n stays in -126..127. NaN gives NaN.
 *
 * Of this the polynomial Q without its last step: e^r = 1 + r * Q. */
static inline vec v_exp_parts(vec x, vec *biased, vec *r)
{
    const vec shift = v_set(12582912.0f);
    *biased = v_fma(x, v_set(0x1.715476p+0f), shift);
    vec n = v_sub(*biased, shift);
    *r = v_fma(n, v_set(-0x1.62e43p-1f), x);
    *r = v_fma(n, v_set(0x1.05c61p-29f), *r);
    vec q = v_set(0x1.6b6a1p-10f);
    q = v_fma(q, *r, v_set(0x1.1230bp-7f));
    q = v_fma(q, *r, v_set(0x1.55568ep-5f));
    q = v_fma(q, *r, v_set(0x1.5554a2p-3f));
    q = v_fma(q, *r, v_set(0.5f));
    return v_fma(q, *r, v_set(1.0f));
}

/* For x that is at most 88.37. */
static inline vec v_exp_low(vec x)
{
    vec biased, r, q = v_exp_parts(x, &biased, &r);
    vec p = v_mul(v_fma(q, r, v_set(1.0f)), v_power(biased));
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

/* With d = e^2x - 1 = fma(r * Q, 2^n, 2^n - 1), which keeps what is near 0, d / (d + 2); 1 and -1
 * beyond 10. Relative error below 2^-21.5. */
static inline vec v_tanh(vec x)
{
    vec biased, r, q = v_exp_parts(v_add(x, x), &biased, &r), power = v_power(biased);
    vec d = v_fma(v_mul(r, q), power, v_sub(power, v_set(1)));
    vec y = v_div(d, v_add(d, v_set(2)));
    return v_below(v_set(10), x, v_set(1), v_below(x, v_set(-10), v_set(-1), y));
}

/* CAP * tanh(x / CAP) */
static inline vec v_soft_cap(vec x, vec cap)
{
    return v_mul(v_tanh(v_div(x, cap)), cap);
}

static inline vec v_magnitudes(vec x)
{
    return v_below(x, v_set(0), v_sub(v_set(0), x), x);
}

/* x * P, P the normal distribution up to x. With z = |x|, at most 14, and u = 1 / (1 + 0.3125 z) it
 * is beyond z e^(-z^2 / 2) * u * polynomial(u), of degree 9 in Horner's order, all steps fused;
 * what z * z loses is made up for in e^..., which by itself would have z^2 times that error. P is
 * that below 0, and 1 minus it from 0 on. Relative error below 2^-21. */
static inline vec v_gelu_erf(vec x)
{
    static const float c[] = {0x1.5aa83cp-4f, -0x1.156e8cp-3f, 0x1.ba4eccp-5f,
                              0x1.c5e72ap-7f, 0x1.814322p-5f,  0x1.7c9e88p-4f,
                              0x1.c7e34ep-4f, 0x1.ff4074p-4f,  0x1.fe9daap-4f};
    vec z = v_magnitudes(x);
    z = v_below(z, v_set(14), z, v_set(14));
    vec u = v_div(v_set(1), v_fma(z, v_set(0.3125f), v_set(1)));
    vec p = v_set(-0x1.22c3dap-6f);
    for (size_t i = 0; i < sizeof c / sizeof *c; i++)
        p = v_fma(p, u, v_set(c[i]));
    vec square = v_mul(z, z), half = v_set(-0.5f);
    vec lost = v_mul(v_fma(z, z, v_sub(v_set(0), square)), half);
    vec e = v_exp_low(v_mul(square, half));
    vec beyond = v_mul(v_fma(e, lost, e), v_mul(p, u));
    return v_mul(x, v_below(x, v_set(0), beyond, v_sub(v_set(1), beyond)));
}

/* The square of what is above 0. */
static inline vec v_relu_2(vec x)
{
    vec y = v_below(x, v_set(0), v_set(0), x);
    return v_mul(y, y);
}

/* ln(1 + e^x) = max(x, 0) + ln(1 + t), t = e^-|x|; with s = t / (2 + t) and w = s * s the logarithm
 * is 2 s + s * w * polynomial(w), of degree 3 in Horner's order, all steps fused. Relative error
 * below 2^-22. */
static inline vec v_softplus(vec x)
{
    vec t = v_exp_low(v_sub(v_set(0), v_magnitudes(x)));
    vec s = v_div(t, v_add(t, v_set(2))), w = v_mul(s, s);
    vec p = v_set(0x1.12f598p-2f);
    p = v_fma(p, w, v_set(0x1.21249ap-2f));
    p = v_fma(p, w, v_set(0x1.99ad6cp-2f));
    p = v_fma(p, w, v_set(0x1.55554cp-1f));
    vec logarithm = v_fma(v_mul(s, w), p, v_add(s, s));
    return v_add(v_below(x, v_set(0), v_set(0), x), logarithm);
}

/* (y + 1) * x / (1 + e^(-alpha x)), x at most LIMIT, y at most and at least -LIMIT. */
static inline vec v_clamped_swiglu(vec x, vec y, float alpha, float limit)
{
    const vec top = v_set(limit), bottom = v_set(-limit);
    x = v_below(top, x, top, x);
    y = v_below(top, y, top, v_below(y, bottom, bottom, y));
    return v_mul(v_add(y, v_set(1)), v_gate(x, v_mul(x, v_set(alpha))));
}

#endif
