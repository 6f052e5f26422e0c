// A C++ program built on libhkfmt: reads, checks and writes a container, and knows a model's facts.
#include "hkmodel.h"

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

static std::string text_of(hk_bytes b)
{
    return std::string(reinterpret_cast<const char *>(b.p), b.n);
}

static void count_fault(void *arg, const hk_fault *fault)
{
    if (fault->severity == HK_ERROR && fault->subject != HK_SUBJECT_FILE)
        ++*static_cast<int *>(arg);
}

static hk_status write_tensor(const char *path, hk_bytes name, const std::vector<float> &values,
                              hk_error *err)
{
    hk_writer *writer = nullptr;
    hk_out *out = nullptr;
    hk_writer_options options = {};
    options.size = sizeof options;
    options.alignment = 64;
    hk_tensor t = {};
    t.name = name;
    t.type = HK_TYPE_F32;
    t.ndim = 1;
    t.shape[0] = values.size();
    t.data_size = values.size() * sizeof(float);

    hk_status st = hk_writer_new(&writer, &options, err);
    if (st == HK_OK)
        st = hk_writer_set_string(writer, "general.name", "from C++", err);
    if (st == HK_OK)
        st = hk_writer_add(writer, &t, 0, err);
    if (st == HK_OK)
        st = hk_out_create(&out, path, HK_OUT_REPLACE, err);
    if (st == HK_OK)
        st = hk_writer_begin(writer, out, err);
    if (st == HK_OK)
        st = hk_writer_put(writer, values.data(), t.data_size, err);
    if (st == HK_OK)
        st = hk_writer_finish(writer, err);
    if (st == HK_OK)
        st = hk_out_commit(&out, err);
    hk_out_discard(&out);
    hk_writer_free(&writer);
    return st;
}

static void print_contents(const hk_file *file)
{
    std::printf("%s, %s: %zu tensors, %zu keys\n", hk_format_name(hk_file_format(file)),
                hk_type_info(hk_tensor_at(file, 0)->type)->name, hk_tensor_count(file),
                hk_kv_count(file));
    for (size_t i = 0; i < hk_kv_count(file); i++) {
        const hk_kv *kv = hk_kv_at(file, i);
        int64_t value;
        if (text_of(kv->key) == "llama.rope.dimension_count" &&
            hk_kv_int(kv, &value, nullptr) == HK_OK)
            std::printf("%s = %d\n", text_of(kv->key).c_str(), static_cast<int>(value));
    }
}

static hk_status copy_first(const hk_file *file, const char *to, hk_error *err)
{
    hk_decoder *decoder = nullptr;
    const hk_tensor *first = hk_tensor_at(file, 0);
    hk_status st = hk_decoder_new(&decoder, file, first, err);
    if (st != HK_OK)
        return st;
    std::vector<float> values(16);
    hk_decoder_read(decoder, 0, values.size(), values.data());
    hk_decoder_free(&decoder);
    std::printf("%s [%d %d]: %g\n", text_of(first->name).c_str(), static_cast<int>(first->shape[0]),
                static_cast<int>(first->shape[1]), values[0]);
    return write_tensor(to, first->name, values, err);
}

int main(int argc, char **argv)
{
    hk_error err = {};
    if (argc != 3)
        return 2;
    hk_file *file = nullptr;
    hk_status st = hk_open(&file, argv[1], &err);
    if (st == HK_OK) {
        print_contents(file);
        if (hk_file_rotation(file) != HK_ROTATION_PAIRS)
            return 1;
        st = copy_first(file, argv[2], &err);
    }
    hk_close(&file);
    hk_verify_report report = {};
    int faults = 0;
    if (st == HK_OK)
        st = hk_verify(argv[2], HK_VERIFY_PAYLOAD, count_fault, &faults, &report, &err);
    if (st != HK_OK) {
        std::fprintf(stderr, "%s: %s\n", hk_status_name(st), err.text);
        return 1;
    }
    std::printf("wrote %d tensor: %d faults\n", static_cast<int>(report.tensors), faults);
    return report.lineage == HK_CHAIN_NONE && report.base == HK_BASE_UNBOUND &&
                   report.seal == HK_SEAL_NONE
               ? 0
               : 1;
}
