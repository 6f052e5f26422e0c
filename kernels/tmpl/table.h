/* The table of a level, from functions that carry its name. HKK_PRODUCTS(X) are the products that
 * the level has: X(name, SYMBOL, ...). HKK_OTHER(name) is the product of a type that is not among
 * them. */
#ifndef HKK_TILES_BYTES
#define HKK_TILES_BYTES NULL
#endif
#ifndef HKK_OTHER
#define HKK_OTHER(name) hkk_matmul_##name##_generic
#endif

/* A level's own product replaces the other one. */
#pragma GCC diagnostic ignored "-Woverride-init"

#define EACH(SYMBOL, name) [HKK_##SYMBOL] = HKK_OTHER(name),
#define APPLY(SYMBOL, name) [HKK_##SYMBOL] = FN(name),
#define APPLY_MUL(SYMBOL, name) [HKK_##SYMBOL] = FN(name##_mul),
#define OWN(name, SYMBOL, ...) [HKK_##SYMBOL] = FN(matmul_##name),

const struct hkk_table HKK_NAMED(hkk, HKK_LEVEL) = {
    .name = HKK_LEVEL_NAME,
    .tiles_bytes = HKK_TILES_BYTES,
    .quantize = FN(quantize),
    .matmul = {HKK_EACH_TYPE HKK_PRODUCTS(OWN)},
    .scratch_bytes = FN(scratch_bytes),
    .rms_norm = FN(rms_norm),
    .add_low_rank = FN(add_low_rank),
    .add = FN(add),
    .scale = FN(scale),
    .l2_norm = FN(l2_norm),
    .layer_norm = FN(layer_norm),
    .apply = {HKK_FUNCTION_LIST(APPLY)},
    .apply_mul = {HKK_FUNCTION_LIST(APPLY_MUL)},
    .clamped_swiglu = FN(clamped_swiglu),
    .soft_cap = FN(soft_cap),
    .softmax = FN(softmax),
    .rope = FN(rope),
    .to_half = FN(to_half),
    .store_key = FN(store_key),
    .attend = FN(attend),
    .merge = FN(merge),
    .sink = FN(sink),
    .finish = FN(finish),
    .route = FN(route),
};

#undef EACH
#undef OWN
#undef APPLY
#undef APPLY_MUL
