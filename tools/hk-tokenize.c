/* hk-tokenize: text to token ids, with the vocabulary of a model file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/tokenizer/tokenizer.h"
#include "tools/lib/tool.h"

enum { CHUNK = 1 << 20, MAX_HELD = 1 << 30 };

enum option { OPT_BOS, OPT_COUNT, OPT_IDS, OPT_JSON, OPT_NO_BOS, OPT_PIECES, OPT_SPECIAL };

static const struct tool_option options[] = {
    [OPT_BOS] = {"bos", 0, NULL,
                 "begin with the start token, even if the file does not ask for it"},
    [OPT_COUNT] = {"count", 'c', NULL, "print only how many tokens there are"},
    [OPT_IDS] = {"ids", 0, NULL, "write the ids as u32, little-endian"},
    [OPT_JSON] = TOOL_OPTION_JSON,
    [OPT_NO_BOS] = {"no-bos", 0, NULL, "add no start or end token"},
    [OPT_PIECES] = {"pieces", 'p', NULL, "print each token's piece too"},
    [OPT_SPECIAL] = {"special", 's', NULL, "parse control tokens in the text"},
};

static const struct tool tool = {
    .name = "hk-tokenize",
    .operands = "FILE [TEXT...]",
    .about = "Print the token ids of a text (or of standard input).",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct tokenize {
    const char *path;
    char **words; /* none: standard input */
    int word_count;
    bool bos, no_bos, count_only, raw, json, pieces;
    unsigned encoding; /* options of hke_encode() */

    struct hk_file *file;
    struct hke_tokenizer *tokenizer;
    struct hke_ids ids; /* of the part at hand; with --json --pieces of the whole text */
    uint64_t count;
    struct tool_json_out out;
    struct hk_error err;
    const char *about; /* what err is about */
};

/* ---- options ---- */

static void set_tokenize_option(struct tokenize *k, enum option o)
{
    switch (o) {
    case OPT_BOS:
        k->bos = true;
        break;
    case OPT_COUNT:
        k->count_only = true;
        break;
    case OPT_IDS:
        k->raw = true;
        break;
    case OPT_JSON:
        k->json = true;
        break;
    case OPT_NO_BOS:
        k->no_bos = true;
        break;
    case OPT_PIECES:
        k->pieces = true;
        break;
    case OPT_SPECIAL:
        k->encoding |= HKE_PARSE_SPECIAL;
        break;
    }
}

static void parse_tokenize_options(struct tokenize *k, int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        set_tokenize_option(k, (enum option)o);
    if (k->bos && k->no_bos)
        tool_usage("--bos and --no-bos exclude each other");
    if (k->raw && (k->count_only || k->json || k->pieces))
        tool_usage("--ids cannot be used with --count, --json or --pieces");
    if (k->count_only && k->pieces)
        tool_usage("--count and --pieces exclude each other");
    if (args.operand_count == 0)
        tool_usage("need a FILE");
    k->path = args.operands[0];
    k->words = args.operands + 1;
    k->word_count = tool_count_words(k->words, args.operand_count - 1);
    if (tool_is_standard_input(k->path) && k->word_count == 0)
        tool_usage("standard input is the model: give the text as an argument");
}

/* ---- output ---- */

static void print_raw_id(uint32_t id)
{
    uint8_t b[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16), (uint8_t)(id >> 24)};
    fwrite(b, 1, sizeof b, stdout);
}

static void print_token_id(struct tokenize *k, uint32_t id)
{
    if (k->raw) {
        print_raw_id(id);
    } else if (k->json) {
        tool_json_put(&k->out, NULL, tool_json_uint(id));
    } else if (k->pieces) {
        tool_print_uint(id, '\t');
        tool_escape(stdout, hke_token_piece(k->tokenizer, id));
        putchar('\n');
    } else {
        tool_print_uint(id, '\n');
    }
}

/* Print the ids from FIRST on, and forget them where they are not needed again. */
static void print_token_ids(struct tokenize *k, size_t first)
{
    k->count += k->ids.n - first;
    for (size_t i = first; i < k->ids.n && !k->count_only && ferror(stdout) == 0; i++)
        print_token_id(k, k->ids.id[i]);
    if (!(k->json && k->pieces))
        k->ids.n = 0;
}

static void begin_token_output(struct tokenize *k)
{
    if (!k->json)
        return;
    tool_json_begin(&k->out, stdout);
    if (!k->count_only)
        tool_json_enter_line(&k->out, "tokens");
}

static enum hk_status flush_tokens(struct tokenize *k)
{
    enum hk_status st = tool_flush(&k->err);
    if (st != HK_OK)
        k->about = "standard output";
    return st;
}

static enum hk_status end_token_output(struct tokenize *k)
{
    if (k->json && !k->count_only)
        tool_json_leave(&k->out, ']');
    if (k->json && k->pieces) {
        tool_json_enter(&k->out, "pieces", '[');
        for (size_t i = 0; i < k->ids.n && ferror(stdout) == 0; i++)
            tool_json_put(&k->out, NULL,
                          tool_json_bytes(hke_token_piece(k->tokenizer, k->ids.id[i])));
        tool_json_leave(&k->out, ']');
    }
    if (k->json) {
        tool_json_put(&k->out, "count", tool_json_uint(k->count));
        tool_json_end(&k->out);
    } else if (k->count_only) {
        printf("%llu\n", (unsigned long long)k->count);
    }
    return flush_tokens(k);
}

/* ---- the text ---- */

/* Encode and print TEXT. LAST: nothing follows it. */
static enum hk_status encode_text_part(struct tokenize *k, struct hk_bytes text, bool last)
{
    size_t first = k->ids.n;
    unsigned opt = k->encoding | (last ? 0 : HKE_TO_BE_CONTINUED);
    enum hk_status st = hke_encode(k->tokenizer, text, opt, &k->ids, &k->err);
    k->encoding |= HKE_CONTINUED;
    if (st != HK_OK)
        return st;
    print_token_ids(k, first);
    return flush_tokens(k);
}

static enum hk_status encode_text_words(struct tokenize *k)
{
    struct hk_bytes text;
    enum hk_status st = tool_join_words(k->words, k->word_count, &text, &k->err);
    if (st != HK_OK)
        return st;
    st = encode_text_part(k, text, true);
    free((void *)(uintptr_t)text.p);
    return st;
}

struct held { /* what is read of standard input and not yet encoded */
    uint8_t *p;
    size_t n, room;
    bool last; /* it ends with the input */
};

/* Read until WANT bytes are held or the input ends. */
static enum hk_status fill_held(struct tokenize *k, struct held *h, size_t want)
{
    if (want > MAX_HELD)
        return hk_fail(&k->err, HK_E_RANGE, HK_NO_OFFSET,
                       "more than %d bytes without a place to split them", MAX_HELD);
    if (want > h->room) {
        uint8_t *p = realloc(h->p, want);
        if (p == NULL)
            return hk_fail_nomem(&k->err);
        h->p = p;
        h->room = want;
    }
    while (h->n < want && !h->last) {
        const ssize_t got = tool_read(STDIN_FILENO, h->p + h->n, want - h->n);
        if (got < 0)
            return hk_fail_sys(&k->err, errno, "cannot read");
        h->n += (size_t)got;
        h->last = got == 0;
    }
    return HK_OK;
}

/* Encode what can be without the rest of the input, and hold no more than that. *WANT doubles while
 * nothing can, so that looking for a place to cut stays linear. */
static enum hk_status encode_held_text(struct tokenize *k, struct held *h, size_t *want)
{
    size_t n = h->last ? h->n : hke_encode_cut(k->tokenizer, (struct hk_bytes){h->p, h->n});
    if (n == 0 && !h->last) {
        *want *= 2;
        return HK_OK;
    }
    enum hk_status st = encode_text_part(k, (struct hk_bytes){h->p, n}, h->last);
    h->n -= n;
    memmove(h->p, h->p + n, h->n);
    *want = h->n < CHUNK / 2 ? CHUNK : 2 * h->n;
    return st;
}

static enum hk_status encode_text_input(struct tokenize *k)
{
    struct held h = {0};
    size_t want = CHUNK;
    enum hk_status st = HK_OK;
    tool_tell_reading("the text");
    while (st == HK_OK && !h.last) {
        st = fill_held(k, &h, want);
        if (st == HK_OK)
            st = encode_held_text(k, &h, &want);
    }
    free(h.p);
    return st;
}

/* ---- the job ---- */

static enum hk_status load_tokenizer(struct tokenize *k)
{
    k->about = k->path;
    enum hk_status st = tool_open_kept(&k->file, k->path, 0, &k->err);
    if (st == HK_OK)
        st = hke_tokenizer_new(&k->tokenizer, k->file, &k->err);
    if (st == HK_OK && k->bos && hke_bos(k->tokenizer) < 0)
        st = hk_fail(&k->err, HK_E_MISSING, HK_NO_OFFSET,
                     "--bos: the vocabulary has no start token");
    return st;
}

static enum hk_status tokenize(struct tokenize *k)
{
    k->about = "standard output";
    enum hk_status st = k->raw ? tool_no_terminal(&k->err) : HK_OK;
    if (st == HK_OK)
        st = load_tokenizer(k);
    if (st != HK_OK)
        return st;
    begin_token_output(k);
    k->encoding |= HKE_ONE_BOS | (k->bos ? HKE_ADD_BOS : 0) | (k->no_bos ? 0 : HKE_ADD_SPECIAL);
    k->about = k->word_count > 0 ? "text" : "-";
    st = k->word_count > 0 ? encode_text_words(k) : encode_text_input(k);
    return st == HK_OK ? end_token_output(k) : st;
}

int main(int argc, char **argv)
{
    struct tokenize k = {0};
    parse_tokenize_options(&k, argc, argv);
    int status = tokenize(&k) == HK_OK ? TOOL_OK : tool_error(k.about, &k.err);
    hke_ids_free(&k.ids);
    hke_tokenizer_free(&k.tokenizer);
    hk_close(&k.file);
    return tool_end(status);
}
