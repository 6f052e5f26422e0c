# hk-hardware-profile: what it says of this machine, against other programs that know it.
load common.bash

@test "one JSON object with the members of the manual, in order" {
    t hk-hardware-profile
    assert_status 0
    assert_err ''
    [[ $(wc -l <<<"$output") -eq 1 ]]
    assert_json 'list(v)' '["cpu","kernels","cores","memory","gpu"]'
    assert_json 'list(v["cpu"])' '["vendor","model","architecture","features"]'
    assert_json 'list(v["kernels"])' '["contained","runnable","in_use","unavailable"]'
    assert_json 'list(v["cores"])' '["logical","allowed","physical","fast","quota","threads"]'
    assert_json 'list(v["memory"])' '["total","available","page_size","huge_pages"]'
    assert_json 'list(v["memory"]["huge_pages"])' '["size","total","free","transparent"]'
    assert_json 'v["gpu"]' '[]'
}

@test "the processor as the kernel has it" {
    t hk-hardware-profile
    assert_json 'v["cpu"]["architecture"]' "$(uname -m)"
    assert_json 'all(f in open("/proc/cpuinfo").read().split() for f in v["cpu"]["features"])' True
    local model
    model=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
    [[ -n $model ]] || skip 'SKIPPED: no model name in /proc/cpuinfo'
    assert_json 'v["cpu"]["model"]' "$model"
}

@test "levels: generic is always there, and every level runs or has a reason" {
    t hk-hardware-profile
    assert_json 'v["kernels"]["contained"][-1]' generic
    assert_json 'v["kernels"]["runnable"][-1]' generic
    assert_json 'v["kernels"]["in_use"] == v["kernels"]["runnable"][0]' True
    assert_json 'set(v["kernels"]["runnable"]) <= set(v["kernels"]["contained"])' True
    assert_json 'set(v["kernels"]["runnable"]) & set(v["kernels"]["unavailable"]) == set()' True
    assert_json 'all(len(s) > 10 for s in v["kernels"]["unavailable"].values())' True
    [[ $(uname -m) == x86_64 ]] || skip 'SKIPPED: not x86-64'
    assert_json 'sorted(v["kernels"]["runnable"] + list(v["kernels"]["unavailable"]))' \
        '["amx","avx2","avx2vnni","avx512","generic"]'
}

@test "HK_KERNELS names the level" {
    HK_KERNELS=generic t hk-hardware-profile
    assert_status 0
    assert_json 'v["kernels"]["in_use"]' generic
    HK_KERNELS='' t hk-hardware-profile
    assert_status 0
    HK_KERNELS=Generic t hk-hardware-profile
    assert_fails 2 'hk-hardware-profile: HK_KERNELS: Generic: there is no such level'
    local other=neon
    [[ $(uname -m) != aarch64 ]] || other=amx
    HK_KERNELS=$other t hk-hardware-profile
    assert_fails 2 "HK_KERNELS: $other: it is for another architecture"
    HK_KERNELS=$'\e[31m' t hk-hardware-profile
    assert_fails 2 'HK_KERNELS: \x1b[31m: there is no such level'
}

@test "a level that cannot run here is refused with the reason shown" {
    t hk-hardware-profile
    local level reason
    level=$(printf '%s' "$output" | json - 'next(iter(v["kernels"]["unavailable"]), "")')
    [[ -n $level ]] || skip 'SKIPPED: every level runs here'
    reason=$(printf '%s' "$output" | json - "v['kernels']['unavailable']['$level']")
    HK_KERNELS=$level t hk-hardware-profile
    assert_fails 2 "HK_KERNELS: $level: $reason"
}

@test "cores: as many processors as nproc says" {
    t hk-hardware-profile
    assert_json 'v["cores"]["logical"]' "$(getconf _NPROCESSORS_ONLN)"
    assert_json 'v["cores"]["allowed"]' "$(OMP_NUM_THREADS='' OMP_THREAD_LIMIT='' nproc)"
    assert_json '(lambda c: 1 <= c["threads"] <= c["fast"] <= c["physical"] <= c["allowed"])(v["cores"])' \
        True
}

@test "cores: the affinity counts" {
    need taskset
    local cpu
    cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
    t taskset -c "$cpu" hk-hardware-profile
    assert_status 0
    assert_json '[v["cores"][k] for k in ("allowed", "physical", "fast", "threads")]' '[1,1,1,1]'
}

@test "HK_THREADS is the number of threads" {
    local n
    for n in 1 7 256; do
        HK_THREADS=$n t hk-hardware-profile
        assert_status 0
        assert_json 'v["cores"]["threads"]' "$n"
    done
    HK_THREADS='' t hk-hardware-profile
    assert_status 0
    for n in 0 257 -1 +2 ' 2' 2x 0x2 1.5 many 18446744073709551617; do
        HK_THREADS=$n t hk-hardware-profile
        assert_fails 2 "HK_THREADS: $n: not a number of threads from 1 to 256"
    done
}

@test "memory as the kernel has it" {
    t hk-hardware-profile
    assert_json 'v["memory"]["total"]' \
        "$(awk '$1 == "MemTotal:" { printf "%.0f", $2 * 1024 }' /proc/meminfo)"
    assert_json 'v["memory"]["page_size"]' "$(getconf PAGESIZE)"
    assert_json '0 < v["memory"]["available"] <= v["memory"]["total"]' True
    [[ -r /sys/kernel/mm/transparent_hugepage/enabled ]] || skip 'SKIPPED: no huge pages here'
    assert_json 'v["memory"]["huge_pages"]["transparent"]' \
        "$(sed 's/.*\[//; s/\].*//' /sys/kernel/mm/transparent_hugepage/enabled)"
}

@test "--table says the same in lines" {
    HK_KERNELS=generic HK_THREADS=3 t hk-hardware-profile --table
    assert_status 0
    assert_err ''
    assert_out_like $'\n''kernels generic +in use'$'\n'
    assert_out_like $'\n''threads +3'$'\n'
    assert_out_like $'\n'"page size +[0-9.]+ KiB"$'\n'
    assert_out_like "architecture +$(uname -m)"
    refute_out_has '{'
}

@test "usage: no operands, no other options, output that cannot be written" {
    t hk-hardware-profile model.hk
    assert_fails 2 'model.hk'
    t hk-hardware-profile --tables
    assert_fails 2 'unknown option --tables'
    t_sh 'hk-hardware-profile >/dev/full'
    assert_status 2
    assert_err_has 'hk-hardware-profile: standard output: '
    t_sh 'hk-hardware-profile | true'
    assert_err ''
}

@test "hk runs it" {
    HK_THREADS=5 t hk hardware-profile
    assert_status 0
    assert_json 'v["cores"]["threads"]' 5
}
