/* Adapters for a small llama: payloads, what they change, merging and running. The input is
 * adapter_config.json and the header of adapter_model.safetensors, or nothing and a GGUF. */
#include "engine/engine.h"
#include "kernels/kernels.h"
#include "libhkfmt/hkmodel.h"
#include "tests/fuzz/fuzz.h"

static void append(const char *path, struct hk_bytes payload)
{
    const struct hk_new_record r = {.size = sizeof r,
                                    .type = HK_RECORD_LORA_ADAPTER,
                                    .name = {(const uint8_t *)"a", 1},
                                    .generation = 1,
                                    .flags = HK_RECORD_ACTIVE};
    struct hk_appender *a;
    struct hk_error err;
    fuzz_must(hk_append_open(&a, path, 0, NULL, &err), &err, "the base takes a record");
    fuzz_must(hk_append_record(a, &r, &err), &err, "a record begins");
    fuzz_must(hk_append_write(a, payload.p, payload.n, &err), &err, "a payload is appended");
    fuzz_must(hk_append_commit(&a, &err), &err, "a record is appended");
}

static enum hk_status write_fuzzed_merge(void *out, struct hk_file *merged, struct hk_error *err)
{
    return hk_convert(merged, HK_FORMAT_HK, NULL, out, err);
}

static void merge(struct hk_file *f)
{
    const struct hk_merge_item item = {.record = 0, .scale = 1};
    struct hk_file *merged;
    struct hk_out *out;
    struct hk_error err;
    int fd = fuzz_file((struct hk_bytes){0});
    fuzz_must(hk_out_fd(&out, fd, &err), &err, "an output");
    if (fuzz_may(hk_merge(f, &item, 1, HK_TYPE_F32, 0, write_fuzzed_merge, out, &err), &err)) {
        fuzz_must(hk_out_commit(&out, &err), &err, "a merged file is written");
        fuzz_must(hk_open_fd(&merged, fd, &err), &err, "a merged file opens");
        fuzz_require(hk_tensor_count(merged) >= hk_tensor_count(f), "merging loses no tensor");
        fuzz_read(merged);
        hk_close(&merged);
    } else {
        hk_out_discard(&out);
    }
    close(fd);
}

static void run(const struct hk_file *f, const struct hk_adapter *a)
{
    const struct hkk_table *generic;
    struct hke_model *m;
    struct hke_adapters *adapters;
    struct hke_context *c;
    struct hk_error err;
    const uint32_t id[] = {0, FUZZ_VOCAB - 1};
    fuzz_require(hkk_select("generic", &generic) == NULL, "there are generic kernels");
    fuzz_must(hke_model_new(&m, f, &err), &err, "the base is a model");
    fuzz_must(hke_adapters_new(&adapters, m, &err), &err, "an empty list of adapters");
    if (fuzz_may(hke_adapters_add(adapters, a, 0.5, &err), &err)) {
        const struct hke_context_options options = {
            .positions = 2, .batch = 2, .adapters = adapters, .kernels = generic, .threads = 1};
        fuzz_must(hke_context_new(&c, m, &options, &err), &err, "the model has a context");
        fuzz_must(hke_eval(c, id, 2, NULL, NULL, &err), &err, "the model runs");
        hke_context_free(&c);
    }
    hke_adapters_free(&adapters);
    hke_model_free(&m);
}

static void use(const char *path)
{
    struct hk_file *f;
    struct hk_adapter *a;
    struct hk_error err;
    fuzz_must(hk_open(&f, path, &err), &err, "a file with a record opens");
    if (fuzz_may(hk_adapter_open(&a, f, 0, &err), &err)) {
        run(f, a);
        hk_adapter_free(&a);
    }
    merge(f);
    hk_close(&f);
}

void fuzz_one(struct hk_bytes input)
{
    struct hk_file *f;
    struct hk_error err;
    const struct fuzz_path base = fuzz_put_llama(), adapter = fuzz_put_adapter(input);
    fuzz_must(hk_open(&f, base.text, &err), &err, "the base opens");
    int fd = fuzz_payload(adapter.text, f);
    hk_close(&f);
    if (fd < 0)
        return;
    struct hk_bytes payload = fuzz_content(fd);
    append(base.text, payload);
    free((void *)(uintptr_t)payload.p);
    close(fd);
    use(base.text);
}
