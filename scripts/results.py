#!/usr/bin/env python3
"""results.py write|check|compare NEW [OLD]: the figures of documents, from the raw results.

docs/results/ holds what scripts/measure.sh wrote on a machine with a GPU: JSON of `gpufs bench` and
of python/bench/records.py. first-steps.json is of scripts/first_steps.sh. The folder second has
some of another run. README.md, docs/python.md, docs/performance.md and docs/benchmarks.md have
tables of them between marks. Nobody types these figures.

write         puts the tables into the documents.
check         fails if they have others.
compare NEW [OLD]  names each row whose rate differs by more than 5 % between two folders of
              results (OLD: docs/results). The exit status is 0: machines of one kind differ, too.
"""
import argparse
import json
import pathlib
import statistics
import sys
import textwrap

from guide_table import guide_table

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
BEGIN = "<!-- scripts/results.py writes this, from docs/results: {} -->\n"
END = "<!-- end of results -->\n"
SETS = ("ratios-sequential", "ratios-random", "ratios-array")
SAME = 0.05  # rates that differ by less agree


def load(folder, name):
    """Returns the last line of NAME.json that is an object; the program may print others first."""
    lines = (folder / f"{name}.json").read_text(encoding="utf-8").splitlines()
    return json.loads(next(line for line in reversed(lines) if line.startswith("{")))


def load_object(folder, name):
    """Returns NAME.json, one object."""
    return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))


def number(value):
    """Three digits that count; whole numbers from 100 on. A dash for what was not measured."""
    if value is None:
        return "-"
    if abs(value) >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 10 or value != round(value) else f"{value:.0f}"


def machine(result):
    return (f"{result['device']}, {result['cpu']}, {result['kernel']}; gpufs {result['version']}, "
            f"commit {result['commit']}; {result['date'][:10]}")


def pattern_table(result):
    yield "| access pattern, default settings | gpufs | beside it | ratio | host bytes / wanted |"
    yield "|---|---|---|---|---|"
    for row in result["rows"].values():
        if "rate" not in row:
            continue
        other = row.get("equivalent_rate")
        beside = f"{row['equivalent']}: {number(other)}" if other else ""
        yield (f"| {row['what']} | {number(row['rate'])} {row['unit']} | {beside} | "
               f"{number(row.get('ratio')) if other else ''} | "
               f"{number(row.get('host_per_wanted'))} |")


def ratio_table(results):
    yield "| what / beside what | GB/s | beside it | ratio | lowest round |"
    yield "|---|---|---|---|---|"
    for result in results:
        for row in result["rows"].values():
            if row.get("ratio") is None:
                continue
            yield (f"| {row['what']} | {number(row['GBps'])} | {number(row['against_GBps'])} | "
                   f"{number(row['ratio'])} | {number(min(row['ratios']))} |")


def peer_table(result):
    record = result["record"]
    yield f"| way | stream, GB/s | random records of {record} bytes, million/s |"
    yield "|---|---|---|"
    for row in result["rows"].values():
        stream, records = (row.get(part, {}).get("GBps") for part in ("stream", "records"))
        if stream is None and records is None:
            continue
        yield (f"| {row['what']} | {number(stream)} | "
               f"{number(records and records * 1e3 / record)} |")


def not_there(result):
    """Names the ways that could not be measured, with the reasons."""
    reasons = [f"{row['what']} ({row['stream']['missing']})" for row in result["rows"].values()
               if "missing" in row.get("stream", {})]
    return f"Not there: {'; '.join(reasons)}." if reasons else ""


def grid(result):
    return (f"{result['blocks']} blocks of {result['threads']} threads, a file of "
            f"{result['bytes'] >> 20} MiB, pages of {result['settings']['page_size'] >> 10} KiB")


def tables():
    patterns = load(RESULTS, "patterns")
    peers = load(RESULTS, "peers")
    ratios = [load(RESULTS, name) for name in SETS]
    first = ratios[0]
    yield from textwrap.wrap(
        f"One {patterns['device']}, default settings (`gpufs bench patterns`; {grid(patterns)} "
        f"unless the row says otherwise, median of {rounds(patterns)} rounds):", 100)
    yield ""
    yield from pattern_table(patterns)
    yield ""
    yield from textwrap.wrap(
        f"{registered(patterns)} Measured on: {machine(patterns)}.", 100)
    yield ""
    yield from textwrap.wrap(
        f"One {first['device']}, chosen settings (`gpufs bench ratios`; {grid(first)}, arrays with "
        f"pages of {ratios[2]['settings']['page_size'] >> 10} KiB, "
        f"median of {first['runs']} rounds):", 100)
    yield ""
    yield from ratio_table(ratios)
    yield ""
    yield from textwrap.wrap(f"Measured on: {machine(first)}.", 100)
    yield ""
    yield from textwrap.wrap(
        f"What else brings a file to a GPU, one {peers['device']} (`gpufs bench peers`, "
        f"{peers['bytes'] >> 20} MiB in the OS page cache, median of {peers['runs']} rounds):", 100)
    yield ""
    yield from peer_table(peers)
    yield ""
    yield from textwrap.wrap(f"{not_there(peers)} Measured on: {machine(peers)}.".strip(), 100)


def registered(patterns):
    """Registering windows beside the kernel is part of a row's rate. Says how long it took."""
    rows = [f"{number(row['registering_ms'])} ms in the row \"{row['what']}\""
            for row in patterns["rows"].values() if row.get("registering_ms")]
    return ("File windows were registered while kernels ran: " + ", ".join(rows) + "."
            if rows else "No file windows were registered.")


def rounds(patterns):
    return max(len(row.get("rates", [])) for row in patterns["rows"].values())


def record_tables():
    result = load_object(RESULTS, "records")
    rows = {row["row"]: row for row in result["results"]}
    ours = statistics.median(rows["gpufs gather"]["seconds"])
    yield from textwrap.wrap(
        f"{result['batch'] * result['batches']:,} random records of {result['record']} bytes of a "
        f"file of {result['file_bytes'] >> 20} MiB in the OS page cache, into one tensor in GPU "
        f"memory of one {result['device_name']} (`python/bench/records.py`, median of "
        f"{result['rounds']} rounds):", 100)
    yield ""
    yield "| way | million records/s | GB/s | time / gather()'s |"
    yield "|---|---|---|---|"
    for name, row in rows.items():
        ratio = statistics.median(row["seconds"]) / ours
        if name == "KvikIO":
            name = f"KvikIO, num_threads {result['kvikio_num_threads']}, its default"
        yield (f"| {name} | {number(row['records_per_second'] / 1e6)} | {number(row['GBps'])} | "
               f"{number(ratio)} |")
    yield ""
    skipped = "; ".join(f"{name}, {why}" for name, why in result["skipped"].items())
    kvikio = (f" KvikIO {result['kvikio']} (compat_mode {result['kvikio_compat_mode']});"
              if "kvikio" in result else "")
    yield from textwrap.wrap(
        (f"Not there: {skipped}. " if skipped else "") +
        f"Measured on: {result['device_name']}, {result['cpu']}, {result['kernel']}; gpufs "
        f"{result['version']}, commit {result.get('commit', 'unknown')}; PyTorch "
        f"{result['torch']};{kvikio} {result['date'][:10]}.", 100)


def step_tables():
    result = load_object(RESULTS, "first-steps")
    yield "| step | command | time |"
    yield "|---|---|---|"
    for row in result["rows"]:
        seconds = row["seconds"]
        time = f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
        yield f"| {row['step']} | `{row['command']}` | {time if seconds >= 1 else 'below 1 s'} |"
    yield ""
    yield from textwrap.wrap(
        f"Measured by `scripts/first_steps.sh` in a fresh clone, with {result['processors']} "
        f"processors ({result['cpu']}), the packages installed, nothing compiled before: "
        f"{result['variant']}, {result['date'][:10]}.", 100)


def second_tables():
    apart, same = rows_apart(RESULTS / "second", RESULTS)
    facts = load(RESULTS / "second", SETS[0])
    yield from textwrap.wrap(
        f"Peers, ratios and records once more ({machine(facts)}): {same} of "
        f"{same + len(apart)} rows agree within {SAME:.0%}. These do not:", 100)
    yield ""
    yield "| row | first run | second run | difference |"
    yield "|---|---|---|---|"
    for name, unit, was, now in apart:
        yield f"| {name} | {number(was)} {unit} | {number(now)} {unit} | {now / was - 1:+.0%} |"


def guide_tables():
    patterns = load(RESULTS, "patterns")
    yield from guide_table(patterns, load(RESULTS, "ratios-array"), number)
    yield ""
    yield from textwrap.wrap(f"Measured on: {machine(patterns)}.", 100)


# What stands between marks: (document, name, tables).
BLOCKS = (("README.md", "first-steps", step_tables), ("README.md", "figures", tables),
          ("docs/python.md", "records", record_tables),
          ("docs/performance.md", "guide", guide_tables),
          ("docs/benchmarks.md", "second", second_tables))


def replaced(document, text):
    """Returns the document's text with new tables."""
    for page, name, lines in BLOCKS:
        if page != document:
            continue
        before, found, rest = text.partition(BEGIN.format(name))
        _, ended, after = rest.partition(END)
        if not found or not ended:
            sys.exit(f"{document}: the marks {BEGIN.format(name).strip()} and {END.strip()} are "
                     "not there")
        text = before + found + "\n" + "\n".join(lines()) + "\n\n" + END + after
    return text


def rates(folder):
    """Returns {row: (unit, rate)} of the results in the folder, without those that it lacks."""
    found = {}
    for name in ("patterns", *SETS, "peers", "records"):
        if not (folder / f"{name}.json").is_file():
            print(f"{folder}: no {name}.json")
            continue
        if name == "records":
            for row in load_object(folder, name)["results"]:
                found[f"{name}: {row['row']}"] = ("M/s", row["records_per_second"] / 1e6)
            continue
        for key, row in load(folder, name)["rows"].items():
            parts = [(f"{row['what']} ({key})", row)] if name != "peers" else [
                (f"{row['what']}, {part} ({key})", row.get(part, {}))
                for part in ("stream", "records")]
            for what, of in parts:
                if rate := of.get("rate", of.get("GBps")):
                    found[f"{name}: {what}"] = (of.get("unit", "GB/s"), rate)
    return found


def rows_apart(new, old):
    """Returns [(row, unit, rate in old, rate in new)] of rows that differ, and how many agree."""
    before, after = rates(old), rates(new)
    both = sorted(before.keys() & after.keys())
    apart = [(name, *before[name], after[name][1]) for name in both
             if abs(after[name][1] / before[name][1] - 1) > SAME]
    return apart, len(both) - len(apart)


def compare(new, old):
    apart, same = rows_apart(new, old)
    for name, unit, was, now in apart:
        print(f"{name}: {number(was)} {unit}, now {number(now)} ({now / was - 1:+.0%})")
    for name in sorted(rates(old).keys() ^ rates(new).keys()):
        print(f"{name}: in one folder only")
    print(f"{same} of {same + len(apart)} rows agree within {SAME:.0%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("write", "check", "compare"))
    parser.add_argument("folders", nargs="*", type=pathlib.Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.mode == "compare":
        if len(arguments.folders) not in (1, 2):
            parser.error("compare: one folder of results, or two")
        compare(arguments.folders[0], (arguments.folders + [RESULTS])[1])
        return
    for document in sorted({page for page, *_ in BLOCKS}):
        text = (ROOT / document).read_text(encoding="utf-8")
        right = replaced(document, text)
        if arguments.mode == "write":
            (ROOT / document).write_text(right, encoding="utf-8")
        elif right != text:
            sys.exit(f"{document}: its figures are not those of docs/results: run "
                     "scripts/results.py write")


if __name__ == "__main__":
    main()
