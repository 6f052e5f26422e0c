/* Model directories: what is imported is a file that opens; exported, it is a directory that is
 * imported again, and the second import and the third give the same file. The input is config.json,
 * tokenizer.json, tokenizer_config.json, chat_template.jinja, tokenizer.model and the safetensors'
 * header; an empty part is a file that is not there. */
#include "tests/fuzz/fuzz.h"

/* The directory NAME as a .hk, -1 if that is refused. */
static int import(const char *name, bool may_be_refused)
{
    struct hk_file *f;
    struct hk_error err;
    enum hk_status st = hk_open_set(&f, fuzz_path(name).text, &err);
    if (!may_be_refused)
        fuzz_must(st, &err, "a directory that was exported is imported");
    if (!fuzz_may(st, &err))
        return -1;
    fuzz_read(f);
    int fd = fuzz_convert(f, HK_FORMAT_HK);
    hk_close(&f);
    return fd;
}

/* FD as the directory NAME; false if that is refused. */
static bool export(int fd, const char *name, bool may_be_refused)
{
    const struct hk_convert_options options = {.size = sizeof options, .dense = HK_TYPE_F32};
    struct hk_file *f;
    struct hk_error err;
    fuzz_must(hk_open_fd(&f, fd, &err), &err, "what was imported opens");
    enum hk_status st = hk_save(f, fuzz_path(name).text, HK_FORMAT_HF, &options, &err);
    hk_close(&f);
    if (!may_be_refused)
        fuzz_must(st, &err, "what was exported once is exported again");
    return fuzz_may(st, &err);
}

void fuzz_one(struct hk_bytes input)
{
    static const char *const file[] = {"in/config.json", "in/tokenizer.json",
                                       "in/tokenizer_config.json", "in/chat_template.jinja",
                                       "in/tokenizer.model"};
    struct hk_bytes weights;
    fuzz_make_dir("in");
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        struct hk_bytes part = fuzz_part(&input);
        if (part.n > 0)
            fuzz_put(file[i], part);
    }
    fuzz_safetensors(input, &weights);
    fuzz_put("in/model.safetensors", weights);
    free((void *)(uintptr_t)weights.p);
    int first = import("in", true);
    if (first >= 0 && export(first, "second", true)) {
        int second = import("second", false);
        fuzz_require(second >= 0, "what was exported is converted");
        fuzz_require(export(second, "third", false), "and exported again");
        int third = import("third", false);
        fuzz_require(third >= 0 && fuzz_same_content(second, third),
                     "what was imported twice stays the same");
        close(second);
        close(third);
    }
    if (first >= 0)
        close(first);
}
