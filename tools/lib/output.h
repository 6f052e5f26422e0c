/* output.h: what programs that print a model's text or tokens do alike. */
#ifndef HK_OUTPUT_H
#define HK_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "libhkfmt/hkfmt.h"

/* Print TEXT to standard output; if that is a terminal then without what could disturb it. */
void tool_print_text(struct hk_bytes text);
/* Print V and END to standard output. */
void tool_print_uint(uint32_t v, char end);
/* Write out what is printed, straight after printing it. A failure keeps its reason, which
 * tool_end() could not tell later. */
HK_MUST enum hk_status tool_flush(struct hk_error *err);
/* HK_E_USE where standard output is a terminal: it is no place for binary data. */
HK_MUST enum hk_status tool_no_terminal(struct hk_error *err);

#endif
