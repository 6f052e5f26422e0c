# hk-perplexity against the peer, where its library is there: a few types and a few families; the programs
# in tests/peer do all of them.
load common.bash

setup() {
    common_setup
    [[ -n ${HK_SHARED:-} ]] || skip 'needs HK_SHARED: trained models and the peer'
    [[ -n ${PEER_LIB:-} ]] || skip "needs PEER_LIB: the peer's library"
}

@test "perplexities of trained models are the peer's" {
    t "$PYTHON" "$ROOT/tests/peer/perplexity" tiny-llama Q8_0 Q4_K_M NVFP4
    assert_status 0
    [[ $(grep -c '^ok ' <<<"$output") -eq 3 ]]
}

@test "logits of small models of each family are the peer's" {
    t "$PYTHON" "$ROOT/tests/peer/mkfamily.py" llama qwen2-tied qwen3 qwen3-yarn llama3-named
    assert_status 0
    [[ $(grep -c '^ok ' <<<"$output") -eq 7 ]]
}
