/* Option structs as callers of older and newer headers give them, and the library's version. */
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/base/options.h"
#include "libhkfmt/hkfmt.h"
#include "tests/lib/tap.h"

/* The writer's options as they were when only the alignment was known, and as they may become. */
struct older {
    size_t size;
    uint32_t alignment, beyond; /* BEYOND is not counted by SIZE */
};
struct newer {
    struct hk_writer_options known;
    uint64_t later;
};

static enum hk_status make_writer(const void *options, uint64_t *size, struct hk_error *err)
{
    struct hk_writer *w;
    struct hk_out *out;
    enum hk_status st = hk_writer_new(&w, options, err);
    if (st != HK_OK)
        return st;
    FILE *none = tmpfile();
    if (none == NULL || hk_out_fd(&out, fileno(none), err) != HK_OK)
        exit(1);
    st = hk_writer_begin(w, out, err);
    *size = hk_writer_size(w);
    hk_out_discard(&out);
    fclose(none);
    hk_writer_free(&w);
    return st;
}

static void test_sizes(void)
{
    struct hk_error err;
    uint64_t size = 0, plain = 0;
    const struct hk_writer_options zero = {.size = sizeof zero};
    ok(make_writer(NULL, &plain, &err) == HK_OK, "no options are all defaults");
    ok(make_writer(&zero, &size, &err) == HK_OK && size == plain, "as are zeros");

    const struct older older = {
        .size = offsetof(struct older, beyond), .alignment = 4096, .beyond = ~0U};
    ok(make_writer(&older, &size, &err) == HK_OK, "an older program's options are taken");
    ok(size != plain, "with what they say");
    const struct older odd = {.size = sizeof(size_t), .alignment = 96};
    ok(make_writer(&odd, &size, &err) == HK_OK && size == plain, "and not what they do not count");

    struct newer newer = {.known = {.size = sizeof newer, .alignment = 4096}};
    ok(make_writer(&newer, &size, &err) == HK_OK && size != plain,
       "a newer program's are taken while they say nothing new");
    newer.later = 1;
    ok(make_writer(&newer, &size, &err) == HK_E_USE && strstr(err.text, "later version") != NULL,
       "and refused otherwise");

    struct hk_writer_options none = {.size = 0};
    ok(make_writer(&none, &size, &err) == HK_E_USE && strstr(err.text, "size") != NULL,
       "options without their size are refused");
    none.size = sizeof none.size - 1;
    ok(make_writer(&none, &size, &err) == HK_E_USE, "as are those of less than that");
    none.size = SIZE_MAX;
    ok(make_writer(&none, &size, &err) == HK_E_USE, "or of a size that nothing has");
}

/* Every call that takes options looks at their size first. */
static void test_every_call(void)
{
    struct hk_error err;
    struct hk_convert_options convert = {.size = 0};
    struct hk_wait wait = {.size = 0};
    struct hk_edit *edit;
    struct hk_appender *appender;
    struct hk_rollback_report report;
    ok(hk_edit_begin(&edit, "/nowhere", &wait, &err) == HK_E_USE, "hk_edit_begin()");
    ok(hk_append_open(&appender, "/nowhere", 0, &wait, &err) == HK_E_USE, "hk_append_open()");
    ok(hk_rollback("/nowhere", 0, 0, &wait, &report, &err) == HK_E_USE, "hk_rollback()");

    struct hk_writer *w;
    struct hk_out *out;
    struct hk_file *f;
    FILE *file = tmpfile();
    if (file == NULL || hk_out_fd(&out, fileno(file), &err) != HK_OK ||
        hk_writer_new(&w, NULL, &err) != HK_OK || hk_writer_begin(w, out, &err) != HK_OK ||
        hk_writer_finish(w, &err) != HK_OK || hk_out_commit(&out, &err) != HK_OK ||
        hk_open_fd(&f, fileno(file), &err) != HK_OK || hk_out_fd(&out, fileno(file), &err) != HK_OK)
        exit(1);
    ok(hk_convert(f, HK_FORMAT_HK, &convert, out, &err) == HK_E_USE, "hk_convert()");
    ok(hk_save(f, "/nowhere/x.hk", HK_FORMAT_HK, &convert, &err) == HK_E_USE, "hk_save()");
    ok(hk_hash(f, &(struct hk_hashes){.size = 0}, &err) == HK_E_USE, "hk_hash()");
    struct hk_digests digests;
    ok(hk_file_digests(f, &(struct hk_work){.size = 0}, &digests, &err) == HK_E_USE,
       "hk_file_digests()");
    hk_out_discard(&out);
    hk_close(&f);
    hk_writer_free(&w);
    fclose(file);
}

static void test_version(void)
{
    char numbers[32];
    snprintf(numbers, sizeof numbers, "%d.%d.%d", HK_VERSION_MAJOR, HK_VERSION_MINOR,
             HK_VERSION_PATCH);
    ok(strcmp(hk_version(), HK_VERSION) == 0, "the library has the header's version");
    ok(strcmp(numbers, HK_VERSION) == 0, "whose numbers are those of its text");
}

int main(void)
{
    test_sizes();
    test_every_call();
    test_version();
    return tap_done();
}
