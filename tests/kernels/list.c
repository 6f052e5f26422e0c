/* All kernels that checkkern knows: a row each. */
#include "kernels/levels.h"
#include "tests/kernels/checkkern.h"

#define EACH(SYMBOL, name)                                                                         \
    {"matmul/" #name, HKK_##SYMBOL, check_matmul, MATMUL_ROUNDS, define_matmul},                   \
        {"matmul/few/" #name, HKK_##SYMBOL, check_few_tokens, 4, NULL},

#define FUNCTION(SYMBOL, name)                                                                     \
    {"apply/" #name, 0, check_##name, 200, define_##name},                                         \
        {"apply_mul/" #name, 0, check_##name##_mul, 200, NULL},

static const struct kernel kernels[] = {
    HKK_EACH_TYPE{"quantize/q8_32", HKK_KIND_Q8_32, check_quantize, 100, define_quantize},
    {"quantize/q8_256", HKK_KIND_Q8_256, check_quantize, 100, define_quantize},
    {"rms_norm", 0, check_rms_norm, 200, define_rms_norm},
    {"add_low_rank", 0, check_add_low_rank, 60, define_add_low_rank},
    {"add", 0, check_add, 200, NULL},
    {"scale", 0, check_scale, 200, NULL},
    {"l2_norm", 0, check_l2_norm, 200, define_l2_norm},
    {"layer_norm", 0, check_layer_norm, 200, define_layer_norm},
    HKK_FUNCTION_LIST(FUNCTION){"clamped_swiglu", 0, check_clamped_swiglu, 200,
                                define_clamped_swiglu},
    {"soft_cap", 0, check_soft_cap, 200, define_soft_cap},
    {"softmax", 0, check_softmax, 200, define_softmax},
    {"rope", 0, check_rope, 200, define_rope},
    {"to_half", 0, check_to_half, 210, define_to_half},
    {"store_key", 0, check_store_key, 140, NULL},
    {"attend", ATTEND_FEW, check_attend, 40, define_attend},
    {"attend/many", ATTEND_MANY, check_attend, 20, define_attend},
    {"window", ATTEND_FEW, check_window, 30, NULL},
    {"window/many", ATTEND_MANY, check_window, 20, NULL},
    {"merge", 0, check_merge, 280, NULL},
    {"sink", 0, check_sink, 280, define_sink},
    {"finish", 0, check_finish, 280, NULL},
    {"route", 0, check_route, 300, define_route},
};

const struct kernel *kernels_all(size_t *count)
{
    *count = sizeof kernels / sizeof *kernels;
    return kernels;
}
