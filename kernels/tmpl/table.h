/* The table of a level, from functions that carry its name. */
#ifndef HKK_TILES_BYTES
#define HKK_TILES_BYTES NULL
#endif

const struct hkk_table HKK_NAMED(hkk, HKK_LEVEL) = {
    .name = HKK_LEVEL_NAME,
    .tiles_bytes = HKK_TILES_BYTES,
    .quantize = FN(quantize),
    .matmul =
        {
            [HKK_F32] = FN(matmul_f32),         [HKK_F16] = FN(matmul_f16),
            [HKK_BF16] = FN(matmul_bf16),       [HKK_Q4_0] = FN(matmul_q4_0),
            [HKK_Q4_1] = FN(matmul_q4_1),       [HKK_Q5_0] = FN(matmul_q5_0),
            [HKK_Q5_1] = FN(matmul_q5_1),       [HKK_Q8_0] = FN(matmul_q8_0),
            [HKK_IQ4_NL] = FN(matmul_iq4_nl),   [HKK_MXFP4] = FN(matmul_mxfp4),
            [HKK_NVFP4] = FN(matmul_nvfp4),     [HKK_Q2_K] = FN(matmul_q2_k),
            [HKK_Q3_K] = FN(matmul_q3_k),       [HKK_Q4_K] = FN(matmul_q4_k),
            [HKK_Q5_K] = FN(matmul_q5_k),       [HKK_Q6_K] = FN(matmul_q6_k),
            [HKK_IQ1_S] = FN(matmul_iq1_s),     [HKK_IQ1_M] = FN(matmul_iq1_m),
            [HKK_IQ2_XXS] = FN(matmul_iq2_xxs), [HKK_IQ2_XS] = FN(matmul_iq2_xs),
            [HKK_IQ2_S] = FN(matmul_iq2_s),     [HKK_IQ3_XXS] = FN(matmul_iq3_xxs),
            [HKK_IQ3_S] = FN(matmul_iq3_s),     [HKK_IQ4_XS] = FN(matmul_iq4_xs),
            [HKK_TQ1_0] = FN(matmul_tq1_0),     [HKK_TQ2_0] = FN(matmul_tq2_0),
        },
    .scratch_bytes = FN(scratch_bytes),
    .rms_norm = FN(rms_norm),
    .add = FN(add),
    .scale = FN(scale),
    .silu_mul = FN(silu_mul),
    .gelu_mul = FN(gelu_mul),
    .softmax = FN(softmax),
    .rope = FN(rope),
    .to_half = FN(to_half),
    .store_key = FN(store_key),
    .attend = FN(attend),
    .merge = FN(merge),
    .finish = FN(finish),
};
