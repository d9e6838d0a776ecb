#!/usr/bin/env python3
"""pattern.py FILE: makes the disk image of the conformance suite, as test/nvme/pattern.hpp."""
import struct
import sys

MASK = (1 << 64) - 1
BLOCKS = 8192


def mix64(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


with open(sys.argv[1], "wb") as image:
    for lba in range(BLOCKS):
        image.write(struct.pack("<64Q", *(mix64(lba << 8 | k) for k in range(64))))
