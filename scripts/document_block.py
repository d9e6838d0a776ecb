#!/usr/bin/env python3
"""document_block.py PAGE NAME: prints the block of code that follows the line <!-- NAME -->.

document_block.py --check PAGE... -- NAME...: every block of C++, CMake and Python of the pages
follows such a line with one of the names, and each name is used once. Prints what is wrong, a line
each. Exit status: 0 if nothing is.
"""
import re
import sys
import textwrap

CHECKED = ("cpp", "cmake", "python")
MARK = re.compile(r"^ *<!-- (\S+) -->$")
FENCE = re.compile(r"^ *```(\w*)$")


def blocks(page):
    """(line, language, name or None, code) of each block."""
    with open(page, encoding="utf-8") as file:
        lines = file.read().splitlines()
    begin = None
    for number, line in enumerate(lines):
        fence = FENCE.match(line)
        if fence and begin is None:
            begin, language = number, fence[1]
        elif fence:
            mark = MARK.match(lines[begin - 1]) if begin > 0 else None
            code = textwrap.dedent("\n".join(lines[begin + 1:number])) + "\n"
            yield begin + 1, language, mark and mark[1], code
            begin = None


def check(pages, names):
    wrong, left = [], set(names)
    for page in pages:
        for line, language, name, _ in blocks(page):
            if language not in CHECKED:
                continue
            if name is None:
                wrong.append(f"{page}:{line}: a line <!-- NAME --> is missing before the block, so "
                             "nothing compiles or runs it")
            elif name not in left:
                wrong.append(f"{page}:{line}: {name} is not compiled or run, or is there twice")
            left.discard(name)
    wrong += [f"{name}: no page shows it" for name in sorted(left)]
    print("\n".join(wrong) if wrong else f"{len(names)} blocks are compiled or run")
    return 1 if wrong else 0


def show(page, wanted):
    found = [code for _, _, name, code in blocks(page) if name == wanted]
    if len(found) != 1:
        sys.exit(f"{page} shows {wanted} {len(found)} times, once would be right")
    sys.stdout.write(found[0])
    return 0


def main(arguments):
    if arguments[:1] == ["--check"] and "--" in arguments:
        end = arguments.index("--")
        return check(arguments[1:end], arguments[end + 1:])
    if len(arguments) != 2:
        sys.exit(__doc__)
    return show(*arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
