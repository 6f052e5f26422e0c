/* The tools' shared helper: UTF-8, escapes, decimals, JSON, options, numbers, tables. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/tap.h"
#include "tools/lib/tool.h"

static struct hk_bytes bytes(const char *s, size_t n)
{
    return (struct hk_bytes){(const uint8_t *)s, n};
}

/* ---- text ---- */

static void test_utf8(void)
{
    static const struct {
        const char *text;
        size_t size, length;
        uint32_t code;
    } rows[] = {
        {"", 0, 0, 0},
        {"a", 1, 1, 'a'},
        {"\0", 1, 1, 0},
        {"\x7f", 1, 1, 0x7f},
        {"\x80", 1, 0, 0},
        {"\xc2\x80", 2, 2, 0x80},
        {"\xc1\xbf", 2, 0, 0}, /* overlong */
        {"\xc2", 1, 0, 0},     /* cut */
        {"\xc2\x41", 2, 0, 0},
        {"\xe0\xa0\x80", 3, 3, 0x800},
        {"\xe0\x9f\xbf", 3, 0, 0},
        {"\xed\x9f\xbf", 3, 3, 0xd7ff},
        {"\xed\xa0\x80", 3, 0, 0}, /* surrogates */
        {"\xed\xbf\xbf", 3, 0, 0},
        {"\xee\x80\x80", 3, 3, 0xe000},
        {"\xf0\x90\x80\x80", 4, 4, 0x10000},
        {"\xf0\x8f\xbf\xbf", 4, 0, 0},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
        {"\xf4\x90\x80\x80", 4, 0, 0}, /* past the last */
        {"\xf8\x88\x80\x80\x80", 5, 0, 0},
        {"\xff", 1, 0, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t code = 0;
        size_t n = tool_utf8((const uint8_t *)rows[i].text, rows[i].size, &code);
        ok(n == rows[i].length && (n == 0 || code == rows[i].code), "utf-8 row %zu", i);
    }
}

/* What PRINT writes for B, compared with WANT. */
static bool gives(void (*print)(FILE *, const void *), const void *arg, const char *want)
{
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    print(file, arg);
    fclose(file);
    bool same = strcmp(text, want) == 0;
    if (!same)
        printf("# %s\n# %s\n", text, want);
    free(text);
    return same;
}

static void print_escape(FILE *file, const void *arg)
{
    tool_escape(file, *(const struct hk_bytes *)arg);
}

static void test_escape(void)
{
    struct hk_bytes b = bytes("a\n\xc3\xa9\x1b\xff\xc2\x9b\xe2\x80\xae\\", 12);
    ok(gives(print_escape, &b, "a\\x0a\xc3\xa9\\x1b\\xff\\xc2\\x9b\\xe2\\x80\\xae\\"),
       "what disturbs a terminal is escaped, the rest is not");
}

/* ---- decimals ---- */

/* Digits of a decimal between its first and last that is not 0. */
static size_t significant(const char *text)
{
    size_t seen = 0, counted = 0;
    for (; *text != '\0' && *text != 'e'; text++) {
        bool digit = *text >= '0' && *text <= '9';
        if (digit && (seen > 0 || *text != '0'))
            counted = *text != '0' ? seen + 1 : counted;
        seen += digit && (seen > 0 || *text != '0');
    }
    return counted;
}

static bool reads_back(uint32_t bits)
{
    float v, again;
    char text[32], shorter[32];
    memcpy(&v, &bits, sizeof v);
    if (!tool_float_text(v, text))
        return isnan(v) || isinf(v);
    again = strtof(text, NULL);
    if (memcmp(&again, &v, sizeof v) != 0)
        return false;
    for (int digits = 1; digits < 9; digits++) {
        snprintf(shorter, sizeof shorter, "%.*g", digits, (double)v);
        if (strtof(shorter, NULL) == v)
            return significant(text) <= significant(shorter);
    }
    return true;
}

static void test_floats(void)
{
    static const struct {
        float v;
        const char *text;
    } rows[] = {
        {0.0f, "0.0"},
        {-0.0f, "-0.0"},
        {1.0f, "1.0"},
        {0.1f, "0.1"},
        {1e-5f, "1e-05"},
        {16777216.0f, "16777216.0"},
        {1e10f, "1e+10"},
        {3.4028235e38f, "3.4028235e+38"},
        {1e-45f, "1e-45"},
        {1.17549435e-38f, "1.1754944e-38"},
        {NAN, "null"},
        {-INFINITY, "null"},
        {1.0f / 3, "0.33333334"},
    };
    char text[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tool_float_text(rows[i].v, text);
        ok(strcmp(text, rows[i].text) == 0, "%s", rows[i].text);
    }
    size_t bad = 0;
    uint32_t bits = 12345;
    for (size_t i = 0; i < 200000; i++) {
        bad += !reads_back(bits);
        bits = bits * 1664525u + 1013904223u;
        /* the same between 1e-5 and 1e7 */
        bad += !reads_back((bits & 0x807fffffu) | (110u + (bits >> 9) % 41) << 23);
    }
    for (uint32_t small = 0; small < 20000; small++)
        bad += !reads_back(small) || !reads_back(0x00800000u - 10000 + small);
    ok(bad == 0, "440000 floats read back and none is longer than needed (%zu do not)", bad);
}

/* ---- JSON ---- */

static void print_tree(FILE *file, const void *arg)
{
    tool_json_print(json_incref((json_t *)(uintptr_t)arg), file);
}

static bool prints(json_t *v, const char *want)
{
    bool same = gives(print_tree, v, want);
    json_decref(v);
    return same;
}

static void test_json_values(void)
{
    ok(prints(tool_json_uint(INT64_MAX), "9223372036854775807\n"), "the largest integer");
    ok(prints(tool_json_uint(UINT64_MAX), "\"18446744073709551615\"\n"), "beyond it a string");
    ok(prints(tool_json_double(0.1), "0.1\n"), "a double");
    ok(prints(tool_json_double(1.0 / 3), "0.3333333333333333\n"), "sixteen digits");
    ok(prints(tool_json_double(5e-324), "5e-324\n"), "the smallest double");
    ok(prints(tool_json_double(1.7976931348623157e308), "1.7976931348623157e+308\n"),
       "the largest");
    ok(prints(tool_json_double(NAN), "null\n"), "NaN is null");
    ok(prints(tool_json_double(INFINITY), "null\n"), "so are infinities");
    ok(prints(tool_json_float(0.1f), "0.1\n"), "a float has its own shortest decimal");
    ok(prints(tool_json_float(NAN), "null\n"), "and null");
    ok(prints(tool_json_text(NULL), "null\n"), "no text is null");
    ok(prints(tool_json_bytes(bytes("", 0)), "\"\"\n"), "empty bytes");
    ok(prints(tool_json_bytes((struct hk_bytes){NULL, 0}), "\"\"\n"), "no bytes");
    ok(prints(tool_json_bytes(bytes("a\0b", 3)), "\"a\\u0000b\"\n"), "a zero byte");
    ok(prints(tool_json_bytes(bytes("\xff\xc3\xa9\xc3", 4)),
              "\"\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\"\n"),
       "stray bytes become U+FFFD");
    ok(prints(tool_json_bytes(bytes("\"\\\n\r\t\x01\x7f\xc2\x9b", 9)),
              "\"\\\"\\\\\\n\\r\\t\\u0001\\u007f\\u009b\"\n"),
       "escapes");
    ok(prints(tool_json_hex((const uint8_t *)"\x00\xab\xff", 3), "\"00abff\"\n"), "hex");
}

static void print_pieces(FILE *file, const void *arg)
{
    struct tool_json_out o;
    tool_json_begin(&o, file);
    o.pretty = *(const bool *)arg;
    tool_json_put(&o, "a", json_integer(1));
    tool_json_enter(&o, "list", '[');
    tool_json_put(&o, NULL, json_integer(2));
    tool_json_put(&o, NULL, json_pack("{s:[i,i]}", "x", 3, 4));
    tool_json_leave(&o, ']');
    tool_json_enter(&o, "none", '{');
    tool_json_leave(&o, '}');
    tool_json_put_bytes(&o, bytes("k\xff", 2), json_true());
    tool_json_end(&o);
}

static void test_json_pieces(void)
{
    bool pretty = false;
    ok(gives(print_pieces, &pretty,
             "{\"a\":1,\"list\":[2,{\"x\":[3,4]}],\"none\":{},\"k\xef\xbf\xbd\":true}\n"),
       "piece by piece on one line");
    pretty = true;
    ok(gives(print_pieces, &pretty,
             "{\n  \"a\": 1,\n  \"list\": [\n    2,\n    {\n      \"x\": [3, 4]\n    }\n  ],\n"
             "  \"none\": {},\n  \"k\xef\xbf\xbd\": true\n}\n"),
       "piece by piece, indented");
}

static void test_json_order(void)
{
    json_t *v = json_object();
    tool_json_set(v, "z", json_integer(1));
    tool_json_set(v, "a", json_array());
    tool_json_push(json_object_get(v, "a"), json_null());
    tool_json_set(v, "m", json_object());
    ok(prints(v, "{\"z\":1,\"a\":[null],\"m\":{}}\n"), "members in the order they were set");
}

/* ---- options ---- */

static const struct tool_option options[] = {
    {"flag", 'f', NULL, ""}, {"value", 'v', "V", ""}, {"long-only", 0, NULL, ""}};
static const struct tool_option shared[] = {{"number", 'n', "N", ""}, {"shared", 's', NULL, ""}};

static void set_shared(void *to, int option, const char *value)
{
    int *numbers = to;
    numbers[option] = value != NULL ? (int)tool_uint(value, 0, 99) : 1;
}

static const struct tool_group group = {shared, 2, set_shared};
static const struct tool tool = {
    .name = "hk-test", .operands = "FILE...", .options = options, .option_count = 3};
static const struct tool grouped = {.name = "hk-test",
                                    .operands = "FILE...",
                                    .options = options,
                                    .option_count = 3,
                                    .group = &group};
static const struct tool telling = {
    .name = "hk-test", .operands = "FILE...", .statistics = true, .operand_ends_options = true};

/* Options as "0", "1=text", then the operands, blank between. NUMBERS: of the group, if there is
 * one.
 */
static bool parses_by(const struct tool *t, char **argv, int *numbers, const char *want)
{
    struct tool_args args;
    const char *value;
    char got[256] = "";
    int argc = 0;
    size_t n = 0;
    while (argv[argc] != NULL)
        argc++;
    tool_begin_group(&args, t, numbers, argc, argv);
    for (int o; (o = tool_next(&args, &value)) >= 0;)
        n += (size_t)snprintf(got + n, sizeof got - n, "%d%s%s ", o, value ? "=" : "",
                              value ? value : "");
    for (int i = 0; i < args.operand_count; i++)
        n += (size_t)snprintf(got + n, sizeof got - n, "%s ", args.operands[i]);
    if (strcmp(got, want) != 0)
        printf("# %s\n# %s\n", got, want);
    return strcmp(got, want) == 0;
}

static bool parses(char **argv, const char *want)
{
    return parses_by(&tool, argv, NULL, want);
}

static void test_options(void)
{
#define WORDS(...) (char *[]){(char[]){"hk-test"}, __VA_ARGS__, NULL}
#define W(text)                                                                                    \
    (char[])                                                                                       \
    {                                                                                              \
        text                                                                                       \
    }
    ok(parses(WORDS(W("a"), W("--flag"), W("b")), "0 a b "), "options and operands mixed");
    ok(parses(WORDS(W("--value"), W("x"), W("--value=y")), "1=x 1=y "), "both forms of a value");
    ok(parses(WORDS(W("--value="), W("--value"), W("--")), "1= 1=-- "), "a value may be anything");
    ok(parses(WORDS(W("-fvx"), W("-v"), W("y"), W("-ff")), "0 1=x 1=y 0 0 "), "letters in a word");
    ok(parses(WORDS(W("a"), W("--"), W("--flag"), W("-")), "a --flag - "), "-- ends options");
    ok(parses(WORDS(W("-"), W("")), "-  "), "- and the empty word are operands");
    ok(parses(WORDS(W("--long-only")), "2 "), "an option without a letter");
    int numbers[2] = {0};
    ok(parses_by(&grouped, WORDS(W("-fs"), W("a"), W("--number=7"), W("-v"), W("x")), numbers,
                 "0 1=x a "),
       "options of a group are not the program's");
    ok(numbers[0] == 7 && numbers[1] == 1, "and are set");
    ok(!tool_quiet() && !tool_verbose(), "at first neither quiet nor verbose");
    ok(parses(WORDS(W("-fq"), W("a")), "0 a ") && tool_quiet(), "-q is every program's");
    ok(parses_by(&telling, WORDS(W("-qv"), W("a"), W("-x"), W("--")), NULL, "a -x -- ") &&
           tool_verbose() && !tool_quiet(),
       "-v is for those with statistics; the last of the two counts");
}

/* ---- values ---- */

/* Whether READ ends a process of its own as a usage error does, and what it says holds WANT. */
static bool refused(void (*read_value)(const void *), const void *arg, const char *want)
{
    char said[512] = "";
    int ends[2], status = 0;
    fflush(stdout);
    if (pipe(ends) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        read_value(arg);
        _exit(0);
    }
    close(ends[1]);
    FILE *in = fdopen(ends[0], "r");
    if (in == NULL || fgets(said, sizeof said, in) == NULL)
        said[0] = '\0';
    if (in != NULL)
        fclose(in);
    waitpid(child, &status, 0);
    const bool good =
        WIFEXITED(status) && WEXITSTATUS(status) == TOOL_TROUBLE && strstr(said, want) != NULL;
    if (!good)
        printf("# %s# %s\n", said, want);
    return good;
}

static void read_uint(const void *value)
{
    tool_uint(value, 2, 100);
}

static void read_size(const void *value)
{
    tool_size(value, 0, UINT64_MAX);
}

static void read_double(const void *value)
{
    tool_double(value, -1, 2);
}

static void test_numbers(void)
{
    tool_value_begin("GENERATION");
    static const char *const bad_uints[] = {
        "", "1", "101", "-5", "+5", " 5", "5 ", "5x", "0x5", "5.0", "18446744073709551621"};
    for (size_t i = 0; i < sizeof bad_uints / sizeof *bad_uints; i++)
        ok(refused(read_uint, bad_uints[i], ": GENERATION: "), "no number: '%s'", bad_uints[i]);
    ok(tool_uint("007", 2, 100) == 7 && tool_uint("100", 2, 100) == 100, "numbers");
    static const char *const bad_doubles[] = {"",    "nan", "inf", "0x1", "1e999",
                                              "2.5", "1,5", " 1",  "1e"};
    for (size_t i = 0; i < sizeof bad_doubles / sizeof *bad_doubles; i++)
        ok(refused(read_double, bad_doubles[i], ": GENERATION: "), "no double: '%s'",
           bad_doubles[i]);
    ok(tool_double("-.5", -1, 2) == -0.5 && tool_double("1e-3", -1, 2) == 1e-3, "doubles");
}

static void test_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t size;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"512B", 512},
        {"3k", 3072},
        {"3K", 3072},
        {"3KiB", 3072},
        {"3kiB", 3072},
        {"3kB", 3000},
        {"2M", 2 << 20},
        {"2MiB", 2 << 20},
        {"2MB", 2000000},
        {"2G", UINT64_C(2) << 30},
        {"2g", UINT64_C(2) << 30},
        {"2GB", UINT64_C(2000000000)},
        {"1T", UINT64_C(1) << 40},
        {"1TB", UINT64_C(1000000000000)},
        {"15E", UINT64_C(15) << 60},
        {"18EB", UINT64_C(18000000000000000000)},
        {"1.5G", UINT64_C(3) << 29},
        {"0.75k", 768},
        {"1.50k", 1536},
        {"1.0", 1},
        {"1.001kB", 1001},
        {"0.000000000000000001EB", 1},
        {"18446744073709551615", UINT64_MAX},
        {"15.99609375E", UINT64_MAX - (UINT64_C(1) << 52) + 1},
    };
    static const struct {
        const char *text, *why;
    } bad[] = {
        {"", "not a size"},
        {"k", "not a size"},
        {"1kk", "not a size"},
        {"1 k", "not a size"},
        {"1ki", "not a size"},
        {"1KIB", "not a size"},
        {"-1", "not a size"},
        {"1.", "not a size"},
        {".5k", "not a size"},
        {"1e3", "not a size"},
        {"1q", "not a size"},
        {"0.5", "whole number of bytes"},
        {"0.1k", "whole number"},
        {"1.0001kB", "whole number"},
        {"16E", "too large"},
        {"15.9999999999999999999E", "whole number"},
        {"18446744073709551616", "not a size"},
        {"18014398509481984k", "too large"},
        {"1.0000000000000000001EB", "whole number"},
    };
    tool_value_begin("--size");
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        ok(tool_size(good[i].text, 0, UINT64_MAX) == good[i].size, "size %s", good[i].text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(refused(read_size, bad[i].text, bad[i].why), "no size: '%s'", bad[i].text);
}

static void parse_grouped(const void *argv)
{
    int numbers[2];
    char **words = (char **)(uintptr_t)argv;
    parses_by(&grouped, words, numbers, "");
}

static void choose_type(const void *value)
{
    static const char *const names[] = {"q4_k", "q8_0", "bf16"};
    tool_choice(value, names, 3);
}

/* Refusals name the option as it was typed, and what it may have been meant to be. */
static void test_refusals(void)
{
#define REFUSED(want, ...) ok(refused(parse_grouped, WORDS(__VA_ARGS__), want), "%s", want)
    REFUSED(": --number: not a whole number: x (", W("--number"), W("x"));
    REFUSED(": --number: 100 is not in 0..99 (", W("--number=100"));
    REFUSED(": -n: not a whole number: x (", W("-n"), W("x"));
    REFUSED(": -n: not a whole number: 7x (", W("-fn7x"));
    REFUSED(": unknown option -ngl; -n: not a whole number: gl (", W("-ngl"), W("1"));
    REFUSED(": unknown option -x (", W("-x"));
    REFUSED(": unknown option -xy (", W("-xy"));
    REFUSED(": unknown option -x in -fxy (", W("-fxy"));
    REFUSED(": unknown option --vaule: did you mean --value? (", W("--vaule=1"));
    REFUSED(": unknown option --numbers: did you mean --number? (", W("--numbers"));
    REFUSED(": unknown option --long: did you mean --long-only? (", W("--long"));
    REFUSED(": unknown option --flagged: did you mean --flag? (", W("--flagged"));
    REFUSED(": unknown option --n: did you mean -n? (", W("--n"));
    REFUSED(": unknown option -flag: did you mean --flag? (", W("-flag"));
    REFUSED(": unknown option -u in -quite: did you mean --quiet? (", W("-quite"));
    REFUSED(": unknown option --wholly-other (", W("--wholly-other"));
    tool_value_begin("--type");
    ok(refused(choose_type, "q4_kk",
               "--type: takes q4_k, q8_0 or bf16, not q4_kk: did you mean "
               "q4_k? ("),
       "a mistyped choice");
    ok(refused(choose_type, "x", "--type: takes q4_k, q8_0 or bf16, not x ("), "no near choice");
}

/* The hint for WORD among COUNT names. */
static bool nearest_is(const char *word, const char *const *names, size_t count, const char *want)
{
    struct tool_nearest s;
    tool_nearest_begin(&s, hk_bytes_of(word));
    for (size_t i = 0; i < count; i++)
        tool_nearest_try(&s, hk_bytes_of(names[i]));
    const char *hint = tool_nearest_hint(&s, "");
    if (strcmp(hint, want) != 0)
        printf("# %s: %s\n", word, hint);
    return strcmp(hint, want) == 0;
}

static void test_nearest(void)
{
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *const names[] = {"threads", "repeat-last",       "repeat-penalty", "temp", "to",
                                 "a",       "token_embd.weight", "general.name",   longest};
    static const struct {
        const char *word, *want;
    } rows[] = {
        {"thread", "threads"},
        {"htreads", "threads"},
        {"THREADS", "threads"},
        {"thraeds", "threads"},
        {"thr", "threads"},
        {"th", "to"},
        {"repeat", ""},
        {"repeat-l", "repeat-last"},
        {"repaet-lst", "repeat-last"},
        {"temperature", "temp"},
        {"tmep", "temp"},
        {"tmpe", ""},
        {"ot", "to"},
        {"b", ""},
        {"", ""},
        {"token-embd-weight", "token_embd.weight"},
        {"name", "general.name"},
        {"penalty", "repeat-penalty"},
        {"general.name.de", "general.name"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char want[64];
        snprintf(want, sizeof want, rows[i].want[0] != '\0' ? ": did you mean %s?" : "%s",
                 rows[i].want);
        ok(nearest_is(rows[i].word, names, sizeof names / sizeof *names, want), "%s: %s",
           rows[i].word, rows[i].want);
    }
    ok(nearest_is(longest, names, sizeof names / sizeof *names, ""), "no hint of a long name");
}

/* ---- tables, statuses ---- */

static void print_sample(FILE *file, const void *arg)
{
    (void)arg;
    struct tool_table t = {.columns = 3, .right = "lrl"};
    tool_cell(&t, "a");
    tool_cell(&t, "%d", 1);
    tool_cell(&t, "%s", "");
    tool_cell_bytes(&t, bytes("\xc3\xa9\n", 3), 0);
    tool_cell(&t, "%d", 100);
    tool_cell_bytes(&t, bytes("abcdef", 6), 3);
    tool_table_print(&t, file);
}

static void test_tables(void)
{
    ok(gives(print_sample, NULL, "a        1\n\xc3\xa9\\x0a  100  abc...\n"),
       "columns are aligned, cells escaped and cut, no blanks at the end");
    static const struct {
        uint64_t n;
        const char *text;
    } sizes[] = {{0, "0 B"},        {1023, "1023 B"},     {1024, "1.0 KiB"},
                 {1536, "1.5 KiB"}, {1048576, "1.0 MiB"}, {UINT64_MAX, "16.0 EiB"}};
    char text[24];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        ok(strcmp(tool_human_size(sizes[i].n, text), sizes[i].text) == 0, "%s", sizes[i].text);
}

static void test_statuses(void)
{
    static const struct {
        enum hk_status status;
        int sys, exit;
    } rows[] = {{HK_E_IO, ENOENT, 2},     {HK_E_IO, EPIPE, 0},  {HK_E_NOMEM, 0, 2},
                {HK_E_USE, 0, 2},         {HK_E_FORMAT, 0, 1},  {HK_E_RANGE, 0, 1},
                {HK_E_UNSUPPORTED, 0, 1}, {HK_E_MISSING, 0, 1}, {HK_E_CHECKSUM, 0, 1}};
    FILE *null = freopen("/dev/null", "w", stderr);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && null != NULL; i++) {
        struct hk_error err = {
            .status = rows[i].status, .sys = rows[i].sys, .offset = HK_NO_OFFSET};
        ok(tool_error("x", &err) == rows[i].exit, "exit status of %s",
           hk_status_name(rows[i].status));
    }
    ok(tool_worse(1, 2) == 2 && tool_worse(2, 0) == 2 && tool_worse(0, 1) == 1, "the worse status");
}

int main(void)
{
    test_utf8();
    test_escape();
    test_floats();
    test_json_values();
    test_json_pieces();
    test_json_order();
    test_options();
    test_numbers();
    test_sizes();
    test_refusals();
    test_nearest();
    test_tables();
    test_statuses();
    return tap_done();
}
