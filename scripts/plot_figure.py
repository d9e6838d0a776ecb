#!/usr/bin/env python3
"""plot_figure.py CSV [PNG]: draws what `gpufs bench paper` wrote as figure_N.csv; PNG is by default the same name with .png.

Needs matplotlib (Debian: python3-matplotlib). Exit status 3: it is not installed for this Python; 2: the CSV is not one of these."""
import csv
import os
import sys

TITLES = {
    "2": ("Page size", "Page size (bytes)"),
    "3": ("Requests without transfers", "Request size (bytes)"),
    "5": ("The same reads with and without the device", "Request size (bytes)"),
    "6": ("Looks for work before a host thread's first request", "Request size (bytes)"),
    "7": ("Page size, file on tmpfs", "Page size (bytes)"),
    "9": ("Readahead with 4 KiB pages", "Readahead, or page size (bytes)"),
    "10": ("File of twice the cache", "Readahead (bytes)"),
}
COLUMNS = ["figure", "series", "kind", "x", "y", "unit", "low", "high"]


def size_text(size):
    for unit, name in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)


def load(path):
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{path}: columns must be {','.join(COLUMNS)}")
        rows = [{**r, "x": int(r["x"]), "y": float(r["y"]), "low": float(r["low"]), "high": float(r["high"])} for r in reader]
    if not rows:
        raise ValueError(f"{path}: holds no rows")
    return rows


def series_of(rows, kind):
    found = {}
    for row in rows:
        if row["kind"] == kind:
            found.setdefault(row["series"], []).append(row)
    return found


def draw(axes, rows):
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
    if bars:
        axes.set_yscale("symlog")
    for number, (name, points) in enumerate(series_of(rows, "line").items()):
        style = [":", "--", "-."][number % 3]
        axes.axhline(points[0]["y"], linestyle=style, linewidth=1.2, color=f"C{(number + 4) % 10}", label=name)
    axes.set_xticks(range(len(places)))
    axes.set_xticklabels([size_text(x) for x in places])
    axes.set_ylabel(rows[0]["unit"])
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)


def main(arguments):
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    path = arguments[0]
    target = arguments[1] if len(arguments) == 2 else os.path.splitext(path)[0] + ".png"
    try:
        import matplotlib
    except ImportError:
        return 3
    matplotlib.use("Agg")
    from matplotlib import pyplot

    try:
        rows = load(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"plot_figure.py: {error}", file=sys.stderr)
        return 2
    title, x_label = TITLES.get(rows[0]["figure"], ("", "bytes"))
    figure, axes = pyplot.subplots(figsize=(9, 5.5), constrained_layout=True)
    draw(axes, rows)
    axes.set_title(f"Paper 001, figure {rows[0]['figure']}: {title}")
    axes.set_xlabel(x_label)
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(target, dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
