/* A small llama, and adapters for it. */
#include "libhkfmt/hkmodel.h"
#include "tests/fuzz/fuzz.h"

enum { WIDTH = 8, HEADS = 2, FFN = 12 };

/* ---- the base ---- */

static const struct {
    const char *name;
    uint64_t rows, cols; /* cols 0: a vector */
} tensors[] = {
    {"token_embd.weight", FUZZ_VOCAB, WIDTH},
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

static struct hk_bytes make_llama(void)
{
    static const uint8_t value[2][4] = {{0, 0, 0x80, 0x3e}, {0, 0, 0, 0xbe}}; /* 0.25, -0.125 */
    struct hk_writer *w;
    struct hk_out *out;
    struct hk_error err;
    int fd = fuzz_file((struct hk_bytes){0});
    fuzz_must(hk_writer_new(&w, NULL, &err), &err, "a writer");
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

int fuzz_payload(const char *path, const struct hk_file *base)
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

struct fuzz_path fuzz_put_adapter(struct hk_bytes input)
{
    struct hk_bytes config = fuzz_part(&input), weights;
    if (config.n == 0) {
        fuzz_put("adapter.gguf", input);
        return fuzz_path("adapter.gguf");
    }
    fuzz_make_dir("adapter");
    fuzz_put("adapter/adapter_config.json", config);
    fuzz_safetensors(input, &weights);
    fuzz_put("adapter/adapter_model.safetensors", weights);
    free((void *)(uintptr_t)weights.p);
    return fuzz_path("adapter");
}

struct fuzz_path fuzz_put_llama(void)
{
    static struct hk_bytes content; /* made once */
    if (content.p == NULL)
        content = make_llama();
    fuzz_put("base.hk", content);
    return fuzz_path("base.hk");
}
