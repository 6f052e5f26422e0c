"""ggufdump.py FILE...: every key of a GGUF with type and value (floats by their bits), and every
tensor with type, dimensions and the SHA-256 of its bytes, in file order; one line each. A reader of
its own, so that a fault of the library's reader and writer cannot hide itself. Also checks what
llama.cpp demands of the data: tensors back to back in table order, each padded."""
import hashlib
import struct
import sys

SCALARS = {0: ("u8", "B"), 1: ("i8", "b"), 2: ("u16", "H"), 3: ("i16", "h"), 4: ("u32", "I"), 5: ("i32", "i"),
           6: ("f32", "I"), 7: ("bool", "?"), 10: ("u64", "Q"), 11: ("i64", "q"), 12: ("f64", "Q")}
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36),
          10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
          16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
          23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
          34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18)}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, fmt):
        v = struct.unpack_from("<" + fmt, self.data, self.at)
        self.at += struct.calcsize("<" + fmt)
        return v

    def text(self):
        n, = self.take("Q")
        self.at += n
        assert self.at <= len(self.data)
        return self.data[self.at - n:self.at]

    def value(self, kind):
        """(type, value) in full; arrays of arrays carry their elements' types."""
        if kind == 8:
            return "string", self.text()
        if kind != 9:
            name, fmt = SCALARS[kind]
            return name, self.take(fmt)[0]
        inner, n = self.take("IQ")
        if inner in SCALARS:
            name, fmt = SCALARS[inner]
            return "array<%s>" % name, list(self.take("%d%s" % (n, fmt)))
        items = [self.value(inner) for _ in range(n)]
        if inner == 8:
            return "array<string>", [v for _, v in items]
        return "array<array>", items


def dump(path, strict):
    r = Reader(open(path, "rb").read())
    assert r.take("4s") == (b"GGUF",)
    version, n_tensors, n_keys = r.take("IQQ")
    assert version in (2, 3)
    align = 32
    for _ in range(n_keys):
        key = r.text()
        kind, = r.take("I")
        name, value = r.value(kind)
        if key == b"general.alignment":
            align = value
        print("key", repr(key), name, repr(value))
    table = []
    for _ in range(n_tensors):
        name = r.text()
        dims = r.take("%dQ" % r.take("I"))
        kind, offset = r.take("IQ")
        table.append((name, dims, kind, offset))
    start, expected = -(-r.at // align) * align, 0
    for name, dims, kind, offset in table:
        size = BLOCKS[kind][1]
        for d in dims:
            size *= d
        size //= BLOCKS[kind][0]
        assert start + offset + size <= len(r.data)
        if strict:
            assert offset == expected, "tensor %r at %d, not %d" % (name, offset, expected)
            expected += -(-size // align) * align
            assert start + expected <= len(r.data), "no padding behind %r" % name
        data = r.data[start + offset:start + offset + size]
        print("tensor", repr(name), kind, dims, hashlib.sha256(data).hexdigest())


args = sys.argv[1:]
strict = "--strict" in args
for path in args:
    if path != "--strict":
        dump(path, strict)
