# What hk-append refuses before it touches the file.
load common.bash

@test "an adapter for a file that is not there" {
    mkdir adapter
    t hk-append --lora adapter no.hk
    assert_fails 2 'hk-append: adapter: for no.hk: cannot open: '
}
