/* convert.h: what the pieces of hk-convert share. */
#ifndef TOOL_CONVERT_H
#define TOOL_CONVERT_H

#include "tools/lib/tool.h"

struct convert_job {
    const char *in, *out;
    const char *base; /* of the adapter that IN is; NULL: IN is a model */
    enum hk_format to;
    bool to_given, peft, force, raw;
    struct hk_convert_options options;
};

/* Open J->in. *OUT is a stream where that will do (convert_model.c). */
enum hk_status convert_open(struct hk_file **out, const struct convert_job *j,
                            struct hk_error *err);
/* Say where a whole model would be found if F, opened, is only its tensors. */
void convert_hint(const struct convert_job *j, const struct hk_file *f);

/* Write F as J says; returns the exit status (convert_model.c). */
int convert_write(const struct convert_job *j, struct hk_file *f);
/* Report ERR of a conversion about the input or the output; returns the exit status. */
int convert_failed(const struct convert_job *j, const struct hk_error *err);

/* The same of an adapter for the model J->base (convert_adapter.c). */
int convert_adapter(const struct convert_job *j);
/* Whether F, opened from J->in, is an adapter, which needs a base. */
bool convert_is_adapter(const struct convert_job *j, const struct hk_file *f);

#endif
