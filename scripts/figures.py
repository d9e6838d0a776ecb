"""What mapping_figures.py and bam_figures.py share: the columns of their CSVs, which plot.py draws,
and how a folder of runs becomes figures. And how scripts write files."""
import contextlib
import csv
import os
import subprocess
import sys

SWEEP = ["figure", "series", "kind", "x", "y", "unit", "low", "high"]
APPS = ["figure", "app", "series", "value", "unit"]


@contextlib.contextmanager
def whole_file(path, mode="w", **how):
    """Opens a file that appears whole or not at all: PATH.part until its bytes are durable. What is
    there and no regular file is just written to."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, mode, **how) as file:
            yield file
        return
    path = os.path.realpath(path)
    part = path + ".part"
    try:
        with open(part, mode, **how) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def make(figures_of, arguments, usage, command):
    """Writes NAME.csv for each (NAME, (columns, rows)) of figures_of(folder) that has rows, and has
    it drawn. `command` makes the runs. Returns the exit status: 2 there are none, or they cannot be
    read."""
    if not 1 <= len(arguments) <= 2:
        print(usage, file=sys.stderr)
        return 2
    folder, note = arguments[0], arguments[1:]
    script = os.path.basename(sys.argv[0])
    plot = os.path.join(os.path.dirname(os.path.abspath(__file__)), "plot.py")
    made = 0
    try:
        for name, table in figures_of(folder):
            if not table or not table[1]:
                continue
            columns, rows = table
            path = os.path.join(folder, name + ".csv")
            with whole_file(path, newline="", encoding="utf-8") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(columns)
                writer.writerows(rows)
            made += 1
            picture = os.path.splitext(path)[0] + ".png"
            subprocess.run([sys.executable, plot, path, picture, *note], check=False)
    except (OSError, ValueError, KeyError, IndexError) as error:
        print(f"{script}: {folder}: {error!r}", file=sys.stderr)
        return 2
    if made == 0:
        print(f"{script}: no runs in {folder}: run {command} --figure all --out {folder} first",
              file=sys.stderr)
        return 2
    return 0
