/* The text of messages: one line, safe for a terminal. */
#ifndef HK_BASE_ERROR_H
#define HK_BASE_ERROR_H

#include <stdarg.h>

#include "libhkfmt/hkfmt.h"

/* Format one line into TEXT, escaping what would disturb a terminal. */
void hk_vline(char *text, size_t size, const char *fmt, va_list ap)
    __attribute__((format(printf, 3, 0)));

#endif
