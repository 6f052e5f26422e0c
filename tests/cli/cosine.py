"""cosine.py LEAST A B [BASE_A BASE_B]: the cosine of two files of f32, or of how each differs from its base.

Prints it, and fails where it is below LEAST or where nothing differs."""
import array
import math
import sys


def read(path):
    return array.array("f", open(path, "rb").read())


def dot(x, y):
    return math.fsum(p * q for p, q in zip(x, y))


least, a, b = float(sys.argv[1]), read(sys.argv[2]), read(sys.argv[3])
assert len(a) == len(b) > 0, (len(a), len(b))
if len(sys.argv) > 4:
    a, b = ([p - q for p, q in zip(x, read(base))] for x, base in zip((a, b), sys.argv[4:]))
cosine = dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))
print("# cosine", cosine, "ratio", math.sqrt(dot(a, a) / dot(b, b)), "least", least, sys.argv[2])
assert cosine >= least, cosine
