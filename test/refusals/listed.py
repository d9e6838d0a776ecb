#!/usr/bin/env python3
"""listed.py NM LIBRARY LIST: every call that the library makes is in the list (calls.txt), and
every call that the list refuses is made. Prints what is not, and fails then."""
import re
import subprocess
import sys

nm, library, listing = sys.argv[1:]

# Functions of the language and its library that make no system call and have nothing to refuse.
PURE = re.compile(
    r"mem(chr|cmp|cpy|move|set)|str\w+|to(upper|lower)|snprintf|__\w+|_Unwind_Resume"
    r"|_GLOBAL_OFFSET_TABLE_|stderr|f(write|printf)|(make|jump)_fcontext"
)
# C++: all but what reaches the system. Files of settings are read before there is a filesystem.
REACHES_SYSTEM = re.compile(
    r"_ZNK?St(6thread|6chrono|10filesystem|18condition_variable)|_Z[nd][wal]"
)
NO_CALLS = re.compile(
    r"_ZNK?St10filesystem(7__cxx114path|6statusE)|_ZT|_ZNSt10filesystem16filesystem_error"
)


def symbols(*options):
    out = subprocess.run([nm, *options, library], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in out.splitlines() if len(line.split()) >= 2}


def in_question(symbol):
    if symbol.startswith(("_ZN5gpufs", "_ZNK5gpufs")) or PURE.fullmatch(symbol):
        return False
    if symbol.startswith("_Z"):
        return bool(REACHES_SYSTEM.match(symbol)) and not NO_CALLS.match(symbol)
    return True


refused, exempt = set(), []
for line in open(listing, encoding="utf-8"):
    words = line.split()
    if not words or words[0] == "#":
        continue
    if words[1] == "refuse" and len(words) == 2:
        refused.add(words[0])
    elif words[1] == "exempt" and len(words) > 2:
        exempt.append(words[0])
    elif not line.startswith("#"):
        sys.exit(f"{listing}: {line.strip()}: must be SYMBOL refuse, or SYMBOL exempt REASON")


def is_exempt(symbol):
    return any(symbol.startswith(e[:-1]) if e.endswith("*") else symbol == e for e in exempt)


needed = symbols("--undefined-only")
missing = sorted(
    s for s in needed - symbols("--defined-only")
    if in_question(s) and s not in refused and not is_exempt(s)
)
stale = sorted(s for s in refused if s not in needed)
for s in missing:
    print(f"{s}: the library calls it, and {listing} does not have it")
for s in stale:
    print(f"{s}: {listing} refuses it, and the library does not call it")
print(f"{len(refused)} symbols are refused, {len(exempt)} exempt")
sys.exit(bool(missing or stale))
