/* Sets: up to three files and an index, all of the input. The index and each file lead to the same
 * model or to a refusal, and verifying the set agrees with opening it. */
#include "tests/fuzz/fuzz.h"

enum { MAX_PARTS = 3 };

struct model { /* what one path leads to */
    bool opened, known;
    size_t parts, tensors, keys;
    uint8_t base[HK_SHA256_SIZE];
};

static void note(void *arg, const struct hk_fault *fault)
{
    bool *prevents = arg;
    *prevents |= fault->status != HK_OK;
    fuzz_require(strlen(fault->text) > 0 && strchr(fault->text, '\n') == NULL,
                 "a fault is told in one line");
}

static void use(struct hk_file *f, struct model *m)
{
    m->opened = true;
    m->parts = hk_file_parts(f);
    m->tensors = hk_tensor_count(f);
    m->keys = hk_kv_count(f);
    m->known = hk_base_digest(f, m->base, NULL) == HK_OK;
    fuzz_read(f);
    for (enum hk_format to = HK_FORMAT_HK; to <= HK_FORMAT_SAFETENSORS; to++) {
        int fd = fuzz_convert(f, to);
        if (fd >= 0)
            close(fd);
    }
}

static struct model model_at(const char *name)
{
    struct model m = {0};
    struct hk_file *f;
    struct hk_error err;
    struct hk_verify_report report;
    bool prevents = false;
    const struct fuzz_path path = fuzz_path(name);
    if (fuzz_may(hk_open_set(&f, path.text, &err), &err)) {
        use(f, &m);
        hk_close(&f);
    }
    enum hk_status st =
        hk_verify_set(path.text, HK_VERIFY_PAYLOAD, NULL, note, &prevents, &report, &err);
    if (fuzz_may(st, &err))
        fuzz_require(prevents != m.opened,
                     "a set opens if and only if verifying finds nothing against it");
    return m;
}

static bool same_model(const struct model *a, const struct model *b)
{
    return a->parts == b->parts && a->tensors == b->tensors && a->keys == b->keys &&
           a->known == b->known && (!a->known || memcmp(a->base, b->base, sizeof a->base) == 0);
}

void fuzz_one(struct hk_bytes input)
{
    char name[MAX_PARTS + 1][40];
    struct hk_bytes index = fuzz_part(&input), part[MAX_PARTS];
    int count = 0;
    while (count < MAX_PARTS && input.n > 0)
        part[count++] = fuzz_part(&input);
    const char *suffix = count > 0 && part[0].n > 4 && memcmp(part[0].p, "GGUF", 4) == 0 ? "gguf"
                         : count > 0 && part[0].n > 8 && part[0].p[8] == '{' ? "safetensors"
                                                                             : "hk";
    for (int i = 0; i < count; i++) {
        snprintf(name[i], sizeof name[i], "m-%05d-of-%05d.%s", i + 1, count, suffix);
        fuzz_put(name[i], part[i]);
    }
    snprintf(name[count], sizeof name[count], "m.%s.index.json", suffix);
    if (index.n > 0)
        fuzz_put(name[count], index);
    struct model first = {0};
    for (int i = 0; i < count + (index.n > 0); i++) {
        struct model m = model_at(name[i]);
        if (m.opened && m.parts > 1 && first.opened)
            fuzz_require(same_model(&m, &first), "every file of a set leads to the same model");
        else if (m.opened && m.parts > 1)
            first = m;
    }
    model_at("");
}
