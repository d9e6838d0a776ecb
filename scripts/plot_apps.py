#!/usr/bin/env python3
"""plot_apps.py CSV [PNG]: draws what `gpufs bench apps` wrote as figure_N-SIZE.csv; PNG is by default the same name with .png.

Needs matplotlib (Debian: python3-matplotlib). Exit status 3: it is not installed for this Python; 2: the CSV is not one of these."""
import csv
import os
import sys

TITLES = {
    "11": "end to end, cache fits",
    "12": "I/O bandwidth, cache fits",
    "13": "end to end, cache smaller than the input",
    "14": "I/O bandwidth, cache smaller than the input",
}
COLUMNS = ["figure", "app", "series", "value", "unit"]


def load(path):
    with open(path, newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{path}: columns must be {','.join(COLUMNS)}")
        rows = [{**r, "value": float(r["value"])} for r in reader]
    if not rows:
        raise ValueError(f"{path}: holds no rows")
    return rows


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
        print(f"plot_apps.py: {error}", file=sys.stderr)
        return 2
    apps = [a for a in dict.fromkeys(r["app"] for r in rows) if a != "mean"] + ["mean"]
    series = list(dict.fromkeys(r["series"] for r in rows))
    figure, axes = pyplot.subplots(figsize=(12, 5), constrained_layout=True)
    width = 0.8 / len(series)
    for number, name in enumerate(series):
        points = [r for r in rows if r["series"] == name]
        at = [apps.index(r["app"]) - 0.4 + (number + 0.5) * width for r in points]
        axes.bar(at, [r["value"] for r in points], width, label=name)
    axes.set_xticks(range(len(apps)))
    axes.set_xticklabels(["geometric mean" if a == "mean" else a for a in apps], rotation=30, ha="right")
    axes.set_ylabel(rows[0]["unit"])
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small")
    axes.set_title(f"Paper 001, figure {rows[0]['figure']}: {TITLES.get(rows[0]['figure'], '')}")
    figure.savefig(target, dpi=120)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
