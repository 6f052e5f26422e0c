#!/usr/bin/python3
"""Write what the fuzz targets start from: DIRECTORY/TARGET/NAME, small files of every form.

usage: seeds.py DIRECTORY

tests/fuzz/found/TARGET has inputs that once were findings; they are copied.
"""
import glob
import json
import os
import shutil
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cli"))
import mkhk  # noqa: E402  (it lies beside the command line tests)

SEPARATOR = b"\xf5\xf6\xf7\xf8"  # of parts.c
LARGEST = 16384  # bytes of a fixture that is taken as a seed

F8 = {"f32": [1, 2, 3, 4, 5, 6, 7, 8]}
BSR = {"cat": [{"hex": "020002000300000002000000"}, {"i32": [0, 1, 2]}, {"i32": [1, 0]}, F8]}
BLOCKS = {"q4_0": (32, 18), "q8_0": (32, 34), "q5_1": (32, 24), "q2_k": (256, 84),
          "q3_k": (256, 110), "q4_k": (256, 144), "q6_k": (256, 210), "q8_k": (256, 292),
          "iq1_m": (256, 56), "iq2_xs": (256, 74), "iq3_s": (256, 110), "iq4_xs": (256, 136),
          "tq1_0": (256, 54), "mxfp4": (32, 17), "nvfp4": (64, 36)}


def tensor(kind, shape, data, **more):
    return dict({"name": "t", "type": kind, "shape": shape, "data": data}, **more)


def containers():
    yield "small", mkhk.SMALL
    yield "empty", {}
    yield "dense", {"tensors": [
        tensor(k, [4], {"zero": 4 * n}, name=k)
        for k, n in (("f16", 2), ("bf16", 2), ("fp8_e4m3", 1), ("int64", 8), ("bool", 1))]}
    yield "blocks", {"tensors": [tensor(k, [n], {"zero": size}, name=k)
                                 for k, (n, size) in BLOCKS.items()]}
    yield "tiles", {"alignment": 4, "tensors": [
        tensor("f32", [3, 5], {"zero": 1024}, name="a", layout="tile_16x16"),
        tensor("f32", [3, 5], {"zero": 512}, name="b", layout="tile_16x8"),
        tensor("f32", [2, 4], F8, name="c", layout="col_major")]}
    yield "sparse", {"alignment": 4, "tensors": [
        tensor("f32", [4, 4], BSR, name="a", sparsity="csr"),
        tensor("f32", [4, 4], BSR, name="b", sparsity="bsr"),
        tensor("sparse_f16", [10], {"hex": "520000000000c03f000020c000006040"}, name="c"),
        tensor("sparse_2_4", [8], {"hex": "d80000000000c03f00002040000060c000009040"}, name="d"),
        tensor("f32", [8], F8, name="e", sparsity="bitmask")]}
    yield "dual", {"alignment": 1, "tensors": [
        tensor("dq4", [5], {"zero": 3}, name="a", scales={"f32": [1, 2]}, block_size=4,
               residual={"f32": [1, 2, 3, 4, 5]}),
        tensor("dq8", [5], {"zero": 5}, name="b", scales={"f32": [1]}),
        tensor("dqt", [5], {"zero": 2}, name="c", scales={"f32": [1]}),
        tensor("iq4_nl", [4], {"zero": 2}, name="d", scales={"f32": [1]}, block_size=4),
        tensor("mxfp4", [32], {"zero": 16}, name="e", scales={"zero": 1})]}
    yield "references", {"tensors": [
        tensor("f32", [8], F8, name="a"), {"name": "n", "type": "null_ref", "shape": [3, 3]},
        {"name": "s", "type": "shared_ref", "shape": [2, 4], "shared": 0},
        {"name": "u", "type": "shared_ref", "shape": [8]}, tensor("dq6", [4], {"zero": 3}, name="o")]}
    yield "records", {"tensors": [tensor("f32", [8], F8)], "appendix": [
        {"name": "a", "target": "t", "data": "payload", "crc": True},
        {"type": "topology_head", "data": "{}", "parent": "legacy", "generation": 2},
        {"name": "c", "data": {"zero": 9}, "flags": 3, "generation": 3}]}
    yield "values", {"metadata": [
        ["hk.gguf.types", "json", {"a": "array<u64>", "n": "array<array<i8>>", "u": "u8"}],
        ["a", "json", [1, 18446744073709551615]], ["n", "json", [[1], [2, 3]]],
        ["u", "int64", 7], ["s", "json", ["x", "y"]], ["f", "float64", 0.1],
        ["b", "bytes", {"f32_blob": [1, 2]}], ["i", "bytes", {"i32_blob": [1, -2]}]]}


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


TYPED = {"i": ["int64", "-7"], "f": ["float64", "0.1"], "n": ["float64", "nan:fff8000000000001"],
         "b": ["bool", "true"], "j": ["json", "[1]"], "y": ["bytes", "AAEC"],
         "s": ["array<string>", '["a","\\u00e9"]'], "r": ["array<f32>", '[0.1,"inf"]'],
         "d": ["array<i32>", "[-1,2]"], "x": ["string<base64>", "/w=="], "z": ["json<base64>", "/w=="]}


def safetensors():
    """(name, header text, size of the data)"""
    yield "st-empty", "{}", 0
    yield "st-dense", json.dumps({
        "b": entry("F32", [2, 1], 2, 10), "a\u00e9\"": entry("BF16", [], 0, 2),
        "c": entry("F8_E4M3", [0, 3], 10, 10), "d": entry("BOOL", [3], 10, 13)}), 13
    yield "st-text", json.dumps({"__metadata__": {"format": "pt", "k": "\u00e9\n\U0001f600"}}) + "  ", 0
    yield "st-types", json.dumps({
        "__metadata__": dict({k: v for k, (_, v) in TYPED.items()},
                             **{"hk.types": json.dumps({k: t for k, (t, _) in TYPED.items()})}),
        "t": entry("I8", [4], 0, 4)}), 4


def fixtures(*patterns):
    """(name, content) of small files under tests/fixtures."""
    for pattern in patterns:
        for path in sorted(glob.glob(os.path.join(HERE, "..", "fixtures", pattern))):
            if os.path.isfile(path) and os.path.getsize(path) <= LARGEST:
                with open(path, "rb") as f:
                    yield os.path.basename(path), f.read()


def files():
    for name, header, size in safetensors():
        yield name, struct.pack("<Q", len(header)) + header.encode() + bytes(range(size))
    for name, description in containers():
        yield name, mkhk.build(description).data
    yield from fixtures("malformed/*.gguf", "malformed/*.safetensors", "cases/*.gguf",
                        "cases/*.safetensors", "cases/hostile/*.hk")


def headers():
    for name, header, _ in safetensors():
        yield name, header.encode()
    for name, content in fixtures("malformed/*.safetensors", "cases/*.safetensors"):
        yield name, content[8:8 + int.from_bytes(content[:8], "little")]


TARGETS = {"open": files, "convert": files, "safetensors": headers}


def main():
    for target, inputs in TARGETS.items():
        directory = os.path.join(sys.argv[1], target)
        os.makedirs(directory, exist_ok=True)
        for name, content in inputs():
            with open(os.path.join(directory, name), "wb") as f:
                f.write(content)
        for path in glob.glob(os.path.join(HERE, "found", target, "*")):
            shutil.copy(path, directory)


main()
