/* Every check of the .hk parser has a row here: one field of a valid file changed, the fault that
 * hk_verify() must report, where, and what hk_open() must return. */
#include "tests/lib/sample.h"

enum place { HEADER, PAIR, PAIR_TYPE, TENSOR, CODES, SECTIONS, RECORD };

struct row {
    const char *what;
    enum place place;
    size_t index;
    uint64_t delta; /* from the place */
    unsigned width; /* bytes changed */
    uint64_t value;
    const char *code;
    enum hk_status open;
    int64_t
        fault; /* offset of the fault from the changed field; ANYWHERE where that is not fixed */
};

enum { ANYWHERE = INT32_MAX };

static const uint64_t huge = UINT64_MAX - 15;

/* clang-format off */
static const struct row rows[] = {
    {"magic",                  HEADER, 0, 0x00, 1, 'X',       "magic",             HK_E_FORMAT, 0},
    {"version major",          HEADER, 0, 0x04, 2, 2,         "version",           HK_E_UNSUPPORTED, 0},
    {"version minor",          HEADER, 0, 0x06, 2, 1,         "version-minor",     HK_OK, 0},
    {"flag without meaning",   HEADER, 0, 0x08, 4, 0x80000013, "flags",            HK_OK, 0},
    {"appendix flag",          HEADER, 0, 0x08, 4, 0x11,      "flags",             HK_OK, 0},
    {"page flag",              HEADER, 0, 0x08, 4, 0x113,     "flags",             HK_OK, 0},
    {"alignment 96",           HEADER, 0, 0x0c, 2, 96,        "alignment",         HK_OK, 0},
    {"alignment 0",            HEADER, 0, 0x0c, 2, 0,         "alignment",         HK_OK, 0},
    {"alignment 4096",         HEADER, 0, 0x0c, 2, 4096,      "section-alignment", HK_OK, ANYWHERE},
    {"split index",            HEADER, 0, 0x0e, 2, 1,         "split",             HK_E_FORMAT, 0},
    {"split count 0",          HEADER, 0, 0x58, 2, 0,         "split",             HK_E_FORMAT, 0x0e - 0x58},
    {"one tensor more",        HEADER, 0, 0x10, 8, 7,         "toc-count",         HK_E_RANGE, ANYWHERE},
    {"one tensor less",        HEADER, 0, 0x10, 8, 5,         "toc-trailing",      HK_E_FORMAT, ANYWHERE},
    {"2^64 tensors",           HEADER, 0, 0x10, 8, huge,      "toc-count",         HK_E_RANGE, 0},
    {"one pair more",          HEADER, 0, 0x18, 8, 7,         "metadata-count",    HK_E_RANGE, ANYWHERE},
    {"one pair less",          HEADER, 0, 0x18, 8, 5,         "metadata-trailing", HK_E_FORMAT, ANYWHERE},
    {"2^64 pairs",             HEADER, 0, 0x18, 8, huge,      "metadata-count",    HK_E_RANGE, 0},
    {"metadata offset",        HEADER, 0, 0x20, 8, huge,      "metadata-range",    HK_E_RANGE, 0},
    {"metadata in header",     HEADER, 0, 0x20, 8, 64,        "metadata-range",    HK_E_RANGE, 0},
    {"metadata size",          HEADER, 0, 0x28, 8, huge,      "metadata-range",    HK_E_RANGE, -8},
    {"table offset",           HEADER, 0, 0x30, 8, huge,      "toc-range",         HK_E_RANGE, 0},
    {"table over metadata",    HEADER, 0, 0x30, 8, 128,       "section-overlap",   HK_E_RANGE, ANYWHERE},
    {"table size",             HEADER, 0, 0x38, 8, huge,      "toc-range",         HK_E_RANGE, -8},
    {"data offset",            HEADER, 0, 0x40, 8, huge,      "data-range",        HK_E_RANGE, 0},
    {"data offset past data",  HEADER, 0, 0x40, 8, 1024,      "section-range",     HK_E_RANGE, ANYWHERE},
    {"appendix offset odd",    HEADER, 0, 0x48, 8, 1025,      "appendix-offset",   HK_E_FORMAT, 0},
    {"appendix over a tensor", HEADER, 0, 0x48, 8, 776,       "section-overlap",   HK_E_FORMAT, ANYWHERE},
    {"appendix forgotten",     HEADER, 0, 0x48, 8, 0,         "trailing-bytes",    HK_OK, ANYWHERE},
    {"checksum",               HEADER, 0, 0x50, 8, 1,         "checksum-field",    HK_OK, 0},
    {"reserved",               HEADER, 0, 0x7f, 1, 1,         "reserved",          HK_OK, 0},
    {"seal",                   HEADER, 0, 0x08, 4, 0x213,     "seal",              HK_OK, 0x50 - 0x08},

    {"key length to the end",  PAIR, 0, 0, 2, 0xffff,         "metadata-count",    HK_E_RANGE, 0},
    {"value length",           PAIR_TYPE, 0, 1, 4, 0xffffffff, "metadata-count",   HK_E_RANGE, ANYWHERE},
    {"value type",             PAIR_TYPE, 0, 0, 1, 7,         "value-type",        HK_E_UNSUPPORTED, 0},
    {"string as int64",        PAIR_TYPE, 0, 0, 1, 2,         "value-size",        HK_E_FORMAT, 0},
    {"int64 as bool",          PAIR_TYPE, 1, 0, 1, 4,         "value-size",        HK_E_FORMAT, 0},
    {"bool 2",                 PAIR_TYPE, 3, 5, 1, 2,         "value-bool",        HK_OK, 0},
    {"string not UTF-8",       PAIR_TYPE, 0, 5, 1, 0xff,      "value-utf8",        HK_OK, 0},
    {"key not UTF-8",          PAIR, 0, 2, 1, 0xff,           "value-utf8",        HK_OK, ANYWHERE},
    {"json cut",               PAIR_TYPE, 4, 5, 1, '{',       "value-json",        HK_OK, 0},
    {"a key twice",            PAIR, 4, 2, 4, 0x6c616572,     "key-duplicate",     HK_E_FORMAT, ANYWHERE},

    {"name length to the end", TENSOR, 5, 0, 2, 0xffff,       "toc-count",         HK_E_RANGE, 0},
    {"storage type",           CODES, 0, 0, 1, 0x0f,          "storage-type",      HK_E_UNSUPPORTED, 0},
    {"tile layout",            CODES, 0, 1, 1, 8,             "tile-layout",       HK_E_UNSUPPORTED, 0},
    {"sparsity type",          CODES, 0, 2, 1, 6,             "sparsity-type",     HK_E_UNSUPPORTED, 0},
    {"nine dimensions",        CODES, 0, 3, 1, 9,             "ndim",              HK_E_RANGE, 0},
    {"shape overflows",        CODES, 0, 4, 8, huge,          "shape-overflow",    HK_E_RANGE, ANYWHERE},
    {"row of 65",              CODES, 1, 12, 8, 65,           "row-blocks",        HK_E_FORMAT, ANYWHERE},
    {"shape of other size",    CODES, 0, 4, 8, 4,             "data-size",         HK_E_FORMAT, ANYWHERE},
    {"f32 as f64",             CODES, 0, 0, 1, HK_TYPE_F64,   "data-size",         HK_E_FORMAT, ANYWHERE},
    {"opaque type",            CODES, 0, 0, 1, HK_TYPE_DQ6,   "undecodable",       HK_OK, ANYWHERE},
    {"null with data",         CODES, 0, 0, 1, HK_TYPE_NULL_REF, "data-size",      HK_E_FORMAT, ANYWHERE},
    {"data offset",            SECTIONS, 0, 0, 8, huge,       "section-range",     HK_E_RANGE, 0},
    {"data in the table",      SECTIONS, 0, 0, 8, 256,        "section-range",     HK_E_RANGE, 0},
    {"data off its alignment", SECTIONS, 0, 0, 8, 772,       "section-alignment", HK_OK, 0},
    {"data over the next",     SECTIONS, 0, 0, 8, 896,        "section-overlap",   HK_E_FORMAT, ANYWHERE},
    {"data size",              SECTIONS, 0, 8, 8, 64,         "data-size",         HK_E_FORMAT, ANYWHERE},
    {"data size 2^64",         SECTIONS, 0, 8, 8, huge,       "section-range",     HK_E_RANGE, -8},
    {"residual size",          SECTIONS, 2, 24, 8, 156,       "residual-size",     HK_E_FORMAT, ANYWHERE},
    {"residual offset",        SECTIONS, 2, 16, 8, huge,      "section-range",     HK_E_RANGE, 0},
    {"offset of no residual",  SECTIONS, 0, 16, 8, 768,       "section-range",     HK_E_RANGE, 0},
    {"scale size",             SECTIONS, 2, 40, 8, 4,         "scale-size",        HK_E_FORMAT, ANYWHERE},
    {"scales of an f32",       SECTIONS, 0, 40, 8, 4,         "scale-size",        HK_E_RANGE, ANYWHERE},
    {"block size 0",           SECTIONS, 2, 48, 2, 0,         "block-size",        HK_E_FORMAT, ANYWHERE},
    {"shared with nobody",     SECTIONS, 4, 0, 8, 1408,       "reference",         HK_OK, 0},

    {"record type",            RECORD, 0, 0, 1, 9,            "record-type",       HK_OK, 0},
    {"record flags",           RECORD, 0, 1, 1, 5,            "flags",             HK_OK, -1},
    {"record reserved",        RECORD, 0, 66, 2, 1,           "reserved",          HK_OK, -66},
    {"record runs over",       RECORD, 1, 72, 8, huge,        "record-torn",       HK_OK, -72},
    {"record header of zeros", RECORD, 1, 0, 80, 0,           "record-torn",       HK_OK, 0},
    {"generations fall",       RECORD, 0, 4, 4, 7,            "generation",        HK_OK, ANYWHERE},
    {"parent hash",            RECORD, 1, 16, 1, 0,           "lineage-broken",    HK_OK, 0},
    {"parent hash of zeros",   RECORD, 1, 16, 32, 0,          "lineage-zero",      HK_OK, 0},
    {"target",                 RECORD, 0, 84, 1, 'M',         "lineage-broken",    HK_OK, ANYWHERE},
    {"payload",                RECORD, 0, 90, 1, 'X',         "crc",               HK_OK, -22},
    {"crc",                    RECORD, 1, 68, 4, 1,           "crc",               HK_OK, 0},
    {"base bound to another",  RECORD, 0, 16, 1, 1,           "base-changed",      HK_OK, 0},
};
/* clang-format on */

static uint64_t position(const struct hk_file *f, const struct row *r)
{
    const struct hk_kv *kv = hk_kv_at(f, r->index);
    const struct hk_tensor *t = hk_tensor_at(f, r->index);
    switch (r->place) {
    case HEADER:
        return r->delta;
    case PAIR:
        return kv->offset - 5 - kv->key.n - 2 + r->delta;
    case PAIR_TYPE:
        return kv->offset - 5 + r->delta;
    case TENSOR:
        return t->entry_offset + r->delta;
    case CODES:
        return t->entry_offset + 2 + t->name.n + r->delta;
    case SECTIONS:
        return t->entry_offset + 2 + t->name.n + 4 + 8u * t->ndim + r->delta;
    case RECORD:
        return hk_record_at(f, r->index)->offset + r->delta;
    }
    return 0;
}

struct expectation {
    const struct row *row;
    uint64_t at;
    bool met;
    char seen[400]; /* codes and offsets, for the diagnostic */
};

static void look(void *arg, const struct hk_fault *fault)
{
    struct expectation *e = arg;
    bool place = e->row->fault == ANYWHERE || fault->offset == e->at + (uint64_t)e->row->fault;
    e->met |= strcmp(fault->code, e->row->code) == 0 && place;
    size_t used = strlen(e->seen);
    snprintf(e->seen + used, sizeof e->seen - used, " %s@%llu", fault->code,
             (unsigned long long)fault->offset);
}

/* All faults of a file, a line each. */
struct listing {
    char text[4000];
};

static void list_fault(void *arg, const struct hk_fault *fault)
{
    struct listing *l = arg;
    size_t used = strlen(l->text);
    snprintf(l->text + used, sizeof l->text - used, "%d %s@%llu %s\n", (int)fault->severity,
             fault->code, (unsigned long long)fault->offset, fault->text);
}

/* Checking a file that is open finds the same as checking it by its path. */
static void compare_open(const struct image *image, struct hk_file *f, const char *what)
{
    struct hk_verify_report by_path, by_file, in_memory;
    struct listing of_path = {""}, of_file = {""}, of_memory = {""};
    struct hk_error err = {0};
    struct hk_file *m;
    must(verify_image(image, HK_VERIFY_PAYLOAD, list_fault, &of_path, &by_path, &err), &err,
         "path");
    must(hk_verify_file(f, HK_VERIFY_PAYLOAD, NULL, list_fault, &of_file, &by_file, &err), &err,
         "file");
    must(hk_open_bytes(&m, (struct hk_bytes){image->p, image->n}, &err), &err, "memory");
    must(hk_verify_file(m, HK_VERIFY_PAYLOAD, NULL, list_fault, &of_memory, &in_memory, &err), &err,
         "verify memory");
    hk_close(&m);
    bool same =
        strcmp(of_path.text, of_file.text) == 0 && strcmp(of_path.text, of_memory.text) == 0;
    same = same && by_path.errors == by_file.errors && by_path.lineage == in_memory.lineage &&
           by_path.base == by_file.base && by_path.seal == in_memory.seal &&
           by_path.size == in_memory.size && by_path.records == by_file.records;
    if (!ok(same, "%s: hk_verify_file() finds what hk_verify() finds", what))
        printf("# path:\n# %s# file:\n# %s# memory:\n# %s", of_path.text, of_file.text,
               of_memory.text);
}

static void run_row(const struct image *valid, const struct hk_file *f, const struct row *r)
{
    struct image broken = {malloc(valid->n), valid->n};
    memcpy(broken.p, valid->p, valid->n);
    struct expectation e = {.row = r, .at = position(f, r)};
    for (unsigned i = 0; i < r->width; i++)
        broken.p[e.at + i] = i < 8 ? (uint8_t)(r->value >> 8 * i) : 0;
    struct hk_verify_report report;
    struct hk_error err = {0};
    must(verify_image(&broken, HK_VERIFY_PAYLOAD, look, &e, &report, &err), &err, "verify");
    if (!ok(e.met, "%s: hk_verify() reports %s", r->what, r->code))
        printf("# changed at %llu, reported:%s\n", (unsigned long long)e.at, e.seen);
    struct hk_file *g = NULL;
    enum hk_status status = open_image(&broken, &g, &err);
    if (!ok(status == r->open, "%s: hk_open() gives %s", r->what, hk_status_name(r->open)))
        printf("# gave %s: %s\n", hk_status_name(status), status == HK_OK ? "" : err.text);
    if (status == HK_OK)
        compare_open(&broken, g, r->what);
    hk_close(&g);
    free(broken.p);
}

static void count(void *arg, const struct hk_fault *fault)
{
    printf("# %s: %s\n", fault->code, fault->text);
    ++*(size_t *)arg;
}

int main(void)
{
    struct image valid = sample(128, 3);
    struct hk_file *f;
    struct hk_error err;
    struct hk_verify_report report;
    size_t faults = 0;
    must(open_image(&valid, &f, &err), &err, "the sample does not open");
    must(verify_image(&valid, HK_VERIFY_PAYLOAD, count, &faults, &report, &err), &err, "verify");
    ok(faults == 0, "the sample is without fault");
    compare_open(&valid, f, "the sample");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        run_row(&valid, f, &rows[i]);
    hk_close(&f);
    free(valid.p);
    return tap_done();
}
