# hk-diff: rows of queries and keys in the two orders for rotary embedding.
load common.bash

@test "a model directory and its GGUF have the same tensors, and differ by their source only" {
    make_models
    hk-convert --to hf model.gguf directory 2>/dev/null
    t hk-diff --tensors model.gguf directory
    assert_status 0
    assert_out ''
    t hk-diff --tensors directory model.hk
    assert_status 0
    hk-convert directory back.gguf
    t hk-diff --json --ignore-key 'hk.source.*' directory back.gguf
    assert_status 0
    assert_json '[v["same"],v["tensors"]["same"]]' '[true,47]'
    # Both orders, each with its key, in two .hk.
    hk-convert directory halves.hk
    t hk-diff --tensors model.hk halves.hk
    assert_status 0
}

@test "what differs in another order of rows has the place and the values that the first file has" {
    make_models
    hk-convert --to hf model.gguf directory 2>/dev/null
    hk-convert directory halves.hk
    # Row 5 of heads of 8 in halves is row 3 in pairs: 2 * (5 - 4) + 1.
    offset=$(hk-inspect halves.hk | json - '[t["offset"] for t in v["tensors"] if t["name"] == "blk.0.attn_k.weight"][0]')
    printf '\0\x3c' | dd of=halves.hk bs=1 seek=$((offset + 2 * (5 * 64 + 7))) conv=notrunc status=none
    t hk-diff --json --tensors model.hk halves.hk
    assert_status 1
    assert_json '[[c["name"],c["values"]["differing"],c["values"]["first"]["place"]] for c in v["tensors"]["changed"]]' \
        '[["blk.0.attn_k.weight",1,[3,7]]]'
    t hk-diff --json --tensors halves.hk model.hk
    assert_json '[[c["name"],c["values"]["differing"],c["values"]["first"]["place"],c["values"]["first"]["a"]]
        for c in v["tensors"]["changed"]]' '[["blk.0.attn_k.weight",1,[5,7],1.0]]'
}

@test "a key that says the other order makes rows differ whose bytes are the same" {
    make_models
    cp model.hk styled.hk
    hk-meta set styled.hk hk.rope_style neox
    t hk-diff --json model.hk styled.hk
    assert_status 1
    assert_json '[sorted({c["name"].split(".")[2] for c in v["tensors"]["changed"]}),v["metadata"]["added"]]' \
        '[["attn_k","attn_q"],[]]'
    hk-meta set styled.hk hk.rope_style norm
    t hk-diff model.hk styled.hk
    assert_status 0
    # An order that nothing is known of is a value like any other.
    hk-meta set styled.hk hk.rope_style sideways
    t hk-diff --json model.hk styled.hk
    assert_status 1
    assert_json '[v["tensors"]["changed"],[k["key"] for k in v["metadata"]["added"]]]' '[[],["hk.rope_style"]]'
}
