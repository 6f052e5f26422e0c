/* Vocabularies with every byte changed in turn: refused, or a tokenizer that works; no crash, no
 * hang, no report of a sanitizer. */
#include "tests/lib/vocabulary.h"

static const char *const pieces[] = {"<unk>", "<s>",    "</s>",   "<0x0A>",   BLANK,     "h",
                                     "e",     "l",      "o",      "he",       "ll",      "hell",
                                     "hello", "<user>", "unused", "\xc4\x8a", "\xc4\xa0"};
static const int32_t types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 1, 1, 1, 4, 5, 1, 1};
static const float scores[] = {0, 0, 0, 0, -9, -8, -7, -6, -5, -4, -3, -2, -1, 0, -3, 0, 0};
static const char *const merges[] = {"h e", "l l", "he ll", "hell o"};
enum { PIECES = sizeof pieces / sizeof pieces[0] };

static int vocabulary(bool spm)
{
    static const char *const patterns[] = {"\\s+|[^\\s]+", " ?(?:l|\\p{L}+?)*"};
    struct hk_writer *w = begin();
    set(w, "tokenizer.ggml.model", HK_META_STRING, str(spm ? "llama" : "gpt2"));
    set_strings(w, "tokenizer.ggml.tokens", pieces, PIECES);
    set_words(w, "tokenizer.ggml.token_type", HK_ARRAY_I32, types, PIECES);
    set_words(w, "tokenizer.ggml.scores", HK_ARRAY_F32, scores, PIECES);
    set_int(w, "tokenizer.ggml.bos_token_id", 1);
    set_int(w, "tokenizer.ggml.unknown_token_id", 0);
    set_bool(w, "tokenizer.ggml.add_space_prefix", true);
    set_words(w, "tokenizer.hk.eog_ids", HK_ARRAY_I32, (const int32_t[]){2, 3}, 2);
    if (!spm) {
        set_strings(w, "tokenizer.ggml.merges", merges, 4);
        set_strings(w, "tokenizer.hk.pre_regex", patterns, 2);
        set_bool(w, "tokenizer.ggml.ignore_merges", true);
    }
    return finish_fd(w);
}

/* Whatever ids come out of TEXT, they are in the vocabulary and can be decoded. */
static bool there_and_back(const struct hke_tokenizer *t, struct hk_bytes text, size_t *encoded)
{
    struct hke_ids ids = {0};
    struct hke_text x = {0};
    bool good = true;
    for (unsigned options = 0; options < 4; options++) {
        ids.n = 0;
        x.n = 0;
        if (hke_encode(t, text, options, &ids, NULL) != HK_OK)
            continue;
        good = good && hke_decode(t, ids.id, ids.n, options, &x, NULL) == HK_OK;
        ++*encoded;
    }
    hke_ids_free(&ids);
    hke_text_free(&x);
    return good;
}

/* One text whose every byte has a token, and one of other bytes. */
static bool works(const struct hke_tokenizer *t, size_t *encoded)
{
    for (uint32_t i = 0; i < hke_vocab_size(t); i++)
        (void)hke_is_end_token(t, i);
    return there_and_back(t, str("hello hellohell <user>\neeee  lo"), encoded) &&
           there_and_back(t, str("</s>unused \xff\xe2\x96<s>"), encoded);
}

/* Returns whether the file at FD was taken; clears *GOOD if what it gives is wrong. */
static bool attempt(int fd, bool *good, size_t *encoded)
{
    struct hk_file *f = NULL;
    struct hke_tokenizer *t = NULL;
    struct hk_error err;
    bool taken = hk_open_fd(&f, fd, &err) == HK_OK && hke_tokenizer_new(&t, f, &err) == HK_OK;
    if (taken && !works(t, encoded))
        *good = false;
    hke_tokenizer_free(&t);
    hk_close(&f);
    return taken;
}

static void damage(bool spm)
{
    static const uint8_t change[] = {0x01, 0x80, 0xff};
    int fd = vocabulary(spm);
    off_t size = lseek(fd, 0, SEEK_END);
    size_t taken = 0, tried = 0, encoded = 0;
    bool good = true, whole = attempt(fd, &good, &encoded);
    whole = whole && encoded > 0;
    for (off_t at = 0; at < size; at++) {
        uint8_t was, now;
        good = good && pread(fd, &was, 1, at) == 1;
        for (size_t i = 0; i < sizeof change; i++, tried++) {
            now = was ^ change[i];
            good = good && pwrite(fd, &now, 1, at) == 1;
            taken += attempt(fd, &good, &encoded);
        }
        good = good && pwrite(fd, &was, 1, at) == 1;
    }
    close(fd);
    ok(whole && good && taken > 0 && taken < tried, "%s: %zu changed bytes, %zu still tokenizers",
       spm ? "spm" : "bpe", tried, taken);
}

int main(void)
{
    damage(true);
    damage(false);
    return tap_done();
}
