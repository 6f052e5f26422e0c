/* Tokenizers of model directories: what cannot be done exactly is refused, with the reason. */
#include "tests/lib/mk_tokenizer.h"

static const struct refusal {
    char kind; /* b: byte-level; s: SentencePiece-like */
    const char *path, *value;
    const char *says;
} refusals[] = {
    {'b', "model.type", "\"WordPiece\"", "type WordPiece is not supported"},
    {'b', "model.type", "\"Unigram\"", "type Unigram is not supported"},
    {'b', "model.vocab", "{}", "model.vocab"},
    {'b', "model.vocab", "[]", "model.vocab"},
    {'b', "model.vocab", NULL, "model.vocab"},
    {'b', "model.vocab.d", "-1", "the id of \"d\""},
    {'b', "model.vocab.d", "1.5", "the id of \"d\""},
    {'b', "model.vocab.d", "9000000", "the id of \"d\""},
    {'b', "model.vocab.d", "4", "have the same id"},
    {'b', "model.merges", NULL, "model.merges is no list"},
    {'b', "model.merges", "[1]", "merge 0 is no pair"},
    {'b', "model.merges", "[\"ab\"]", "merge 0 is no pair"},
    {'b', "model.merges", "[\"a b c\"]", "merge 0 is no pair"},
    {'b', "model.merges", "[[\"a\"]]", "merge 0 is no pair"},
    {'b', "model.merges", "[[\"a\",1]]", "merge 0 is no pair"},
    {'b', "model.merges", "[\"a b\",\"a x\"]", "merge 1 (\"a\" and \"x\")"},
    {'b', "model.merges", "[\"a b\",\"b c\"]", "merge 1 (\"b\" and \"c\")"},
    {'b', "model.merges", "[\"a b\",\"ab c\",\"a b\"]", "is there twice"},
    {'b', "model.dropout", "0.1", "model.dropout"},
    {'b', "model.continuing_subword_prefix", "\"##\"", "continuing_subword_prefix"},
    {'b', "model.end_of_word_suffix", "\"</w>\"", "end_of_word_suffix"},
    {'b', "model.ignore_merges", "1", "model.ignore_merges is no boolean"},
    {'b', "normalizer", "{\"type\":\"NFKC\"}", "NFKC"},
    {'b', "normalizer", "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Lowercase\"}]}",
     "Lowercase"},
    {'b', "pre_tokenizer", "null", "pre-tokenizer that is not known"},
    {'b', "pre_tokenizer", "{\"type\":\"Whitespace\"}", "Whitespace"},
    {'b', "pre_tokenizer", "{\"type\":\"ByteLevel\"}", "add_prefix_space"},
    {'b', "pre_tokenizer", "{\"type\":\"Digits\"}", "without ByteLevel"},
    {'b', "pre_tokenizer",
     "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":"
     "false},{\"type\":\"Digits\"}]}",
     "after ByteLevel: Digits"},
    {'b', "pre_tokenizer",
     "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":\"Removed\",\"invert\":true}",
     "behavior: Removed"},
    {'b', "pre_tokenizer", "{\"type\":\"Split\",\"behavior\":\"Isolated\"}", "without a pattern"},
    {'b', "added_tokens", "{}", "added_tokens is no list"},
    {'b', "added_tokens", "[{\"id\":7}]", "no content"},
    {'b', "added_tokens", "[{\"content\":\"x\"}]", "the id of \"x\""},
    {'b', "added_tokens", "[{\"id\":900000,\"content\":\"x\"}]", "the id of \"x\""},
    {'b', "added_tokens", "[{\"id\":1,\"content\":\"a\"}]", "\"a\" has the id 1, elsewhere 0"},
    {'b', "added_tokens", "[{\"id\":1,\"content\":\"x\"}]", "which is that of \"b\""},
    {'b', "added_tokens", "[{\"id\":6,\"content\":\"x\",\"lstrip\":1}]", "lstrip of \"x\""},
    {'b', "post_processor", "{\"type\":\"BertProcessing\"}", "BertProcessing"},
    {'b', "post_processor", "{\"type\":\"TemplateProcessing\"}", "single is no list"},
    {'b', "post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{}},"
     "{\"Sequence\":{}}]}",
     "the text once"},
    {'b', "post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
     "{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[99]}}}",
     "the id of \"x\" is not in the vocabulary"},
    {'b', "post_processor",
     "{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":"
     "{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[1,2]}}}",
     "more than one token"},
    {'b', "decoder", "{\"type\":\"WordPiece\"}", "decoder"},
    {'s', "model.ignore_merges", "true", "ignore_merges"},
    {'s', "model.vocab.<0x41>", NULL, "<0x41>"},
    {'s', "normalizer", "null", "spaces stay spaces"},
    {'s', "normalizer", "{\"type\":\"NFC\"}", "NFC"},
    {'s', "normalizer", "{\"type\":\"Prepend\",\"prepend\":\"x\"}", "Prepend"},
    {'s', "pre_tokenizer", "{\"type\":\"Whitespace\"}", "Whitespace"},
    {'s', "model.merges", "[[\"a\",\"b\"],[\"\xe2\x96\x81\",\"a\"]]",
     "no merge makes \"\xe2\x96\x81\x61\x62\""},
    {'s', "added_tokens", "[{\"id\":265,\"content\":\"x\xe2\x96\x81\"}]",
     "would be changed by the normalizer"},
    {'s', "added_tokens", "[{\"id\":265,\"content\":\"x\",\"normalized\":true}]",
     "would be changed by the normalizer"},
    {'s', "decoder", "{\"type\":\"ByteLevel\"}", "decoder"},
};

static void refuse_all(void)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        const struct refusal *r = &refusals[i];
        json_t *o = r->kind == 'b' ? small_bpe() : small_spm();
        clear_folder();
        put_at(o, r->path, r->value);
        put_json("tokenizer.json", o);
        refuses(r->path, r->says);
        json_decref(o);
    }
}

/* Patterns that the two libraries of regular expressions may understand in different ways. */
static void refuse_patterns(void)
{
    static const char *const odd[] = {
        "\\w+", "a\\b", "^a",    "a$",   "[a[b]]",  "[a&&b]", "(?i)a", "(?m:a)", "a{,3}", "a{2}+",
        "\\h",  "\\R",  "\\x41", "[]a]", "(?<n>a)", "\\1",    "[\\S]", "(*F)",   "\\p",   "a\\"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        json_t *o = small_bpe();
        clear_folder();
        json_object_set_new(o, "pre_tokenizer",
                            json_pack("{s:s, s:{s:s}, s:s}", "type", "Split", "pattern", "Regex",
                                      odd[i], "behavior", "Isolated"));
        put_json("tokenizer.json", o);
        refuses(odd[i], "not known to mean the same");
        json_decref(o);
    }
}

static const struct beside { /* a file beside the small tokenizer.json */
    const char *name, *text, *says;
} besides[] = {
    {"tokenizer.json", "[", "tokenizer.json"},
    {"tokenizer.json", "[]", "no JSON object"},
    {"tokenizer.json", "{\"model\":{\"vocab\":{\"a\":0,\"\\u0061\":1}}}", "uplicate"},
    {"tokenizer_config.json", "{\"a\":1,\"a\":2}", "uplicate"},
    {"tokenizer_config.json", "{\"bos_token\":\"<x>\"}", "bos_token \"<x>\" is not in the"},
    {"tokenizer_config.json", "{\"add_bos_token\":1}", "add_bos_token is no boolean"},
    {"tokenizer_config.json", "{\"added_tokens_decoder\":[]}", "added_tokens_decoder is no object"},
    {"tokenizer_config.json", "{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}",
     "the id of \"y\""},
    {"tokenizer_config.json", "{\"added_tokens_decoder\":{\"3\":{\"content\":\"y\"}}}",
     "which is that of \"ab\""},
    {"tokenizer_config.json", "{\"chat_template\":1}", "neither a string nor a list"},
    {"tokenizer_config.json", "{\"chat_template\":[{\"name\":\"a\"}]}", "no template"},
    {"tokenizer_config.json",
     "{\"chat_template\":[{\"name\":\"a\",\"template\":\"\"},{\"name\":\"a\",\"template\":\"\"}]}",
     "the same name"},
    {"added_tokens.json", "{\"<new>\":1}", "which is that of \"b\""},
    {"chat_template.json", "{}", "has none"},
    {"config.json", "{\"eos_token_id\":7}", "eos_token_id 7 is outside the vocabulary of 7"},
    {"config.json", "{\"eos_token_id\":[1,-2]}", "eos_token_id -2"},
    {"config.json", "{\"bos_token_id\":\"1\"}", "bos_token_id is no integer"},
    {"generation_config.json", "{\"eos_token_id\":[1,70]}", "eos_token_id 70"},
};

static void refuse_besides(void)
{
    for (size_t i = 0; i < sizeof besides / sizeof besides[0]; i++) {
        json_t *o = small_bpe();
        clear_folder();
        put_json("tokenizer.json", o);
        put_file(besides[i].name, besides[i].text, strlen(besides[i].text));
        refuses(besides[i].name, besides[i].says);
        json_decref(o);
    }
}

int main(void)
{
    make_folder();
    refuse_all();
    refuse_patterns();
    refuse_besides();
    clear_folder();
    rmdir(folder);
    return tap_done();
}
