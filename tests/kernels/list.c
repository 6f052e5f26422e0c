/* All kernels that checkkern knows: a row each. */
#include "tests/kernels/checkkern.h"

#define MATMUL(name, type)                                                                         \
    {                                                                                              \
        "matmul/" name, type, check_matmul, MATMUL_ROUNDS, define_matmul                           \
    }

static const struct kernel kernels[] = {
    MATMUL("f32", HKK_F32),
    MATMUL("f16", HKK_F16),
    MATMUL("bf16", HKK_BF16),
    MATMUL("q4_0", HKK_Q4_0),
    MATMUL("q4_1", HKK_Q4_1),
    MATMUL("q5_0", HKK_Q5_0),
    MATMUL("q5_1", HKK_Q5_1),
    MATMUL("q8_0", HKK_Q8_0),
    MATMUL("iq4_nl", HKK_IQ4_NL),
    MATMUL("mxfp4", HKK_MXFP4),
    MATMUL("nvfp4", HKK_NVFP4),
    MATMUL("q2_k", HKK_Q2_K),
    MATMUL("q3_k", HKK_Q3_K),
    MATMUL("q4_k", HKK_Q4_K),
    MATMUL("q5_k", HKK_Q5_K),
    MATMUL("q6_k", HKK_Q6_K),
    MATMUL("iq1_s", HKK_IQ1_S),
    MATMUL("iq1_m", HKK_IQ1_M),
    MATMUL("iq2_xxs", HKK_IQ2_XXS),
    MATMUL("iq2_xs", HKK_IQ2_XS),
    MATMUL("iq2_s", HKK_IQ2_S),
    MATMUL("iq3_xxs", HKK_IQ3_XXS),
    MATMUL("iq3_s", HKK_IQ3_S),
    MATMUL("iq4_xs", HKK_IQ4_XS),
    MATMUL("tq1_0", HKK_TQ1_0),
    MATMUL("tq2_0", HKK_TQ2_0),
    {"quantize/q8_32", HKK_KIND_Q8_32, check_quantize, 100, define_quantize},
    {"quantize/q8_256", HKK_KIND_Q8_256, check_quantize, 100, define_quantize},
    {"rms_norm", 0, check_rms_norm, 200, define_rms_norm},
    {"add", 0, check_add, 200, NULL},
    {"scale", 0, check_scale, 200, NULL},
    {"silu_mul", 0, check_silu_mul, 200, define_silu_mul},
    {"gelu_mul", 0, check_gelu_mul, 200, define_gelu_mul},
    {"softmax", 0, check_softmax, 200, define_softmax},
    {"rope", 0, check_rope, 200, define_rope},
    {"to_half", 0, check_to_half, 210, define_to_half},
    {"store_key", 0, check_store_key, 140, NULL},
    {"attend", ATTEND_FEW, check_attend, 40, define_attend},
    {"attend/many", ATTEND_MANY, check_attend, 20, define_attend},
    {"merge", 0, check_merge, 280, NULL},
    {"finish", 0, check_finish, 280, NULL},
};

const struct kernel *kernels_all(size_t *count)
{
    *count = sizeof kernels / sizeof *kernels;
    return kernels;
}
