#!/usr/bin/env python3
"""plot.py CSV [PNG [NOTE]]: draws a figure that `gpufs bench paper`, `apps` or `patterns`,
mapping_figures.py or bam_figures.py wrote as CSV.

PNG is by default the same name with .png. NOTE stands below the picture: the device, the date, how
often what was run. Needs matplotlib (Debian: python3-matplotlib).
Exit status: 2 the CSV is not one of these, 3 matplotlib is not installed for this Python."""
import csv
import os
import sys

import figures

# By number of the paper's figure: its title, and the title of the horizontal axis. None: a group of
# bars for each application.
FIGURES = {
    "2": ("Page size", "Page size (bytes)"),
    "3": ("Requests without transfers", "Request size (bytes)"),
    "5": ("The same reads with and without the device", "Request size (bytes)"),
    "6": ("Looks for work before a host thread's first request", "Request size (bytes)"),
    "7": ("Page size, file on tmpfs", "Page size (bytes)"),
    "9": ("Readahead with 4 KiB pages", "Readahead, or page size (bytes)"),
    "10": ("File of twice the cache", "Readahead (bytes)"),
    "11": ("end to end, cache fits", None),
    "12": ("I/O bandwidth, cache fits", None),
    "13": ("end to end, cache smaller than the input", None),
    "14": ("I/O bandwidth, cache smaller than the input", None),
    "adsm7": ("ADSM, figure 7: time by protocol, with allocation", None),
    "adsm8": ("ADSM, figure 8: bytes moved", None),
    "adsm9": ("ADSM, figure 9: stencil with source and dump", "Edge (points)"),
    "adsm10": ("ADSM, figure 10: shares of the time, rolling", None),
    "adsm11": ("ADSM, figure 11: vector addition", "Block (bytes)"),
    "adsm12": ("ADSM, figure 12: tpacf", "Block (bytes)"),
    "bam4": ("BaM, figure 4: random reads of 512 bytes, modelled drives", "Drives"),
    "bam5": ("BaM, figure 5: a stream", "Request (bytes)"),
    "bam6": ("BaM, figure 6: a warp in 8 KiB of its own", "Page (bytes)"),
    "bam7": ("BaM, figure 7: searches beside zero copy", None),
    "bam8": ("BaM, figure 8: held pages", None),
    "bam8reuse": ("BaM, figure 8: lanes that share a page", "Lanes"),
    "bam9": ("BaM, figure 9: kinds of drives, modelled", None),
    "bam10": ("BaM, figure 10: breadth-first search", "Cache (bytes)"),
    "bam11": ("BaM, figure 11: breadth-first search, modelled drives", "Queue pairs"),
    "bam12": ("BaM, figure 12: taxi queries", None),
    "bam14": ("BaM, figure 14: bytes moved by taxi queries", None),
    "bam15": ("BaM, figure 15: searches beside managed memory", None),
    "vectoradd": ("BaM, section 5.4: vector addition", None),
    "dragon3": ("DRAGON, figure 3: programs with files", None),
    "dragon5": ("DRAGON, figure 5: files read when needed", None),
    "dragon6": ("DRAGON, figure 6: scratch, layers", "Host memory for it (bytes)"),
}
SWEEP = {"figure": str, "series": str, "kind": str, "x": int, "y": float, "unit": str,
         "low": float, "high": float}
# Numbers that were not measured are empty.
PATTERNS = {"row": str, "what": str, "unit": str, "rate": float, "worst": float,
            "equivalent": str, "ratio": str, "target_of": str, "target": float,
            "stretch_target": float, "of_stretch_target": float, "host_per_wanted": str,
            "host_per_touched": str}
APPS = {"figure": str, "app": str, "series": str, "value": float, "unit": str}


def load(path):
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        columns = next((c for c in (SWEEP, APPS, PATTERNS) if reader.fieldnames == list(c)), None)
        if columns is None:
            raise ValueError(f"{path}: columns must be {','.join(SWEEP)}, {','.join(APPS)} or "
                             f"{','.join(PATTERNS)}")
        rows = [{name: convert(r[name]) for name, convert in columns.items()} for r in reader]
    if not rows:
        raise ValueError(f"{path}: holds no rows")
    return rows


def size_text(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def series_of(rows, kind):
    found = {}
    for row in rows:
        if row["kind"] == kind:
            found.setdefault(row["series"], []).append(row)
    return found


# Of lines that stand for limits. Curves have the ten of matplotlib.
LIMIT_COLOURS = ("black", "dimgray", "darkred", "navy", "darkgreen")

# A linear axis shows all curves up to here, from the lowest to the highest value.
WIDEST_LINEAR = 10


def is_wide(rows):
    values = [r["y"] for r in rows if r["y"] > 0]
    return bool(values) and max(values) > WIDEST_LINEAR * min(values)


def draw_sweep(axes, rows):
    places = sorted({r["x"] for r in rows if r["kind"] != "line"})
    index = {x: i for i, x in enumerate(places)}
    for name, points in series_of(rows, "points").items():
        at = [index[p["x"]] for p in points]
        axes.plot(at, [p["y"] for p in points], marker="o", markersize=4, label=name)
        axes.fill_between(at, [p["low"] for p in points], [p["high"] for p in points], alpha=0.15)
    bars = series_of(rows, "bars")
    for number, (name, points) in enumerate(bars.items()):
        width = 0.8 / len(bars)
        at = [index[p["x"]] - 0.4 + (number + 0.5) * width for p in points]
        axes.bar(at, [p["y"] for p in points], width, label=name)
    for number, (name, points) in enumerate(series_of(rows, "line").items()):
        style = [":", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 3))][number % 5]
        axes.axhline(points[0]["y"], linestyle=style, linewidth=1.2,
                     color=LIMIT_COLOURS[number % len(LIMIT_COLOURS)], label=name)
    axes.set_xticks(range(len(places)))
    axes.set_xticklabels([size_text(x) for x in places])
    if bars:
        axes.set_yscale("symlog")
        axes.set_ylim(bottom=0)
    elif is_wide(rows):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))


def draw_apps(axes, rows):
    apps = [a for a in dict.fromkeys(r["app"] for r in rows) if a != "mean"] + ["mean"]
    series = list(dict.fromkeys(r["series"] for r in rows))
    width = 0.8 / len(series)
    for number, name in enumerate(series):
        points = [r for r in rows if r["series"] == name]
        at = [apps.index(r["app"]) - 0.4 + (number + 0.5) * width for r in points]
        axes.bar(at, [r["value"] for r in points], width, label=name)
    axes.set_xticks(range(len(apps)))
    labels = ["geometric mean" if a == "mean" else a for a in apps]
    axes.set_xticklabels(labels, rotation=30, ha="right")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small")


def draw_patterns(axes, rows):
    """A bar for each row: how much of its stretch target is reached, and a mark at its target."""
    places = range(len(rows))
    targets = [r["stretch_target"] / r["target"] if r["unit"] == "us"
               else r["target"] / r["stretch_target"]
               for r in rows]
    colours = ["C2" if r["of_stretch_target"] >= t else "C3" for r, t in zip(rows, targets)]
    axes.barh(places, [r["of_stretch_target"] for r in rows], 0.7, color=colours)
    axes.plot(targets, places, "k|", markersize=12, label="target")
    axes.axvline(1, linestyle=":", color="black", linewidth=1.2, label="stretch target")
    axes.set_yticks(places)
    axes.set_yticklabels([r["what"] for r in rows], fontsize="small")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(0, min(max([1.2] + [r["of_stretch_target"] * 1.1 for r in rows]), 2))
    axes.set_xlabel("of the stretch target")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize="small")


def save(figure, target):
    form = os.path.splitext(target)[1][1:] or "png"
    with figures.whole_file(target, "wb") as file:
        figure.savefig(file, format=form, dpi=120)


def main(arguments):
    if not 1 <= len(arguments) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    path = arguments[0]
    target = arguments[1] if len(arguments) > 1 else os.path.splitext(path)[0] + ".png"
    note = arguments[2] if len(arguments) > 2 else ""
    try:
        import matplotlib
    except ImportError:
        print("plot.py: charts need matplotlib (package python3-matplotlib), which "
              f"{sys.executable} lacks", file=sys.stderr)
        return 3
    matplotlib.use("Agg")
    from matplotlib import pyplot

    try:
        rows = load(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"plot.py: {error}", file=sys.stderr)
        return 2
    of_apps, of_patterns = "app" in rows[0], "row" in rows[0]
    size = (12, 5) if of_apps else (9, 6.5) if of_patterns else (9, 5.5)
    figure, axes = pyplot.subplots(figsize=size, constrained_layout=True)
    if note:
        figure.supxlabel(note, fontsize="x-small")
    if of_patterns:
        draw_patterns(axes, rows)
        axes.set_title("Access patterns with default settings")
        save(figure, target)
        return 0
    (draw_apps if of_apps else draw_sweep)(axes, rows)
    title, x_label = FIGURES.get(rows[0]["figure"], ("", None if of_apps else "bytes"))
    number = rows[0]["figure"]
    prefix = f"GPUfs readahead paper, figure {number}: " if number.isdigit() else ""
    axes.set_title(prefix + title)
    unit = rows[0]["unit"]
    rises = any(word in unit for word in ("speed-up", "GB/s", "times"))
    axes.set_ylabel(unit + (" (higher is better)" if rises else ""))
    if x_label:
        axes.set_xlabel(x_label)
    save(figure, target)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
