/* The options of hk-run, all of them checked before a file is opened. */
#include <stdlib.h>
#include <string.h>

#include "engine/cpu/pool.h"
#include "tools/run.h"

enum option {
    OPT_ADAPTER,
    OPT_CTX,
    OPT_EXACT,
    OPT_FREQUENCY,
    OPT_JSON,
    OPT_COUNT,
    OPT_MIN_P,
    OPT_PRESENCE,
    OPT_REPEAT_LAST,
    OPT_REPEAT,
    OPT_SEED,
    OPT_SPECIAL,
    OPT_STOP,
    OPT_TEMP,
    OPT_TOP_K,
    OPT_TOP_P,
};

static const struct tool_option options[] = {
    [OPT_ADAPTER] = ENGINE_OPTION_ADAPTER,
    [OPT_CTX] = {"ctx", 0, "N", "context size (default: what the model was trained for)"},
    [OPT_EXACT] = {"exact", 0, NULL, "take the prompt and print the text byte for byte"},
    [OPT_FREQUENCY] = {"frequency-penalty", 0, "P",
                       "subtract P from a token's logit each time it occurs"},
    [OPT_JSON] = TOOL_OPTION_JSON,
    [OPT_COUNT] = {"max-tokens", 'n', "N", "generate at most N tokens"},
    [OPT_MIN_P] = {"min-p", 0, "P", "drop tokens less likely than P times the likeliest"},
    [OPT_PRESENCE] = {"presence-penalty", 0, "P",
                      "subtract P from the logit of tokens that occurred"},
    [OPT_REPEAT_LAST] = {"repeat-last", 0, "N", "penalties look back at N tokens (default 64)"},
    [OPT_REPEAT] = {"repeat-penalty", 0, "P",
                    "divide the logit of tokens that occurred by P (default 1)"},
    [OPT_SEED] = {"seed", 0, "N", "random seed (default 0)"},
    [OPT_SPECIAL] = {"special", 0, NULL, "parse control tokens in the prompt, and print them"},
    [OPT_STOP] = {"stop", 0, "STRING", "stop before STRING; may be given several times"},
    [OPT_TEMP] = {"temp", 0, "T", "temperature; 0 (default) takes the likeliest token"},
    [OPT_TOP_K] = {"top-k", 0, "N", "sample from the N likeliest tokens"},
    [OPT_TOP_P] = {"top-p", 0, "P", "sample from the likeliest tokens with total probability P"},
};

static const struct tool tool = {
    .name = "hk-run",
    .operands = "FILE [PROMPT...]",
    .about = "Generate text that continues a prompt, or standard input.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .group = &engine_options_group,
    .statistics = true,
};

static struct hk_bytes parse_stop_string(const char *value)
{
    if (*value == '\0')
        tool_refuse_value("the string is empty");
    return hk_bytes_of(value);
}

static double parse_penalty(const char *value)
{
    return tool_double(value, -HKE_MAX_PENALTY, HKE_MAX_PENALTY);
}

/* Those that choose tokens. */
static void set_sampling_option(struct hke_sampling *s, enum option o, const char *value)
{
    switch (o) {
    case OPT_FREQUENCY:
        s->frequency_penalty = parse_penalty(value);
        break;
    case OPT_MIN_P:
        s->min_p = tool_double(value, 0, 1);
        break;
    case OPT_PRESENCE:
        s->presence_penalty = parse_penalty(value);
        break;
    case OPT_REPEAT_LAST:
        s->repeat_last = tool_uint(value, 0, HKE_MAX_REPEAT_LAST);
        break;
    case OPT_REPEAT:
        s->repeat_penalty = tool_double(value, 1.0 / HKE_MAX_PENALTY, HKE_MAX_PENALTY);
        break;
    case OPT_SEED:
        s->seed = tool_uint(value, 0, UINT64_MAX);
        break;
    case OPT_TEMP:
        s->temperature = tool_double(value, 0, HKE_MAX_TEMPERATURE);
        break;
    case OPT_TOP_K:
        s->top_k = tool_uint(value, 0, UINT32_MAX);
        break;
    case OPT_TOP_P:
        s->top_p = tool_double(value, 0, 1);
        break;
    default:
        break;
    }
}

static void set_run_option(struct run_options *o, enum option option, const char *value)
{
    switch (option) {
    case OPT_ADAPTER:
        engine_options_add_adapter(&o->engine, value);
        break;
    case OPT_CTX:
        o->engine.context.positions = tool_uint(value, 1, HKE_MAX_POSITIONS);
        break;
    case OPT_EXACT:
        o->exact = true;
        break;
    case OPT_JSON:
        o->json = true;
        break;
    case OPT_COUNT:
        o->most = tool_uint(value, 0, HKE_MAX_POSITIONS);
        break;
    case OPT_SPECIAL:
        o->special = true;
        break;
    case OPT_STOP:
        o->stop[o->stops++] = parse_stop_string(value);
        break;
    default:
        set_sampling_option(&o->sampling, option, value);
    }
}

void run_parse(struct run_options *o, int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    tool_begin_group(&args, &tool, &o->engine, argc, argv);
    *o = (struct run_options){
        .most = SIZE_MAX, .engine = {.keep = HK_KEEP_RECORDS}, .sampling = hke_sampling_neutral()};
    o->stop = calloc((size_t)argc, sizeof *o->stop);
    if (o->stop == NULL)
        tool_nomem();
    for (int option; (option = tool_next(&args, &value)) >= 0;)
        set_run_option(o, (enum option)option, value);
    if (args.operand_count == 0)
        tool_usage("need a FILE");
    o->path = args.operands[0];
    o->prompt_words = args.operands + 1;
    o->prompt_count = tool_count_words(o->prompt_words, args.operand_count - 1);
    if (tool_is_standard_input(o->path) && o->prompt_count == 0)
        tool_usage("standard input is the model: give the prompt as an argument");
    engine_options_settle(&o->engine);
}
