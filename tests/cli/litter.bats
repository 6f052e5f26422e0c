# what a killed conversion leaves behind, and who takes it away
load common.bash

setup() {
    common_setup
    truncate -s 6M zeros
    mkhk in.hk '{"tensors":[
        {"name":"a","type":"f32","shape":[1536,1024],"data":{"file":"zeros"}},
        {"name":"b","type":"f32","shape":[1536,1024],"data":{"file":"zeros"}},
        {"name":"c","type":"f32","shape":[1536,1024],"data":{"file":"zeros"}},
        {"name":"d","type":"f32","shape":[1536,1024],"data":{"file":"zeros"}}]}'
    rm zeros
}

hidden() { find . -mindepth 1 -maxdepth 1 -name '.*' | wc -l; }
shards='out-00001-of-00004.hk out-00002-of-00004.hk out-00003-of-00004.hk out-00004-of-00004.hk'

# Stop the program $1... once it has a stage; $! is its process.
stop_in_stage() {
    local i
    "$@" &
    for ((i = 0; i < 2000; i++)); do
        [[ $(hidden) -eq 0 ]] || break
        sleep 0.001
    done
    kill -STOP $! 2>/dev/null || true
}

@test "a conversion killed at any moment leaves nothing behind the next" {
    local i left=0
    for i in 0 1 2 3 4 6 8 10 13 16 20 25 30 40 60; do
        hk-convert -f --split-size 6M in.hk out.hk &
        sleep "0.0$(printf '%02d' "$i")"
        kill -KILL $! 2>/dev/null || true
        wait $! 2>/dev/null || true
        left=$((left + $(hidden)))
        if ((i % 4 == 0)); then
            t hk-convert -f --split-size 6M in.hk out.hk
            assert_status 0
            # shellcheck disable=SC2086
            assert_files in.hk $shards out.hk.index.json
            hk-verify out.hk.index.json >/dev/null
        fi
    done
    echo "# $left stages were left in all" >&3
    t hk-convert -f --split-size 6M in.hk out.hk
    # shellcheck disable=SC2086
    assert_files in.hk $shards out.hk.index.json
}

@test "a stage of a killed process goes, that of a living one and other places' stay" {
    mkdir .out.hk.01234567.new .out.hk.89abcdef .other.hk.01234567.new .out.hk.0123456g.new
    touch .out.hk.01234567.new/out-00001-of-00004.hk .out.hk.89abcdef/x
    mkdir .out.hk.01234567.new/inner && touch .out.hk.01234567.new/inner/x
    ln -s .out.hk.89abcdef .out.hk.76543210.new
    t hk-convert --split-size 6M in.hk out.hk
    assert_status 0
    # shellcheck disable=SC2086
    assert_files in.hk $shards out.hk.index.json .out.hk.89abcdef .other.hk.01234567.new \
        .out.hk.0123456g.new .out.hk.76543210.new
    [[ -e .out.hk.89abcdef/x ]]
    rm -r .out.hk.* .other.hk.*

    stop_in_stage hk-convert -f --split-size 6M in.hk out.hk
    local first=$! before
    before=$(hidden)
    t hk-convert -f --split-size 6M in.hk out.hk
    assert_status 0
    [[ $(hidden) -eq $before ]]
    kill -CONT $first
    wait $first
    # shellcheck disable=SC2086
    assert_files in.hk $shards out.hk.index.json
}

@test "nothing is taken away for a conversion that is refused" {
    hk-convert --split-size 6M in.hk out.hk
    mkdir .out.hk.01234567.new
    t hk-convert --split-size 6M in.hk out.hk
    assert_status 2
    [[ -d .out.hk.01234567.new ]]
}
