#!/usr/bin/env python3
"""trace.py TRACE PICTURE: draws the time line of a trace of requests to the host (`gpufs trace
--picture` calls it). Above: bytes per second by kind and path. Below: where in the file with most
bytes each request lay, and how long it took. Lines that are none of a trace are left out.
"""
import collections
import json
import os
import random
import sys

import figures
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  the backend comes first

PARTS = 200  # of the time
MOST_POINTS = 20000
TYPES = {"op": str, "path": str, "file": str, "time_ns": int, "bytes": int, "requests": list}


def is_of_trace(line):
    return isinstance(line, dict) and all(
        type(line.get(key)) is kind for key, kind in TYPES.items()) and all(
            isinstance(request, list) and len(request) == 3 and all(
                type(number) is int for number in request) for request in line["requests"])


def requests_of(trace):
    with open(trace, encoding="utf-8", errors="replace") as lines:
        for text in lines:
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if not is_of_trace(line):
                continue
            shared = {key: line[key] for key in ("op", "path", "file", "bytes")}
            for after, duration, offset in line["requests"]:
                yield shared | {"time_ns": line["time_ns"] + after, "duration_ns": duration,
                                "offset": offset}


def draw_rates(axes, requests, begin, seconds):
    width = max(seconds / PARTS, 1e-9)
    rates = collections.defaultdict(lambda: [0] * (PARTS + 1))
    for r in requests:
        if r["bytes"]:
            end = (r["time_ns"] + r["duration_ns"] - begin) / 1e9
            rates[f"{r['op']} {r['path']}"][min(PARTS, int(end / width))] += r["bytes"]
    if rates:
        axes.stackplot([width * i for i in range(PARTS + 1)],
                       [[b / width / 1e9 for b in row] for row in rates.values()],
                       labels=rates.keys(), step="post")
        axes.legend(loc="upper right", fontsize="small")
    axes.set_ylabel("GB/s")


def draw_places(figure, axes, requests, begin):
    bytes_of = collections.Counter()
    for r in requests:
        bytes_of[r["file"]] += r["bytes"]
    name = bytes_of.most_common(1)[0][0]
    chosen = [r for r in requests if r["file"] == name and r["op"] in ("read", "write", "map")]
    if len(chosen) > MOST_POINTS:
        chosen = random.Random(1).sample(chosen, MOST_POINTS)
    points = axes.scatter([(r["time_ns"] - begin) / 1e9 for r in chosen],
                          [r["offset"] / 2**20 for r in chosen],
                          c=[max(r["duration_ns"], 1) / 1e3 for r in chosen], s=4,
                          norm="log" if chosen else None)
    if chosen:
        figure.colorbar(points, ax=axes, label="duration, us")
    axes.set_ylabel("offset, MiB")
    axes.set_xlabel("seconds")
    axes.set_title(name, fontsize="small", loc="left")


def main():
    trace, picture = sys.argv[1:]
    requests = list(requests_of(trace))
    if not requests:
        sys.exit(f"trace.py: {trace}: has no request that could be drawn")
    begin = min(r["time_ns"] for r in requests)
    seconds = max(r["time_ns"] + r["duration_ns"] - begin for r in requests) / 1e9
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(10, 7),
                                          layout="constrained")
    figure.suptitle(f"{os.path.basename(trace)}: {len(requests)} requests in {seconds:.3f} s")
    draw_rates(above, requests, begin, seconds)
    draw_places(figure, below, requests, begin)
    with figures.whole_file(picture, "wb") as file:
        figure.savefig(file, format="png", dpi=110)


if __name__ == "__main__":
    main()
