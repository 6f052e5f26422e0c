/* Signatures: of which bytes of a file each digest is, and that no digest, signature or key but the
 * right one passes. */
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "libhkfmt/hk/file.h"
#include "libhkfmt/hk/wire.h"
#include "tests/lib/sample.h"

struct keys {
    char *secret, *open; /* PEM */
};

static char *pem_of(EVP_PKEY *key, bool secret)
{
    char *data;
    BIO *bio = BIO_new(BIO_s_mem());
    if (secret ? PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1
               : PEM_write_bio_PUBKEY(bio, key) != 1) {
        puts("Bail out! cannot write a key");
        exit(2);
    }
    const long n = BIO_get_mem_data(bio, &data);
    char *text = strndup(data, (size_t)n);
    BIO_free(bio);
    return text;
}

static struct keys make_keys(const char *type)
{
    EVP_PKEY *key = strcmp(type, "RSA") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, type, (size_t)1024)
                                             : EVP_PKEY_Q_keygen(NULL, NULL, type);
    if (key == NULL) {
        puts("Bail out! cannot make a key");
        exit(2);
    }
    struct keys k = {pem_of(key, true), pem_of(key, false)};
    EVP_PKEY_free(key);
    return k;
}

static void free_keys(struct keys *k)
{
    free(k->secret);
    free(k->open);
}

/* ---- digests ---- */

static struct hk_digests digests(const struct image *image)
{
    struct hk_file *f;
    struct hk_error err;
    struct hk_digests d;
    must(open_image(image, &f, &err), &err, "open");
    must(hk_file_digests(f, NULL, &d, &err), &err, "digests");
    hk_close(&f);
    return d;
}

/* "bmh": which of the three differ. */
static const char *changes(const struct hk_digests *a, const struct hk_digests *b)
{
    static const char *const names[] = {"", "b", "m", "bm", "h", "bh", "mh", "bmh"};
    return names[(memcmp(a->base, b->base, 32) != 0) +
                 2 * (memcmp(a->metadata, b->metadata, 32) != 0) +
                 4 * (memcmp(a->history, b->history, 32) != 0)];
}

/* Whether byte AT belongs to a section of tensor data; and of what each other part is. */
static const char *part_of(const struct hk_file *f, uint64_t at)
{
    const struct hk_header *h = &f->header;
    for (size_t i = 0; i < f->tensor_count; i++) {
        const struct hk_tensor *t = &f->tensors[i];
        if ((at >= t->data_offset && at < t->data_offset + t->data_size) ||
            (at >= t->scale_offset && at < t->scale_offset + t->scale_size) ||
            (at >= t->residual_offset && at < t->residual_offset + t->residual_size))
            return "b";
    }
    if (at >= h->metadata_offset && at < h->metadata_offset + h->metadata_size)
        return "m";
    for (size_t i = 0; i < f->record_count; i++)
        if (at >= f->records[i].offset && at < f->records[i].data_offset + f->records[i].data_size)
            return "h";
    return "";
}

/* Every byte of payloads, metadata and records is covered by its digest, and by no other: of a file
 * that still opens, the change of a bit shows there. */
static void test_each_byte(void)
{
    struct image image = sample(128, 3);
    const struct hk_digests was = digests(&image);
    struct hk_file *f, *changed;
    struct hk_error err;
    unsigned seen[3] = {0}, wrong = 0;
    must(open_image(&image, &f, &err), &err, "open");
    for (size_t i = 0; i < image.n; i++) {
        const char *part = part_of(f, i);
        if (*part == '\0')
            continue;
        image.p[i] ^= 0x10;
        if (open_image(&image, &changed, &err) == HK_OK) {
            const bool whole = changed->record_count == f->record_count;
            hk_close(&changed);
            const struct hk_digests is = digests(&image);
            const bool good = strcmp(changes(&was, &is), part) == 0;
            if (!good)
                printf("# byte %zu: '%s' differ, not '%s', records %d\n", i, changes(&was, &is),
                       part, whole);
            wrong += !good;
            seen[part[0] == 'b' ? 0 : part[0] == 'm' ? 1 : 2]++;
        }
        image.p[i] ^= 0x10;
    }
    ok(seen[0] > 300 && seen[1] > 100 && seen[2] > 300 && wrong == 0,
       "%u bytes of payloads, %u of metadata and %u of records, each in its digest alone", seen[0],
       seen[1], seen[2]);
    hk_close(&f);
    free(image.p);
}

/* What the alignment moves is signed as what it is, not where. */
static void test_realigned(void)
{
    struct image a = sample(128, 2), b = sample(4096, 2), c = sample(128, 1);
    const struct hk_digests da = digests(&a), db = digests(&b), dc = digests(&c);
    ok(strcmp(changes(&da, &db), "") == 0, "another alignment changes no digest");
    ok(strcmp(changes(&da, &dc), "h") == 0, "a record fewer changes the history alone");
    free(a.p), free(b.p), free(c.p);
}

/* By hand: SHA-256 over nothing where there is no record. */
static void test_no_history(void)
{
    struct image a = sample(128, 0);
    const struct hk_digests d = digests(&a);
    uint8_t nothing[32];
    EVP_Digest("", 0, nothing, NULL, EVP_sha256(), NULL);
    ok(memcmp(d.history, nothing, 32) == 0, "the history of a file without one is that of nothing");
    free(a.p);
}

/* ---- signatures ---- */

static void test_signature(void)
{
    struct image a = sample(128, 2);
    struct keys mine = make_keys("ED25519"), other = make_keys("ED25519");
    struct hk_digests d = digests(&a);
    uint8_t s[HK_SIGNATURE_SIZE], again[HK_SIGNATURE_SIZE];
    struct hk_error err = {0};
    must(hk_sign(&d, text(mine.secret), s, &err), &err, "sign");
    must(hk_sign(&d, text(mine.secret), again, &err), &err, "sign");
    ok(memcmp(s, again, sizeof s) == 0, "a signature is the same each time");
    ok(hk_sign_check(&d, text(mine.open), s, &err) == HK_OK, "it is genuine %s", err.text);
    ok(hk_sign_check(&d, text(other.open), s, &err) == HK_E_CHECKSUM, "another key: %s", err.text);
    unsigned passed = 0;
    for (size_t i = 0; i < 8 * sizeof s; i++) {
        s[i / 8] ^= (uint8_t)(1 << i % 8);
        passed += hk_sign_check(&d, text(mine.open), s, NULL) != HK_E_CHECKSUM;
        s[i / 8] ^= (uint8_t)(1 << i % 8);
    }
    ok(passed == 0, "no other bit of the signature");
    uint8_t *const all[] = {d.base, d.metadata, d.history};
    for (size_t i = 0; i < 3 * 256; i++) {
        all[i / 256][i % 256 / 8] ^= (uint8_t)(1 << i % 8);
        passed += hk_sign_check(&d, text(mine.open), s, NULL) != HK_E_CHECKSUM;
        all[i / 256][i % 256 / 8] ^= (uint8_t)(1 << i % 8);
    }
    ok(passed == 0, "no other bit of the digests");
    struct hk_digests swapped = d;
    memcpy(swapped.base, d.history, 32);
    memcpy(swapped.history, d.base, 32);
    ok(hk_sign_check(&swapped, text(mine.open), s, NULL) == HK_E_CHECKSUM, "nor in another order");
    free_keys(&mine), free_keys(&other);
    free(a.p);
}

static void test_keys(void)
{
    const struct hk_digests d = {0};
    struct keys good = make_keys("ED25519"), rsa = make_keys("RSA"), curve = make_keys("X25519");
    uint8_t s[HK_SIGNATURE_SIZE] = {0};
    struct hk_error err = {0};
    const struct {
        const char *what, *secret, *open;
    } rows[] = {
        {"RSA", rsa.secret, rsa.open},
        {"X25519", curve.secret, curve.open},
        {"the other half", good.open, good.secret},
        {"nothing", "", ""},
        {"noise", "-----BEGIN PUBLIC KEY-----\n!!\n-----END PUBLIC KEY-----\n", "\n\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ok(hk_sign(&d, text(rows[i].secret), s, &err) == HK_E_FORMAT, "%s does not sign: %s",
           rows[i].what, err.text);
        ok(hk_sign_check(&d, text(rows[i].open), s, &err) == HK_E_FORMAT, "%s does not check: %s",
           rows[i].what, err.text);
    }
    unsigned signing = 0, checking = 0; /* PEM may do without its last line's end, no more */
    for (size_t n = 0; n + 2 < strlen(good.secret); n++)
        signing +=
            hk_sign(&d, (struct hk_bytes){(const uint8_t *)good.secret, n}, s, NULL) == HK_OK;
    for (size_t n = 0; n + 2 < strlen(good.open); n++)
        checking += hk_sign_check(&d, (struct hk_bytes){(const uint8_t *)good.open, n}, s, NULL) !=
                    HK_E_FORMAT;
    ok(signing == 0 && checking == 0, "no key that was cut");
    free_keys(&good), free_keys(&rsa), free_keys(&curve);
}

int main(void)
{
    test_each_byte();
    test_realigned();
    test_no_history();
    test_signature();
    test_keys();
    return tap_done();
}
