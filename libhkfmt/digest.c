/* SHA-256 over libcrypto, and the base digest: what a file's tensors are, whatever their place in
 * it. */
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "libhkfmt/internal.h"
#include "libhkfmt/le.h"

struct hk_sha256 {
    EVP_MD_CTX *evp;
};

static enum hk_status failed(struct hk_error *err)
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
        return failed(err);
    }
    *out = h;
    return HK_OK;
}

enum hk_status hk_sha256_add(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err)
{
    return EVP_DigestUpdate(h->evp, p, n) == 1 ? HK_OK : failed(err);
}

enum hk_status hk_sha256_done(struct hk_sha256 **h, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err)
{
    bool good = EVP_DigestFinal_ex((*h)->evp, out, NULL) == 1;
    hk_sha256_free(h);
    return good ? HK_OK : failed(err);
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
    enum hk_status status = hk_sha256_new(&h, err);
    for (size_t i = 0; status == HK_OK && i < count; i++)
        status = hk_sha256_add(h, pieces[i].p, pieces[i].n, err);
    if (status == HK_OK)
        return hk_sha256_done(&h, out, err);
    hk_sha256_free(&h);
    return status;
}

/* One field: its length as u64, then its bytes. */
static enum hk_status add_field(struct hk_sha256 *h, const void *p, size_t n, struct hk_error *err)
{
    uint8_t length[8];
    put64(length, n);
    enum hk_status status = hk_sha256_add(h, length, sizeof length, err);
    return status != HK_OK || n == 0 ? status : hk_sha256_add(h, p, n, err);
}

enum { SECTIONS = 3 };

/* Digests of a tensor's data, scales and residual. */
struct digests {
    uint8_t of[SECTIONS][HK_SHA256_SIZE];
};

static void sections_of(const struct hk_file *f, const struct hk_tensor *t,
                        struct hk_bytes out[SECTIONS])
{
    out[0] = hk_tensor_data(f, t);
    out[1] = hk_tensor_scales(f, t);
    out[2] = hk_tensor_residual(f, t);
}

/* What is shared was hashed with its owner, if that came before: a table of references to one large
 * tensor costs that tensor once. */
static enum hk_status digest_sections(const struct hk_file *f, size_t i, struct digests *known,
                                      struct hk_error *err)
{
    const struct hk_tensor *t = &f->tensors[i], *target = t;
    struct hk_bytes own[SECTIONS], owner[SECTIONS];
    enum hk_status status = hk_tensor_resolve(f, t, &target, err);
    if (status != HK_OK)
        return status;
    sections_of(f, t, own);
    sections_of(f, target, owner);
    for (size_t k = 0; status == HK_OK && k < SECTIONS; k++) {
        if (target < t && own[k].p == owner[k].p && own[k].n == owner[k].n)
            memcpy(known[i].of[k], known[target - f->tensors].of[k], HK_SHA256_SIZE);
        else
            status = hk_sha256_of(&own[k], 1, known[i].of[k], err);
    }
    return status;
}

static enum hk_status add_tensor(struct hk_sha256 *h, const struct hk_tensor *t,
                                 const struct digests *digests, struct hk_error *err)
{
    uint8_t type[2], shape[8 * HK_MAX_DIMS], block_size[2];
    put16(type, t->type);
    put16(block_size, t->block_size);
    for (size_t i = 0; i < t->ndim; i++)
        put64(shape + 8 * i, t->shape[i]);
    const struct hk_bytes fields[] = {
        t->name,           {type, sizeof type},   {&t->layout, 1},
        {&t->sparsity, 1}, {shape, 8u * t->ndim}, {block_size, sizeof block_size}};
    enum hk_status status = HK_OK;
    for (size_t i = 0; status == HK_OK && i < sizeof fields / sizeof *fields; i++)
        status = add_field(h, fields[i].p, fields[i].n, err);
    for (size_t k = 0; status == HK_OK && k < SECTIONS; k++)
        status = add_field(h, digests->of[k], HK_SHA256_SIZE, err);
    return status;
}

enum hk_status hk_base_digest(const struct hk_file *f, uint8_t out[HK_SHA256_SIZE],
                              struct hk_error *err)
{
    struct hk_sha256 *h = NULL;
    struct digests *known = calloc(f->tensor_count + 1, sizeof *known);
    enum hk_status status = known == NULL ? hk_fail_nomem(err) : hk_sha256_new(&h, err);
    for (size_t i = 0; status == HK_OK && i < f->tensor_count; i++) {
        status = digest_sections(f, i, known, err);
        if (status == HK_OK)
            status = add_tensor(h, &f->tensors[i], &known[i], err);
    }
    if (status == HK_OK)
        status = hk_sha256_done(&h, out, err);
    else
        hk_sha256_free(&h);
    free(known);
    return status;
}
