/* The formats, one row each. Every place that has to know them is made of these rows: magic.c of
 * what a file is called and begins with, convert/formats.c of what is done with it. A new format is
 * a value of enum hk_format, a row, and a folder with the functions that the row names.
 *
 * X(SYMBOL, name, extension, traits, begins, parse, parse_start, parse_cut, view, write, shards)
 *   SYMBOL       as in HK_FORMAT_SYMBOL
 *   name         what it is called, in --to and in JSON
 *   extension    of its files; NULL: it is a directory of others' files
 *   traits       bits of enum hk_format_trait
 *   begins       whether bytes are the beginning of one (magic.c)
 *   parse        a mapped file into struct hk_file; NULL: hk/open.c does it, since others may be
 *                changing the file
 *   parse_start  the first bytes of a pipe; NULL: it is not read from one
 *   parse_cut    a mapped file that ends too early, as far as it goes, for showing it
 *   view         what is made of a model on the way to such a file; NULL: nothing
 *   write        a model as one such file
 *   shards       how several files are one model (convert/formats.h) */
#ifndef HK_FORMAT_LIST_H
#define HK_FORMAT_LIST_H

/* clang-format off */

#define HK_FORMATS(X)                                                                              \
    X(HK, "hk", ".hk", HK_TRAIT_ALIGNED | HK_TRAIT_RECORDS | HK_TRAIT_DECODED, begins_hk,          \
      NULL, NULL, hk_parse_cut, hk_view_for_hk, hk_write_hk, &hk_shards)                           \
    X(GGUF, "gguf", ".gguf", HK_TRAIT_ALIGNED | HK_TRAIT_STREAMED, begins_gguf,                    \
      hk_parse_gguf, hk_parse_gguf_start, hk_parse_gguf_cut, hk_view_for_gguf, hk_write_gguf,      \
      &gguf_shards)                                                                                \
    X(SAFETENSORS, "safetensors", ".safetensors", HK_TRAIT_DECODED, begins_safetensors,            \
      hk_parse_safetensors, NULL, hk_parse_safetensors_cut, hk_view_for_safetensors,               \
      hk_write_safetensors, &safetensors_shards)                                                   \
    X(HF, "hf", NULL, HK_TRAIT_DIRECTORY | HK_TRAIT_DECODED, NULL, NULL, NULL, NULL, NULL, NULL,   \
      NULL)

/* clang-format on */

#endif
