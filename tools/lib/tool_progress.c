/* tool_progress.c: how far work is, on standard error where that is a terminal. */
#include <time.h>
#include <unistd.h>

#include "tools/lib/tool.h"

static double begun = -1, drawn; /* seconds; no work is shown where BEGUN is below 0 */

double tool_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void draw_bar(const char *label, uint64_t done, uint64_t all)
{
    enum { WIDTH = 40 };
    char line[256], size[24];
    int n;
    if (all == 0) {
        n = snprintf(line, sizeof line, "\r\033[K%.128s %s", label, tool_human_size(done, size));
    } else {
        const double part = (double)done / (double)all;
        const int filled = (int)(part * WIDTH);
        n = snprintf(line, sizeof line, "\r\033[K%.128s [%.*s%*s] %3d%%", label, filled,
                     "########################################", WIDTH - filled, "",
                     (int)(part * 100));
    }
    tool_mark_bar();
    (void)tool_write(STDERR_FILENO, line, (size_t)n);
}

void tool_progress_end(void)
{
    tool_clear_bar();
    begun = -1;
}

/* Short work shows nothing. */
void tool_progress(const char *label, uint64_t done, uint64_t all)
{
    static const double patience = 0.25, interval = 0.1;
    if (tool_quiet() || !isatty(STDERR_FILENO))
        return;
    if (all > 0 && done >= all) {
        tool_progress_end();
        return;
    }
    const double now = tool_seconds();
    if (begun < 0) {
        begun = now;
        drawn = now + patience - interval;
    }
    if (now - drawn < interval)
        return;
    drawn = now;
    draw_bar(label, done, all);
}

void tool_progress_hashing(void *arg, uint64_t done, uint64_t all)
{
    (void)arg;
    tool_progress("hashing", done, all);
}
