/* Operations on rows of f32: norms, sums, activations, softmax, rope, halves. A row is taken
 * sixteen numbers at a time, lane = index mod 16; a tail is padded with zeros, lane by lane. */

/* acc[l] = fma(x, x, acc[l]) over the row, the tree of v_sum. */
static inline float FN(squares)(const float *x, size_t n)
{
    vec acc = v_set(0);
    size_t i = 0, rest = n % 16;
    for (; i + 16 <= n; i += 16)
        acc = v_fma(v_load(x + i), v_load(x + i), acc);
    vec tail = v_load_some(x + i, rest);
    if (rest > 0)
        acc = v_fma(tail, tail, acc);
    return v_sum(acc);
}

/* Each result is (x * s) * w; x * s without W. */
static inline void FN(scale_by)(float *out, const float *x, const float *w, size_t n, float factor)
{
    vec s = v_set(factor);
    size_t i = 0, rest = n % 16;
    if (w == NULL) {
        for (; i + 16 <= n; i += 16)
            v_store(out + i, v_mul(v_load(x + i), s));
        v_store_some(out + i, v_mul(v_load_some(x + i, rest), s), rest);
        return;
    }
    for (; i + 16 <= n; i += 16)
        v_store(out + i, v_mul(v_mul(v_load(x + i), s), v_load(w + i)));
    v_store_some(out + i, v_mul(v_mul(v_load_some(x + i, rest), s), v_load_some(w + i, rest)),
                 rest);
}

enum { TOGETHER = 4 }; /* rows whose sums do not wait for each other */

/* The same of so many rows. */
static inline void FN(squares_of_rows)(float *out, const float *x, size_t n)
{
    const size_t whole = n - n % 16, rest = n % 16;
    vec acc[TOGETHER];
    for (int r = 0; r < TOGETHER; r++)
        acc[r] = v_set(0);
    for (size_t i = 0; i < whole; i += 16)
#pragma GCC unroll 4
        for (size_t r = 0; r < TOGETHER; r++)
            acc[r] = v_fma(v_load(x + r * n + i), v_load(x + r * n + i), acc[r]);
    for (size_t r = 0; r < TOGETHER; r++) {
        vec tail = v_load_some(x + r * n + whole, rest);
        out[r] = v_sum(rest > 0 ? v_fma(tail, tail, acc[r]) : acc[r]);
    }
}

/* s = 1 / sqrt(sum / n + epsilon) with IEEE's root and division. */
static inline float FN(norm_factor)(float sum, size_t n, float epsilon)
{
    return 1.0f / sqrtf(sum / (float)n + epsilon);
}

static void FN(rms_norm)(float *out, const float *x, const float *w, size_t n, size_t rows,
                         float epsilon)
{
    for (; rows >= TOGETHER; x += TOGETHER * n, out += TOGETHER * n, rows -= TOGETHER) {
        float sum[TOGETHER];
        FN(squares_of_rows)(sum, x, n);
        for (size_t r = 0; r < TOGETHER; r++)
            FN(scale_by)(out + r * n, x + r * n, w, n, FN(norm_factor)(sum[r], n, epsilon));
    }
    for (; rows > 0; x += n, out += n, rows--)
        FN(scale_by)(out, x, w, n, FN(norm_factor)(FN(squares)(x, n), n, epsilon));
}

/* s = 1 / sqrt(sum + epsilon). */
static void FN(l2_norm)(float *out, const float *x, size_t n, float epsilon)
{
    FN(scale_by)(out, x, NULL, n, 1.0f / sqrtf(FN(squares)(x, n) + epsilon));
}

/* mean = sum / n, in 16 lanes and the tree; d = x - mean, zeros in the tail; of d as in rms_norm;
 * each result is fma(d * s, w, b), without W d * s + b, without B a product. */
static void FN(layer_norm)(float *out, const float *x, const float *w, const float *b, size_t n,
                           float epsilon)
{
    vec acc = v_set(0), sum = v_set(0);
    const size_t whole = n - n % 16, rest = n % 16;
    for (size_t i = 0; i < whole; i += 16)
        sum = v_add(sum, v_load(x + i));
    const vec mean = v_set(v_sum(v_add(sum, v_load_some(x + whole, rest))) / (float)n);
    for (size_t i = 0; i < whole; i += 16) {
        vec d = v_sub(v_load(x + i), mean);
        acc = v_fma(d, d, acc);
    }
    vec tail = v_first(v_sub(v_load_some(x + whole, rest), mean), v_set(0), rest);
    const vec s = v_set(1.0f / sqrtf(v_sum(v_fma(tail, tail, acc)) / (float)n + epsilon));
    for (size_t i = 0; i < n; i += 16) {
        const size_t some = n - i < 16 ? n - i : 16;
        vec y = v_mul(v_sub(v_load_some(x + i, some), mean), s);
        if (w != NULL && b != NULL)
            y = v_fma(y, v_load_some(w + i, some), v_load_some(b + i, some));
        else if (w != NULL)
            y = v_mul(y, v_load_some(w + i, some));
        else if (b != NULL)
            y = v_add(y, v_load_some(b + i, some));
        v_store_some(out + i, y, some);
    }
}

static void FN(add)(float *x, const float *y, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(x + i, v_add(v_load(x + i), v_load(y + i)));
    v_store_some(x + i, v_add(v_load_some(x + i, n % 16), v_load_some(y + i, n % 16)), n % 16);
}

/* x[i] = the function, and out[i] = the function times y[i], as EXPRESSION and PRODUCT of the
 * vectors a (of x) and b (of y) say. */
#define FUNCTION(name, expression, product)                                                        \
    static void FN(name)(float *x, size_t n)                                                       \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + 16 <= n; i += 16) {                                                             \
            vec a = v_load(x + i);                                                                 \
            v_store(x + i, (expression));                                                          \
        }                                                                                          \
        vec a = v_load_some(x + i, n % 16);                                                        \
        v_store_some(x + i, (expression), n % 16);                                                 \
    }                                                                                              \
    static void FN(name##_mul)(float *out, const float *x, const float *y, size_t n)               \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + 16 <= n; i += 16) {                                                             \
            vec a = v_load(x + i), b = v_load(y + i);                                              \
            v_store(out + i, (product));                                                           \
        }                                                                                          \
        vec a = v_load_some(x + i, n % 16), b = v_load_some(y + i, n % 16);                        \
        v_store_some(out + i, (product), n % 16);                                                  \
    }

FUNCTION(silu, v_silu(a), v_mul(v_silu(a), b))
FUNCTION(gelu, v_gelu(a), v_mul(v_gelu(a), b))
FUNCTION(gelu_erf, v_gelu_erf(a), v_mul(v_gelu_erf(a), b))
FUNCTION(relu_2, v_relu_2(a), v_mul(v_relu_2(a), b))
FUNCTION(sigmoid, v_gate(v_set(1), a), v_gate(b, a))
FUNCTION(softplus, v_softplus(a), v_mul(v_softplus(a), b))

#undef FUNCTION

static void FN(clamped_swiglu)(float *gate, const float *up, size_t n, float alpha, float limit)
{
    for (size_t i = 0; i < n; i += 16) {
        const size_t some = n - i < 16 ? n - i : 16;
        vec y =
            v_clamped_swiglu(v_load_some(gate + i, some), v_load_some(up + i, some), alpha, limit);
        v_store_some(gate + i, y, some);
    }
}

static void FN(soft_cap)(float *x, float cap, size_t n)
{
    for (size_t i = 0; i < n; i += 16) {
        const size_t some = n - i < 16 ? n - i : 16;
        v_store_some(x + i, v_soft_cap(v_load_some(x + i, some), v_set(cap)), some);
    }
}

static void FN(scale)(float *x, float s, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store(x + i, v_mul(v_load(x + i), v_set(s)));
    v_store_some(x + i, v_mul(v_load_some(x + i, n % 16), v_set(s)), n % 16);
}

/* Lane by lane top = x > top ? x : top from -infinity, then the tree of v_reduce_max: a NaN never
 * counts. Then e^(x - top), added lane by lane, zeros in the tail, and the tree of v_sum. */
static float FN(softmax)(float *x, size_t n)
{
    const vec least = v_set(-INFINITY);
    vec top = least, sum = v_set(0);
    size_t i = 0, rest = n % 16;
    for (; i + 16 <= n; i += 16)
        top = v_max(v_load(x + i), top);
    vec tail = v_load_some(x + i, rest);
    top = v_set(v_reduce_max(v_max(v_first(tail, least, rest), top)));
    for (i = 0; i + 16 <= n; i += 16) {
        vec e = v_exp(v_sub(v_load(x + i), top));
        sum = v_add(sum, e);
        v_store(x + i, e);
    }
    tail = v_exp(v_sub(tail, top));
    v_store_some(x + i, tail, rest);
    return v_sum(v_add(sum, v_first(tail, v_set(0), rest)));
}

/* a' = fma(a, cos, -(b * sin)), b' = fma(a, sin, b * cos). */
static void FN(rope_halves)(float *x, const float *turn, size_t pairs)
{
    for (size_t i = 0; i < pairs; i += 16) {
        const size_t n = pairs - i < 16 ? pairs - i : 16;
        const vec a = v_load_some(x + i, n), b = v_load_some(x + pairs + i, n);
        const vec cosine = v_load_some(turn + i, n), sine = v_load_some(turn + pairs + i, n);
        v_store_some(x + i, v_fma(a, cosine, v_mul(v_mul(b, sine), v_set(-1))), n);
        v_store_some(x + pairs + i, v_fma(a, sine, v_mul(b, cosine)), n);
    }
}

/* The same: a in both lanes of a pair times (cos, sin), and b in both times (-sin, cos). */
static void FN(rope)(float *x, const float *turn, size_t pairs, bool neox)
{
    if (neox) {
        FN(rope_halves)(x, turn, pairs);
        return;
    }
    for (size_t i = 0; i < 2 * pairs; i += 16) {
        const size_t n = 2 * pairs - i < 16 ? 2 * pairs - i : 16;
        const vec y = v_load_some(x + i, n), t = v_load_some(turn + i, n);
        v_store_some(x + i, v_fma(v_even(y), t, v_mul(v_odd(y), v_turn(t))), n);
    }
}

static void FN(to_half)(uint16_t *out, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        v_store_half(out + i, v_load(x + i));
    uint16_t some[16];
    v_store_half(some, v_load_some(x + i, n % 16));
    memcpy(out + i, some, n % 16 * sizeof *out);
}

static void FN(store_key)(uint16_t *keys, size_t position, const float *key, size_t key_dim)
{
    uint16_t *at = keys + position / HKK_TILE * key_dim * HKK_TILE + position % HKK_TILE;
    for (size_t d = 0; d < key_dim; d += 16) {
        uint16_t some[16];
        size_t n = key_dim - d < 16 ? key_dim - d : 16;
        v_store_half(some, v_load_some(key + d, n));
        for (size_t i = 0; i < n; i++)
            at[(d + i) * HKK_TILE] = some[i];
    }
}
