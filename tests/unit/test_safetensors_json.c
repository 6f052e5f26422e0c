/* What a safetensors header is written in: JSON by the letter, and base64. */
#include "libhkfmt/base/base64.h"
#include "libhkfmt/base/json_scan.h"
#include "tests/lib/mk_st.h"

static const char json_letters[] = "?$OoAaKsnTFN"; /* one for each token, in their order */

/* The tokens of TEXT as letters, those of keys and strings with what they mean. */
static void tokens(struct hk_bytes json, char *out)
{
    struct hk_json j = {.text = json};
    enum hk_json_token token;
    do {
        token = hk_json_next(&j);
        *out++ = json_letters[token];
        if (token == HK_JSON_KEY || token == HK_JSON_STRING)
            out += hk_json_decode(&j, (uint8_t *)out);
        if (token == HK_JSON_NUMBER)
            out += sprintf(out, "%.*s", HK_STR(j.span));
    } while (token != HK_JSON_END && token != HK_JSON_ERROR);
    *out = '\0';
}

static void test_json(void)
{
    static const char *const rows[][2] = {
        {"{}", "Oo$"},
        {" [ ] \n", "Aa$"},
        {"{\"a\":[1,{\"b\" : null}],\"\":\"x\"}", "OKaAn1OKbNoaKsxo$"},
        {"[true,false,null,-0,0.5e-7,1E+2,10]", "ATFNn-0n0.5e-7n1E+2n10a$"},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"", "s\"\\/\b\f\n\r\tA$"},
        {"\"\\u00e9\\u20AC\\ud83d\\ude00\"", "s\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80$"},
        {"\"\xc3\xa9\"", "s\xc3\xa9$"},
        {"", "?"},
        {"nul", "?"},
        {"[1,]", "An1?"},
        {"[,1]", "A?"},
        {"[1 2]", "An1?"},
        {"[1", "An1?"},
        {"{\"a\"}", "O?"},
        {"{\"a\":}", "OKa?"},
        {"{\"a\":1,}", "OKan1?"},
        {"{1:1}", "O?"},
        {"{\"a\":1]", "OKan1?"},
        {"[}", "A?"},
        {"1 2", "n1?"},
        {"{}{}", "Oo?"},
        {"01", "?"},
        {"-", "?"},
        {"1.", "?"},
        {".5", "?"},
        {"1e", "?"},
        {"+1", "?"},
        {"0x1", "n0?"},
        {"NaN", "?"},
        {"\"", "?"},
        {"\"\\\"", "?"},
        {"\"\\x\"", "?"},
        {"\"\\u12g4\"", "?"},
        {"\"\\u12", "?"},
        {"\"\\ud800\"", "?"},
        {"\"\\ud800\\u0041\"", "?"},
        {"\"\\udc00\"", "?"},
        {"\"\n\"", "?"},
        {"\"\x80\"", "?"},
        {"\"\xc0\xaf\"", "?"},
        {"\"\xed\xa0\x80\"", "?"},
        {"\"\xf4\x90\x80\x80\"", "?"},
        {"//\n{}", "?"},
        {"\xef\xbb\xbf{}", "?"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char got[256];
        tokens(text(rows[i][0]), got);
        ok(strcmp(got, rows[i][1]) == 0, "JSON %zu has the tokens it should", i);
    }
}

/* DEPTH brackets, opened and closed. */
static bool nests(size_t depth)
{
    char brackets[2 * 100], got[2 * 100 + 2];
    memset(brackets, '[', depth);
    memset(brackets + depth, ']', depth);
    tokens((struct hk_bytes){(const uint8_t *)brackets, 2 * depth}, got);
    return got[strlen(got) - 1] == '$';
}

static void test_json_parts(void)
{
    uint64_t u = 7;
    int64_t i = 7;
    struct hk_json j = {.text = text("{\"c\":3}")};
    ok(nests(HK_JSON_MAX_DEPTH) && !nests(HK_JSON_MAX_DEPTH + 1), "64 levels and no more");
    ok(hk_json_next(&j) == HK_JSON_OBJECT && hk_json_next(&j) == HK_JSON_KEY &&
           hk_json_is(&j, "c") && !hk_json_is(&j, "cc"),
       "a key is compared as it is meant");
    ok(hk_json_u64(text("18446744073709551615"), &u) && u == UINT64_MAX, "2^64-1");
    ok(hk_json_i64(text("-9223372036854775808"), &i) && i == INT64_MIN, "-2^63");
    ok(hk_json_i64(text("9223372036854775807"), &i) && i == INT64_MAX, "2^63-1");
    static const char *const bad[] = {"", "-", "-1", "01", "1.0", "1e1", "18446744073709551616"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
        ok(!hk_json_u64(text(bad[k]), &u), "'%s' is no u64", bad[k]);
    static const char *const worse[] = {"--1", "-01", "9223372036854775808",
                                        "-9223372036854775809"};
    for (size_t k = 0; k < sizeof worse / sizeof *worse; k++)
        ok(!hk_json_i64(text(worse[k]), &i), "'%s' is no i64", worse[k]);
    struct hk_buf b = {0};
    const struct hk_bytes odd = {(const uint8_t *)"a\"\\\b\f\n\r\t\0\x1f\x7f\xc3\xa9/", 14};
    hk_json_quote(&b, odd);
    ok(equal((struct hk_bytes){b.p, b.n},
             text("\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xc3\xa9/\"")),
       "only what has to be is escaped");
    hk_buf_free(&b);
}

static void test_base64(void)
{
    static const char *const pairs[][2] = {
        {"", ""},        {"f", "Zg=="},        {"fo", "Zm8="},
        {"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"\xff\xfe\xfb\xef", "//777w=="}};
    uint8_t back[16];
    size_t n;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        struct hk_buf b = {0};
        hk_put_base64(&b, text(pairs[i][0]));
        bool good = equal((struct hk_bytes){b.p, b.n}, text(pairs[i][1])) &&
                    hk_decode_base64(text(pairs[i][1]), back, &n) &&
                    equal((struct hk_bytes){back, n}, text(pairs[i][0]));
        ok(good, "base64 '%s' there and back", pairs[i][1]);
        hk_buf_free(&b);
    }
    static const char *const bad[] = {"Z",    "Zg=",      "Zg",   "Zh==",   "Zm9=",     "====",
                                      "Z===", "Zg==Zg==", " Zg=", "Zg==\n", "Zm9v Zm9", "Zm-_"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(!hk_decode_base64(text(bad[i]), back, &n), "text %zu is no base64", i);
}

int main(void)
{
    test_json();
    test_json_parts();
    test_base64();
    return tap_done();
}
