/* safetensors: every rule with the text that breaks it. */
#include "libhkfmt/base/le.h"
#include "tests/lib/mk_st.h"

#define ENTRY(name, dtype, shape, begin, end)                                                      \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin        \
    "," #end "]}"
#define A ENTRY("a", "F32", "2", 0, 8)
#define B ENTRY("b", "F32", "2", 8, 16)

/* clang-format off */
static const struct row {
    const char *what, *json;
    size_t data;
    enum hk_status status;
    int64_t offset; /* in the header; -1: not fixed */
    const char *says;
} faults[] = {
    {"no object inside",       "{",                        0, HK_E_FORMAT, 1, "no JSON"},
    {"array",                  "{[]}",                     0, HK_E_FORMAT, 1, "no JSON"},
    {"two objects",            "{" A "}{}",                8, HK_E_FORMAT, -1, "follows"},
    {"NUL padding",            "{" A "}\1",                8, HK_E_FORMAT, -1, "follows"},
    {"deep arrays",            "{\"a\":[[[[[[]]]]]]}",     0, HK_E_FORMAT, 5, "tensor a"},
    {"lone surrogate",         "{\"\\ud800\":1}",          0, HK_E_FORMAT, 2, "no JSON"},
    {"not UTF-8",              "{\"\xff\":1}",             0, HK_E_FORMAT, 2, "UTF-8"},
    {"empty name",             "{" ENTRY("", "F32", "2", 0, 8) "}", 8, HK_E_FORMAT, 1, "empty"},
    {"the same name",          "{" A "," ENTRY("a", "F32", "2", 8, 16) "}", 16, HK_E_FORMAT, -1, "tensor a occurs again"},
    {"the same in escapes",    "{" A "," ENTRY("\\u0061", "F32", "2", 8, 16) "}", 16, HK_E_FORMAT, -1, "tensor a occurs again"},
    {"the same, empty",        "{" ENTRY("a", "U8", "0", 0, 0) "," ENTRY("a", "I8", "0", 0, 0) "}", 0, HK_E_FORMAT, -1, "tensor a occurs again"},
    {"entry a string",         "{\"a\":\"F32\"}",          0, HK_E_FORMAT, 5, "tensor a"},
    {"entry an array",         "{\"a\":[\"F32\",[2],[0,8]]}", 8, HK_E_FORMAT, 5, "tensor a"},
    {"entry null",             "{\"a\":null}",             0, HK_E_FORMAT, 5, "tensor a"},
    {"unknown field",          "{\"a\":{\"dtype\":\"F32\",\"extra\":1}}", 0, HK_E_FORMAT, 20, "field 'extra'"},
    {"field twice",            "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, HK_E_FORMAT, 20, "dtype occurs again"},
    {"field twice in escapes", "{\"a\":{\"shape\":[],\"sh\\u0061pe\":[]}}", 0, HK_E_FORMAT, -1, "shape occurs again"},
    {"no dtype",               "{\"a\":{\"shape\":[],\"data_offsets\":[0,0]}}", 0, HK_E_FORMAT, 1, "dtype is missing"},
    {"no shape",               "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, HK_E_FORMAT, 1, "shape is missing"},
    {"no offsets",             "{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, HK_E_FORMAT, 1, "data_offsets is missing"},
    {"dtype a number",         "{\"a\":{\"dtype\":1}}",    0, HK_E_FORMAT, 14, "dtype"},
    {"dtype empty",            "{\"a\":{\"dtype\":\"\"}}", 0, HK_E_UNSUPPORTED, 14, "dtype ''"},
    {"dtype f32",              "{\"a\":{\"dtype\":\"f32\"}}", 0, HK_E_UNSUPPORTED, 14, "tensor a: unknown dtype 'f32'"},
    {"dtype F3",               "{" ENTRY("a", "F3", "2", 0, 1) "}", 1, HK_E_UNSUPPORTED, 14, "tensor a: unknown dtype 'F3'"},
    {"dtype f4",               "{" ENTRY("a", "f4", "2", 0, 1) "}", 1, HK_E_UNSUPPORTED, 14, "'f4'"},
    {"F4 of half a byte",      "{" ENTRY("a", "F4", "3", 0, 2) "}", 2, HK_E_FORMAT, 1, "3 elements of fp4_e2m1"},
    {"F6 of half a byte",      "{" ENTRY("a", "F6_E2M3", "2", 0, 2) "}", 2, HK_E_FORMAT, 1, "2 elements of fp6_e2m3"},
    {"C64 of half its bytes",  "{" ENTRY("a", "C64", "1", 0, 4) "}", 4, HK_E_FORMAT, 1, "4 bytes, complex64"},
    {"shape a number",         "{\"a\":{\"shape\":2}}",    0, HK_E_FORMAT, 14, "shape is no array"},
    {"shape -2",               "{\"a\":{\"shape\":[-2]}}", 0, HK_E_FORMAT, 15, "shape"},
    {"shape 2.0",              "{\"a\":{\"shape\":[2.0]}}", 0, HK_E_FORMAT, 15, "shape"},
    {"shape 2e0",              "{\"a\":{\"shape\":[2e0]}}", 0, HK_E_FORMAT, 15, "shape"},
    {"shape 2^64",             "{\"a\":{\"shape\":[18446744073709551616]}}", 0, HK_E_FORMAT, 15, "shape"},
    {"shape of strings",       "{\"a\":{\"shape\":[\"2\"]}}", 0, HK_E_FORMAT, 15, "shape"},
    {"shape of arrays",        "{\"a\":{\"shape\":[[2]]}}", 0, HK_E_FORMAT, 15, "shape"},
    {"nine dimensions",        "{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1]}}", 0, HK_E_RANGE, 31, "more than 8"},
    {"shape 02",               "{\"a\":{\"shape\":[02]}}", 0, HK_E_FORMAT, 15, "tensor a: the header is no JSON"},
    {"shape NaN",              "{\"a\":{\"shape\":[NaN]}}", 0, HK_E_FORMAT, 15, "no JSON"},
    {"no offset",              "{\"a\":{\"data_offsets\":[]}}", 0, HK_E_FORMAT, -1, "0 numbers"},
    {"one offset",             "{\"a\":{\"data_offsets\":[0]}}", 0, HK_E_FORMAT, -1, "1 numbers"},
    {"three offsets",          "{\"a\":{\"data_offsets\":[0,4,8]}}", 0, HK_E_RANGE, -1, "more than 2"},
    {"offsets floats",         "{\"a\":{\"data_offsets\":[0.0,8]}}", 0, HK_E_FORMAT, 22, "data_offsets"},
    {"offsets an object",      "{\"a\":{\"data_offsets\":{}}}", 0, HK_E_FORMAT, 21, "no array"},
    {"offsets backwards",      "{" ENTRY("a", "F32", "2", 8, 0) "}", 8, HK_E_FORMAT, 1, "begin at 8"},
    {"offsets past the end",   "{" ENTRY("a", "F32", "2", 0, 8) "}", 7, HK_E_RANGE, 1, "7 bytes"},
    {"offsets past 2^63",      "{" ENTRY("a", "U8", "1", 18446744073709551614, 18446744073709551615) "}", 1, HK_E_RANGE, 1, "end at"},
    {"shape of other size",    "{" ENTRY("a", "F32", "3", 0, 8) "}", 8, HK_E_FORMAT, 1, "takes 12"},
    {"scalar of other size",   "{" ENTRY("a", "F32", "", 0, 8) "}", 8, HK_E_FORMAT, 1, "takes 4"},
    {"empty with bytes",       "{" ENTRY("a", "F32", "0", 0, 8) "}", 8, HK_E_FORMAT, 1, "takes 0"},
    {"bytes wrap",             "{" ENTRY("a", "F32", "4611686018427387908", 0, 16) "}", 16, HK_E_RANGE, 1, "overflows"},
    {"product wraps",          "{" ENTRY("a", "U8", "4294967296,4294967296", 0, 0) "}", 0, HK_E_RANGE, 1, "overflows"},
    {"product hides in 0",     "{" ENTRY("a", "U8", "4294967296,0,4294967296", 0, 0) "}", 0, HK_E_RANGE, 1, "overflows"},
    {"overlap",                "{" A "," ENTRY("b", "F32", "2", 4, 12) "}", 12, HK_E_FORMAT, -1, "tensor b: its bytes overlap those of 'a'"},
    {"the same bytes",         "{" A "," ENTRY("b", "F32", "2", 0, 8) "}", 8, HK_E_FORMAT, -1, "tensor b: its bytes overlap"},
    {"empty inside another",   "{" A "," ENTRY("b", "F32", "0", 4, 4) "}", 8, HK_E_FORMAT, -1, "tensor b: its bytes overlap"},
    {"hole",                   "{" A "," ENTRY("b", "F32", "2", 12, 20) "}", 20, HK_E_FORMAT, -1, "tensor b: a hole of 4"},
    {"hole at the start",      "{" ENTRY("a", "F32", "2", 4, 12) "}", 12, HK_E_FORMAT, 1, "tensor a: a hole of 4"},
    {"empty behind the end",   "{" A "," ENTRY("b", "F32", "0", 9, 9) "}", 8, HK_E_RANGE, -1, "tensor b"},
    {"trailing bytes",         "{" A "}",                  9, HK_E_FORMAT, -1, "1 bytes follow"},
    {"bytes without tensors",  "{}",                       1, HK_E_FORMAT, 2, "1 bytes follow"},
    {"metadata null",          "{\"__metadata__\":null}",  0, HK_E_FORMAT, 16, "__metadata__"},
    {"metadata a string",      "{\"__metadata__\":\"x\"}", 0, HK_E_FORMAT, 16, "__metadata__"},
    {"metadata a number",      "{\"__metadata__\":{\"k\":1}}", 0, HK_E_FORMAT, 21, "key k"},
    {"metadata an object",     "{\"__metadata__\":{\"k\":{}}}", 0, HK_E_FORMAT, 21, "key k"},
    {"metadata twice",         "{\"__metadata__\":{},\"__metadata__\":{}}", 0, HK_E_FORMAT, 19, "occurs again"},
    {"metadata twice, escapes", "{\"__metadata__\":{},\"__metad\\u0061ta__\":{}}", 0, HK_E_FORMAT, 19, "occurs again"},
    {"an empty key",           "{\"__metadata__\":{\"\":\"x\"}}", 0, HK_E_FORMAT, 17, "empty"},
    {"a key twice",            "{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0, HK_E_FORMAT, -1, "key k occurs again"},
    {"a key twice in escapes", "{\"__metadata__\":{\"k\":\"\",\"\\u006b\":\"\"}}", 0, HK_E_FORMAT, -1, "key k occurs again"},
};
/* clang-format on */

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const struct row *r = &faults[i];
        struct hk_file *f;
        struct hk_error err;
        enum hk_status status = open_json(&f, text(r->json), r->data, &err);
        bool place = r->offset < 0 || err.offset == 8 + (uint64_t)r->offset;
        ok(status == r->status && place && strstr(err.text, r->says) != NULL,
           "%s: %s, '%s' at %llu", r->what, hk_status_name(status), err.text,
           (unsigned long long)err.offset);
        hk_close(&f);
    }
}

/* The header's length, and what is none. */
static void test_lengths(void)
{
    static const struct {
        const char *what;
        uint64_t length;
        const char *begin, *says;
    } cases[] = {
        {"length 0", 0, "{}", "no JSON"},
        {"one too many", 3, "{}", "not all there"},
        {"2^63", UINT64_C(1) << 63, "{}", "not all there"},
        {"2^64-8", UINT64_MAX - 7, "{}", "not all there"},
        {"no brace", 2, "[]", "no known magic"},
        {"a blank first", 3, " {}", "no known magic"},
        {"a byte order mark", 5, "\xef\xbb\xbf{}", "no known magic"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mk m = {0};
        struct hk_file *f = NULL;
        struct hk_error err = {0};
        mk_int(&m, cases[i].length, 8);
        mk_bytes(&m, cases[i].begin, strlen(cases[i].begin));
        enum hk_status status = mk_open(&f, m.p, m.n, &err);
        ok(status == HK_E_FORMAT && strstr(err.text, cases[i].says) != NULL, "%s: %s",
           cases[i].what, err.text);
        hk_close(&f);
        mk_free(&m);
    }
}

/* A header of SIZE bytes is what the reference reads at most: a byte more is refused unread. */
static void test_longest(size_t size, enum hk_status wanted)
{
    struct hk_file *f = NULL;
    struct hk_error err = {0};
    uint8_t head[9] = {0};
    int fd = mk_fd("", 0);
    put64(head, size);
    head[8] = '{';
    char *blanks = malloc(size);
    mk_need(blanks != NULL, "memory");
    memset(blanks, ' ', size);
    blanks[0] = '{';
    blanks[1] = '}';
    mk_need(write(fd, head, 8) == 8 && write(fd, blanks, size) == (ssize_t)size, "write");
    enum hk_status status = hk_open_fd(&f, fd, &err);
    ok(status == wanted, "a header of %zu bytes: %s", size, hk_status_name(status));
    hk_close(&f);
    free(blanks);
    close(fd);
}

/* ---- metadata with types ---- */

static void test_types_refused(void)
{
    static const char *const pairs[][3] = {
        /* value of key k, value of hk.types, what the message has */
        {"1", "[]", "key hk.types"},
        {"1", "", "key hk.types"},
        {"1", "{", "key hk.types"},
        {"1", "{}x", "key hk.types"},
        {"1", "{\\\"k\\\":1}", "key k"},
        {"1", "{\\\"k\\\":\\\"int\\\"}", "key k: unknown type 'int'"},
        {"1", "{\\\"m\\\":\\\"int64\\\"}", "key m is missing"},
        {"1", "{\\\"hk.types\\\":\\\"int64\\\"}", "key hk.types is missing"},
        {"1", "{\\\"k\\\":\\\"int64\\\",\\\"\\\\u006b\\\":\\\"int64\\\"}", "key k occurs again"},
        {"1.0", "{\\\"k\\\":\\\"int64\\\"}", "key k: its value is no int64"},
        {"", "{\\\"k\\\":\\\"int64\\\"}", "key k"},
        {" 1", "{\\\"k\\\":\\\"int64\\\"}", "key k"},
        {"9223372036854775808", "{\\\"k\\\":\\\"int64\\\"}", "key k"},
        {"x", "{\\\"k\\\":\\\"float64\\\"}", "key k: its value is no float64"},
        {"", "{\\\"k\\\":\\\"float64\\\"}", "key k"},
        {"1 ", "{\\\"k\\\":\\\"float64\\\"}", "key k"},
        {"0x1p3", "{\\\"k\\\":\\\"float64\\\"}", "key k"},
        {"1e999", "{\\\"k\\\":\\\"float64\\\"}", "key k"},
        {"nan:7ff8", "{\\\"k\\\":\\\"float64\\\"}", "key k"},
        {"nan:0000000000000001", "{\\\"k\\\":\\\"float64\\\"}", "key k"},
        {"nan:7FF8000000000001", "{\\\"k\\\":\\\"float64\\\"}", "key k"},
        {"yes", "{\\\"k\\\":\\\"bool\\\"}", "key k: its value is no bool"},
        {"1", "{\\\"k\\\":\\\"bool\\\"}", "key k"},
        {"Zg=", "{\\\"k\\\":\\\"bytes\\\"}", "key k: its value is no bytes"},
        {"Zh==", "{\\\"k\\\":\\\"string<base64>\\\"}", "key k"},
        {"?", "{\\\"k\\\":\\\"json<base64>\\\"}", "key k"},
        {"[1]", "{\\\"k\\\":\\\"array<string>\\\"}", "key k: its value is no array<string>"},
        {"[\\\"a\\\",[]]", "{\\\"k\\\":\\\"array<string>\\\"}", "key k"},
        {"[\\\"a\\\"", "{\\\"k\\\":\\\"array<string>\\\"}", "key k"},
        {"\\\"a\\\"", "{\\\"k\\\":\\\"array<string>\\\"}", "key k"},
        {"[2147483648]", "{\\\"k\\\":\\\"array<i32>\\\"}", "key k: its value is no array<i32>"},
        {"[1.0]", "{\\\"k\\\":\\\"array<i32>\\\"}", "key k"},
        {"[1,null]", "{\\\"k\\\":\\\"array<i32>\\\"}", "key k"},
        {"[1]]", "{\\\"k\\\":\\\"array<i32>\\\"}", "key k"},
        {"[1e39]", "{\\\"k\\\":\\\"array<f32>\\\"}", "key k: its value is no array<f32>"},
        {"[\\\"x\\\"]", "{\\\"k\\\":\\\"array<f32>\\\"}", "key k"},
        {"[true]", "{\\\"k\\\":\\\"array<f32>\\\"}", "key k"},
        {"[\\\"nan:7ff8000000000001\\\"]", "{\\\"k\\\":\\\"array<f32>\\\"}", "key k"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char json[512];
        struct hk_file *f;
        struct hk_error err;
        snprintf(json, sizeof json, "{\"__metadata__\":{\"hk.types\":\"%s\",\"k\":\"%s\"}}",
                 pairs[i][1], pairs[i][0]);
        enum hk_status status = open_json(&f, text(json), 0, &err);
        ok(status == HK_E_FORMAT && strstr(err.text, pairs[i][2]) != NULL && err.offset > 8,
           "types %s of %s: %s", pairs[i][1], pairs[i][0], err.text);
        hk_close(&f);
    }
    struct hk_file *f;
    struct hk_error err;
    ok(open_json(&f, text("{\"__metadata__\":{\"hk.types\":\"{}\",\"hk.types\":\"{}\"}}"), 0,
                 &err) == HK_E_FORMAT &&
           strstr(err.text, "key hk.types: it occurs again") != NULL,
       "types twice: %s", err.text);
}

int main(void)
{
    test_rows();
    test_lengths();
    test_longest(ST_MAX_HEADER, HK_OK);
    test_longest(ST_MAX_HEADER + 1, HK_E_RANGE);
    test_types_refused();
    return tap_done();
}
