#!/usr/bin/env python3
"""bam_figures.py OUT_DIR [NOTE]: makes figures of the runs that `gpufs bench bam` left in OUT_DIR.
Each figure is a CSV, and a PNG where matplotlib is, with NOTE below it.

bam4        random reads of 512 bytes: million a second by the number of drives
bam5        a stream: GB/s by bytes of a request
bam6        look-ups of a warp in 8 KiB of its own: GB/s by bytes of a page
bam7        searches: speed in times of zero copy, which loads the list first
bam8        searches: speed of held pages, in times of a look-up for each element
bam8reuse   look-ups by lanes that share a page: million a second
bam9        searches: time by the drive, in times of four Optane drives
bam10       breadth-first search: time by bytes of the cache
bam11       breadth-first search: time by queue pairs
bam12       taxi queries: speed in times of programs that move whole columns
bam14       taxi queries: bytes of whole columns, in times of those that were moved
bam15       searches: speed in times of managed memory
vectoradd   speed in times of hand-written programs (section 5.4)

Drives are modelled; the names of their series say so. Numbers are medians.
Exit status: 2 there are no runs in OUT_DIR, or they cannot be read."""
import json
import os
import statistics
import sys

from figures import APPS, SWEEP, make


def runs_of(folder, name):
    path = os.path.join(folder, name + ".jsonl")
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.startswith("{")]


def sweep(figure, runs, series_of, x_of, y_of, unit):
    """A point for each run of gpufs. y falls with the time, or is the time. Other variants do not
    depend on x: a line each."""
    rows, lines = [], {}
    for run in runs:
        ys = [y_of(run, s) for s in run["run_seconds"]]
        if "settings" not in run:
            lines.setdefault(series_of(run), []).extend(ys)
            continue
        rows.append([figure, series_of(run), "points", x_of(run), statistics.median(ys), unit,
                     min(ys), max(ys)])
    return SWEEP, rows + [[figure, s, "line", 0, statistics.median(ys), unit, min(ys), max(ys)]
                          for s, ys in lines.items()]


def bars(figure, runs, app_of, ours, others, value_of, unit):
    """For each app, `value_of(other, ours)` of each other run. `others`: its series, or nothing."""
    rows = []
    own = {app_of(r): r for r in runs if ours(r)}
    for run in runs:
        series = others(run)
        if series and app_of(run) in own:
            rows.append([figure, app_of(run), series, value_of(run, own[app_of(run)]), unit])
    return APPS, rows


def drive_counts(runs):
    """A point for each number of drives, and for the drive's specification times that number."""
    rows = []
    for run in runs:
        row = run["rows"]["drives"]
        one = row["counterpart_rate"] / 4  # the row's own figure is that of four
        for name, share in row["points"].items():
            drives = int(name.split()[0])
            rate = share * drives * one
            rows.append(["bam4", "reads, modelled drives", "points", drives, rate, "M/s", rate,
                         rate])
            rows.append(["bam4", "specification", "points", drives, drives * one, "M/s",
                         drives * one, drives * one])
    return SWEEP, rows


def stream(runs):
    """A point for each size of a request. The pull limit is a line."""
    rows = []
    limits = [run["pull_limit_GBps"] for run in runs]
    for run in runs:
        by_kernels = run["file"].startswith("nvme:")
        rates = [run["bytes"] / s / 1e9 for s in run["run_seconds"]]
        rows.append(["bam5", "memory namespace, commands of kernels" if by_kernels
                     else "file in the OS page cache, host threads", "points", run["req"],
                     statistics.median(rates), "GB/s", min(rates), max(rates)])
    if limits:
        rows.append(["bam5", "pull of pinned memory", "line", 0, statistics.median(limits), "GB/s",
                     min(limits), max(limits)])
    return SWEEP, rows


def is_variant(name):
    return lambda run: run["variant"] == name


def times(other, own):
    return other["seconds"] / own["seconds"]


def named(names):
    return lambda run: names.get(run["variant"])


def drives_text(run):
    count = run["drives"]
    return f"{count} {run['modelled']} drive{'s' if count > 1 else ''}, modelled"


def milliseconds(_, seconds):
    return 1e3 * seconds


def query(run):
    return f"Q{run['query']} {run['clustering']}"


def with_target(searches, drives):
    """Each run on drives, as if its variant were the drives, beside the searches."""
    return searches + [dict(r, variant="drives") for r in drives]


def figures_of(folder):
    lines, reuse = runs_of(folder, "lines"), runs_of(folder, "reuse")
    searches, drives = runs_of(folder, "searches"), runs_of(folder, "drives")
    queries = runs_of(folder, "queries")

    yield "bam4", drive_counts(runs_of(folder, "iops"))
    yield "bam5", stream(runs_of(folder, "requests"))

    def algorithm(run):
        return run["algorithm"]

    yield "bam6", sweep(
        "bam6", lines,
        lambda r: f"{r['variant']}, {'hot' if r['hot'] else 'cold'}, {r['lookers']} threads",
        lambda r: r["settings"]["page_size"],
        lambda r, s: r["data_bytes"] / s / 1e9, "GB/s")
    target = {(r["algorithm"]): r["seconds"] for r in searches if r["variant"] == "zerocopy"}
    faster = [["bam7", r["algorithm"],
               drives_text(r) if r["variant"] == "drives" else "files in the OS page cache",
               target[r["algorithm"]] / r["seconds"], "times the speed of zero copy with loading"]
              for r in with_target(searches, drives)
              if r["variant"] in ("pointer", "drives") and r["algorithm"] in target]
    yield "bam7", (APPS, faster)
    yield "bam8", bars("bam8", searches, algorithm, is_variant("pointer"),
                       named({"array": "held pages"}), times, "times the speed of look-ups")
    yield "bam8reuse", sweep(
        "bam8reuse", reuse, lambda r: f"{r['variant']}, {r['uses']} uses of a page",
        lambda r: r["lanes"], lambda r, s: r["lookers"] * r["steps"] / s / 1e6, "M/s")
    yield "bam9", bars("bam9", drives, algorithm,
                       lambda r: r["modelled"] == "optane" and r["drives"] == 4,
                       lambda r: drives_text(r), times, "times the time of four Optane drives")
    yield "bam10", sweep("bam10", runs_of(folder, "caches"), lambda r: "bfs",
                         lambda r: r["settings"]["cache_size"], milliseconds, "ms")
    yield "bam11", sweep("bam11", runs_of(folder, "queue_pairs"), drives_text,
                         lambda r: r["settings"]["nvme_queue_pairs"], milliseconds, "ms")
    whole = {"pipeline": "pipeline of whole columns", "copy": "copies of whole columns"}
    yield "bam12", bars("bam12", queries, query, is_variant("pointer"), named(whole), times,
                        "times the speed")
    moved = [["bam14", query(r), "gpufs", r["data_bytes"] / r["bytes_over_the_bus"],
              "times the bytes that were moved"]
             for r in queries if r["variant"] == "pointer" and r["bytes_over_the_bus"]]
    yield "bam14", (APPS, moved)
    yield "bam15", bars("bam15", searches, algorithm, is_variant("pointer"),
                        named({"managed": "managed memory"}), times, "times the speed")
    yield "vectoradd", bars(
        "vectoradd", runs_of(folder, "vectoradd"), lambda r: "vectoradd", is_variant("pointer"),
        named({"tiles": "tiles", "copy": "copies"}), times, "times the speed")


if __name__ == "__main__":
    sys.exit(make(figures_of, sys.argv[1:], __doc__, "gpufs bench bam"))
