/* fuzz.h: what the fuzz targets share. A target is one file, fuzz_NAME.c, which defines fuzz_one().
 */
#ifndef HK_FUZZ_H
#define HK_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "libhkfmt/hkfmt.h"

/* Try INPUT. Any bytes are allowed; what must hold and does not ends in fuzz_require(). */
void fuzz_one(struct hk_bytes input);

/* Print WHAT and abort unless it HOLDS. */
void fuzz_require(bool holds, const char *what);
/* A call that must succeed: prints its message otherwise. */
void fuzz_must(enum hk_status st, const struct hk_error *err, const char *what);
/* A call that may be refused, but with a message of one line. Returns whether it succeeded. */
bool fuzz_may(enum hk_status st, const struct hk_error *err);

/* ---- inputs of several parts (parts.c) ---- */

/* The next part of *REST: what stands before the four bytes f5 f6 f7 f8, which occur in no text. */
struct hk_bytes fuzz_part(struct hk_bytes *rest);
/* The next byte of *REST, 0 at its end. */
uint8_t fuzz_byte(struct hk_bytes *rest);
/* The next line of *REST, without its end; false at the end of *REST. */
bool fuzz_line(struct hk_bytes *rest, struct hk_bytes *line);
/* A safetensors file with the text HEADER and as much data as its data_offsets ask for, up to
 * 64 KiB, in *OUT. The caller frees OUT->p. */
void fuzz_safetensors(struct hk_bytes header, struct hk_bytes *out);

/* ---- files (files.c) ---- */

/* An anonymous file of these bytes. */
int fuzz_file(struct hk_bytes content);
struct fuzz_path {
    char text[128];
};
/* The path of an open descriptor; of NAME in the private directory, which is on a file system in
 * memory and is emptied after each input. */
struct fuzz_path fuzz_fd_path(int fd);
struct fuzz_path fuzz_path(const char *name);
void fuzz_make_dir(const char *name);
/* Write the file NAME there. */
void fuzz_put(const char *name, struct hk_bytes content);
/* The whole of an open file, and of NAME there. The caller frees the result's p. */
struct hk_bytes fuzz_content(int fd);
struct hk_bytes fuzz_file_content(const char *name);
bool fuzz_same_content(int a, int b);
/* Remove what is in the private directory; called after each input. */
void fuzz_empty_dir(void);

/* ---- a small llama and adapters for it (llama.c) ---- */

enum { FUZZ_VOCAB = 4 };

/* Put it into the private directory, the same for every input. */
struct fuzz_path fuzz_put_llama(void);
/* Put an adapter there: adapter_config.json and the header of adapter_model.safetensors are the
 * parts of INPUT, or the first is empty and the other a GGUF. */
struct fuzz_path fuzz_put_adapter(struct hk_bytes input);
/* The payload for BASE of what PATH has, as an anonymous file; -1 if there is none. */
int fuzz_payload(const char *path, const struct hk_file *base);

/* ---- what programs do with a file (use.c) ---- */

/* Read all metadata, decode some of each tensor, hash the records. */
void fuzz_read(const struct hk_file *f);
/* Convert F to an anonymous file of format TO; -1 if that is refused. */
int fuzz_convert(struct hk_file *f, enum hk_format to);
/* F by way of TO and back again until that changes nothing: each result opens, and what comes out
 * the second time comes out the third time. */
void fuzz_fixed_point(struct hk_file *f, enum hk_format to);
/* Whether hk_verify() finds what keeps PATH from being opened. *ERRORS (may be NULL) counts what it
 * calls errors. */
bool fuzz_refused(const char *path, uint64_t *errors);

#endif
