/* hk: "hk NAME ..." executes hk-NAME, the one beside this program or else the one in PATH. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/tool.h"

static const struct {
    const char *name, *job;
} programs[] = {
    {"append", "records for the version history: adapters, differences, evaluations"},
    {"bench", "speed of prompts and of generating, memory"},
    {"convert", "GGUF, .hk, safetensors, model directories to each other; shards"},
    {"dequant", "one tensor, or all, as f32: raw, .npy, JSON or text"},
    {"detokenize", "text of token ids"},
    {"diff", "what differs between two models"},
    {"hardware-profile", "processor, kernels and cores in use, memory"},
    {"hash", "SHA-256 of files, base and tensors; checks lists of them"},
    {"inspect", "header, metadata, tensors and appendix as JSON"},
    {"log", "the version history, and what its records carry"},
    {"merge", "adapters and differences folded into the tensors of a new file"},
    {"meta", "metadata: list, get, set, delete, import, export"},
    {"perplexity", "perplexity of text or ids, and the logits"},
    {"rollback", "the version history cut back, torn appends repaired"},
    {"run", "generate text"},
    {"sign", "an Ed25519 signature of base, metadata and history"},
    {"tokenize", "token ids of a text"},
    {"verify", "every rule of the format, each fault with its offset; signatures"},
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static void list_programs(void)
{
    struct tool_table t = {.columns = 2, .right = "ll"};
    for (size_t i = 0; i < PROGRAMS; i++) {
        tool_cell(&t, "  hk %s", programs[i].name);
        tool_cell(&t, "%s", programs[i].job);
    }
    puts("");
    tool_table_print(&t, stdout);
    puts(
        "\n\"hk PROGRAM --help\" lists a program's options, \"hk help PROGRAM\" opens its manual.");
}

static const struct tool tool = {
    .name = "hk",
    .operands = "PROGRAM [ARGUMENT]... | help [PROGRAM]",
    .about = "Run one of the hk programs.",
    .operand_ends_options = true,
    .more_help = list_programs,
};

/* "run" or "hk-run"; exits 2 where there is no such program. */
static const char *known_program(const char *word)
{
    const char *name = strncmp(word, "hk-", 3) == 0 ? word + 3 : word;
    struct tool_nearest s;
    tool_nearest_begin(&s, hk_bytes_of(name));
    for (size_t i = 0; i < PROGRAMS; i++) {
        if (strcmp(name, programs[i].name) == 0)
            return programs[i].name;
        tool_nearest_try(&s, hk_bytes_of(programs[i].name));
    }
    const char *hint = tool_nearest_hint(&s, "");
    tool_warn(NULL, "no program hk-%s%s", name, *hint != '\0' ? hint : "; \"hk help\" lists them");
    exit(TOOL_TROUBLE);
}

/* What tool_begin() arranged for this program is not for the next one. */
static void restore_default_signals(void)
{
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
}

/* Path of NAME beside this program; NULL where the own place is not known. */
static char *path_beside_self(const char *name)
{
    char self[4096], *path;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self);
    if (n <= 0 || (size_t)n >= sizeof self)
        return NULL;
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL || asprintf(&path, "%.*s/%s", (int)(slash - self), self, name) < 0)
        return NULL;
    return path;
}

_Noreturn static void run_program(const char *name, char **argv)
{
    char program[32];
    snprintf(program, sizeof program, "hk-%s", name);
    argv[0] = program;
    restore_default_signals();
    char *path = path_beside_self(program);
    if (path != NULL)
        execv(path, argv);
    execvp(program, argv);
    int reason = errno;
    free(path);
    tool_warn(NULL, "cannot run %s: %s", program, strerror(reason));
    exit(TOOL_TROUBLE);
}

/* WORDS with -q behind the first, which moves to where this program's name was. */
static char **add_quiet(char **words)
{
    static char quiet[] = "-q";
    words[-1] = words[0];
    words[0] = quiet;
    return words - 1;
}

_Noreturn static void open_manual(const char *word)
{
    char page[32] = "hk";
    if (strcmp(word, "hk") != 0)
        snprintf(page, sizeof page, "hk-%s", known_program(word));
    restore_default_signals();
    execlp("man", "man", page, (char *)NULL);
    tool_warn(NULL, "cannot run man: %s; %s --help lists the options", strerror(errno), page);
    exit(TOOL_TROUBLE);
}

static void complete_program_name(const char *word)
{
    for (size_t i = 0; i < PROGRAMS; i++)
        if (strncmp(programs[i].name, word, strlen(word)) == 0)
            printf("%s\t%s\n", programs[i].name, programs[i].job);
}

/* "--complete WORD...": the program completes what follows its name. */
static void complete_program(int argc, char **argv)
{
    static char complete[] = "--complete";
    if (argc < 4 && (argc < 3 || argv[2][0] != '-')) {
        complete_program_name(argc < 3 ? "" : argv[2]);
        exit(tool_end(TOOL_OK));
    }
    if (argc < 4 || argv[2][0] == '-')
        return;
    if (strcmp(argv[2], "help") == 0) {
        complete_program_name(argv[3]);
        exit(tool_end(TOOL_OK));
    }
    const char *name = known_program(argv[2]);
    argv[2] = complete;
    run_program(name, argv + 1);
}

int main(int argc, char **argv)
{
    struct tool_args args;
    const char *value;
    if (argc > 1 && strcmp(argv[1], "--complete") == 0)
        complete_program(argc, argv);
    tool_begin(&args, &tool, argc, argv);
    while (tool_next(&args, &value) >= 0)
        ;
    if (args.operand_count == 0)
        tool_usage("need a PROGRAM");
    char **words = args.operands;
    words[args.operand_count] = NULL;
    if (strcmp(words[0], "help") != 0) {
        const char *name = known_program(words[0]);
        run_program(name, tool_quiet() ? add_quiet(words) : words);
    }
    if (args.operand_count > 1 && words[1][0] != '-')
        open_manual(words[1]);
    return tool_help(&tool);
}
