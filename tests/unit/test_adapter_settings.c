/* Settings of adapters that come from anywhere: patterns that cost too much, values of another
 * type, a file that is no JSON. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "libhkfmt/adapter.h"
#include "tests/unit/tap.h"

#define Q "model.layers.1.self_attn.q_proj"

static const struct {
    const char *what, *patterns;
    enum hk_status status;
    unsigned rank;
} rows[] = {
    {"a name", "{\"rank_pattern\": {\"q_proj\": 4}}", HK_OK, 4},
    {"another name", "{\"rank_pattern\": {\"k_proj\": 4}}", HK_OK, 8},
    {"a pattern", "{\"rank_pattern\": {\"layers.(1|2).*(q|k)_proj\": 4}}", HK_OK, 4},
    {"a pattern with a plus", "{\"rank_pattern\": {\".+q_proj\": 4}}", HK_OK, 4},
    {"an escape", "{\"rank_pattern\": {\"\\\\d\": 4}}", HK_E_UNSUPPORTED, 0},
    {"pluses that double", "{\"rank_pattern\": {\"a++++++++++++++++++++++++++++++++\": 4}}",
     HK_E_UNSUPPORTED, 0},
    {"no pattern", "{\"rank_pattern\": {\"(\": 4}}", HK_E_FORMAT, 0},
    {"a rank that is none", "{\"rank_pattern\": {\"q_proj\": \"4\"}}", HK_E_RANGE, 0},
    {"an alpha that is none", "{\"alpha_pattern\": {\"q_proj\": \"4\"}}", HK_E_RANGE, 0},
};

static void test_rows(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct hk_adapter_config c = {
            .json = json_loads(rows[i].patterns, 0, NULL), .alpha = 8, .rank = 8};
        struct hk_error err = {0};
        uint32_t rank = 0;
        double scale = 0;
        enum hk_status status = hk_adapter_module(&c, Q, &rank, &scale, &err);
        ok(status == rows[i].status && rank == rows[i].rank, "%s: %s, rank %u", rows[i].what,
           hk_status_name(status), rank);
        hk_adapter_config_free(&c);
    }
}

/* A group in a group in a group. */
static void test_deep(void)
{
    enum { DEPTH = 200000 };
    char *key = malloc(2 * DEPTH + 2);
    struct hk_error err = {0};
    uint32_t rank;
    double scale;
    if (key == NULL)
        abort();
    memset(key, '(', DEPTH);
    memset(key + DEPTH, ')', DEPTH + 1);
    key[DEPTH] = 'a';
    key[2 * DEPTH + 1] = '\0';
    struct hk_adapter_config c = {.json = json_pack("{s:{s:i}}", "rank_pattern", key, 4)};
    ok(hk_adapter_module(&c, Q, &rank, &scale, &err) == HK_E_UNSUPPORTED, "groups in groups: %s",
       err.text);
    hk_adapter_config_free(&c);
    free(key);
}

static void test_no_json(void)
{
    char directory[] = "/tmp/hk-test-adapter-XXXXXX", path[64];
    struct hk_error err = {0};
    struct hk_out *out;
    bool known = false;
    int memory = memfd_create("out", MFD_CLOEXEC);
    if (mkdtemp(directory) == NULL || hk_out_fd(&out, memory, &err) != HK_OK)
        abort();
    snprintf(path, sizeof path, "%s/adapter_config.json", directory);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    ok(write(fd, "{broken", 7) == 7, "a config");
    close(fd);
    ok(hk_adapter_payload(directory, NULL, out, &known, &err) == HK_E_FORMAT && !known,
       "that is no JSON: %s", err.text);
    hk_out_discard(&out);
    close(memory);
    unlink(path);
    rmdir(directory);
}

int main(void)
{
    test_rows();
    test_deep();
    test_no_json();
    return tap_done();
}
