#!/usr/bin/env python3
"""pictures.py tiles SOURCE OUT.rgba      tiles of 32 x 32 pixels, as raw RGBA records of 4096 bytes
   pictures.py picture SOURCE OUT.rgb8   a picture as raw RGB samples; its rows and columns are
                                         written to OUT.rgb8.meta

SOURCE of tiles is a folder of PNG files or an IDX file. Of a folder the pictures of 32 x 32 pixels
are taken; with Pillow (package python3-pil) all pictures are, scaled to that size. An IDX file
holds grey pictures of at most 32 x 32 pixels and may be gzipped (fashion-MNIST).
SOURCE of a picture is a PNG file, or with Pillow any file that it reads.
Transparent pixels are shown on white."""
import gzip
import os
import struct
import sys
import zlib

SIDE = 32


class Unreadable(Exception):
    pass


def read_png(path, fit=None):
    """Columns, rows, channels and samples of a PNG file of 8 bits a channel, not interlaced.

    Channels: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha. With `fit`, a picture with
    another number of pixels on a side is refused."""
    with open(path, "rb") as file:
        data = file.read(24)
        if len(data) < 24 or data[:8] != b"\x89PNG\r\n\x1a\n":
            raise Unreadable(f"{path}: no PNG file")
        columns, rows = struct.unpack(">II", data[16:24])
        if fit and (columns, rows) != (fit, fit):
            raise Unreadable(f"{path}: has {columns} x {rows} pixels")
        data += file.read()
    at, packed, palette, alphas = 8, b"", b"", b""
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            depth, color, _, _, interlaced = struct.unpack(">BBBBB", body[8:])
        elif kind == b"PLTE":
            palette = body
        elif kind == b"tRNS":
            alphas = body
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    if depth != 8 or interlaced:
        raise Unreadable(f"{path}: without Pillow (package python3-pil) only pictures of 8 bits a "
                         "channel, not interlaced, are read")
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    raw, width = zlib.decompress(packed), columns * channels
    samples, before = bytearray(), bytearray(width)
    for y in range(rows):
        begin = y * (width + 1)
        kind, row = raw[begin], bytearray(raw[begin + 1 : begin + 1 + width])
        for i in range(width):
            left = row[i - channels] if i >= channels else 0
            up, corner = before[i], before[i - channels] if i >= channels else 0
            if kind == 4:
                guess = left + up - corner
                distances = (abs(guess - left), abs(guess - up), abs(guess - corner))
                add = (left, up, corner)[distances.index(min(distances))]
            else:
                add = (0, left, up, (left + up) // 2)[kind]
            row[i] = (row[i] + add) & 255
        samples += row
        before = row
    if color == 3:
        alphas = alphas.ljust(len(palette) // 3, b"\xff")
        pixels = (palette[3 * s : 3 * s + 3] + alphas[s : s + 1] for s in samples)
        samples = bytearray(b"".join(pixels))
        channels = 4
    return columns, rows, channels, samples


def on_white(channels, samples):
    """RGB samples."""
    rgb = bytearray()
    for i in range(0, len(samples), channels):
        pixel = samples[i : i + channels]
        color = pixel[:3] if channels >= 3 else pixel[:1] * 3
        alpha = 255 if channels in (1, 3) else pixel[-1]
        if alpha != 255:
            color = bytes((c * alpha + 255 * (255 - alpha) + 127) // 255 for c in color)
        rgb += color
    return rgb


def read_rgb(path, fit=None):
    """Columns, rows and RGB samples; with `fit` of a picture of that many pixels on a side."""
    try:
        from PIL import Image
    except ImportError:
        columns, rows, channels, samples = read_png(path, fit)
        return columns, rows, on_white(channels, samples)
    try:
        with Image.open(path) as image:
            rgba = image.convert("RGBA")
    except (OSError, Image.DecompressionBombError) as error:
        raise Unreadable(f"{path}: {error}") from error
    if fit and rgba.size != (fit, fit):
        rgba = rgba.resize((fit, fit))
    return *rgba.size, on_white(4, rgba.tobytes())


# What the readers of files meet in those that end too early, or hold what cannot be.
DAMAGED = (KeyError, IndexError, ValueError, EOFError, UnboundLocalError, struct.error, zlib.error)


def record(rgb):
    return b"".join(bytes(rgb[i : i + 3]) + b"\xff" for i in range(0, len(rgb), 3))


def tiles_of_folder(folder):
    """Each picture once: themes have one icon under many names."""
    seen = set()
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            picture = os.path.join(path, name)
            if os.path.islink(picture) or not os.path.isfile(picture):
                continue
            try:
                tile = record(read_rgb(picture, SIDE)[2])
            except (Unreadable, *DAMAGED):
                continue
            if tile not in seen:
                seen.add(tile)
                yield tile


def tiles_of_idx(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        data = file.read()
    if len(data) < 16 or data[:4] != b"\0\0\x08\x03":
        raise Unreadable(f"{path}: no IDX file of pictures of bytes")
    count, rows, columns = struct.unpack(">III", data[4:16])
    size = rows * columns
    if rows > SIDE or columns > SIDE or size == 0 or len(data) != 16 + count * size:
        raise Unreadable(f"{path}: {count} pictures of {columns} x {rows} in {len(data)} bytes")
    above, left = (SIDE - rows) // 2, (SIDE - columns) // 2
    shades = [bytes((grey, grey, grey, 255)) for grey in range(256)]
    for at in range(16, len(data), size):
        greys = [data[begin : begin + columns] for begin in range(at, at + size, columns)]
        lines = [b"".join(shades[grey] for grey in line) for line in greys]
        lines = [shades[0] * left + line + shades[0] * (SIDE - columns - left) for line in lines]
        empty = shades[0] * SIDE
        yield empty * above + b"".join(lines) + empty * (SIDE - rows - above)


def write_tiles(source, out):
    count = 0
    with open(out, "wb") as file:
        for tile in tiles_of_folder(source) if os.path.isdir(source) else tiles_of_idx(source):
            file.write(tile)
            count += 1
    if count == 0:
        raise Unreadable(f"{source}: no picture of {SIDE} x {SIDE} pixels in it")
    return count


def write_picture(source, out):
    columns, rows, rgb = read_rgb(source)
    with open(out, "wb") as file:
        file.write(rgb)
    with open(out + ".meta", "w") as file:
        file.write(f"rows={rows}\ncolumns={columns}\n")


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("tiles", "picture"):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        (write_tiles if arguments[0] == "tiles" else write_picture)(*arguments[1:])
    except (Unreadable, OSError) as error:
        print(f"pictures.py: {error}", file=sys.stderr)
        return 1
    except DAMAGED as error:
        print(f"pictures.py: {arguments[1]}: is damaged ({type(error).__name__}: {error})",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
