#!/usr/bin/env python3
"""mapping_figures.py OUT_DIR [NOTE]: makes figures of the runs that `gpufs bench mapping` left in
OUT_DIR. Each figure is a CSV, and a PNG where matplotlib is, with NOTE below it.

adsm7     time of each program by protocol, in times of the hand-written one, allocation included
adsm8     bytes that lazy and rolling move, in times of what batch moves
adsm9     wave: time by edge length
adsm10    shares of the time, rolling: what the programs do meanwhile
adsm11    vector addition: time by bytes of a block
adsm12    tpacf: time by bytes of a block
dragon3   time of each program with files, in times of the mapped one
dragon5   time without reading files from map() on, in times of that with it
dragon6   layers: time by what the host's memory may hold

Numbers are medians; low and high are the least and the greatest. Ratios are taken within a round.
Exit status: 2 there are no runs in OUT_DIR, or they cannot be read."""
import collections
import json
import os
import statistics
import sys

from figures import APPS, SWEEP, make

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def runs_of(folder, name):
    path = os.path.join(folder, name + ".jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def rounds(runs, *keys):
    """Runs by keys, those of one key in the order of their rounds."""
    found = collections.defaultdict(list)
    for run in runs:
        found[tuple(run[k] for k in keys)].append(run)
    return found


def whole(run):
    return run["seconds"] + run["allocation_seconds"]


def moved(run):
    return run["bytes_h2d"] + run["bytes_d2h"]


def median_of(ones, others, value):
    return statistics.median(value(a) / value(b) for a, b in zip(ones, others))


def compared(figure, runs, key, base, value, unit, skip):
    """Bars for each workload: `value` of each series in times of that of `base`."""
    by = rounds(runs, "workload", key)
    series = [s for s in dict.fromkeys(r[key] for r in runs) if s != base and s not in skip]
    rows, ratios = [], collections.defaultdict(list)
    for workload in dict.fromkeys(r["workload"] for r in runs):
        for s in series:
            if (workload, s) in by and (workload, base) in by:
                ratio = median_of(by[workload, s], by[workload, base], value)
                ratios[s].append(ratio)
                rows.append([figure, workload, s, ratio, unit])
    for s, all_of_it in ratios.items():
        rows.append([figure, "mean", s, statistics.geometric_mean(all_of_it), unit])
    return APPS, rows


def block_of(run):
    """Bytes of a block as the run's name says them: 'shared rolling 64K, 4 blocks'."""
    text = run["way"].split()[2].rstrip(",")
    return int(text[:-1]) * UNITS[text[-1]]


def sweep(figure, runs, x_of, series_of):
    """Points of shared runs, milliseconds by x. Hand-written runs without an x are a line."""
    found = collections.defaultdict(list)
    for run in runs:
        is_line = run["variant"] == "hand" and x_of is block_of
        x = 0 if is_line else x_of(run)
        found[series_of(run), "line" if is_line else "points", x].append(run["seconds"] * 1e3)
    return SWEEP, [[figure, s, kind, x, statistics.median(t), "ms", min(t), max(t)]
                   for (s, kind, x), t in sorted(found.items())]


def rolling_size(run):
    if run["variant"] == "hand":
        return "hand-written, without allocation"
    blocks = run["way"].partition(", ")[2]
    return f"rolling size {blocks.split()[0]}" if blocks else "rolling size automatic"


def way_without_block(run):
    return "hand-written, without allocation" if run["variant"] == "hand" else run["way"]


def shares(figure, runs):
    """Bars for each workload: parts of the time, in percent."""
    rows = []
    for (workload,), of_it in rounds(runs, "workload").items():
        for phase in dict.fromkeys(p for r in of_it for p in r["phases"]):
            part = statistics.median(100 * r["phases"][phase] / r["seconds"] for r in of_it)
            rows.append([figure, workload, phase, part, "% of the time"])
    return APPS, rows


def figures_of(folder):
    programs = [dict(r, way=r["way"].replace("shared ", "")) for r in runs_of(folder, "programs")]
    shared = [r for r in programs if r["variant"] == "shared"]
    files = runs_of(folder, "mapping_files")
    hand_too = "times the hand-written program"
    yield "adsm7", programs and compared("adsm7", programs, "way", "hand", whole, hand_too, ())
    yield "adsm8", shared and compared("adsm8", [r for r in shared if moved(r) > 0], "way", "batch",
                                       moved, "times the bytes of batch", ())
    yield "adsm10", shared and shares("adsm10", [r for r in shared if r["way"] == "rolling"])
    yield "adsm9", sweep("adsm9", runs_of(folder, "figure9"), lambda r: r["parameters"]["n"],
                         way_without_block)
    yield "adsm11", sweep("adsm11", runs_of(folder, "figure11"), block_of,
                          lambda r: rolling_size(r))
    yield "adsm12", sweep("adsm12", runs_of(folder, "figure12"), block_of, rolling_size)
    eight = [r for r in files if r["workload"] != "update"]
    yield "dragon3", eight and compared("dragon3", eight, "variant", "shared",
                                        lambda r: r["seconds"], "times the mapped program", ())
    cold = [dict(r, how="from map() on" if r["eager"] else "when needed")
            for r in runs_of(folder, "dragon5")]
    yield "dragon5", cold and compared("dragon5", cold, "how", "from map() on",
                                       lambda r: r["seconds"], "times that from map() on", ())
    yield "dragon6", sweep("dragon6", runs_of(folder, "dragon6"), lambda r: r["host_memory"],
                           lambda r: "layers")


if __name__ == "__main__":
    sys.exit(make(figures_of, sys.argv[1:], __doc__, "gpufs bench mapping"))
