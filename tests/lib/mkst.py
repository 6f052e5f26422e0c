"""safetensors as the format describes it, with nothing of hk in it.

usage: mkst.py make OUT [JSON]    JSON is an object of name: [dtype, shape], "__metadata__" as it is
       mkst.py show FILE          what is in FILE, as JSON: metadata, and tensors by their bytes
       mkst.py large OUT          a header of 100 MB with 100,000 tensors
"""
import hashlib
import json
import struct
import sys

BITS = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16,
        "U16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "I8": 8, "U8": 8, "BOOL": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
        "F8_E5M2FNUZ": 8, "F6_E2M3": 6, "F6_E3M2": 6, "F4": 4, "C64": 64}


def size_of(dtype, shape):
    size = BITS[dtype]
    for n in shape:
        size *= n
    return size // 8


def write(path, header, size):
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        f.write((bytes(range(251)) * (size // 251 + 1))[:size])


def make(path, described):
    header, at = {}, 0
    for name, what in described.items():
        if name == "__metadata__":
            header[name] = what
            continue
        size = size_of(*what)
        header[name] = {"dtype": what[0], "shape": what[1], "data_offsets": [at, at + size]}
        at += size
    write(path, json.dumps(header).encode(), at)


def unique(pairs):
    assert len(dict(pairs)) == len(pairs), "a key twice"
    return dict(pairs)


def show(path):
    with open(path, "rb") as f:
        data = f.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length].decode("utf-8"), object_pairs_hook=unique)
    metadata = header.pop("__metadata__", {})
    assert all(isinstance(v, str) for v in metadata.values())
    tensors, at = [], 0
    for name, t in sorted(header.items(), key=lambda item: (item[1]["data_offsets"], item[0])):
        assert sorted(t) == ["data_offsets", "dtype", "shape"]
        begin, end = t["data_offsets"]
        assert begin == at and end - begin == size_of(t["dtype"], t["shape"])
        at = end
        tensors.append([name, t["dtype"], t["shape"], 8 + length + begin, end - begin,
                        hashlib.sha256(data[8 + length + begin:8 + length + end]).hexdigest()])
    assert 8 + length + at == len(data)
    return {"metadata": metadata, "tensors": tensors}


def large(path):
    tensors = ['"%0120d":{"dtype":"U8","shape":[1],"data_offsets":[%d,%d]}' % (i * 7919 % 100000, i, i + 1)
               for i in range(100000)]
    header = ",".join(tensors)
    pairs = (99 * 1000 * 1000 - len(header)) // 59
    header = '{"__metadata__":{%s},%s}' % (
        ",".join('"%025d":"%025d"' % (i, i) for i in range(pairs)), header)
    write(path, header.ljust(100 * 1000 * 1000).encode(), 100000)
    print(pairs)


if sys.argv[1] == "make":
    make(sys.argv[2], json.loads(sys.argv[3]) if len(sys.argv) > 3 else {})
elif sys.argv[1] == "large":
    large(sys.argv[2])
else:
    print(json.dumps(show(sys.argv[2])))
