#!/usr/bin/env python3
"""fetch_data.py FOLDER: real input files for the applications, from packages of Debian or Ubuntu.

  photographs                              2DCONV, DWT2D, the mosaic
  the graph of WordNet                     BFS
  the scores of two texts by BLOSUM62      NW
  icons and pictures of clothes            the mosaic's tiles

Downloads and unpacks packages but does not install them. Needs no root."""
import array
import glob
import os
import struct
import subprocess
import sys
import tempfile

import pictures


def unpack(package, folder):
    """The files of a package, unpacked below `folder`."""
    subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL)
    target = os.path.join(folder, package)
    archive = glob.glob(f"{folder}/{package}_*.deb")[0]
    subprocess.run(["dpkg-deb", "-x", archive, target], check=True)
    return target


def find(folder, name):
    for path, _, names in os.walk(folder):
        if name in names:
            return os.path.join(path, name)
    raise FileNotFoundError(f"{name} is not in {os.path.basename(folder)}")


def write(path, payload, **meta):
    with open(path, "wb") as file:
        file.write(payload)
    if meta:
        with open(path + ".meta", "w") as file:
            file.writelines(f"{key}={value}\n" for key, value in meta.items())
    print(f"{path}: {os.path.getsize(path)} bytes")


def photograph(unpacked, out):
    columns, rows, channels, samples = pictures.read_png(find(unpacked, "astronaut.png"))
    rgb = bytes(s for i, s in enumerate(samples) if i % channels < 3)
    write(f"{out}/photo.rgb8", rgb, rows=rows, columns=columns)
    grey = array.array("f", (sum(rgb[i : i + 3]) / 765 for i in range(0, len(rgb), 3)))
    write(f"{out}/photo.f32", grey.tobytes(), rows=rows, columns=columns)


def targets(unpacked, out):
    """More photographs, for the mosaic."""
    for name in ("coffee", "chelsea"):
        pictures.write_picture(find(unpacked, f"{name}.png"), f"{out}/{name}.rgb8")
        print(f"{out}/{name}.rgb8: {os.path.getsize(f'{out}/{name}.rgb8')} bytes")


def tiles(icons, clothes, out):
    clothes = find(clothes, "train-images-idx3-ubyte.gz")
    for name, source in (("icons", icons), ("clothes", clothes)):
        count = pictures.write_tiles(source, f"{out}/{name}.rgba")
        print(f"{out}/{name}.rgba: {count} tiles")


def graph(unpacked, out):
    """The synsets of WordNet and their pointers, in both directions. Returns all glosses."""
    parts, text = {}, []
    for part, letter in (("noun", "n"), ("verb", "v"), ("adj", "a"), ("adv", "r")):
        with open(find(unpacked, f"data.{part}"), encoding="latin-1") as file:
            for line in file:
                if line.startswith("  "):
                    continue
                fields, _, gloss = line.partition("|")
                fields = fields.split()
                at = 4 + 2 * int(fields[3], 16)
                pointers = (fields[at + 1 + 4 * i : at + 5 + 4 * i] for i in range(int(fields[at])))
                parts[letter, fields[0]] = [("a" if p[2] == "s" else p[2], p[1]) for p in pointers]
                text.append(gloss)
    number = {name: i for i, name in enumerate(parts)}
    neighbours = [set() for _ in number]
    for name, targets in parts.items():
        for target in targets:
            u, v = number[name], number[target]
            neighbours[u].add(v)
            neighbours[v].add(u)
    nodes, edges = array.array("i"), array.array("i")
    for to in neighbours:
        nodes.extend((len(edges), len(to)))
        edges.extend(sorted(to))
    edge_offset = 4096 + (len(nodes) * 4 + 4095) // 4096 * 4096
    header = struct.pack("<6Q", 0x3153464273667067, len(number), len(edges), 0, 4096, edge_offset)
    header, nodes = header.ljust(4096, b"\0"), nodes.tobytes().ljust(edge_offset - 4096, b"\0")
    write(f"{out}/wordnet.bfs", header + nodes + edges.tobytes())
    return "".join(text)


def scores(unpacked, text, out):
    with open(find(unpacked, "BLOSUM62")) as file:
        lines = [line.split() for line in file if not line.startswith("#")]
    table = {line[0]: dict(zip(lines[0], map(int, line[1:]))) for line in lines[1:]}
    letters = [c for c in text.upper() if c in table and c != "*"]
    size = 1024
    first, second = letters[: size - 1], letters[size - 1 : 2 * size - 2]
    matrix = array.array("i", [0] * size)
    for a in first:
        matrix.extend([0] + [table[a][b] for b in second])
    write(f"{out}/blosum62.i32", matrix.tobytes(), rows=size, columns=size)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    out = arguments[0]
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        skimage = unpack("python3-skimage", folder)
        photograph(skimage, out)
        targets(skimage, out)
        tiles(unpack("oxygen-icon-theme", folder), unpack("dataset-fashion-mnist", folder), out)
        text = graph(unpack("wordnet-base", folder), out)
        scores(unpack("ncbi-data", folder), text, out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
