/* dequant.h: the pieces of hk-dequant. */
#ifndef TOOL_DEQUANT_H
#define TOOL_DEQUANT_H

#include "tools/lib/tool.h"

enum dequant_form { DEQUANT_RAW, DEQUANT_NPY, DEQUANT_JSON, DEQUANT_TEXT };

/* Rows of a tensor to be written; ROWS x COLS from FIRST on. */
struct dequant_piece {
    const struct hk_tensor *tensor;
    const struct hk_decoder *decoder;
    uint64_t first, rows, cols;
    bool whole;  /* all of it: the tensor's own shape, else [rows, cols] */
    bool pretty; /* JSON for a terminal */
    void (*progress)(void *arg, uint64_t elements);
    void *arg;
};

/* Write P in FORM to OUT, in memory of a few MiB (dequant_write.c). */
enum hk_status dequant_write(const struct dequant_piece *p, enum dequant_form form,
                             struct hk_out *out, struct hk_error *err);

#endif
