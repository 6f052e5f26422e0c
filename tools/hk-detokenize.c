/* hk-detokenize: token ids to text, with the vocabulary of a model file. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "engine/tokenizer/tokenizer.h"
#include "tools/lib/tool.h"

enum { CHUNK = 1 << 16 };

enum option { OPT_EXACT, OPT_IDS, OPT_JSON, OPT_SPECIAL };

static const struct tool_option options[] = {
    [OPT_EXACT] = {"exact", 0, NULL, "print the text byte for byte: add no newline"},
    [OPT_IDS] = TOOL_OPTION_IDS,
    [OPT_JSON] = TOOL_OPTION_JSON,
    [OPT_SPECIAL] = {"special", 's', NULL, "print control tokens too"},
};

static const struct tool tool = {
    .name = "hk-detokenize",
    .operands = "FILE [ID...]",
    .about = "Print the text of token ids (or of those on standard input).",
    .options = options,
    .option_count = sizeof options / sizeof *options,
};

struct detokenize {
    const char *path;
    char **words; /* none: standard input */
    int word_count;
    bool exact, raw, json;
    unsigned decoding; /* options of the stream */

    struct hk_file *file;
    struct hke_tokenizer *tokenizer;
    struct hke_stream stream;
    struct hke_text text; /* all of it with --json, else what is not yet written */
    uint64_t count, at;   /* ids; bytes of standard input */
    uint64_t number;      /* what is read of an id so far, and of how many digits or bytes */
    unsigned digits;
    struct hk_error err;
    const char *about; /* what err is about */
};

/* ---- options ---- */

static bool is_token_id(const char *word)
{
    uint64_t v = 0;
    for (const char *p = word; *p != '\0' && v <= UINT32_MAX; p++) {
        if (*p < '0' || *p > '9')
            return false;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    return word[0] != '\0' && v <= UINT32_MAX;
}

static void parse_detokenize_options(struct detokenize *d, int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    tool_begin(&args, &tool, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;) {
        switch ((enum option)o) {
        case OPT_EXACT:
            d->exact = true;
            break;
        case OPT_IDS:
            d->raw = true;
            break;
        case OPT_JSON:
            d->json = true;
            break;
        case OPT_SPECIAL:
            d->decoding |= HKE_SHOW_SPECIAL;
            break;
        }
    }
    if (args.operand_count == 0)
        tool_usage("need a FILE");
    d->path = args.operands[0];
    d->words = args.operands + 1;
    d->word_count = tool_count_words(d->words, args.operand_count - 1);
    for (int i = 0; i < d->word_count; i++)
        if (!is_token_id(d->words[i]))
            tool_usage("not a token id: %s", d->words[i]);
    if (d->raw && d->word_count > 0)
        tool_usage("--ids is for standard input: no ID can be given");
    if (tool_is_standard_input(d->path) && d->word_count == 0)
        tool_usage("standard input is the model: give the ids as arguments");
}

/* ---- ids ---- */

static enum hk_status decode_id(struct detokenize *d)
{
    uint32_t id = (uint32_t)d->number;
    d->number = 0;
    d->digits = 0;
    d->count++;
    return hke_stream_push(&d->stream, id, &d->text, &d->err);
}

/* A byte of decimal ids: what is between them may be a JSON array's. */
static enum hk_status take_decimal_byte(struct detokenize *d, uint8_t c)
{
    if (c >= '0' && c <= '9') {
        d->number = d->number * 10 + (uint64_t)(c - '0');
        d->digits++;
        if (d->number > UINT32_MAX)
            return hk_fail(&d->err, HK_E_RANGE, d->at, "id %llu... is too large",
                           (unsigned long long)d->number);
        return HK_OK;
    }
    if (c == '\0' || strchr(" \t\n\v\f\r,[]", c) == NULL)
        return hk_fail(&d->err, HK_E_FORMAT, d->at, "byte 0x%02x is not part of a number", c);
    return d->digits > 0 ? decode_id(d) : HK_OK;
}

static enum hk_status take_raw_byte(struct detokenize *d, uint8_t c)
{
    d->number |= (uint64_t)c << (8 * d->digits++);
    return d->digits == 4 ? decode_id(d) : HK_OK;
}

static enum hk_status take_id_bytes(struct detokenize *d, const uint8_t *p, size_t n)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; i < n && st == HK_OK; i++, d->at++)
        st = d->raw ? take_raw_byte(d, p[i]) : take_decimal_byte(d, p[i]);
    return st;
}

/* The end of the input, of a number, and of the text. */
static enum hk_status end_decoding(struct detokenize *d)
{
    enum hk_status st = HK_OK;
    if (d->raw && d->digits > 0)
        st = hk_fail(&d->err, HK_E_FORMAT, HK_NO_OFFSET,
                     "%llu bytes are not a whole number of 4-byte ids", (unsigned long long)d->at);
    else if (d->digits > 0)
        st = decode_id(d);
    return st == HK_OK ? hke_stream_end(&d->stream, &d->text, &d->err) : st;
}

/* ---- text ---- */

/* What is complete goes out before more input is waited for. */
static enum hk_status write_decoded_text(struct detokenize *d)
{
    if (d->json || d->text.n == 0)
        return HK_OK;
    tool_print_text((struct hk_bytes){d->text.p, d->text.n});
    d->text.n = 0;
    enum hk_status st = tool_flush(&d->err);
    if (st != HK_OK)
        d->about = "standard output";
    return st;
}

static enum hk_status decode_id_words(struct detokenize *d)
{
    enum hk_status st = HK_OK;
    for (int i = 0; i < d->word_count && st == HK_OK; i++) {
        st = take_id_bytes(d, (const uint8_t *)d->words[i], strlen(d->words[i]));
        if (st == HK_OK)
            st = take_decimal_byte(d, ' ');
    }
    return st;
}

static enum hk_status decode_id_input(struct detokenize *d)
{
    static uint8_t chunk[CHUNK];
    enum hk_status st = HK_OK;
    tool_tell_reading("token ids");
    while (st == HK_OK) {
        const ssize_t got = tool_read(STDIN_FILENO, chunk, sizeof chunk);
        if (got < 0)
            return hk_fail_sys(&d->err, errno, "cannot read");
        if (got == 0)
            return st;
        st = take_id_bytes(d, chunk, (size_t)got);
        if (st == HK_OK)
            st = write_decoded_text(d);
    }
    return st;
}

static void print_detokenize_json(struct detokenize *d)
{
    json_t *o = json_object();
    tool_json_set(o, "text", tool_json_bytes((struct hk_bytes){d->text.p, d->text.n}));
    tool_json_set(o, "count", tool_json_uint(d->count));
    tool_json_print(o, stdout);
}

/* ---- the job ---- */

static enum hk_status detokenize(struct detokenize *d)
{
    d->about = d->path;
    enum hk_status st = tool_open_kept(&d->file, d->path, 0, &d->err);
    if (st == HK_OK)
        st = hke_tokenizer_new(&d->tokenizer, d->file, &d->err);
    if (st != HK_OK)
        return st;
    d->about = d->word_count > 0 ? "ids" : "-";
    hke_stream_start(&d->stream, d->tokenizer, d->decoding);
    st = d->word_count > 0 ? decode_id_words(d) : decode_id_input(d);
    if (st == HK_OK)
        st = end_decoding(d);
    if (st == HK_OK)
        st = write_decoded_text(d);
    if (st == HK_OK && d->json)
        print_detokenize_json(d);
    else if (st == HK_OK && !d->exact)
        putchar('\n');
    return st;
}

int main(int argc, char **argv)
{
    struct detokenize d = {0};
    parse_detokenize_options(&d, argc, argv);
    int status = detokenize(&d) == HK_OK ? TOOL_OK : tool_error(d.about, &d.err);
    hke_text_free(&d.text);
    hke_tokenizer_free(&d.tokenizer);
    hk_close(&d.file);
    return tool_end(status);
}
