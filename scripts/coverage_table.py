#!/usr/bin/env python3
"""Counts the branches of the sources that the suites of preset `coverage` took.

  scripts/coverage_table.py BUILD OUT LIMIT

BUILD has the programs in bin/ and what they wrote in profiles/NAME-*.profraw. A branch is one
outcome, true or false, of a condition in the source. Branches of a template are its source's:
one counts as taken if an instantiation took it in one of the suites. Conditions that the compiler
decides are left out, as are exceptions. Writes to OUT:

  table.txt         branches and taken ones for each folder, also printed
  never-taken.txt   FILE:LINE:COLUMN: never true|false: the condition
  suites.json       for each file and line the suites that run it; scripts/mutate.py chooses by it

Fails if less than LIMIT per cent were taken.
"""
import collections
import glob
import json
import multiprocessing
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("gpufs", "host-daemon", "include", "prefetcher")
EMULATOR = "gpufs/device/emulated"
CODE, BRANCH = 0, 4


def of_tree(path):
    name = os.path.relpath(path, ROOT)
    return name if name.split("/")[0] in FOLDERS else None


def count_around(regions, where):
    """How often the code around a condition ran: the count of the innermost region there."""
    around = [r for r in regions if (r[0], r[1]) <= where < (r[2], r[3])]
    return max(around, key=lambda r: (r[0], r[1]))[4] if around else 0


def lines_run(regions):
    """Lines of a function that ran. Regions lie one in the other, the outer ones come first."""
    ran = {}
    for first, _, last, _, count, *_ in sorted(regions, key=lambda r: (r[0], r[1], -r[2], -r[3])):
        ran[first] = ran.get(first, False) or count > 0
        for line in range(first + 1, last + 1):
            ran[line] = count > 0
    return {line for line, did in ran.items() if did}


def read_function(function, branches, lines):
    for number, path in enumerate(function["filenames"]):
        name = of_tree(path)
        if name is None:
            continue
        regions = [r for r in function["regions"] if r[5] == number and r[7] == CODE]
        lines[name] |= lines_run(regions)
        for branch in function["branches"]:
            if branch[6] != number or branch[8] != BRANCH:
                continue
            taken = [branch[4] > 0, branch[5] > 0]
            # A condition that was reached and counted nothing is one that the compiler decided.
            if not any(taken) and count_around(regions, (branch[0], branch[1])) > 0:
                taken = None
            add_branch(branches[name], tuple(branch[:4]), taken)


def add_branch(branches, place, taken):
    """`taken`: [true, false]. None: the compiler decided, which another instantiation may not."""
    old = branches.get(place)
    if taken is None or old is None:
        branches[place] = taken if old is None else old
    else:
        branches[place] = [old[0] or taken[0], old[1] or taken[1]]


def read_suite(work):
    build, suite, profiles = work
    merged = os.path.join(build, "profiles", suite + ".profdata")
    subprocess.run(["llvm-profdata-16", "merge", "--sparse", "-o", merged, *profiles], check=True)
    exported = subprocess.run(
        ["llvm-cov-16", "export", "-skip-expansions", "-instr-profile", merged,
         os.path.join(build, "bin", suite)], check=True, stdout=subprocess.PIPE).stdout
    branches = collections.defaultdict(dict)
    lines = collections.defaultdict(set)
    for function in json.loads(exported)["data"][0]["functions"]:
        read_function(function, branches, lines)
    return suite, branches, lines


def text_of(name, place, sources):
    if name not in sources:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            sources[name] = file.read().split("\n")
    line, column, last_line, last_column = place
    first = sources[name][line - 1]
    end = last_column - 1 if last_line == line else len(first)
    return first[:column - 1], first[column - 1:end]


def main():
    build, out, limit = os.path.abspath(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    profiles = collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(build, "profiles", "*.profraw"))):
        profiles[os.path.basename(path).split("-")[0]].append(path)
    branches = collections.defaultdict(dict)
    suites = collections.defaultdict(lambda: collections.defaultdict(list))
    with multiprocessing.Pool() as pool:
        for suite, of_suite, lines in pool.imap_unordered(
                read_suite, [(build, suite, paths) for suite, paths in profiles.items()]):
            for name, places in of_suite.items():
                for place, taken in places.items():
                    add_branch(branches[name], place, taken)
            for name, numbers in lines.items():
                for number in numbers:
                    suites[name][number].append(suite)

    totals = collections.defaultdict(lambda: [0, 0])
    missing, sources = [], {}
    for name in sorted(branches):
        folder = EMULATOR if name.startswith(EMULATOR) else "/".join(name.split("/")[:-1])
        for place, taken in sorted(branches[name].items()):
            before, condition = text_of(name, place, sources)
            if taken is None or re.search(r"if constexpr \($", before):
                continue
            for which, did in zip(("true", "false"), taken):
                totals[folder][0] += 1
                totals[folder][1] += did
                if not did:
                    missing.append(f"{name}:{place[0]}:{place[1]}: never {which}: {condition}")

    # The emulated device stands for the hardware. The limit is for what runs on it.
    del_emulated = totals.pop(EMULATOR, [0, 0])
    rows = sorted(totals.items())
    rows += [("total", [sum(r[1][i] for r in rows) for i in (0, 1)]),
             (EMULATOR + " (not in the total)", del_emulated)]
    table = [f"{'folder':46} branches  taken  per cent"]
    table += [f"{folder:46} {all_of:8} {taken:6} {100 * taken / max(all_of, 1):9.1f}"
              for folder, (all_of, taken) in rows]
    os.makedirs(out, exist_ok=True)
    for name, text in (("table.txt", table), ("never-taken.txt", missing)):
        with open(os.path.join(out, name), "w", encoding="utf-8") as file:
            file.write("\n".join(text) + "\n")
    with open(os.path.join(out, "suites.json"), "w", encoding="utf-8") as file:
        json.dump(suites, file)
    print("\n".join(table))
    total = rows[-2][1]
    if 100 * total[1] < limit * total[0]:
        print(f"less than {limit:g} per cent: see {os.path.join(out, 'never-taken.txt')}")
        sys.exit(1)


main()
