/* SHA-256 over libcrypto. */
#include <openssl/evp.h>
#include <stdlib.h>

#include "libhkfmt/base/le.h"
#include "libhkfmt/base/sha256.h"

struct hk_sha256 {
    EVP_MD_CTX *evp;
};

static enum hk_status fail_sha256(struct hk_error *err)
{
    return hk_fail(err, HK_E_NOMEM, HK_NO_OFFSET, "SHA-256 failed in libcrypto");
}

enum hk_status hk_sha256_new(struct hk_sha256 **out, struct hk_error *err)
{
    struct hk_sha256 *h = malloc(sizeof *h);
    if (h == NULL)
        return hk_fail_nomem(err);
    h->evp = EVP_MD_CTX_new();
    if (h->evp == NULL || EVP_DigestInit_ex(h->evp, EVP_sha256(), NULL) != 1) {
        hk_sha256_free(&h);
        return fail_sha256(err);
    }
    *out = h;
    return HK_OK;
}

enum hk_status hk_sha256_add(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err)
{
    return EVP_DigestUpdate(h->evp, p, n) == 1 ? HK_OK : fail_sha256(err);
}

enum hk_status hk_sha256_done(struct hk_sha256 **h, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err)
{
    bool good = EVP_DigestFinal_ex((*h)->evp, out, NULL) == 1;
    hk_sha256_free(h);
    return good ? HK_OK : fail_sha256(err);
}

enum hk_status hk_sha256_field(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err)
{
    uint8_t length[8];
    put64(length, n);
    enum hk_status st = hk_sha256_add(h, length, sizeof length, err);
    return st != HK_OK || n == 0 ? st : hk_sha256_add(h, p, n, err);
}

void hk_sha256_free(struct hk_sha256 **h)
{
    if (*h == NULL)
        return;
    EVP_MD_CTX_free((*h)->evp);
    free(*h);
    *h = NULL;
}

enum hk_status hk_sha256_of(const struct hk_bytes *pieces, size_t count,
                            uint8_t out[HK_SHA256_SIZE], struct hk_error *err)
{
    struct hk_sha256 *h;
    enum hk_status st = hk_sha256_new(&h, err);
    for (size_t i = 0; st == HK_OK && i < count; i++)
        st = hk_sha256_add(h, pieces[i].p, pieces[i].n, err);
    if (st == HK_OK)
        return hk_sha256_done(&h, out, err);
    hk_sha256_free(&h);
    return st;
}
