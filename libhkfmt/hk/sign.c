/* Signatures by Ed25519 over what a file is: its base, its metadata and its history. */
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>

#include "libhkfmt/base/sha256.h"
#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/kvlist.h"
#include "libhkfmt/hk/wire.h"

/* ---- digests ---- */

static enum hk_status hash_pairs(struct hk_sha256 *h, const struct hk_file *f, struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < f->kv_count; i++) {
        const struct hk_kv *kv = &f->kvs[i];
        if (hk_is_shard_key(f, kv))
            continue;
        st = hk_sha256_field(h, kv->key.p, kv->key.n, err);
        if (st == HK_OK)
            st = hk_sha256_field(h, &kv->type, 1, err);
        if (st == HK_OK)
            st = hk_sha256_field(h, kv->value.p, kv->value.n, err);
    }
    return st;
}

static enum hk_status hash_records(struct hk_sha256 *h, const struct hk_file *f,
                                   struct hk_error *err)
{
    enum hk_status st = HK_OK;
    for (size_t i = 0; st == HK_OK && i < f->record_count; i++) {
        const struct hk_record *r = &f->records[i];
        const struct hk_bytes data = hk_record_data(f, r);
        uint8_t digest[HK_SHA256_SIZE], header[HK_RECORD_HEADER_SIZE];
        hk_encode_record(r, header);
        st = hk_sha256_of(&data, 1, digest, err);
        if (st == HK_OK)
            st = hk_sha256_field(h, header, sizeof header, err);
        if (st == HK_OK)
            st = hk_sha256_field(h, r->name.p, r->name.n, err);
        if (st == HK_OK)
            st = hk_sha256_field(h, r->target.p, r->target.n, err);
        if (st == HK_OK)
            st = hk_sha256_field(h, digest, sizeof digest, err);
    }
    return st;
}

typedef enum hk_status add_fn(struct hk_sha256 *h, const struct hk_file *f, struct hk_error *err);

static enum hk_status digest_parts(const struct hk_file *f, add_fn *add,
                                   uint8_t out[HK_SHA256_SIZE], struct hk_error *err)
{
    struct hk_sha256 *h;
    enum hk_status st = hk_sha256_new(&h, err);
    if (st != HK_OK)
        return st;
    st = add(h, f, err);
    if (st == HK_OK)
        return hk_sha256_done(&h, out, err);
    hk_sha256_free(&h);
    return st;
}

enum hk_status hk_file_digests(const struct hk_file *f, const struct hk_work *w,
                               struct hk_digests *out, struct hk_error *err)
{
    struct hk_digests d;
    const struct hk_hashes h = {.size = sizeof h, .base = d.base, .work = w};
    enum hk_status st = hk_hash(f, &h, err);
    if (st == HK_OK)
        st = digest_parts(f, hash_pairs, d.metadata, err);
    if (st == HK_OK)
        st = digest_parts(f, hash_records, d.history, err);
    if (st == HK_OK)
        *out = d;
    return st;
}

/* ---- signatures ---- */

enum { TEXT_SIZE = 15 + 3 * (2 * HK_SHA256_SIZE + 1) + 1 };

static size_t put_signed_text(const struct hk_digests *d, char text[TEXT_SIZE])
{
    const uint8_t *const all[] = {d->base, d->metadata, d->history};
    char *at = text + sprintf(text, "hk-signature-1\n");
    for (size_t i = 0; i < 3; i++) {
        for (size_t k = 0; k < HK_SHA256_SIZE; k++)
            at += sprintf(at, "%02x", all[i][k]);
        *at++ = '\n';
    }
    return (size_t)(at - text);
}

/* A passphrase is never asked for. */
static int no_passphrase(char *buffer, int size, int writing, void *arg)
{
    (void)buffer, (void)size, (void)writing, (void)arg;
    return -1;
}

static enum hk_status read_key(EVP_PKEY **out, struct hk_bytes pem, bool private,
                               struct hk_error *err)
{
    BIO *bio = pem.n <= INT32_MAX ? BIO_new_mem_buf(pem.p, (int)pem.n) : NULL;
    if (bio == NULL)
        return hk_fail_nomem(err);
    EVP_PKEY *key = private ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL)
                            : PEM_read_bio_PUBKEY(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    if (key != NULL && EVP_PKEY_get_id(key) == EVP_PKEY_ED25519) {
        *out = key;
        return HK_OK;
    }
    EVP_PKEY_free(key);
    return hk_fail(err, HK_E_FORMAT, HK_NO_OFFSET,
                   "no Ed25519 %s key in PEM form without a passphrase",
                   private ? "private" : "public");
}

static bool sign_text(EVP_PKEY *key, const char *text, size_t n, uint8_t out[HK_SIGNATURE_SIZE])
{
    size_t size = HK_SIGNATURE_SIZE;
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    const bool good = c != NULL && EVP_DigestSignInit(c, NULL, NULL, NULL, key) == 1 &&
                      EVP_DigestSign(c, out, &size, (const uint8_t *)text, n) == 1 &&
                      size == HK_SIGNATURE_SIZE;
    EVP_MD_CTX_free(c);
    return good;
}

enum hk_status hk_sign(const struct hk_digests *d, struct hk_bytes pem,
                       uint8_t out[HK_SIGNATURE_SIZE], struct hk_error *err)
{
    EVP_PKEY *key;
    char text[TEXT_SIZE];
    enum hk_status st = read_key(&key, pem, true, err);
    if (st != HK_OK)
        return st;
    if (!sign_text(key, text, put_signed_text(d, text), out))
        st = hk_fail(err, HK_E_NOMEM, HK_NO_OFFSET, "signing failed in libcrypto");
    EVP_PKEY_free(key);
    return st;
}

enum hk_status hk_sign_check(const struct hk_digests *d, struct hk_bytes pem,
                             const uint8_t signature[HK_SIGNATURE_SIZE], struct hk_error *err)
{
    EVP_PKEY *key;
    char text[TEXT_SIZE];
    enum hk_status st = read_key(&key, pem, false, err);
    if (st != HK_OK)
        return st;
    const size_t n = put_signed_text(d, text);
    EVP_MD_CTX *c = EVP_MD_CTX_new();
    if (c == NULL || EVP_DigestVerifyInit(c, NULL, NULL, NULL, key) != 1)
        st = hk_fail(err, HK_E_NOMEM, HK_NO_OFFSET, "checking failed in libcrypto");
    else if (EVP_DigestVerify(c, signature, HK_SIGNATURE_SIZE, (const uint8_t *)text, n) != 1)
        st = hk_fail(err, HK_E_CHECKSUM, HK_NO_OFFSET, "the signature is not that of this key");
    EVP_MD_CTX_free(c);
    EVP_PKEY_free(key);
    return st;
}
