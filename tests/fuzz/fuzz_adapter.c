/* Adapters for a small llama: payloads, what they change, merging and running. The input is
 * adapter_config.json and the header of adapter_model.safetensors, or nothing and a GGUF. */
#include "engine/engine.h"
#include "kernels/kernels.h"
#include "tests/fuzz/fuzz.h"

enum { WIDTH = 8, HEADS = 2, FFN = 12, VOCAB = 4 };

/* ---- the base ---- */

static const struct {
    const char *name;
    uint64_t rows, cols; /* cols 0: a vector */
} tensors[] = {
    {"token_embd.weight", VOCAB, WIDTH},
    {"blk.0.attn_norm.weight", WIDTH, 0},
    {"blk.0.attn_q.weight", WIDTH, WIDTH},
    {"blk.0.attn_k.weight", WIDTH / HEADS, WIDTH},
    {"blk.0.attn_v.weight", WIDTH / HEADS, WIDTH},
    {"blk.0.attn_output.weight", WIDTH, WIDTH},
    {"blk.0.ffn_norm.weight", WIDTH, 0},
    {"blk.0.ffn_gate.weight", FFN, WIDTH},
    {"blk.0.ffn_up.weight", FFN, WIDTH},
    {"blk.0.ffn_down.weight", WIDTH, FFN},
    {"output_norm.weight", WIDTH, 0},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static uint64_t elements(size_t i)
{
    return tensors[i].rows * (tensors[i].cols > 0 ? tensors[i].cols : 1);
}

static void describe(struct hk_writer *w)
{
    static const struct {
        const char *name;
        int64_t value;
    } keys[] = {{"llama.block_count", 1},
                {"llama.embedding_length", WIDTH},
                {"llama.feed_forward_length", FFN},
                {"llama.attention.head_count", HEADS},
                {"llama.attention.head_count_kv", 1},
                {"llama.rope.dimension_count", WIDTH / HEADS},
                {"llama.context_length", 16}};
    static const uint8_t epsilon[8] = {0, 0, 0, 0, 0, 0, 0xf0, 0x3e}; /* 2^-16 */
    static const char epsilon_key[] = "llama.attention.layer_norm_rms_epsilon";
    struct hk_error err;
    fuzz_must(hk_writer_set_string(w, "general.architecture", "llama", &err), &err, "a key");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        fuzz_must(hk_writer_set_int(w, keys[i].name, keys[i].value, &err), &err, "a key");
    fuzz_must(hk_writer_set(w,
                            (struct hk_bytes){(const uint8_t *)epsilon_key, sizeof epsilon_key - 1},
                            HK_META_FLOAT64, (struct hk_bytes){epsilon, sizeof epsilon}, &err),
              &err, "a key");
    for (size_t i = 0; i < TENSORS; i++) {
        struct hk_tensor t = {.name = {(const uint8_t *)tensors[i].name, strlen(tensors[i].name)},
                              .type = HK_TYPE_F32,
                              .ndim = tensors[i].cols > 0 ? 2 : 1,
                              .shape = {tensors[i].rows, tensors[i].cols},
                              .data_size = 4 * elements(i)};
        fuzz_must(hk_writer_add(w, &t, 0, &err), &err, "a tensor");
    }
}

static struct hk_bytes make_base(void)
{
    static const uint8_t value[2][4] = {{0, 0, 0x80, 0x3e}, {0, 0, 0, 0xbe}}; /* 0.25, -0.125 */
    struct hk_writer *w;
    struct hk_out *out;
    struct hk_error err;
    int fd = fuzz_file((struct hk_bytes){0});
    fuzz_must(hk_writer_new(&w, &(struct hk_writer_options){0}, &err), &err, "a writer");
    describe(w);
    fuzz_must(hk_out_fd(&out, fd, &err), &err, "an output");
    fuzz_must(hk_writer_begin(w, out, &err), &err, "a head");
    for (size_t i = 0; i < TENSORS; i++)
        for (uint64_t n = 0; n < elements(i); n++)
            fuzz_must(hk_writer_put(w, value[n * 5 % 7 % 2], 4, &err), &err, "a weight");
    fuzz_must(hk_writer_finish(w, &err), &err, "a file");
    fuzz_must(hk_out_commit(&out, &err), &err, "a file is written");
    hk_writer_free(&w);
    struct hk_bytes content = fuzz_content(fd);
    close(fd);
    return content;
}

/* ---- the adapter ---- */

/* The payload for BASE of what PATH has, as an anonymous file; -1 if there is none. */
static int payload_of(const char *path, const struct hk_file *base)
{
    struct hk_out *out;
    struct hk_error err;
    struct hk_adapter_found found = {0};
    int fd = fuzz_file((struct hk_bytes){0});
    fuzz_must(hk_out_fd(&out, fd, &err), &err, "an output");
    if (fuzz_may(hk_adapter_payload(path, base, out, &found, &err), &err) && found.known) {
        fuzz_must(hk_out_commit(&out, &err), &err, "a payload is written");
        return fd;
    }
    hk_out_discard(&out);
    close(fd);
    return -1;
}

static void append(const char *path, struct hk_bytes payload)
{
    const struct hk_new_record r = {.type = HK_RECORD_LORA_ADAPTER,
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

static void merge(struct hk_file *f)
{
    const struct hk_merge_item item = {.record = 0, .scale = 1};
    struct hk_file *merged;
    struct hk_out *out;
    struct hk_error err;
    int fd = fuzz_file((struct hk_bytes){0});
    fuzz_must(hk_out_fd(&out, fd, &err), &err, "an output");
    if (fuzz_may(hk_merge(f, &item, 1, HK_TYPE_F32, &(struct hk_convert_options){0}, out, &err),
                 &err)) {
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
    struct hke_context *c;
    struct hk_error err;
    const uint32_t id[] = {0, VOCAB - 1};
    fuzz_require(hkk_select("generic", &generic) == NULL, "there are generic kernels");
    fuzz_must(hke_model_new(&m, f, &err), &err, "the base is a model");
    if (fuzz_may(hke_model_adapt(m, a, 0.5, &err), &err)) {
        const struct hke_context_options options = {
            .positions = 2, .batch = 2, .kernels = generic, .threads = 1};
        fuzz_must(hke_context_new(&c, m, &options, &err), &err, "the model has a context");
        fuzz_must(hke_eval(c, id, 2, NULL, NULL, &err), &err, "the model runs");
        hke_context_free(&c);
    }
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
    static struct hk_bytes base; /* made once */
    struct hk_bytes config = fuzz_part(&input);
    struct hk_file *f;
    struct hk_error err;
    if (base.p == NULL)
        base = make_base();
    fuzz_put("base.hk", base);
    const char *name = config.n > 0 ? "adapter" : "adapter.gguf";
    if (config.n > 0) {
        struct hk_bytes weights;
        fuzz_make_dir("adapter");
        fuzz_put("adapter/adapter_config.json", config);
        fuzz_safetensors(input, &weights);
        fuzz_put("adapter/adapter_model.safetensors", weights);
        free((void *)(uintptr_t)weights.p);
    } else {
        fuzz_put(name, input);
    }
    fuzz_must(hk_open(&f, fuzz_path("base.hk").text, &err), &err, "the base opens");
    int fd = payload_of(fuzz_path(name).text, f);
    hk_close(&f);
    if (fd < 0)
        return;
    struct hk_bytes payload = fuzz_content(fd);
    append(fuzz_path("base.hk").text, payload);
    free((void *)(uintptr_t)payload.p);
    close(fd);
    use(fuzz_path("base.hk").text);
}
