#!/usr/bin/env python3
"""Changes one place of the sources at a time and asks whether a suite notices.

  scripts/mutate.py [--seed N] [--count N] [--skip N] [--preset coverage|emulated-tsan]
                    [--kinds KIND,...] [--files GLOB] [--suites N]

  order      a memory order becomes relaxed        call       a release, settle or wake is left out
  bound      < and <=, > and >= change places      condition  == and !=, && and || change places
  step       + and - change places                 constant   a number becomes one more

Works on a copy of the tree in build/mutants/PRESET. Run scripts/coverage.sh first: its suites.json
names the suites that run the changed line. Of these the ones are built and run that run most of
the changed file, and of equal ones those that run the fewest other lines. Constants and members'
first values have no counted line: all suites that run the file are asked. --skip leaves out the
first changes of a seed, which an earlier run has judged.
Changes of an order need --preset emulated-tsan: other programs on this processor do not show them.

Prints for each change 'killed by SUITE', 'survived' or 'does not compile', with the changed line.
The last line counts them. Exit status 0, whatever the counts.
"""
import argparse
import collections
import filecmp
import fnmatch
import json
import os
import random
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ("gpufs/", "host-daemon/", "prefetcher/")
# The emulated device and the CUDA runtime's wrappers stand for the hardware.
LEFT_OUT = ("gpufs/device/",)
OTHER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "+": "-", "-": "+", "==": "!=", "!=": "==",
         "&&": "||", "||": "&&"}
KINDS = {
    "order": re.compile(r"memory_order_(?:acquire|release|acq_rel|seq_cst)"),
    "bound": re.compile(r"(?<= )(?:<|<=|>|>=)(?= [^{>]*$|\s[^<>]*[;){])"),
    "step": re.compile(r"(?<= )[+-](?= )"),
    "condition": re.compile(r"(?<= )(?:==|!=|&&|\|\|)(?= )"),
    "constant": re.compile(r"(?<![\w.'])\d+(?![\w.'])"),
    "call": re.compile(r"^(?:if \([^()]*\) )?[\w:.>-]*"
                       r"(?:release|settle|fence|notify|wake|unpin|unlock)\w*\([^;]*\);$"),
}
NO_CODE = re.compile(r"^\s*(//|#|namespace|template|using|static_assert|enum|struct|class)")


def changed(kind, found):
    if kind == "order":
        return "memory_order_relaxed"
    if kind == "constant":
        return str(int(found) + 1)
    return "" if kind == "call" else OTHER[found]


def sites(tree, kinds, files):
    """All changes that can be made: (kind, file, line number, line, changed line)."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", *FOLDERS], capture_output=True,
                            text=True, check=True).stdout.split()
    found = {kind: [] for kind in kinds}
    for name in listed:
        if name.startswith(LEFT_OUT) or not fnmatch.fnmatchcase(name, files):
            continue
        with open(os.path.join(tree, name), encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines, 1):
            code = line.split("//")[0].rstrip()
            if NO_CODE.match(line) or not code:
                continue
            start = len(code) - len(code.lstrip())
            for kind in kinds:
                for m in KINDS[kind].finditer(code.strip()):
                    text = code.strip()
                    new = text[:m.start()] + changed(kind, m.group()) + text[m.end():]
                    found[kind].append((kind, name, number, line, " " * start + (new or ";")))
    return [places for places in found.values() if places]


class Trial:
    def __init__(self, preset, suites_per_change):
        self.preset, self.number = preset, suites_per_change
        self.tree = os.path.join(ROOT, "build", "mutants", preset)
        self.build = os.path.join("build", preset)
        with open(os.path.join(ROOT, "build", "coverage", "suites.json"), encoding="utf-8") as file:
            self.suites_of = json.load(file)
        self.lines_of = {}
        for lines in self.suites_of.values():
            for suites in lines.values():
                for suite in suites:
                    self.lines_of[suite] = self.lines_of.get(suite, 0) + 1
        self.copy_tree()

    def copy_tree(self):
        files = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True,
                               check=True).stdout.split()
        for name in files:
            source, copy = os.path.join(ROOT, name), os.path.join(self.tree, name)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            # A copy that is newer than it need be would be built again.
            if not os.path.exists(copy) or not filecmp.cmp(source, copy, shallow=False):
                shutil.copy(source, copy)
        self.run(["cmake", "--preset", self.preset, "-DGPUFS_BUILD_APPS=OFF"], 600)

    def run(self, command, limit):
        try:
            return subprocess.run(command, cwd=self.tree, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=limit,
                                  env=dict(os.environ, LLVM_PROFILE_FILE=os.devnull)).returncode
        except subprocess.TimeoutExpired:
            return "time-out"

    def chosen(self, name, number):
        in_file = collections.Counter(
            suite for of_line in self.suites_of.get(name, {}).values() for suite in of_line)
        suites = self.suites_of.get(name, {}).get(str(number), in_file)
        return sorted(suites, key=lambda s: (-in_file[s], self.lines_of[s]))[:self.number]

    def verdict(self, change):
        _, name, number, line, new = change
        suites = self.chosen(name, number)
        if not suites:
            return "survived: no suite runs the file"
        path = os.path.join(self.tree, name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        lines[number - 1] = new
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            for suite in suites:
                if self.run(["ninja", "-C", self.build, suite], 3600) != 0:
                    return "does not compile"
                ended = self.run([os.path.join(self.build, "bin", suite)], 300)
                if ended != 0:
                    return f"killed by {suite} ({ended})"
            return "survived: " + " ".join(suites)
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--preset", default="coverage")
    parser.add_argument("--kinds", default="bound,step,condition,constant,call")
    parser.add_argument("--files", default="*")
    parser.add_argument("--suites", type=int, default=3)
    parser.add_argument("--list", action="store_true", help="the changes, without a trial")
    given = parser.parse_args()
    places = sites(ROOT, given.kinds.split(","), given.files)
    draw = random.Random(given.seed)
    # First the kind, then the place: else most changes would be of constants.
    changes = [draw.choice(draw.choice(places)) for _ in range(given.count)]
    changes = changes[given.skip:]
    trial = None if given.list else Trial(given.preset, given.suites)
    counts = {"killed": 0, "survived": 0, "does": 0}
    for change in changes:
        kind, name, number, line, new = change
        said = "killed" if trial is None else trial.verdict(change)
        counts[said.split(":")[0].split()[0]] += 1
        print(f"{name}:{number}: {kind}: {said}\n  - {line.strip()}\n  + {new.strip()}", flush=True)
    if trial is not None:
        print(f"seed {given.seed}: {counts['killed']} killed, {counts['survived']} survived, "
              f"{counts['does']} do not compile")


if __name__ == "__main__":
    sys.exit(main())
