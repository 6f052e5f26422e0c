/* Split patterns: how a byte-level BPE vocabulary wants a text cut before it merges. */
#include "engine/tokenizer/split.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct tok_splits { /* applied one after the other to the pieces of the one before */
    pcre2_code *code[HK_PRE_MAX_PATTERNS];
    unsigned n;
    uint32_t weight; /* max steps between two callouts, in units of work; 0 without callouts */
};

/* A pattern may come from the file: bounds on what it can cost. The limits of a match are linear in
 * the text; a text takes many matches, so a pattern that is not known here also counts its steps:
 * before each of its items PCRE2 calls back. */
enum {
    MAX_PATTERN = 1 << 13,
    MATCH_LIMIT = 1 << 20, /* and MATCH_STEPS a byte */
    MATCH_STEPS = 256,
    HEAP_KIB = 1 << 10, /* and a quarter a byte */
    JIT_STACK = 1 << 20,
    FREE_STEPS = 8, /* of a repeat, that cost no more than the call */
};

/* What \s means in the tokenizers: the White_Space property. PCRE2's \s has U+180E as well. */
static const char white_space[] = "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                                  "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";

struct writer {
    char *p;
    size_t n;
};

static void put_pattern(struct writer *w, const char *p, size_t n)
{
    memcpy(w->p + w->n, p, n);
    w->n += n;
}

static void put_pattern_string(struct writer *w, const char *s)
{
    put_pattern(w, s, strlen(s));
}

/* Copy the escape at P (two bytes), with \s and \S spelled out; \S inside a class stays. */
static void put_pattern_escape(struct writer *w, const char *p, bool in_class)
{
    bool space = p[1] == 's', not_space = p[1] == 'S' && !in_class;
    if (!space && !not_space) {
        put_pattern(w, p, 2);
        return;
    }
    if (!in_class)
        put_pattern_string(w, not_space ? "[^" : "[");
    put_pattern_string(w, white_space);
    if (!in_class)
        put_pattern_string(w, "]");
}

/* PATTERN with White_Space for \s. The result is freed by the caller; NULL when out of memory. */
static char *spell_out_spaces(struct hk_bytes pattern, size_t *n)
{
    const char *p = (const char *)pattern.p;
    struct writer w = {malloc(pattern.n * (sizeof white_space + 4) / 2 + sizeof white_space + 8),
                       0};
    if (w.p == NULL)
        return NULL;
    bool in_class = false;
    for (size_t i = 0; i < pattern.n; i++) {
        if (p[i] == '\\' && i + 1 < pattern.n) {
            put_pattern_escape(&w, p + i, in_class);
            i++;
            continue;
        }
        if (p[i] == '[' && !in_class)
            in_class = true;
        else if (p[i] == ']')
            in_class = false;
        put_pattern(&w, p + i, 1);
    }
    *n = w.n;
    return w.p;
}

static pcre2_code *compile_pattern(const char *p, size_t n, bool counted, int *error, size_t *at)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    if (context == NULL) {
        *error = PCRE2_ERROR_NOMEMORY;
        return NULL;
    }
    pcre2_set_max_pattern_length(context, (size_t)MAX_PATTERN * 16);
    uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C;
    if (counted) /* what is done before a match begins is not counted */
        options |= PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)p, n, options, error, at, context);
    pcre2_compile_context_free(context);
    /* Where the processor has no JIT the interpreter serves, with its frames on the heap. */
    if (code != NULL)
        (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    return code;
}

/* The length of the escape at P, a backslash; of \x{3000} without its end. */
static size_t measure_pattern_escape(const uint8_t *p, size_t n)
{
    size_t length = n > 1 ? 2 : 1;
    if (n > 2 && p[1] == 'c') /* \c\ is one character */
        return 3;
    if (n > 2 && (p[1] == 'x' || p[1] == 'o') && p[2] == '{')
        for (length = 3; length < n && isxdigit(p[length]);)
            length++;
    return length;
}

/* The largest number in braces: how often an item may be tried between two callouts. */
static uint32_t find_largest_repeat(struct hk_bytes pattern)
{
    uint32_t largest = 0, n = 0;
    bool in_braces = false;
    for (size_t i = 0; i < pattern.n; i++) {
        const uint8_t c = pattern.p[i];
        if (c == '\\') {
            i += measure_pattern_escape(pattern.p + i, pattern.n - i) - 1;
            in_braces = false;
            continue;
        }
        const bool digit = c >= '0' && c <= '9';
        in_braces = c == '{' || (in_braces && (digit || c == ',' || c == ' '));
        n = !in_braces || !digit ? 0 : n <= UINT16_MAX ? 10 * n + (c - '0') : n;
        largest = n > largest ? n : largest;
    }
    return largest;
}

/* Repeats and long classes are steps without a callout; a back reference compares any length. */
static enum hk_status weigh_pattern(struct tok_splits *pre, struct hk_bytes pattern,
                                    const pcre2_code *code, struct hk_error *err)
{
    uint32_t references = 0;
    (void)pcre2_pattern_info(code, PCRE2_INFO_BACKREFMAX, &references);
    if (references > 0)
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "%s: pattern %u has a back reference",
                       hk_vocab_key(HK_VOCAB_SPLITS), pre->n);
    uint32_t weight = 1 + find_largest_repeat(pattern) / FREE_STEPS + (uint32_t)(pattern.n >> 10);
    pre->weight = weight > pre->weight ? weight : pre->weight;
    return HK_OK;
}

/* COUNTED: it is not known here. */
static enum hk_status add_split_pattern(struct tok_splits *pre, struct hk_bytes pattern,
                                        bool counted, struct hk_error *err)
{
    if (pre->n == HK_PRE_MAX_PATTERNS || pattern.n > MAX_PATTERN)
        return hk_fail(err, HK_E_RANGE, HK_NO_OFFSET, "%s: more than %d patterns or %d bytes",
                       hk_vocab_key(HK_VOCAB_SPLITS), HK_PRE_MAX_PATTERNS, MAX_PATTERN);
    size_t n = 0, at = 0;
    int error = 0;
    char *p = spell_out_spaces(pattern, &n);
    if (p == NULL)
        return hk_fail_nomem(err);
    pcre2_code *code = compile_pattern(p, n, counted, &error, &at);
    free(p);
    if (code == NULL) {
        PCRE2_UCHAR text[128] = "";
        (void)pcre2_get_error_message(error, text, sizeof text);
        return hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET, "%s: pattern %u: %s",
                       hk_vocab_key(HK_VOCAB_SPLITS), pre->n, (const char *)text);
    }
    pre->code[pre->n] = code;
    enum hk_status st = counted ? weigh_pattern(pre, pattern, code, err) : HK_OK;
    pre->n++;
    return st;
}

static enum hk_status load_own_splits(struct hke_tokenizer *t, const struct hk_kv *kv,
                                      struct hk_error *err)
{
    struct hk_array a;
    enum hk_status st = hk_kv_array(kv, HK_ARRAY_STRING, &a, err);
    if (st != HK_OK)
        return st;
    struct hk_bytes pattern[HK_PRE_MAX_PATTERNS];
    for (uint32_t i = 0; i < a.count && i < HK_PRE_MAX_PATTERNS; i++)
        pattern[i] = hk_array_string(&a, i);
    const struct hk_pre_tokenizer *row =
        a.count <= HK_PRE_MAX_PATTERNS ? hk_pre_tokenizer_of(pattern, a.count) : NULL;
    t->known_splits = row != NULL && !row->over_blanks;
    for (uint32_t i = 0; i < a.count && st == HK_OK; i++)
        st = add_split_pattern(t->splits, hk_array_string(&a, i), row == NULL || row->costly, err);
    hk_array_free(&a);
    return st;
}

static enum hk_status load_named_splits(struct hke_tokenizer *t, const struct hk_pre_tokenizer *row,
                                        struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < HK_PRE_PATTERNS && row->pattern[i] != NULL && st == HK_OK; i++) {
        const char *p = row->pattern[i];
        st = add_split_pattern(t->splits, (struct hk_bytes){(const uint8_t *)p, strlen(p)},
                               row->costly, err);
    }
    t->known_splits = !row->over_blanks;
    t->ignore_merges = row->whole_words;
    t->add_bos = row->bos;
    return st;
}

enum hk_status hke_load_splits(struct hke_tokenizer *t, const struct hk_file *f,
                               struct hk_error *err)
{
    const struct hk_kv *own = hk_vocab_find(f, HK_VOCAB_SPLITS);
    t->splits = calloc(1, sizeof *t->splits);
    if (t->splits == NULL)
        return hk_fail_nomem(err);
    if (own != NULL)
        return load_own_splits(t, own, err);
    const struct hk_pre_tokenizer *row;
    enum hk_status st = hk_pre_tokenizer_of_file(&row, f, err);
    return st == HK_OK ? load_named_splits(t, row, err) : st;
}

void hke_free_splits(struct tok_splits **p)
{
    for (unsigned i = 0; *p != NULL && i < (*p)->n; i++)
        pcre2_code_free((*p)->code[i]);
    free(*p);
    *p = NULL;
}

/* ---- splitting ---- */

/* Before an item of a pattern: a step, and those that the position moved by. */
static int count_match_step(pcre2_callout_block *b, void *arg)
{
    struct tok_splitter *x = arg;
    size_t from = x->match_at, to = b->current_position;
    x->match_at = to;
    x->words->out->work += x->words->out->t->splits->weight + (to > from ? to - from : from - to);
    return x->words->out->work <= x->words->out->budget ? 0 : PCRE2_ERROR_CALLOUT;
}

static bool prepare_matching(struct tok_splitter *x)
{
    if (x->match != NULL)
        return true;
    x->match = pcre2_match_data_create(1, NULL);
    x->context = pcre2_match_context_create(NULL);
    x->jit_stack = pcre2_jit_stack_create(32 << 10, JIT_STACK, NULL);
    if (x->match == NULL || x->context == NULL)
        return false;
    if (x->words->out->t->splits->weight > 0)
        pcre2_set_callout(x->context, count_match_step, x);
    if (x->jit_stack != NULL)
        pcre2_jit_stack_assign(x->context, NULL, x->jit_stack);
    return true;
}

/* The next match in TEXT from AT on that is not empty. *FOUND false: there is none. */
static enum hk_status find_next_match(struct tok_splitter *x, const pcre2_code *code,
                                      struct hk_bytes text, size_t at, bool *found,
                                      size_t bounds[2])
{
    uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    x->match_at = at;
    int n = pcre2_match(code, text.p, text.n, at, options, x->match, x->context);
    *found = n >= 0;
    if (n == PCRE2_ERROR_NOMEMORY)
        return hk_fail_nomem(x->words->out->err);
    if (n < 0 && n != PCRE2_ERROR_NOMATCH)
        return hk_fail(x->words->out->err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                       "split pattern: too much work for a text of this length (pcre2 error %d)",
                       n);
    if (*found) {
        const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(x->match);
        bounds[0] = ovector[0];
        bounds[1] = ovector[1];
    }
    return HK_OK;
}

static enum hk_status split_level(struct tok_splitter *x, unsigned level, struct hk_bytes text);

static enum hk_status split_part(struct tok_splitter *x, unsigned level, struct hk_bytes text,
                                 size_t from, size_t to)
{
    return from < to ? split_level(x, level, (struct hk_bytes){text.p + from, to - from}) : HK_OK;
}

/* Matches of pattern LEVEL and what lies between them are words for the next level; so deep as
 * there are patterns. */
static enum hk_status split_level(struct tok_splitter *x, unsigned level, struct hk_bytes text)
{
    if (level == x->words->out->t->splits->n)
        return hke_encode_word(x->words, text.p, text.n);
    size_t at = 0;
    while (at < text.n) {
        bool found;
        size_t m[2];
        enum hk_status st =
            find_next_match(x, x->words->out->t->splits->code[level], text, at, &found, m);
        if (st != HK_OK)
            return st;
        if (!found || m[1] <= at || m[0] < at) /* \K in a pattern can point backwards */
            break;
        if ((st = split_part(x, level + 1, text, at, m[0])) != HK_OK ||
            (st = split_part(x, level + 1, text, m[0], m[1])) != HK_OK)
            return st;
        at = m[1];
    }
    return split_part(x, level + 1, text, at, text.n);
}

enum hk_status hke_split_text(struct tok_splitter *x, struct hk_bytes text)
{
    if (!prepare_matching(x))
        return hk_fail_nomem(x->words->out->err);
    uint64_t steps = MATCH_LIMIT + (uint64_t)MATCH_STEPS * text.n;
    pcre2_set_match_limit(x->context, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
    uint64_t kib = HEAP_KIB + text.n / 4;
    pcre2_set_heap_limit(x->context, kib < UINT32_MAX ? (uint32_t)kib : UINT32_MAX);
    return split_level(x, 0, text);
}

void hke_splitter_release(struct tok_splitter *x)
{
    pcre2_match_data_free(x->match);
    pcre2_match_context_free(x->context);
    pcre2_jit_stack_free(x->jit_stack);
}
