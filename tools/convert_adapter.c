/* convert_adapter.c: hk-convert --base: a low-rank adapter in another form. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libhkfmt/hkmodel.h"
#include "tools/convert.h"

/* The adapter at J->in as a payload in memory. */
static enum hk_status read_adapter_payload(struct hk_file **out, const struct convert_job *j,
                                           const struct hk_file *base, struct hk_error *err)
{
    struct hk_out *o = NULL;
    struct tool_input in;
    struct hk_adapter_found found = {0};
    enum hk_status st = tool_input(&in, j->in, TOOL_NEED_MODEL, err);
    if (st == HK_OK)
        st = hk_out_memory(&o, err);
    if (st == HK_OK)
        st = hk_adapter_payload(in.path, base, o, &found, err);
    if (st == HK_OK && found.known && found.note[0] != '\0')
        tool_note(j->in, "%s", found.note);
    if (st == HK_OK && !found.known)
        st = hk_fail(err, HK_E_UNSUPPORTED, HK_NO_OFFSET,
                     "not an adapter, which --base needs: a PEFT directory, a safetensors file "
                     "with its adapter_config, or a GGUF adapter");
    if (st == HK_OK)
        st = hk_out_open(&o, out, err);
    hk_out_discard(&o);
    return st;
}

static int save_peft_directory(const struct convert_job *j, struct hk_file *payload,
                               const struct hk_file *base)
{
    struct hk_convert_options options = j->options;
    struct hk_error err;
    options.replace = j->force;
    options.stop = tool_catch_stop();
    const enum hk_status st = hk_adapter_save(payload, base, j->out, &options, &err);
    tool_die_if_stopped();
    return st == HK_OK ? TOOL_OK : convert_failed(j, &err);
}

static int write_adapter_file(const struct convert_job *j, struct hk_file *payload,
                              const struct hk_file *base)
{
    struct hk_out *out;
    struct hk_error err;
    if (tool_create(&out, j->out, j->base, j->force, &err) != HK_OK)
        return tool_error(tool_output_name(j->out), &err);
    if (hk_adapter_convert(payload, base, j->to, &j->options, out, &err) != HK_OK) {
        hk_out_discard(&out);
        return convert_failed(j, &err);
    }
    return hk_out_commit(&out, &err) == HK_OK ? TOOL_OK : convert_failed(j, &err);
}

static int convert_adapter_for(const struct convert_job *j, const struct hk_file *base)
{
    struct hk_file *payload;
    struct hk_error err;
    if (read_adapter_payload(&payload, j, base, &err) != HK_OK)
        return tool_error(j->in, &err);
    const int status = j->to == HK_FORMAT_HF ? save_peft_directory(j, payload, base)
                                             : write_adapter_file(j, payload, base);
    hk_close(&payload);
    return status;
}

int convert_adapter(const struct convert_job *j)
{
    struct hk_file *base;
    struct hk_error err;
    if (!tool_is_standard(j->out) && tool_check_output(j->out, j->in, &err) != HK_OK)
        return tool_error(j->out, &err);
    if (tool_open(&base, j->base, &err) != HK_OK)
        return tool_error(j->base, &err);
    const int status = convert_adapter_for(j, base);
    hk_close(&base);
    return status;
}

bool convert_is_adapter(const struct convert_job *j, const struct hk_file *f)
{
    char *config;
    struct stat st;
    if (hk_is_adapter(f))
        return true;
    if (hk_file_format(f) != HK_FORMAT_SAFETENSORS || stat(j->in, &st) != 0 || !S_ISDIR(st.st_mode))
        return false;
    if (asprintf(&config, "%s/adapter_config.json", j->in) < 0)
        tool_nomem();
    const bool found = stat(config, &st) == 0;
    free(config);
    return found;
}
