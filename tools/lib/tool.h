/* tool.h: what every hk program does the same way: options, messages, exit statuses, JSON, standard
 * output. No knowledge of the format beyond opening a file. */
#ifndef TOOL_TOOL_H
#define TOOL_TOOL_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "libhkfmt/hkfmt.h"

enum tool_status {
    TOOL_OK = 0,
    TOOL_CONTENT = 1, /* the content is at fault: invalid file, broken lineage, no such tensor */
    TOOL_TROUBLE = 2, /* usage, cannot open, out of memory, disk full */
};

struct tool_option {
    const char *name;     /* long name without dashes */
    char letter;          /* short form, 0 for none */
    const char *argument; /* name of its argument in the help, NULL for a flag */
    const char *help;     /* one line */
};

/* Options of one subject: a program that lists the group has them, and does nothing else for it. */
struct tool_group {
    const struct tool_option *options;
    size_t count;
    void (*set)(void *to, int option, const char *value); /* option: its number in the group */
};

struct tool {
    const char *name;                  /* "hk-inspect" */
    const char *operands;              /* "FILE..." */
    const char *about;                 /* one sentence */
    const struct tool_option *options; /* of its own, in the order of their names */
    size_t option_count;
    const struct tool_group *group; /* NULL: none; sorted likewise */
    bool statistics;                /* it has some, and so -v */
    bool operand_ends_options;      /* what follows the first operand is no option */
    void (*more_help)(void);        /* prints what --help says below the options; NULL: nothing */
};

/* Parsing state; operands are complete once tool_next() returned -1. */
struct tool_args {
    const struct tool *tool;
    void *group_values; /* for the group's set() */
    int argc;
    char **argv;
    char **operands;
    int operand_count;
    int at;              /* the next word to look at */
    const char *word;    /* of short options, */
    const char *cluster; /* and what is left of it */
};

/* Start a program: remembers its name for messages, ignores SIGPIPE and SIGXFSZ so that a closed
 * pipe and a file size limit are seen as EPIPE and EFBIG. */
void tool_begin(struct tool_args *args, const struct tool *tool, int argc, char **argv);
/* The same of a program with a group, whose options are set in VALUES. */
void tool_begin_group(struct tool_args *args, const struct tool *tool, void *values, int argc,
                      char **argv);
/* The next option's number in the table, its argument in *VALUE (NULL for a flag), or -1 after the
 * last. Options and operands may be mixed; "--" ends options. The options that all programs have
 * (-h, -q, -v, --version) are obeyed here; an unknown option exits 2. */
int tool_next(struct tool_args *args, const char **value);

size_t tool_group_count(const struct tool *t);
/* Option NUMBER of T: first come its own, then those of its group, then the common ones. NULL past
 * the last. */
const struct tool_option *tool_option_at(const struct tool *t, size_t number);
/* Print what the last of COUNT words, those of a command line behind the program's name, could
 * become, and exit: tool_complete.c has the form. tool_begin() calls it for --complete. */
_Noreturn void tool_complete(const struct tool *t, char **words, int count);

/* Usage error, which says what is missing or too much, unless the operands are these: "FILE OUT".
 */
void tool_check_operands(const struct tool_args *args, const char *names);
/* Print what -h prints; returns the exit status. */
int tool_help(const struct tool *tool);

/* ---- values: of the option that tool_next() has just returned, or what else was named. A
 * malformed one is a usage error, exit 2, that names the option as it was typed ---- */

uint64_t tool_uint(const char *value, uint64_t least, uint64_t most);
double tool_double(const char *value, double least, double most);
/* Bytes: a number, which may have a fraction, and a unit: k, K, KiB 1024, kB 1000, M, MiB, MB... */
uint64_t tool_size(const char *value, uint64_t least, uint64_t most);
/* Which of COUNT names it is. */
size_t tool_choice(const char *value, const char *const *names, size_t count);
/* The usage error for any other value: "-n: TEXT". */
_Noreturn void tool_refuse_value(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What is read next is the value of this, such as the name of an operand. (tool_next() calls it.)
 */
void tool_value_begin(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* And VALUE is the end of WORD, a word of letters that may have been meant as one option. */
void tool_value_in_word(const char *word, const char *value);

/* ---- names that were mistyped ---- */

/* The one of some names that is nearest to a word; all are borrowed. */
struct tool_nearest {
    struct hk_bytes word, best, whole;
    unsigned distance;
    size_t whole_count; /* names that the word is a part of, or that are one of it */
    char hint[192];
};
void tool_nearest_begin(struct tool_nearest *s, struct hk_bytes word);
void tool_nearest_try(struct tool_nearest *s, struct hk_bytes name);
/* ": did you mean BEFORE and the name?"; "" where none is near. */
const char *tool_nearest_hint(struct tool_nearest *s, const char *before);

/* ---- options that several programs take: described here, once, with what reads their values ----
 */

/* clang-format off */
#define TOOL_OPTION_ALIGN {"align", 0, "N", "align payloads to N bytes (a power of two)"}
#define TOOL_OPTION_FORCE {"force", 'f', NULL, "replace the output if it exists"}
#define TOOL_OPTION_IDS {"ids", 0, NULL, "read token ids from standard input: u32, little-endian"}
#define TOOL_OPTION_JSON {"json", 0, NULL, "print JSON"}
#define TOOL_OPTION_MAX_OUTPUT \
    {"max-output", 0, "SIZE", "write up to SIZE bytes (default: 64M, or 16 times the input)"}
#define TOOL_OPTION_NO_WAIT {"no-wait", 0, NULL, TOOL_NO_WAIT_HELP}
#define TOOL_NO_WAIT_HELP "fail if another program uses FILE, do not wait for it"
#define TOOL_OPTION_OUTPUT {"output", 'o', "OUT", "write to OUT, not to standard output"}
#define TOOL_OPTION_TABLE {"table", 0, NULL, "print tables for people, not JSON"}
#define TOOL_OPTION_THREADS {"threads", 0, "N", "use N threads (default: one for each core)"}
/* clang-format on */

uint32_t tool_align(const char *value);
/* Of --to FORMAT; with PEFT also peft, a directory too, which it then says. */
enum hk_format tool_format(const char *value, bool *peft);
/* The format of output PATH: TO, NULL where no --to was given, else the extension of its name, a
 * directory's, or .hk. */
enum hk_format tool_output_format(const char *path, const enum hk_format *to);
/* Usage errors where PATH cannot be of that format. */
void tool_check_format(const char *path, enum hk_format format);
/* Note an extension that is none of a format, or of another than FORMAT; GIVEN: there was a --to.
 */
void tool_note_format(const char *path, enum hk_format format, bool given);
/* Of --max-output, for hk_output_limit(). */
uint64_t tool_max_output(const char *value);
/* Of --type TYPE: f32, f16 or bf16. */
enum hk_type tool_dense_type(const char *value);
/* Of --threads: tools/lib/threads.h. */

/* An error: "hk-NAME: FILE: text" on standard error; FILE may be NULL. File names are escaped for a
 * terminal. */
void tool_warn(const char *file, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same of what is worth knowing and no error: nothing after -q. */
void tool_note(const char *file, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same as usage error ("... try --help"), then exit 2. */
_Noreturn void tool_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Report ERR about FILE (with ", at 0x..." where it has an offset); returns the exit status that
 * fits it. A reader that closed its pipe (EPIPE) is not reported and gives TOOL_OK. */
int tool_error(const char *file, const struct hk_error *err);
/* Report that memory ran out, then exit 2. */
_Noreturn void tool_nomem(void);
/* What messages begin with from now on. tool_begin() calls it. */
void tool_message_begin(const char *name);
/* -q: errors only; no notes, statistics or bars. */
bool tool_quiet(void);
/* -v: statistics even where standard error is no terminal. The last of -q and -v counts. */
bool tool_verbose(void);
/* Whether statistics are printed: standard error is a terminal or -v was given, and -q was not. */
bool tool_wants_statistics(void);
void tool_be_quiet(void);   /* tool_next() found -q, */
void tool_be_verbose(void); /* or -v */
/* The worse of two exit statuses. */
int tool_worse(int a, int b);

/* Close standard output and return STATUS, or TOOL_TROUBLE with a message where writing failed. A
 * reader that left (EPIPE) is no error. Every main() ends with it. */
int tool_end(int status);

/* Open an input operand with hk_open_set(), or what tool_input() makes of a stream. Its records are
 * kept (hk_file_keep()): who runs for long calls hk_file_release() once it does not need them. */
enum hk_status tool_open(struct hk_file **out, const char *path, struct hk_error *err);
/* The same with another KEEP. */
enum hk_status tool_open_kept(struct hk_file **out, const char *path, unsigned keep,
                              struct hk_error *err);

/* Say on standard error what F, opened as FILE, leaves open and what is taken in its place. */
void tool_tell_defaults(const char *file, const struct hk_file *f);

/* How a program that changes the file at PATH in place waits for others: it says so. */
struct hk_wait tool_wait(const char *path, bool no_wait);

/* ---- inputs: files, and streams: standard input ("-", or its names below /dev and /proc), FIFOs,
 * descriptors that a shell made for <(...) ---- */

bool tool_is_standard_input(const char *path);
/* A and B, which may be equal, are the same stream: what one reads the other lacks. */
bool tool_is_same_stream(const char *a, const char *b);
/* WHAT reads PATH, or with NULL standard input without naming it: a usage error where that is
 * standard input and something else read that before. */
void tool_use_input(const char *what, const char *path);
/* A usage error where PATH, which is to be changed in place, is no file: a stream or a device. */
void tool_check_in_place(const char *path);

/* An input that can be read as often as one likes. */
struct tool_input {
    const char *path; /* NAME itself, or one that leads to FD */
    int fd;           /* for a stream, -1 for others; stays open until the program ends */
};
enum tool_need { TOOL_NEED_MODEL, TOOL_NEED_BYTES };
/* NAME as such: a stream is copied to a temporary file, once however often it is asked for. Where a
 * model is needed, what begins as none is not copied to its end, and a terminal is refused
 * (HK_E_USE). */
HK_MUST enum hk_status tool_input(struct tool_input *out, const char *name, enum tool_need need,
                                  struct hk_error *err);
/* The pipe that NAME is, of which nothing was read yet; -1 for other inputs. */
HK_MUST enum hk_status tool_input_pipe(int *fd, const char *name, struct hk_error *err);
/* A descriptor, the caller's to close, from which NAME is read to its end with tool_read(). */
HK_MUST enum hk_status tool_open_once(int *out, const char *name, struct hk_error *err);
/* All bytes of NAME, none changed: *N of them in *OUT, which is the caller's to free. HK_E_RANGE:
 * more than MOST. */
HK_MUST enum hk_status tool_read_all(const char *name, uint8_t **out, size_t *n, size_t most,
                                     struct hk_error *err);
/* A file without a name, in TMPDIR or /var/tmp, for what has to be read twice; the caller closes
 * it. */
enum hk_status tool_temporary(int *fd, struct hk_error *err);

/* read() and the whole of write() where FD may not block (then it is waited for) and signals may
 * come. -1 and false with errno. */
ssize_t tool_read(int fd, void *p, size_t n);
bool tool_write(int fd, const void *p, size_t n);

/* ---- outputs ---- */

/* Whether DIR is a directory and PATH, which need not exist, an entry of it. */
bool tool_is_in_directory(const char *path, const char *dir);
/* HK_E_USE: PATH is INPUT ("-" is standard input), a file of the model or adapter that INPUT leads
 * to or one beside its tensors in a directory of such, under whatever name. */
enum hk_status tool_check_output(const char *path, const char *input, struct hk_error *err);

/* Create output PATH ("-" is standard output) as hk_out_create() does, and have it removed if a
 * signal ends the program. Refuses what tool_check_output() does of INPUT (may be NULL), and to
 * write binary data to a terminal. */
enum hk_status tool_create(struct hk_out **out, const char *path, const char *input, bool replace,
                           struct hk_error *err);

/* Catch the signals that would end the program, so that what tool_remove_at_death() was last given
 * and a bar are gone by then; and block them until *BEFORE is the mask again. */
void tool_hold_signals(sigset_t *before);
/* PATH, allocated and taken over, or NULL. Only while signals are held. */
void tool_remove_at_death(char *path);

/* For work that makes several files and removes them itself when told to stop: from now on, the
 * signals that would end the program make what is returned not 0. */
const volatile sig_atomic_t *tool_catch_stop(void);
/* Then end as the signal would have, if there was one. */
void tool_die_if_stopped(void);

/* For work that ends early with what it has: from now on the first SIGINT or SIGTERM makes what is
 * returned its number, and a second one ends the program. */
const volatile sig_atomic_t *tool_catch_interrupt(void);
/* The exit status of a program that ended early for signal SIG, as shells have it. */
int tool_interrupted(int sig);

/* From now on a mapped file that another program makes shorter ends PROGRAM with a message, status
 * 2 and its temporary files removed. tool_begin() calls it. */
void tool_catch_truncation(const char *program);

/* Make stdout a stream that waits where standard output does not block, and keeps the reason of a
 * failure. tool_begin() calls it. */
void tool_output_begin(void);
/* Where standard input is a terminal, say that WHAT ("the prompt") is read from it. */
void tool_tell_reading(const char *what);
/* Print TEXT to standard output; if that is a terminal then without what could disturb it. */
void tool_print_text(struct hk_bytes text);
/* Print V and END to standard output. */
void tool_print_uint(uint32_t v, char end);
/* Write out what is printed, straight after printing it. A failure keeps its reason, which
 * tool_end() could not tell later. */
HK_MUST enum hk_status tool_flush(struct hk_error *err);
/* HK_E_USE where standard output is a terminal: it is no place for binary data. */
HK_MUST enum hk_status tool_no_terminal(struct hk_error *err);

/* A bar on standard error (label: what is done) while DONE < ALL, if that is a terminal, the work
 * takes long, and not after -q; finish with DONE == ALL. With ALL 0, which is not known, a count of
 * bytes, until tool_progress_end(), which ends any bar. */
void tool_progress(const char *label, uint64_t done, uint64_t all);
void tool_progress_end(void);
void tool_mark_bar(void);  /* one is on standard error; */
void tool_clear_bar(void); /* remove it: the next one may be drawn at once */
/* The same for hk_work.progress, with a label for hashing. */
void tool_progress_hashing(void *arg, uint64_t done, uint64_t all);
/* "standard output" for "-", else PATH. (Messages write "standard input" for "-".) */
const char *tool_output_name(const char *path);
bool tool_is_standard(const char *path); /* it is "-": of outputs */
/* Say that TEXT is lost in the output at PATH. */
void tool_warn_lost(const char *path, const char *text);
double tool_seconds(void); /* of a clock that only runs forward */

/* ---- text ---- */

/* How many of the COUNT arguments are words of a text: none where it comes from standard input,
 * which a single "-" means too. */
int tool_count_words(char **words, int count);
/* COUNT words with a blank between them; *OUT is the caller's to free. */
HK_MUST enum hk_status tool_join_words(char **words, int count, struct hk_bytes *out,
                                       struct hk_error *err);

/* Length of the well-formed UTF-8 sequence that P[0..N) begins with and its code in *CODE; 0 if
 * there is none. */
size_t tool_utf8(const uint8_t *p, size_t n, uint32_t *code);
/* Whether a character could disturb a terminal: controls, and marks that turn the text direction.
 */
bool tool_disturbs(uint32_t code);
/* Print B with such characters, and bytes that are not UTF-8, as \xNN. Returns the columns used,
 * counting a character as one. */
size_t tool_escape(FILE *file, struct hk_bytes b);

/* ---- JSON: keys in the order given, pretty on a terminal and one line in a pipe ---- */

json_t *tool_json_bytes(struct hk_bytes b); /* a string; what is not UTF-8 becomes U+FFFD */
/* json_loadb(), but NULL where !hk_json_fits(TEXT). WHY may be NULL. */
json_t *tool_json_load(struct hk_bytes text, size_t flags, json_error_t *why);
/* Any JSON value; NULL where TEXT is none, or has a key twice. */
json_t *tool_json_any(struct hk_bytes text);
json_t *tool_json_text(const char *s);                /* the same of a C string; NULL gives null */
json_t *tool_json_uint(uint64_t v);                   /* exact; above 2^63-1 a string */
json_t *tool_json_known(uint64_t v);                  /* the same, but null for 0 */
json_t *tool_json_uints(const uint64_t *v, size_t n); /* an array */
json_t *tool_json_double(double v);                   /* null for NaN and infinities */
json_t *tool_json_float(float v); /* shortest decimal that reads back as V; null likewise */
json_t *tool_json_hex(const uint8_t *p, size_t n);
/* Set KEY of OBJECT to VALUE, taking over VALUE; exits 2 when out of memory (VALUE NULL). */
void tool_json_set(json_t *object, const char *key, json_t *value);
void tool_json_push(json_t *array, json_t *value);
/* Shortest decimal that reads back as V, as JSON writes it; BUFFER holds 32. False (and "null") for
 * NaN and infinities. */
bool tool_float_text(float v, char *buffer);
/* The same of a finite double. */
void tool_double_text(double v, char *buffer);
/* Print V and a newline to FILE and free it. */
void tool_json_print(json_t *v, FILE *file);

/* An object that is printed member by member, for what would be too big as a tree. */
struct tool_json_out {
    FILE *file;
    bool pretty;
    unsigned depth;
    unsigned line_depth; /* of the array that is printed on one line; 0: none */
    bool first;          /* nothing is in the innermost object or array yet */
};
void tool_json_begin(struct tool_json_out *o, FILE *file); /* opens the object */
void tool_json_end(struct tool_json_out *o);               /* closes it, with a newline */
/* Print V and free it: as member KEY of an object, or with KEY NULL as element of an array. */
void tool_json_put(struct tool_json_out *o, const char *key, json_t *v);
/* The same with a key of any bytes, made UTF-8 as tool_json_bytes() does. */
void tool_json_put_bytes(struct tool_json_out *o, struct hk_bytes key, json_t *v);
/* A member whose value is printed already, nested as deep. */
void tool_json_put_again(struct tool_json_out *o, const char *key, const char *text);
/* Open and close a nested object or array: BRACKET is '{' or '[', then '}' or ']'. */
void tool_json_enter(struct tool_json_out *o, const char *key, char bracket);
void tool_json_leave(struct tool_json_out *o, char bracket);
/* Open an array of plain values that stays on one line on a terminal too. */
void tool_json_enter_line(struct tool_json_out *o, const char *key);

/* ---- tables for people: cells are collected row by row, then printed in aligned columns ---- */

struct tool_table {
    size_t columns;
    const char *right; /* one letter a column: 'r' aligns right, anything else left */
    struct tool_cell *cells;
    size_t count, room;
};
/* Add the next cell, from bytes of a file (escaped; cut with "..." after MOST columns, 0 for no
 * limit) or formatted. Exits 2 when out of memory. */
void tool_cell_bytes(struct tool_table *t, struct hk_bytes b, size_t most);
void tool_cell(struct tool_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Cells of a row of titles, one a column. */
void tool_cell_titles(struct tool_table *t, const char *const *titles);
/* A row of two cells: NAME, and SIZE for people, or "unknown" for 0. */
void tool_row_size(struct tool_table *t, const char *name, uint64_t size);
/* Print the rows to FILE, two blanks between columns, and forget them. */
void tool_table_print(struct tool_table *t, FILE *file);
/* "17 B", "1.5 KiB", ... in BUFFER, which holds 24; returns it. */
const char *tool_human_size(uint64_t n, char *buffer);

#endif
