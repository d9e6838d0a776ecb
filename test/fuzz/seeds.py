#!/usr/bin/env python3
"""seeds.py FOLDER: writes the seeds of every fuzz target to FOLDER/TARGET/.

A seed is a small input that gets far into the code: the fuzzer changes it from there.
"""
import os
import struct
import sys


def u8(*numbers):
    return bytes(n & 0xff for n in numbers)


def small(n):
    """value() of daemon_fuzz.cpp: a number of one byte."""
    return u8(0, n)


def medium(n):
    return u8(1) + struct.pack("<H", n)


def settings():
    toml = 'page_size = "4K"\ncache_size = "64M"\nprefetch_size = "auto"\nio_path = "direct"\n' \
           'host_threads = 4\nreplacement = "clock"\nrpc_timeout = "10s"\n'
    return {
        "file": b"file\n" + toml.encode(),
        "file-limits": b'file\nstaging_size = 65536\nprefetch_size = "60K"\n'
                       b'prefetch_memory = "1M"\npage_size = 512\ncache_size = "16T"\n'
                       b'write_memory = 0\nseats = 65536\n',
        "file-nested": b'file\n[table]\npage_size = 1\n# text\nx = [1, "2", 3.5, 1979-05-27]\n',
        "file-former": b'file\nwindow_size = "64K"\nmapped_memory = "1G"\ncontext_slots = 12\n'
                       b'io_path = "mapped"\n',
        "environment": b"environment\nPAGE_SIZE=64K\nCACHE_SIZE=1GiB\nIO_BACKEND=uring\n"
                       b"DMA_TIMEOUT=3ms\nPULLS_IN_FLIGHT=12\nMAX_OPEN_FILES=7\n",
        "environment-former": b"environment\nWINDOW_SIZE=1M\nMAPPED_MEMORY=8G\nCONTEXT_SLOTS=1\n",
        "values": b"values\nfile_window_size=1G\nregistered_memory=1T\nio_path=registered\n"
                  b"page_size=4M\nstaging_size=32M\ncache_size=32M\nprefetch_depth=16\n",
        "options": b"options\n64K\n1tib\n16777215T\n90\n90s\n2m\n1h\nwarp\n70000\n",
    }


def graph(nodes, edges, source=0):
    """An undirected graph from lists of neighbours."""
    page = 4096
    node_bytes = b"".join(struct.pack("<ii", *n) for n in nodes)
    begin = page + -(-len(node_bytes) // page) * page
    return (struct.pack("<6Q", 0x3153464273667067, len(nodes), len(edges), source, page, begin)
            + struct.pack("<H", len(node_bytes)) + node_bytes
            + b"".join(struct.pack("<i", e) for e in edges))


def graphs():
    return {
        "one": b"s" + graph([(0, 0)], []),
        "ring": b"s" + graph([(0, 2), (2, 2), (4, 2)], [1, 2, 0, 2, 0, 1], 2),
        "two-parts": b"s" + graph([(0, 1), (1, 1), (2, 0)], [1, 0]),
        "raw": b"r" + graph([(0, 1)], [0])[:48],
    }


def index(tables, bits, table_begin, keys, list_begin, ids, tiles):
    words = table_begin + keys + list_begin + ids
    return (struct.pack("<QIIIIQQQQ", 0x3148534c46475047, 1, tables, bits, 1, tiles, len(keys),
                        len(ids), 0) + u8(5) + struct.pack(f"<{len(words)}I", *words))


def histogram(*counts):
    """Bins and how often each occurs, 3072 in all."""
    return b"".join(struct.pack("<HH", b, n) for b, n in counts) + struct.pack("<H", 0)


def mosaics():
    grey = histogram((1, 1024), (300, 1024), (600, 1024))
    dark = histogram((1, 1000), (2, 24), (300, 1024), (600, 500), (601, 524))
    wrong = histogram((1, 1024), (300, 1024)) + struct.pack("<HHfH", 5, 0xffff, 0.5, 0)
    return {
        "empty": b"r" + index(1, 1, [0, 0], [], [0], [], 0),
        "two": b"r" + index(2, 2, [0, 1, 2], [1, 3], [0, 2, 3], [0, 4, 2], 5),
        "damaged": b"d" + index(1, 3, [0, 1], [7], [0, 1], [0], 1),
        "tiles": b"h" + u8(1, 3, 0, 1) + grey + dark + grey,
        "no-tile": b"h" + u8(0, 0, 1, 2) + wrong,
    }


def sidecars():
    return {
        "real": b"r" + u8(3, 24) + b"width=3\nheight=2\n",
        "real-large": b"r" + u8(0, 0) + b"width=2147483648\nheight=2147483648\n",
        "made": b"g" + u8(1, 2) + b"version=1\norigin=seed 1\nbytes=16\nchecksum=01234567\n",
        "foreign": b"g" + u8(1, 2) + b"nothing\n",
    }


def runs():
    head = b"app,variant,bytes,io_seconds,seconds\n"
    return {
        "some": head + b"bfs,gpufs,4096,0.5,1.25\nbfs,gpufs,512,1e-3,2\nbfs,cpuio,9,0.25,1\n",
        "none": head,
        "cut": head + b"bfs,gpufs,4096,0.5",
        "other": head + b"nw,gpufs,4096,0.5,1\n",
    }


def greps():
    return {
        "words": u8(0, 6) + b"word\nword in a line\nsword, words\n\nlast word",
        "borders": u8(5, 0) + b"a_b\na_b a_b\n.a_b.\na_b",
    }


READ, OPEN, CLOSE, STAT, ADVISE, SYNC, TRUNCATE, UNLINK, FLUSH = range(1, 10)


def request(op, file=0, offset=small(0), length=small(0), staging=small(0), argument=small(0),
            flags=0, channel=1, device=0, mode=small(0), action=0):
    return (u8(device, action, op, flags, channel, file) + offset + length + staging + argument
            + mode)


def stored(text, at=small(0)):
    return u8(0, 4) + at + u8(len(text)) + text


def buffer(number, file, page, ranges, bits=0):
    """A write buffer of a page of `file`, with its ranges, and its posted word."""
    return (u8(0, 5, number, file) + page + u8(len(ranges))
            + b"".join(medium(begin) + medium(end - begin) for begin, end in ranges)
            + u8(0, 6, number, bits))


def daemons():
    page = [(0, 4096)]
    writes = buffer(0, 2, small(0), page) + buffer(1, 2, small(1), [(0, 10), (20, 4096)])
    files = stored(b"f1new")
    return {
        "reads": u8(0) + request(READ, 2, small(9), medium(5000)) +
                 request(READ, 4, medium(60000), medium(20000), medium(4096), flags=1, channel=2) +
                 request(STAT, 3, channel=3, staging=medium(60000)) + request(ADVISE, 4, channel=4),
        "direct": u8(128) + request(READ, 6, small(1), medium(40000), medium(512)) +
                  request(READ, 6, medium(65000), medium(9000), medium(4096), channel=2) +
                  request(READ, 6, medium(8192), medium(8192), channel=3),
        "copies": u8(4) + request(READ, 4, small(0), medium(65535), channel=7) +
                  request(READ, 4, small(0), medium(40000), channel=8) + u8(0, 9),
        "windows": u8(8) + request(READ, 5, small(0), medium(65535)) +
                   request(READ, 5, medium(20000), medium(30000), channel=9) + u8(0, 9) +
                   request(READ, 5, small(0), medium(65535)),
        "rings": u8(2 + 16) + b"".join(request(READ, 2, channel=c, length=small(64))
                                       for c in range(12)),
        "uring": u8(96) + request(READ, 4, small(5), medium(30000)) + u8(0, 9),
        "names": u8(0) + files + request(OPEN, length=small(2), argument=small(2)) +
                 request(OPEN, length=small(5), argument=medium(0o102), mode=medium(0o644),
                         channel=2) +
                 request(OPEN, length=small(2), argument=medium(0o1002), channel=3) +
                 request(UNLINK, length=small(5), channel=4) + u8(0, 9),
        "writes": u8(0) + writes + request(SYNC, 2) + request(FLUSH, 2, channel=2),
        "closes": u8(1) + writes + request(CLOSE, 2) + request(CLOSE, 3, channel=2) + writes,
        # The page lies beyond the limit of file sizes: it stays dirty when the file is closed.
        "kept": u8(0) + buffer(0, 2, medium(1000), [(5, 9)]) + request(CLOSE, 2) +
                request(CLOSE, 3, channel=2) + u8(0, 9) + files +
                request(OPEN, length=small(2), argument=medium(0o1002)) + u8(0, 9) +
                u8(0, 10, 1, 0, 5, 2) + buffer(0, 2, small(0), [(5, 9)]) + request(SYNC, 2),
        "truncates": u8(16) + writes + request(TRUNCATE, 2, argument=medium(4100)) +
                     buffer(0, 2, small(3), page, 3) + request(TRUNCATE, 2, argument=small(0)),
        "busy": u8(0) + buffer(3, 2, small(2), page, 1) + request(SYNC, 2) + u8(0, 9) +
                buffer(3, 2, small(2), [(9, 5000)], 2) + request(SYNC, 2),
        "wild": u8(1) + request(READ, 2, length=medium(5000), action=2, channel=201,
                                staging=small(3)) +
                request(READ, 4, length=u8(5, 11), action=2, offset=u8(4, 47, 1)) +
                u8(0, 8, 0, 1) + small(1) + u8(0, 8, 6, 3) + u8(4, 63, 2) + u8(0, 8, 7, 3) +
                u8(4, 62, 1),
        "slots": u8(0) + u8(0, 3, 0, 1) + b"".join(small(n) for n in range(8)) + request(READ, 2),
        "host": u8(0) + writes + u8(0, 10, 2, 0, 1, 0) + u8(0, 10, 3, 2, 2) + u8(0, 11, 0) +
                u8(0, 10, 1, 4, 2) + u8(0, 11, 1) +
                u8(0, 11, 3) + u8(0, 11, 4, 0) + request(READ, 2),
    }


TARGETS = {
    "daemon_fuzz": daemons, "settings_fuzz": settings, "graph_fuzz": graphs,
    "mosaic_fuzz": mosaics, "sidecar_fuzz": sidecars, "runs_fuzz": runs, "grep_fuzz": greps,
}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for target, seeds in TARGETS.items():
        folder = os.path.join(sys.argv[1], target)
        os.makedirs(folder, exist_ok=True)
        for name, contents in seeds().items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(contents)


if __name__ == "__main__":
    main()
