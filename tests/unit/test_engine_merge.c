/* Merging against its definition, which looks at all pairs each time, on random vocabularies and
 * words. */
#include <math.h>

#include "tests/lib/vocabulary.h"

enum { PIECES = 40, PIECE = 40, WORD = 2100 };

struct random {
    uint32_t state, n, merges;
    char piece[PIECES][PIECE];
    float score[PIECES];
    char merge[PIECES][2 * PIECE + 2]; /* "LEFT RIGHT" */
    uint32_t left[PIECES], right[PIECES], result[PIECES];
};

static uint32_t dice(struct random *r, uint32_t sides)
{
    r->state = r->state * 1664525u + 1013904223u;
    return (r->state >> 8) % sides;
}

static int find_piece(const struct random *r, const char *p, size_t n)
{
    for (uint32_t i = 0; i < r->n; i++) {
        if (strlen(r->piece[i]) == n && memcmp(r->piece[i], p, n) == 0)
            return (int)i;
    }
    return -1;
}

/* What merging two neighbours gives: an id, and in *RANK when it is its turn. */
static int join(const struct random *r, bool is_spm, const char *p, size_t n, int left, int right,
                double *rank)
{
    if (is_spm) {
        int id = find_piece(r, p, n);
        *rank = id >= 0 ? -(double)r->score[id] : 0;
        return id;
    }
    for (uint32_t i = 0; i < r->merges; i++) {
        if ((int)r->left[i] == left && (int)r->right[i] == right) {
            *rank = i;
            return (int)r->result[i];
        }
    }
    return -1;
}

/* Merge TEXT, whose symbols end at END[0..N), by looking at all pairs each time. */
static size_t by_definition(const struct random *r, bool is_spm, const char *text, size_t *end,
                            int *id, size_t n)
{
    for (;;) {
        size_t best = n;
        int best_id = -1;
        double best_rank = INFINITY, rank;
        for (size_t i = 0; i + 1 < n; i++) {
            size_t from = i > 0 ? end[i - 1] : 0;
            int k = join(r, is_spm, text + from, end[i + 1] - from, id[i], id[i + 1], &rank);
            if (k >= 0 && rank < best_rank) {
                best = i;
                best_id = k;
                best_rank = rank;
            }
        }
        if (best == n)
            return n;
        id[best] = best_id;
        end[best] = end[best + 1];
        memmove(end + best + 1, end + best + 2, (n - best - 2) * sizeof *end);
        memmove(id + best + 1, id + best + 2, (n - best - 2) * sizeof *id);
        n--;
    }
}

static void random_pieces(struct random *r, bool is_spm)
{
    static const char *const letters[] = {"a", "b", "c", BLANK};
    r->n = is_spm ? 4 : 3;
    r->merges = 0;
    for (uint32_t i = 0; i < r->n; i++)
        strcpy(r->piece[i], letters[i]);
    for (unsigned tries = 0; tries < 60 && r->n < PIECES; tries++) {
        uint32_t a = dice(r, r->n), b = dice(r, r->n);
        char joined[2 * PIECE];
        size_t n = (size_t)snprintf(joined, sizeof joined, "%s%s", r->piece[a], r->piece[b]);
        int at = find_piece(r, joined, n);
        if (n >= PIECE || (is_spm && at >= 0))
            continue;
        if (at < 0)
            strcpy(r->piece[at = (int)r->n++], joined);
        if (r->merges == PIECES)
            break;
        memcpy(stpcpy(stpcpy(r->merge[r->merges], r->piece[a]), " "), r->piece[b],
               strlen(r->piece[b]) + 1);
        r->left[r->merges] = a;
        r->right[r->merges] = b;
        r->result[r->merges++] = (uint32_t)at;
    }
    for (uint32_t i = 0; i < r->n; i++)
        r->score[i] = -(float)dice(r, 6);
}

static struct hke_tokenizer *random_tokenizer(const struct random *r, bool is_spm)
{
    const char *piece[PIECES], *merge[PIECES];
    for (uint32_t i = 0; i < PIECES; i++) {
        piece[i] = r->piece[i];
        merge[i] = r->merge[i];
    }
    struct hk_writer *w = begin();
    set(w, "tokenizer.ggml.model", HK_META_STRING, str(is_spm ? "llama" : "gpt2"));
    set_strings(w, "tokenizer.ggml.tokens", piece, r->n);
    int32_t types[PIECES];
    for (uint32_t i = 0; i < PIECES; i++)
        types[i] = HK_TOKEN_NORMAL;
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, r->n);
    if (is_spm) {
        set_words(w, "tokenizer.ggml.scores", HK_ARRAY_F32, r->score, r->n);
        set_bool(w, "tokenizer.ggml.add_space_prefix", false);
    } else {
        set_strings(w, "tokenizer.ggml.merges", merge, r->merges);
        set_strings(w, "tokenizer.hk.pre_regex", NULL, 0);
    }
    return made(w);
}

/* A word of N letters. */
static bool one_word(struct random *r, const struct hke_tokenizer *t, bool is_spm, size_t n)
{
    char text[WORD + 1], spelled[3 * WORD + 1];
    size_t at = 0, end[WORD];
    int id[WORD];
    for (size_t i = 0; i < n; i++) {
        uint32_t c = dice(r, is_spm ? 4 : 3);
        text[i] = "abc "[c];
        at += (size_t)sprintf(spelled + at, "%s", r->piece[c]);
        end[i] = at;
        id[i] = (int)c;
    }
    struct hke_ids ids = {0};
    struct hk_bytes b = {(const uint8_t *)text, n};
    bool good = hke_encode(t, b, 0, &ids, NULL) == HK_OK;
    n = by_definition(r, is_spm, spelled, end, id, n);
    good = good && ids.n == n;
    for (size_t i = 0; good && i < n; i++)
        good = ids.id[i] == (uint32_t)id[i];
    hke_ids_free(&ids);
    return good;
}

static void definition(bool is_spm)
{
    size_t good = 0, words = 0;
    struct random r = {.state = 20};
    for (unsigned v = 0; v < 60; v++) {
        random_pieces(&r, is_spm);
        struct hke_tokenizer *t = random_tokenizer(&r, is_spm);
        for (unsigned i = 0; t != NULL && i < 30; i++)
            good += one_word(&r, t, is_spm, 1 + dice(&r, 200));
        words += 30;
        /* Long texts remember what they have merged. */
        for (unsigned i = 0; t != NULL && v < 3 && i < 1; i++, words++)
            good += one_word(&r, t, is_spm, WORD);
        hke_tokenizer_free(&t);
    }
    ok(good == words, "%s: %zu words over random vocabularies merge as defined (%zu)",
       is_spm ? "spm" : "bpe", words, good);
}

int main(void)
{
    definition(true);
    definition(false);
    return tap_done();
}
