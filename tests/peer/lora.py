#!/usr/bin/env python3
"""lora.py MODEL.gguf ADAPTER.gguf TOKENS.u32 OUT.f32: the peer's logits of every position with an adapter.

The adapter is loaded by the peer's own reader and applied at scale 1; "none" leaves it out. Exit 3, with
the reader's reason, where the peer refuses the adapter. Needs HK_SHARED (or ../shared) and PEER_LIB."""
import argparse
import ctypes as C
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get("HK_SHARED") or os.path.join(os.path.dirname(ROOT), "shared")
sys.path.insert(0, os.path.join(SHARED, "peer"))
import peer as peer_driver  # noqa: E402


def load_adapter(peer, session, path):
    """Load the adapter at PATH for the session's model and use it from now on."""
    init, use = peer.lib.llama_adapter_lora_init, peer.lib.llama_set_adapters_lora
    init.argtypes, init.restype = [C.c_void_p, C.c_char_p], C.c_void_p
    use.argtypes, use.restype = [C.c_void_p, C.c_void_p, C.c_size_t, C.c_void_p], C.c_int32
    adapter = init(session.model, path.encode())
    if not adapter:
        print("".join(line for line in peer.log if "adapter" in line).strip(), file=sys.stderr)
        sys.exit(3)
    adapters, scales = (C.c_void_p * 1)(adapter), (C.c_float * 1)(1.0)
    if use(session.ctx, adapters, 1, scales) != 0:
        sys.exit("lora.py: the adapter was not applied")


def main():
    model, adapter, tokens, out = sys.argv[1:]
    peer = peer_driver.Peer(peer_driver.lib_dir())
    ids = peer_driver.read_u32(tokens)
    args = argparse.Namespace(model=model, threads=2, batch=512, mmap="auto", no_repack=True, flash="off", kv="f32")
    session = peer_driver.Session(peer, args, n_ctx=-(-len(ids) // 256) * 256)
    if adapter != "none":
        load_adapter(peer, session, adapter)
    with open(out, "wb") as f:
        for row in session.rows(ids):
            f.write(row)


main()
