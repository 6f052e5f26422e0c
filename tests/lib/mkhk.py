#!/usr/bin/python3
"""Make a .hk file for a test from a description in JSON, and break any field of it.

usage: mkhk.py [--set FIELD=VALUE]... [--cut N] [--pad N] [--map] OUT [DESCRIPTION]

DESCRIPTION is JSON text, or @FILE; without it a small sound model is written. Its members, all
optional:

  alignment   of payloads (128)
  header      {field: value} put into the header as they are
  metadata    [[key, type, value], ...] or [{"key","type","value", "key_len","value_len"}, ...]
              type: a name (string int64 float64 bool json bytes) or a number
  tensors     [{"name","type","layout","sparsity","shape","data","scales","residual","block_size",
                "sparsity_ratio", and any stored field to override: name_len ndim data_offset ...}]
  appendix    [{"type","name","target","data","generation","timestamp","flags","metrics",
                "parent": "chain" | "legacy" | "zero" | bytes, "crc": true | number, any field}]
  toc_first   true: tensor table before metadata
  shared      a tensor of type shared_ref takes "shared": index of its target

Bytes are a string (its UTF-8), or one of {"hex": "00ff"} {"zero": count} {"f32": [...]}
{"i32": [...]} {"strings": [...]} (array blob) {"f32_blob": [...]} {"i32_blob": [...]}
{"file": path} {"repeat": [bytes, count]} {"cat": [bytes, ...]}.

--set writes VALUE (a number, or hex after 0x: for bytes) over the field FIELD of the finished
file, which moves nothing: header.tensor_count, metadata[0].key_len, tensors[1].data_offset,
appendix[0].parent_hash. --map prints every field's offset and size as JSON and writes nothing else.
"""
import hashlib
import json
import struct
import sys
import zlib

STORAGE = {n: i for i, n in enumerate(
    "f32 f16 bf16 fp8_e4m3 fp8_e5m2 int8 int32 int64 uint8 bool int16 uint16 uint32 uint64 f64"
    .split())}
for base, names in ((0x10, "dq4 dq8 dq6 dq12 dqt q4_0 q8_0 q4_1 q5_0 q5_1 q8_1"),
                    (0x20, "sparse_f16 sparse_dq8 sparse_2_4 sparse_dq4_2_4"),
                    (0x30, "null_ref shared_ref lora_ref"),
                    (0x40, "q2_k q3_k q4_k q5_k q6_k q8_k"),
                    (0x50, "iq1_s iq1_m iq2_xxs iq2_xs iq3_xxs iq4_nl iq4_xs iq2_s iq3_s"),
                    (0x60, "tq1_0 tq2_0 mxfp4 nvfp4")):
    STORAGE.update({n: base + i for i, n in enumerate(names.split())})
LAYOUT = {n: i for i, n in enumerate(
    "row_major col_major tile_16x16 tile_16x8 tile_32x16 block_sparse_2_4 tile_32x32 tile_64x64"
    .split())}
SPARSITY = {n: i for i, n in enumerate(
    "none bitmask csr structured_2_4 physical_pruned bsr".split())}
META = {n: i + 1 for i, n in enumerate("string int64 float64 bool json bytes".split())}
RECORD = {n: i + 1 for i, n in enumerate(
    "lora_adapter delta_patch new_layer code_eval kv_cache_sink topology_head".split())}

HEADER = [("magic", "4s"), ("version_major", "H"), ("version_minor", "H"), ("flags", "I"),
          ("alignment", "H"), ("split_index", "H"), ("tensor_count", "Q"),
          ("metadata_kv_count", "Q"), ("metadata_offset", "Q"), ("metadata_size", "Q"),
          ("tensor_toc_offset", "Q"), ("tensor_toc_size", "Q"), ("tensor_data_offset", "Q"),
          ("appendix_offset", "Q"), ("checksum", "Q"), ("split_count", "H"), ("reserved1", "38s")]
ENTRY = [("data_offset", "Q"), ("data_size", "Q"), ("residual_offset", "Q"),
         ("residual_size", "Q"), ("scale_offset", "Q"), ("scale_size", "Q"), ("block_size", "H"),
         ("sparsity_ratio", "I")]
APPENDIX = [("entry_type", "B"), ("flags", "B"), ("name_len", "H"), ("generation", "I"),
            ("timestamp", "Q"), ("parent_hash", "32s"), ("metric_loss", "f"), ("metric_acc", "f"),
            ("metric_pass", "f"), ("metric_custom", "f"), ("target_len", "H"), ("reserved", "H"),
            ("data_crc32", "I"), ("data_size", "Q")]

SMALL = {
    "metadata": [["general.architecture", "string", "test"], ["test.block_count", "int64", 1],
                 ["test.scale", "float64", 0.1], ["test.flag", "bool", True],
                 ["test.json", "json", "{\"a\":[1,2]}"],
                 ["tokenizer.ggml.tokens", "bytes", {"strings": ["he", "", "llo"]}],
                 ["test.opaque", "bytes", {"hex": "deadbeef"}]],
    "tensors": [{"name": "a.weight", "type": "f32", "shape": [2, 4],
                 "data": {"f32": [0, 1, -2, 3.5, 0.1, 1e-30, 1e30, -0.0]}},
                {"name": "a.bias", "type": "f32", "shape": [4], "data": {"f32": [1, 2, 3, 4]}}],
}


def code(table, value):
    return table[value] if isinstance(value, str) else value


def as_bytes(v):
    """Bytes as a description gives them."""
    if isinstance(v, str):
        return v.encode("utf-8", "surrogateescape")
    if v is None:
        return b""
    (kind, arg), = v.items()
    if kind == "hex":
        return bytes.fromhex(arg)
    if kind == "zero":
        return bytes(arg)
    if kind in ("f32", "i32"):
        return struct.pack("<%d%s" % (len(arg), "f" if kind == "f32" else "i"), *arg)
    if kind in ("f32_blob", "i32_blob"):
        n = 2 if kind == "f32_blob" else 3
        return struct.pack("<II", n, len(arg)) + as_bytes({kind[:3]: arg})
    if kind == "strings":
        parts = [as_bytes(s) for s in arg]
        offsets = [0]
        for p in parts:
            offsets.append(offsets[-1] + len(p))
        return struct.pack("<II%dI" % len(offsets), 1, len(parts), *offsets) + b"".join(parts)
    if kind == "file":
        with open(arg, "rb") as f:
            return f.read()
    if kind == "repeat":
        return as_bytes(arg[0]) * arg[1]
    if kind == "cat":
        return b"".join(as_bytes(a) for a in arg)
    raise ValueError("bytes: %r" % kind)


def align(n, a):
    return -(-n // a) * a if a > 1 else n


class Out:
    """A growing file that remembers where each field is."""

    def __init__(self, size=0):
        self.data = bytearray(size)
        self.map = {}

    def put(self, name, fmt, value, at=None):
        raw = value if fmt is None else struct.pack("<" + fmt, value)
        at = len(self.data) if at is None else at
        if len(self.data) < at + len(raw):
            self.data.extend(bytes(at + len(raw) - len(self.data)))
        self.data[at:at + len(raw)] = raw
        self.map[name] = [at, len(raw), fmt]


def meta_value(kind, v):
    kind = code(META, kind)
    if kind == 2 and isinstance(v, int):
        return struct.pack("<q", v)
    if kind == 3 and isinstance(v, (int, float)):
        return struct.pack("<d", v)
    if kind == 4 and isinstance(v, (bool, int)):
        return struct.pack("<B", v)
    if kind == 5 and not isinstance(v, str) and not (isinstance(v, dict) and "hex" in v):
        return json.dumps(v).encode()
    return as_bytes(v)


def put_metadata(out, pairs):
    for i, kv in enumerate(pairs):
        if isinstance(kv, list):
            kv = dict(zip(("key", "type", "value"), kv))
        key, value = as_bytes(kv["key"]), meta_value(kv["type"], kv["value"])
        at = "metadata[%d]." % i
        out.put(at + "key_len", "H", kv.get("key_len", len(key)))
        out.put(at + "key", None, key)
        out.put(at + "type", "B", code(META, kv["type"]))
        out.put(at + "value_len", "I", kv.get("value_len", len(value)))
        out.put(at + "value", None, value)


def toc_size(tensors):
    return sum(2 + len(as_bytes(t["name"])) + 4 + 8 * len(t.get("shape", [])) + 54
               for t in tensors)


def place(tensors, at, alignment):
    """Offsets and sizes of all sections; returns the end of the last."""
    for t in tensors:
        t["_fields"] = {}
        if "shared" in t:
            target = tensors[t["shared"]]["_fields"]
            for k in ("data_offset", "data_size", "scale_offset", "scale_size"):
                t["_fields"][k] = target[k]
            continue
        for section, field in (("data", "data"), ("scales", "scale"), ("residual", "residual")):
            raw = as_bytes(t.get(section))
            here = align(at, alignment) if raw else 0
            t["_fields"][field + "_offset"] = here
            t["_fields"][field + "_size"] = len(raw)
            at = here + len(raw) if raw else at
    return at


def put_toc(out, tensors):
    for i, t in enumerate(tensors):
        at, name, shape = "tensors[%d]." % i, as_bytes(t["name"]), t.get("shape", [])
        out.put(at + "name_len", "H", t.get("name_len", len(name)))
        out.put(at + "name", None, name)
        out.put(at + "type", "B", code(STORAGE, t["type"]))
        out.put(at + "layout", "B", code(LAYOUT, t.get("layout", 0)))
        out.put(at + "sparsity", "B", code(SPARSITY, t.get("sparsity", 0)))
        out.put(at + "ndim", "B", t.get("ndim", len(shape)))
        for d, n in enumerate(shape):
            out.put(at + "shape[%d]" % d, "Q", n)
        values = {"residual_offset": 0, "residual_size": 0, "block_size": 32, "sparsity_ratio": 0,
                  **t["_fields"]}
        for field, fmt in ENTRY:
            out.put(at + field, fmt, t.get(field, values[field]))


def parent_of(record, previous):
    how = record.get("parent", "chain" if previous else "zero")
    if how == "zero":
        return bytes(32)
    if how == "chain":
        return hashlib.sha256(b"".join(previous)).digest()
    if how == "legacy":
        return hashlib.sha256(previous[2]).digest()
    return as_bytes(how)


def put_appendix(out, records):
    previous = None
    for i, r in enumerate(records):
        out.data.extend(bytes(-len(out.data) % 8))
        name, target, data = (as_bytes(r.get(k)) for k in ("name", "target", "data"))
        metrics = r.get("metrics", [0, 0, 0, 0])
        crc = r.get("crc", 0)
        v = {"entry_type": code(RECORD, r.get("type", 1)), "flags": 1, "name_len": len(name),
             "generation": i + 1, "timestamp": 1700000000 + i,
             "parent_hash": parent_of(r, previous), "metric_loss": metrics[0],
             "metric_acc": metrics[1], "metric_pass": metrics[2], "metric_custom": metrics[3],
             "target_len": len(target), "reserved": 0,
             "data_crc32": zlib.crc32(data) if crc is True else crc, "data_size": len(data)}
        at = "appendix[%d]." % i
        for field, fmt in APPENDIX:
            out.put(at + field, fmt, r.get(field, v[field]))
        for field, raw in (("name", name), ("target", target), ("data", data)):
            out.put(at + field, None, raw)
        out.data.extend(bytes(-len(out.data) % 8))
        previous = (name, target, data)


def flags_of(alignment, appendix, split_count):
    flags = 1 | (2 if appendix else 0) | (0x40 if split_count > 1 else 0)
    flags |= 0x10 if alignment % 128 == 0 else 0x20
    return flags | (0x100 if alignment >= 4096 else 0)


def build(d):
    """The Out of description D."""
    alignment, tensors = d.get("alignment", 128), [dict(t) for t in d.get("tensors", [])]
    out = Out(128)
    size = {"toc": toc_size(tensors)}
    sections = ["toc", "metadata"] if d.get("toc_first") else ["metadata", "toc"]
    probe = Out()
    put_metadata(probe, d.get("metadata", []))
    size["metadata"] = len(probe.data)
    data_at = align(128 + size["toc"] + size["metadata"], alignment)
    end = place(tensors, data_at, alignment)
    where = {}
    for s in sections:
        where[s] = len(out.data)
        if s == "toc":
            put_toc(out, tensors)
        else:
            put_metadata(out, d.get("metadata", []))
    for i, t in enumerate(tensors):
        for section, field in (("data", "data"), ("scales", "scale"), ("residual", "residual")):
            raw = as_bytes(t.get(section))
            if raw and "shared" not in t:
                out.put("tensors[%d].%s" % (i, section), None, raw, t["_fields"][field + "_offset"])
    out.data.extend(bytes(max(0, (end if tensors else data_at) - len(out.data))))
    records = d.get("appendix", [])
    appendix_at = align(len(out.data), 8) if records else 0
    put_appendix(out, records)
    h = {"magic": b"HKNT", "version_major": 1, "version_minor": 0, "alignment": alignment,
         "split_index": 0, "tensor_count": len(tensors),
         "metadata_kv_count": len(d.get("metadata", [])), "metadata_offset": where["metadata"],
         "metadata_size": size["metadata"], "tensor_toc_offset": where["toc"],
         "tensor_toc_size": size["toc"], "tensor_data_offset": data_at,
         "appendix_offset": appendix_at, "checksum": 0, "split_count": 1, "reserved1": bytes(38)}
    given = d.get("header", {})
    h["flags"] = flags_of(alignment, records, given.get("split_count", 1))
    h.update({k: as_bytes(v) if isinstance(v, (str, dict)) else v for k, v in given.items()})
    at = 0
    for field, fmt in HEADER:
        out.put("header." + field, fmt, h[field], at)
        at += struct.calcsize("<" + fmt)
    return out


def set_field(out, spec):
    name, value = spec.split("=", 1)
    at, size, fmt = out.map[name]
    if value.startswith("0x:"):
        raw = bytes.fromhex(value[3:])
    elif fmt == "f":
        raw = struct.pack("<f", float(value))
    else:
        raw = (int(value, 0) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    out.data[at:at + len(raw)] = raw


def main(argv):
    sets, cut, pad, show, words = [], None, 0, False, []
    while argv:
        a = argv.pop(0)
        if a == "--set":
            sets.append(argv.pop(0))
        elif a == "--cut":
            cut = int(argv.pop(0), 0)
        elif a == "--pad":
            pad = int(argv.pop(0), 0)
        elif a == "--map":
            show = True
        elif a == "--help":
            print(__doc__)
            return
        else:
            words.append(a)
    if not 1 <= len(words) <= 2:
        sys.exit("usage: mkhk.py [--set FIELD=VALUE]... [--cut N] [--pad N] [--map] OUT [JSON]")
    text = words[1] if len(words) > 1 else None
    if text is not None and text.startswith("@"):
        with open(text[1:]) as f:
            text = f.read()
    out = build(json.loads(text) if text is not None else SMALL)
    if show:
        print(json.dumps({k: v[:2] for k, v in out.map.items()}))
        return
    for s in sets:
        set_field(out, s)
    data = bytes(out.data[:cut]) + bytes(pad)
    with open(words[0], "wb") as f:
        f.write(data)


if __name__ == "__main__":
    main(sys.argv[1:])
