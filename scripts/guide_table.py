"""The table of docs/performance.md: which call for which pattern, and how fast it was.

A field in braces is a figure of docs/results: {ROW} is the rate of that row of patterns.json or of
ratios-array.json, {ROW/} its ratio to what stands beside it. scripts/results.py writes the table.
"""
import re

# Pattern, call, figures, what to know.
ROWS = (
    ("blocks stream a whole file once, in order", "`gread` by blocks",
     "{stream} GB/s ({stream/} of hand-written pipelines)",
     "readahead does it; nothing to set"),
    ("one block alone streams", "`gread` of 1 MiB", "{oneblock} GB/s",
     "its warps share long reads out; needs a multiple of 32 threads, 64 at least"),
    ("records at a constant distance, blocks or warps", "`gread`, 4 KiB pages",
     "{pieces} M/s of 512 B, {pages} GB/s of 4 KiB",
     "the pages of the next records come into the cache ahead"),
    ("records far apart, each warp its own", "`gread` with an `io_context` over a 32-thread tile",
     "{random} GB/s of random 4 KiB records, without advice",
     "advise `random`; records smaller than a page fetch the page"),
    ("the same, of a file that is read again and again", "the same, `io_path = registered`",
     "57.3 GB/s once the file is registered (an older run)",
     "registering takes time: some 20 GB/s"),
    ("popular records (Zipf)", "the same", "{zipf} GB/s",
     "hits in GPU memory; give `cache_size` what you can"),
    ("single elements by an index, under divergence", "`array<T const>`",
     "{floats} M/s from the host, {hotrandom} GB/s of hits",
     "lanes that access together share look-ups"),
    ("runs of elements", "`held_ptr` from `a.pointer(i)`",
     "{ptrstream} GB/s of hits with 64 KiB pages (`a[i]`: {arraystream}; with 4 KiB pages "
     "{hotstream})", "no look-up within a page"),
    ("runs of elements that a thread stores", "`held_writer` from `a.writer(i)`", "",
     "one post for each run in a page; lanes side by side store through `array<T>`"),
    ("a structure inside a page, used for long", "`gmmap`", "",
     "a raw pointer until `gmunmap`; pins the page"),
    ("many reads known ahead, one warp", "`gread_async`, `gwait`", "",
     "hides the {latency} us of a miss"),
    ("many small files", "`gopen`, `gread`, `gclose`", "{files} k/s",
     "descriptors are shared by blocks"),
    ("a new file is written once", "`gwrite`, `O_GWRONCE`, `gfsync`",
     "{write} GB/s on a disk, {writetmpfs} GB/s on tmpfs",
     "{write/} and {writetmpfs/} of host threads that pwrite and sync at the end"),
    ("data that CPU and GPU change in turns, in GPU memory", "`shared_memory`",
     "see [shared memory](mapping.md)",
     "plain pointers; parts that do not fit lie in host memory"),
)


def guide_table(patterns, arrays, number):
    """Yields the table's lines. `patterns`, `arrays`: the results; `number` prints a figure."""
    rows = {**arrays["rows"], **patterns["rows"]}

    def figure(field):
        name, ratio = field[1], field[2] == "/"
        row = rows[name]
        return number(row["ratio"] if ratio else row.get("rate", row.get("GBps")))

    yield "| pattern | call | measured | what to know |"
    yield "|---|---|---|---|"
    for row in ROWS:
        yield "| " + " | ".join(re.sub(r"\{(\w+)(/?)\}", figure, cell) for cell in row) + " |"
