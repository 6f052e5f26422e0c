/* Faults: what each is called, how bad it is, and with what hk_open() fails over it. */
#include "libhkfmt/base/fault.h"

#include "libhkfmt/base/error.h"

static const struct {
    const char *code;
    enum hk_severity severity;
    enum hk_status status;
} fault_table[] = {
#define X(symbol, code, severity, status) [HK_FAULT_##symbol] = {code, severity, status},
    HK_FAULTS(X)
#undef X
};

void hk_report(const struct hk_reporter *r, enum hk_fault_id id, const struct hk_where *where,
               const char *fmt, ...)
{
    if (r == NULL)
        return;
    struct hk_fault fault = {
        .severity = fault_table[id].severity,
        .status = fault_table[id].status,
        .code = fault_table[id].code,
        .offset = where->offset,
        .subject = where->subject,
        .name = where->name,
        .index = where->index,
    };
    va_list ap;
    va_start(ap, fmt);
    hk_vline(fault.text, sizeof fault.text, fmt, ap);
    va_end(ap);
    r->fn(r->arg, &fault);
}

void hk_capture_fault(void *arg, const struct hk_fault *fault)
{
    struct hk_capture *capture = arg;
    if (fault->status == HK_OK || capture->status != HK_OK)
        return;
    capture->status = hk_fail(capture->err, fault->status, fault->offset, "%s", fault->text);
}
