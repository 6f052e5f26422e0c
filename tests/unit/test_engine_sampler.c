/* Sampling and stop strings. The ids expected of a seed come from a model of sampler.h in another
 * language, with exact sums and libm's e^x. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/sample/random.h"
#include "engine/sample/sampler.h"
#include "engine/sample/stop.h"
#include "tests/lib/tap.h"

static struct hke_sampler *made(const struct hke_sampling *opt, size_t vocab)
{
    struct hke_sampler *s = NULL;
    struct hk_error err;
    if (hke_sampler_new(&s, opt, vocab, &err) != HK_OK) {
        printf("Bail out! no sampler: %s\n", err.text);
        exit(1);
    }
    return s;
}

static uint32_t pick(struct hke_sampler *s, const float *logits, size_t n)
{
    uint32_t id = UINT32_MAX;
    struct hk_error err;
    return hke_sampler_pick(s, logits, n, &id, &err) == HK_OK ? id : UINT32_MAX;
}

static struct hke_sampling at(double temperature)
{
    struct hke_sampling o = hke_sampling_neutral();
    o.temperature = temperature;
    return o;
}

/* ---- the generator ---- */

static void generator(void)
{
    struct hke_random r;
    hke_random_seed(&r, 0);
    ok(r.state[0] == 0xe220a8397b1dcdaf && r.state[1] == 0x6e789e6aa1b965f4 &&
           r.state[2] == 0x06c45d188009454f && r.state[3] == 0xf88bb8a8724c81ec,
       "SplitMix64 from 0");
    ok(hke_random_next(&r) == 0x99ec5f36cb75f2b4 && hke_random_next(&r) == 0xbf6e1f784956452a &&
           hke_random_next(&r) == 0x1a5f849d4933e6e0,
       "xoshiro256** after it");
}

/* ---- ids of a seed ---- */

static const float ten[] = {0.5f, -1.25f, 2, 2, -3.5f, 1, 0.25f, -0.75f, 1.5f, 0};

static void gives(const char *name, struct hke_sampling o, const uint32_t *want, size_t n)
{
    struct hke_sampler *s = made(&o, 10);
    size_t good = 0;
    while (good < n && pick(s, ten, 10) == want[good])
        good++;
    ok(good == n, "%s: the %zu ids of its seed, %zu as expected", name, n, good);
    hke_sampler_free(&s);
}
#define GIVES(name, o, ...)                                                                        \
    gives(name, o, (const uint32_t[]){__VA_ARGS__},                                                \
          sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void seeds(void)
{
    struct hke_sampling o = at(0.7);
    o.seed = 42;
    GIVES("temperature 0.7", o, 2, 3, 3, 8, 9, 5, 5, 8, 5, 3, 3, 2, 6, 2, 5, 8, 3, 8, 5, 5, 2, 2, 3,
          3);
    o = at(1.5);
    o.seed = 7;
    GIVES("temperature 1.5", o, 6, 2, 8, 9, 9, 8, 0, 1, 3, 2, 3, 6, 8, 8, 3, 5, 2, 3, 2, 2, 2, 5, 5,
          2);
    o = at(1);
    o.seed = 42;
    o.top_k = 3;
    GIVES("top-k", o, 2, 2, 3, 8, 8, 8, 3, 8, 3, 3, 3, 2, 8, 2, 3, 8, 3, 8, 3, 3, 2, 2, 3, 3);
    o.top_k = 0;
    o.top_p = 0.6;
    GIVES("top-p", o, 2, 2, 3, 8, 8, 8, 3, 8, 3, 3, 3, 2, 8, 2, 3, 8, 3, 8, 3, 3, 2, 2, 3, 3);
    o.top_p = 1;
    o.min_p = 0.5;
    GIVES("min-p", o, 2, 2, 3, 8, 8, 8, 3, 8, 3, 3, 3, 2, 8, 2, 3, 8, 3, 8, 3, 3, 2, 2, 3, 3);
    o = at(0.9);
    o.seed = UINT64_MAX;
    o.top_k = 6;
    o.top_p = 0.9;
    o.min_p = 0.3;
    GIVES("all of them", o, 3, 5, 3, 5, 3, 5, 3, 5, 3, 3, 2, 2, 3, 3, 2, 5, 2, 5, 3, 3, 2, 3, 5, 3);
}

/* ---- what can be drawn ---- */

enum { DRAWS = 2000, MANY = 1200 };

/* How often each of N comes in so many draws. */
static void count(const struct hke_sampling *o, const float *logits, size_t n, size_t draws,
                  size_t *times)
{
    struct hke_sampler *s = made(o, n);
    memset(times, 0, n * sizeof *times);
    for (size_t i = 0; i < draws; i++) {
        uint32_t id = pick(s, logits, n);
        if (id < n)
            times[id]++;
    }
    hke_sampler_free(&s);
}

/* Whether the ids of SET ('1' at their place) are drawn, and no other. */
static bool drawn(const struct hke_sampling *o, const float *logits, const char *set)
{
    size_t times[16], n = strlen(set);
    count(o, logits, n, DRAWS, times);
    for (size_t i = 0; i < n; i++)
        if ((times[i] > 0) != (set[i] == '1'))
            return false;
    return true;
}

static void distribution(void)
{
    struct hke_sampling o = at(0.8);
    size_t times[10], all = 100000;
    double sum = 0, worst = 0;
    count(&o, ten, 10, all, times);
    for (size_t i = 0; i < 10; i++)
        sum += exp((double)ten[i] / 0.8);
    for (size_t i = 0; i < 10; i++) {
        double p = exp((double)ten[i] / 0.8) / sum, mean = p * (double)all;
        double off = fabs((double)times[i] - mean) / sqrt(mean * (1 - p));
        worst = off > worst ? off : worst;
    }
    ok(worst < 4, "as often as the softmax says, %.2f deviations off at most", worst);
}

static void cuts(void)
{
    const float l[] = {logf(0.2f), logf(0.5f), logf(0.3f)}, same[] = {1, 1, 1, 1};
    struct hke_sampling o = at(1);
    ok(drawn(&o, l, "111"), "all without a cut");
    o.top_k = 1;
    ok(drawn(&o, l, "010"), "top-k 1: the largest");
    o.top_k = 2;
    ok(drawn(&o, l, "011") && drawn(&o, same, "1100"), "top-k 2, of equals the first");
    o.top_k = 3;
    ok(drawn(&o, l, "111"), "top-k of all");
    o.top_k = 0;
    o.top_p = 0;
    ok(drawn(&o, l, "010") && drawn(&o, same, "1000"), "top-p 0: the heaviest alone");
    o.top_p = 0.49;
    ok(drawn(&o, l, "010"), "top-p 0.49 of 0.5");
    o.top_p = 0.51;
    ok(drawn(&o, l, "011"), "top-p 0.51 takes the next");
    o.top_p = 0.81;
    ok(drawn(&o, l, "111"), "top-p 0.81 takes all");
    o.top_p = 0.5;
    ok(drawn(&o, same, "1100"), "top-p 0.5 of four equals: two");
    o.top_p = 1 - DBL_EPSILON;
    ok(drawn(&o, l, "111"), "top-p just below 1");
    o.top_p = 1;
    o.min_p = 0.41;
    ok(drawn(&o, l, "011"), "min-p 0.41 of 0.5, 0.3, 0.2");
    o.min_p = 0.39;
    ok(drawn(&o, l, "111"), "min-p 0.39");
    o.min_p = 1;
    ok(drawn(&o, l, "010") && drawn(&o, same, "1111"), "min-p 1: those as heavy as the heaviest");
}

static void order(void)
{
    const float l[] = {logf(0.2f), logf(0.5f), logf(0.3f)};
    struct hke_sampling o = at(100);
    o.top_p = 0.6;
    ok(drawn(&o, l, "011"), "hot weights are equal, so 0.6 of them are two of three");
    o.temperature = 0.2;
    ok(drawn(&o, l, "010"), "cold weights: 0.6 of them are one");
    o = at(1);
    o.top_k = 2;
    o.top_p = 0.6;
    ok(drawn(&o, l, "010"), "top-p is of what top-k left: 0.625 and 0.375");
    o.top_k = 1;
    o.presence_penalty = 5;
    struct hke_sampler *s = made(&o, 3);
    hke_sampler_accept(s, (const uint32_t[]){1}, 1);
    ok(pick(s, l, 3) == 2, "cuts are of penalised logits");
    hke_sampler_free(&s);
}

/* ---- a vocabulary of some size, against sorting ---- */

static const float *sorted_by; /* for compare() */

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sorted_by[x] != sorted_by[y])
        return sorted_by[x] < sorted_by[y] ? 1 : -1;
    return x < y ? -1 : 1;
}

static void against_sorting(const char *name, const float *logits, double temperature)
{
    static uint32_t rank[MANY];
    static size_t times[MANY];
    for (uint32_t i = 0; i < MANY; i++)
        rank[i] = i;
    sorted_by = logits;
    qsort(rank, MANY, sizeof *rank, compare);
    for (size_t k = 1; k <= 64; k *= 4) {
        struct hke_sampling o = at(temperature);
        o.top_k = k;
        count(&o, logits, MANY, 20 * k + 200, times);
        size_t good = 0, other = 0;
        for (size_t i = 0; i < MANY; i++) {
            good += i < k && times[rank[i]] > 0;
            other += i >= k ? times[rank[i]] : 0;
        }
        ok(good == k && other == 0, "%s, top-k %zu: the best and no other", name, k);
    }
    double sum = 0, need = 0;
    size_t n = 0;
    for (size_t i = 0; i < MANY; i++)
        sum += exp((double)(logits[rank[i]] - logits[rank[0]]) / temperature);
    while (need < 0.02 * sum)
        need += exp((double)(logits[rank[n++]] - logits[rank[0]]) / temperature);
    struct hke_sampling o = at(temperature);
    o.top_p = 0.02;
    count(&o, logits, MANY, 20 * n + 200, times);
    size_t good = 0, other = 0;
    for (size_t i = 0; i < MANY; i++) {
        good += i < n && times[rank[i]] > 0;
        other += i > n ? times[rank[i]] : 0; /* rounding may decide on one */
    }
    ok(good + 1 >= n && other == 0, "%s, top-p: %zu", name, n);
}

static void many(void)
{
    static float l[MANY];
    struct hke_random r;
    hke_random_seed(&r, 3);
    for (size_t i = 0; i < MANY; i++)
        l[i] = (float)(6 * (hke_random_unit(&r) + hke_random_unit(&r) + hke_random_unit(&r)));
    against_sorting("spread", l, 100);
    l[17] = -FLT_MAX;
    l[18] = -1e30f;
    against_sorting("outliers", l, 100);
    for (size_t i = 0; i < MANY; i++)
        l[i] = floorf(l[i]);
    against_sorting("ties", l, 100);
    for (size_t i = 0; i < MANY; i++)
        l[i] = i % 2 == 0 ? 0.0f : -0.0f;
    against_sorting("all equal, of both signs", l, 1);
    for (size_t i = 0; i < MANY; i++)
        l[i] = (float)i * 1e-40f;
    against_sorting("subnormal", l, 1);
}

/* ---- penalties ---- */

static void penalties(void)
{
    const float l[] = {3, 2.8f, -1, -1.05f};
    struct hke_sampling o = at(0);
    o.repeat_penalty = 1.1;
    o.repeat_last = 2;
    struct hke_sampler *s = made(&o, 4);
    ok(pick(s, l, 4) == 0, "nothing is penalised before it came");
    hke_sampler_accept(s, (const uint32_t[]){0, 900}, 2);
    ok(pick(s, l, 4) == 1, "a positive logit is divided");
    hke_sampler_accept(s, (const uint32_t[]){3}, 1);
    ok(pick(s, l, 4) == 0, "what the window has left counts no more");
    hke_sampler_accept(s, (const uint32_t[]){1, 0, 1, 2, 0, 0}, 6);
    ok(pick(s, l, 4) == 1, "more ids than the window holds");
    hke_sampler_free(&s);

    s = made(&o, 4);
    hke_sampler_accept(s, (const uint32_t[]){1}, 1);
    ok(pick(s, l + 2, 2) == 0, "a negative logit is multiplied");
    hke_sampler_accept(s, (const uint32_t[]){0}, 1);
    ok(pick(s, l + 2, 2) == 0, "both are");
    hke_sampler_free(&s);

    const float near[] = {3, 2.75f};
    o = at(0);
    o.frequency_penalty = 0.125;
    s = made(&o, 2);
    hke_sampler_accept(s, (const uint32_t[]){0, 0}, 2);
    ok(pick(s, near, 2) == 0, "frequency: two are a tie, which the first wins");
    hke_sampler_accept(s, (const uint32_t[]){0}, 1);
    ok(pick(s, near, 2) == 1, "frequency: three are too many");
    hke_sampler_free(&s);

    o = at(0);
    o.presence_penalty = 0.2;
    s = made(&o, 2);
    hke_sampler_accept(s, (const uint32_t[]){0, 0, 0, 0}, 4);
    ok(pick(s, near, 2) == 0, "presence counts once");
    hke_sampler_free(&s);
    o.presence_penalty = -0.5;
    s = made(&o, 2);
    hke_sampler_accept(s, (const uint32_t[]){1}, 1);
    ok(pick(s, near, 2) == 1, "a negative penalty is a reward");
    hke_sampler_free(&s);
    o.repeat_last = 0;
    s = made(&o, 2);
    hke_sampler_accept(s, (const uint32_t[]){1}, 1);
    ok(pick(s, near, 2) == 0, "no window, no penalties");
    hke_sampler_free(&s);
}

/* ---- edges ---- */

static void extremes(void)
{
    const float far[] = {-FLT_MAX, FLT_MAX, 0}, low[] = {-FLT_MAX, -FLT_MAX};
    struct hke_sampling o = at(1);
    ok(drawn(&o, far, "010") && drawn(&o, low, "11"), "the largest and the smallest floats");
    o.temperature = 1e-300;
    ok(drawn(&o, ten, "0011000000"), "next to no temperature: those equal to the largest");
    o.temperature = 0;
    ok(drawn(&o, ten, "0010000000"), "none: the first of them");
    o.repeat_penalty = 100;
    o.frequency_penalty = 100;
    struct hke_sampler *s = made(&o, 3);
    hke_sampler_accept(s, (const uint32_t[]){0, 1}, 2);
    ok(pick(s, far, 3) == 1, "penalties keep logits finite");
    hke_sampler_free(&s);
    o = at(1);
    o.top_k = 40;
    o.top_p = 0.5;
    o.min_p = 0.5;
    s = made(&o, 1);
    ok(pick(s, ten, 1) == 0 && pick(s, far, 1) == 0, "a vocabulary of one");
    uint32_t id = 77;
    struct hk_error err;
    ok(hke_sampler_pick(s, ten, 2, &id, &err) == HK_E_USE &&
           hke_sampler_pick(s, ten, 0, &id, &err) == HK_E_USE && id == 77,
       "more logits than tokens, or none");
    hke_sampler_free(&s);
    s = made(&o, 600);
    ok(pick(s, ten, 10) < 10, "fewer logits than tokens");
    hke_sampler_free(&s);
}

static void not_finite(void)
{
    static float l[600];
    const float bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 4; i++) {
        for (int hot = 0; hot < 2; hot++) {
            struct hke_sampling o = at(hot);
            struct hke_sampler *s = made(&o, 600);
            for (size_t where = 0; where < 600; where += 599) {
                uint32_t id = 77;
                struct hk_error err;
                char name[24];
                l[where] = bad[i];
                snprintf(name, sizeof name, "logit %zu is %s", where,
                         i < 2 ? "not a n" : "infinite");
                ok(hke_sampler_pick(s, l, 600, &id, &err) == HK_E_FORMAT && id == 77 &&
                       strstr(err.text, name) != NULL,
                   "temperature %d: %s", hot, name);
                l[where] = 0;
            }
            hke_sampler_free(&s);
        }
    }
}

static void bounds(void)
{
    static const struct {
        size_t offset;
        double value;
        const char *name;
    } row[] = {
#define ROW(field, value, name) {offsetof(struct hke_sampling, field), value, name}
        ROW(temperature, -1, "temperature"),
        ROW(temperature, 101, "temperature"),
        ROW(temperature, NAN, "temperature"),
        ROW(top_p, 1.5, "top-p"),
        ROW(top_p, -0.5, "top-p"),
        ROW(min_p, 1.5, "min-p"),
        ROW(min_p, NAN, "min-p"),
        ROW(repeat_penalty, 0, "repeat penalty"),
        ROW(repeat_penalty, 101, "repeat penalty"),
        ROW(frequency_penalty, -101, "frequency penalty"),
        ROW(presence_penalty, INFINITY, "presence penalty"),
#undef ROW
    };
    struct hke_sampler *s = NULL;
    struct hk_error err;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct hke_sampling o = hke_sampling_neutral();
        memcpy((char *)&o + row[i].offset, &row[i].value, sizeof row[i].value);
        ok(hke_sampler_new(&s, &o, 10, &err) == HK_E_USE && s == NULL &&
               strstr(err.text, row[i].name) != NULL,
           "%s %g is refused", row[i].name, row[i].value);
    }
    struct hke_sampling o = hke_sampling_neutral();
    o.repeat_last = HKE_MAX_REPEAT_LAST + 1;
    ok(hke_sampler_new(&s, &o, 10, &err) == HK_E_USE && s == NULL, "a window too large");
    o.repeat_last = 0;
    ok(hke_sampler_new(&s, &o, 0, &err) == HK_E_USE && s == NULL, "no vocabulary");
    hke_sampler_free(&s);
}

/* ---- stop strings ---- */

static struct hk_bytes bytes(const char *s)
{
    return (struct hk_bytes){(const uint8_t *)s, strlen(s)};
}

struct search {
    const char *text;
    const char *stop[4];
    const char *want; /* NULL: all of the text, no string found */
};

static const struct search searches[] = {
    {"one two three", {"two"}, "one "},
    {"one two three", {"four"}, NULL},
    {"one two three", {NULL}, NULL},
    {"one two three", {"one"}, ""},
    {"one two three", {"three"}, "one two "},
    {"one two thre", {"three"}, NULL},
    {"aaaaab", {"aaab"}, "aa"},
    {"abababac", {"ababac"}, "ab"},
    {"abacabab", {"abacabac"}, NULL},
    {"abc", {"b", "abc"}, "a"},      /* ends first */
    {"xabcd", {"bcd", "abcd"}, "x"}, /* end together */
    {"xabc", {"abcd", "bc"}, "xa"},  /* within what a longer one holds back */
    {"abcx", {"abcd", "cxy", "bce"}, NULL},
    {"\xc3\xa9t\xc3\xa9", {"t\xc3\xa9"}, "\xc3\xa9"},
    {"\n\nUser: hi", {"\nUser:", "\n\n\n"}, "\n"},
    {"a", {"a", "a"}, ""},
};

static bool search(const struct search *c, size_t first, size_t piece)
{
    struct hk_bytes string[4];
    size_t count = 0, n = strlen(c->text);
    while (count < 4 && c->stop[count] != NULL) {
        string[count] = bytes(c->stop[count]);
        count++;
    }
    struct hke_stop *s = NULL;
    struct hke_text out = {0};
    bool good = hke_stop_new(&s, string, count, NULL) == HK_OK;
    for (size_t at = 0, take = first; good && at < n; at += take, take = piece) {
        take = take < n - at ? take : n - at;
        struct hk_bytes text = {(const uint8_t *)c->text + at, take};
        good = hke_stop_push(s, text, &out, NULL) == HK_OK;
    }
    good = good && hke_stop_end(s, &out, NULL) == HK_OK;
    const char *want = c->want != NULL ? c->want : c->text;
    good = good && hke_stop_found(s) == (c->want != NULL) && out.n == strlen(want) &&
           (out.n == 0 || memcmp(out.p, want, out.n) == 0);
    hke_stop_free(&s);
    hke_text_free(&out);
    return good;
}

static void stops(void)
{
    for (size_t i = 0; i < sizeof searches / sizeof *searches; i++) {
        bool good = true;
        size_t n = strlen(searches[i].text);
        for (size_t first = 0; first <= n; first++)
            for (size_t piece = 1; piece <= n; piece++)
                good = good && search(&searches[i], first, piece);
        ok(good, "stop strings, row %zu, however the text is divided", i);
    }
    struct hke_stop *s = NULL;
    struct hke_text out = {0};
    ok(hke_stop_new(&s, (struct hk_bytes[]){bytes("a"), bytes("")}, 2, NULL) == HK_E_USE &&
           s == NULL,
       "an empty string is refused");
    struct hk_bytes string[] = {bytes("abcd")};
    bool good = hke_stop_new(&s, string, 1, NULL) == HK_OK &&
                hke_stop_push(s, bytes("xab"), &out, NULL) == HK_OK;
    ok(good && out.n == 1, "what may become a string is held back, and nothing else");
    good = good && hke_stop_push(s, bytes("a"), &out, NULL) == HK_OK;
    ok(good && out.n == 3, "and given out as soon as it cannot");
    good = good && hke_stop_push(s, bytes("bcd"), &out, NULL) == HK_OK &&
           hke_stop_push(s, bytes("more"), &out, NULL) == HK_OK &&
           hke_stop_end(s, &out, NULL) == HK_OK;
    ok(good && out.n == 3 && hke_stop_found(s), "nothing comes after the string");
    hke_stop_free(&s);
    hke_text_free(&out);
}

/* 2 MB in which every byte continues a match and half of them break one: linear or never done. */
static void long_stop(void)
{
    enum { LONG = 1 << 20 };
    uint8_t *text = malloc(2 * LONG);
    struct hke_stop *s = NULL;
    struct hke_text out = {0};
    bool good = text != NULL;
    if (good) {
        memset(text, 'a', 2 * LONG);
        text[LONG / 2] = 'b';
        good = hke_stop_new(&s, &(struct hk_bytes){text, LONG}, 1, NULL) == HK_OK;
    }
    for (int i = 0; good && i < 2; i++) {
        text[LONG / 2] = i == 0 ? 'a' : 'b';
        good = hke_stop_push(s, (struct hk_bytes){text, LONG}, &out, NULL) == HK_OK &&
               !hke_stop_found(s) == (i == 0);
    }
    ok(good && out.n == LONG, "a stop string of a megabyte");
    hke_stop_free(&s);
    hke_text_free(&out);
    free(text);
}

int main(void)
{
    generator();
    seeds();
    distribution();
    cuts();
    order();
    many();
    penalties();
    extremes();
    not_finite();
    bounds();
    stops();
    long_stop();
    return tap_done();
}
