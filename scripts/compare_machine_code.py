#!/usr/bin/env python3
"""Compares the CUDA machine code of two builds, but for names and for the order of functions.

  scripts/compare_machine_code.py OLD NEW [--map FILE] [--jobs N] [--verbose]

OLD and NEW are build folders (all objects *.o below them) or single files with CUDA code in them.
Shows that a renaming or a move changed nothing that a GPU runs. Both builds need the same compiler,
the same architectures and the same options; line information does not matter.

The bytes of every function are compared, not a listing of them. These parts are replaced first:
  a call or jump into another function   by the contents of that function
  a return address, a jump table         by positions in the function itself
  constants and addresses with a symbol  by the contents or the size of the symbol
A kernel is compared with its registers, stack, shared memory, barriers and parameters, too.
Functions may lie in other objects: all functions of a build form one bag.

ptxas goes through the functions in the order of their names. A renaming alone can therefore change
which scoreboard a load or a join uses, stall counts, and where a YIELD stands. Functions that are
equal in all but these are "equal but for scheduling". With --strict they count as different.

Even the choice of registers can change. PTX shows then whether the source or ptxas is the reason:
objects that hold PTX (-DCMAKE_CUDA_ARCHITECTURES=90-virtual) are compared by their PTX in the same
way. Two builds of PTX that are equal give ptxas the same work.

Prints how many functions are equal and lists the others. Exit status: 0 all are equal, 1 some
differ, 2 there is nothing to compare.

--map FILE has lines 'OLD NEW': words to replace in the names of OLD. A function that differs is
then listed with its namesake. Names play no part in the comparison itself.
"""
import argparse
import collections
import ctypes
import ctypes.util
import hashlib
import multiprocessing
import os
import re
import shutil
import struct
import subprocess
import sys

ELF_MAGIC = b"\x7fELF"
EM_CUDA = 190
FATBIN_MAGIC = 0xBA55ED50
ENTRY_PTX, ENTRY_ELF = 1, 2  # kinds of an entry of a fat binary
FLAG_LZ4, FLAG_ZSTD = 0x2000, 0x8000
SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_REL = 2, 4, 8, 9
STT_FUNC = 2

# Instructions are 16 bytes. The low 12 bits are the operation.
JUMP_RELATIVE = {0x944, 0x947, 0x949, 0x950}  # CALL.REL, BRA, BRX, RET.REL
CALL_RELATIVE = 0x944
BEGIN_RECONVERGENCE = 0x945  # BSSY: the offset of the matching BSYNC
RECONVERGENCE = {0x941, 0x942, 0x945}  # BSYNC, BREAK, BSSY: bits 16 to 19 choose a scoreboard
MOVE_IMMEDIATE = {0x802, 0x424}  # MOV and IMAD.MOV with 32 bits
NOP, YIELD = 0x918, 0x946
SCHEDULING = 0x7FFFFF << 41  # of the upper half: stall count, scoreboards, register reuse
LEVELS = ("exact", "unscheduled")
# .nv.info: a byte that says how the value is stored, a byte that names the attribute.
KERNEL_ATTRIBUTES = {0x05, 0x10, 0x17, 0x19, 0x1B, 0x3D, 0x3E, 0x4C}  # limits, parameters, barriers
SYMBOL_ATTRIBUTES = {0x11: "stack", 0x2F: "registers"}

# own, full: a digest for each level, of the function alone and with all that it calls
Function = collections.namedtuple("Function", "name kernel own full instructions facts")


class Elf:
    """Sections and symbols of a 64-bit ELF file."""

    def __init__(self, data):
        self.data = data
        (offset,) = struct.unpack_from("<Q", data, 0x28)
        count, names = struct.unpack_from("<HH", data, 0x3C)
        self.machine, = struct.unpack_from("<H", data, 0x12)
        (self.flags,) = struct.unpack_from("<I", data, 0x30)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + 64 * i)
                         for i in range(count)]
        self.names = [self.string(names, s[0]) for s in self.sections]

    def string(self, section, offset):
        begin = self.sections[section][4] + offset
        return self.data[begin:self.data.index(b"\0", begin)].decode()

    def contents(self, index):
        section = self.sections[index]
        return b"" if section[1] == SHT_NOBITS else self.data[section[4]:section[4] + section[5]]

    def symbols(self):
        """(name, type, section, value, size) of each symbol."""
        for index, section in enumerate(self.sections):
            if section[1] == SHT_SYMTAB:
                for name, info, _, where, value, size in struct.iter_unpack(
                        "<IBBHQQ", self.contents(index)):
                    yield self.string(section[6], name), info & 15, where, value, size
                return

    def relocations(self):
        """{section: {offset: (type, symbol, addend)}}."""
        found = collections.defaultdict(dict)
        for index, section in enumerate(self.sections):
            if section[1] == SHT_RELA:
                for offset, info, addend in struct.iter_unpack("<QQq", self.contents(index)):
                    found[section[7]][offset] = (info & 0xFFFFFFFF, info >> 32, addend)
            elif section[1] == SHT_REL:
                for offset, info in struct.iter_unpack("<QQ", self.contents(index)):
                    found[section[7]][offset] = (info & 0xFFFFFFFF, info >> 32, 0)
        return found


def decompress(data, size, flags):
    library = ctypes.util.find_library("zstd" if flags & FLAG_ZSTD else "lz4")
    if not library:
        sys.exit("compressed machine code: install libzstd1 and liblz4-1")
    out = ctypes.create_string_buffer(size)
    library = ctypes.CDLL(library)
    if flags & FLAG_ZSTD:
        library.ZSTD_decompress.restype = ctypes.c_size_t
        library.ZSTD_decompress.argtypes = [ctypes.c_void_p, ctypes.c_size_t,
                                            ctypes.c_char_p, ctypes.c_size_t]
        written = library.ZSTD_decompress(out, size, data, len(data))
    else:
        written = library.LZ4_decompress_safe(data, out, len(data), size)
    if written != size:
        sys.exit("compressed machine code is damaged, or its form is not known")
    return out.raw


def fat_binary_programs(data):
    """The ELF files and the PTX texts in the contents of a section .nv_fatbin: Program, Ptx."""
    at = 0
    while at + 16 <= len(data):
        magic, _, header, size = struct.unpack_from("<IHHQ", data, at)
        if magic != FATBIN_MAGIC:
            at += 8
            continue
        entry, end = at + header, at + header + size
        while entry < end:
            kind, _, entry_header, padded = struct.unpack_from("<HHIQ", data, entry)
            (stored,) = struct.unpack_from("<I", data, entry + 0x10)
            (flags,) = struct.unpack_from("<Q", data, entry + 0x28)
            body = data[entry + entry_header:entry + entry_header + padded]
            if kind in (ENTRY_ELF, ENTRY_PTX):
                if flags & (FLAG_LZ4 | FLAG_ZSTD):
                    (unpacked,) = struct.unpack_from("<Q", data, entry + 0x38)
                    body = decompress(body[:stored], unpacked, flags)
                yield Program(Elf(body)) if kind == ENTRY_ELF else Ptx(body)
            entry += entry_header + padded
        at = end


def programs(path):
    """All CUDA programs in an object, an archive, an executable or a cubin."""
    with open(path, "rb") as file:
        data = file.read()
    members = []
    if data.startswith(b"!<arch>\n"):
        at = 8
        while at + 60 <= len(data):
            size = int(data[at + 48:at + 58])
            members.append(data[at + 60:at + 60 + size])
            at += 60 + size + (size & 1)
    else:
        members.append(data)
    for member in members:
        if not member.startswith(ELF_MAGIC):
            continue
        elf = Elf(member)
        if elf.machine == EM_CUDA:
            yield Program(elf)
            continue
        for index, name in enumerate(elf.names):
            if name == ".nv_fatbin":
                yield from fat_binary_programs(elf.contents(index))


def jump_target(low, high, at, split):
    """Where the relative jump at `at` goes. From sm_90 on, 8 bits of the offset stand apart."""
    offset = low >> 34 | (high & 0x3FFFF) << 30
    if offset >> 47:
        offset -= 1 << 48
    if split:
        offset = offset << 8 | (low >> 16 & 0xFF)
    return at + 16 + offset * 4


def digest(*parts):
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        part = part if isinstance(part, bytes) else repr(part).encode()
        state.update(struct.pack("<Q", len(part)))
        state.update(part)
    return state.hexdigest()


class Program:
    """The functions of one CUDA ELF file in a form without names."""

    def __init__(self, elf):
        self.elf = elf
        self.architecture = elf.flags >> 8 & 0xFF or elf.flags & 0xFF
        self.split_jumps = self.architecture >= 90
        self.symbols = list(elf.symbols())
        self.relocations = elf.relocations()
        self.attributes = self.symbol_attributes()
        self.ranges = collections.defaultdict(list)  # of each section: (begin, symbol)
        for index, (_, kind, section, value, _) in enumerate(self.symbols):
            if kind == STT_FUNC and section < len(elf.sections):
                self.ranges[section].append((value, index))
        self.parts = {}  # (section, begin) -> a function without names
        for section, starts in self.ranges.items():
            starts.sort()
            text = elf.contents(section)
            ends = [begin for begin, _ in starts[1:]] + [len(text)]
            for (begin, symbol), end in zip(starts, ends):
                self.parts[section, begin] = self.strip(section, text, begin, end, symbol)
            self.add_tables(section)

    def symbol_attributes(self):
        found = collections.defaultdict(dict)
        for index, name in enumerate(self.elf.names):
            if name == ".nv.info":
                for attribute, value in self.attributes_in(index):
                    if attribute in SYMBOL_ATTRIBUTES:
                        symbol, number = struct.unpack("<II", value)
                        found[symbol][SYMBOL_ATTRIBUTES[attribute]] = number
        return found

    def attributes_in(self, index):
        data, at = self.elf.contents(index), 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form == 4:
                yield attribute, data[at:at + size]
                at += size
            else:
                yield attribute, struct.pack("<H", size)

    def data_of(self, symbol, addend):
        """What stands for a symbol that is no function: size, kind of section, contents."""
        name, kind, section, value, size = self.symbols[symbol]
        if not section or section >= len(self.elf.sections):
            return ("undefined", name)  # of the toolkit: vprintf, __assertfail
        where = re.match(r"\.[a-z]+(\.[a-z]+[0-9]*)?", self.elf.names[section]).group(0)
        return (where, kind, size, addend, self.elf.contents(section)[value:value + size])

    def strip(self, section, text, begin, end, symbol):
        """The parts of a function: its bytes, and what depends on where things lie."""
        words = [list(word) for word in struct.iter_unpack("<QQ", text[begin:end])]
        while words and words[-1][0] & 0xFFF == NOP:  # padding
            words.pop()
        part = {"words": words, "calls": [], "tokens": [], "tables": [],
                "places": [], "symbol": symbol, "end": end}
        relocations = self.relocations.get(section, {})
        for index, (low, high) in enumerate(words):
            at = begin + 16 * index
            operation = low & 0xFFF
            if operation in JUMP_RELATIVE:
                target = jump_target(low, high, at, self.split_jumps)
                low &= (1 << 34) - 1
                low &= ~0xFF0000 if self.split_jumps else low
                words[index] = [low, high & ~0x3FFFF]
                if begin <= target < end:
                    part["places"].append((index, "jump", target - begin))
                else:
                    part["calls"].append((index, target))
            elif operation == BEGIN_RECONVERGENCE:
                words[index][0] = low & 0xFFFFFFFF
                part["places"].append((index, "join", 16 * (index + 1) + (low >> 32)))
            elif operation in MOVE_IMMEDIATE:
                value = low >> 32
                if begin + 16 <= value <= begin + 16 * len(words) and value % 16 == 0 and \
                        words[(value - begin) // 16 - 1][0] & 0xFFF == CALL_RELATIVE:
                    words[index][0] = low & 0xFFFFFFFF
                    part["places"].append((index, "return address", value - begin))
            elif operation >> 9 & 7 in (3, 5):  # an operand in a constant bank
                bank, offset = low >> 54 & 31, low >> 38 & 0xFFFF
                if bank == 2:
                    words[index][0] &= ~(0xFFFF << 38)
                    part["tables"].append((index, offset))
                elif bank == 4:
                    words[index][0] &= ~(0xFFFF << 38)
                    part["tokens"].append((index, "address", self.address_at(bank, offset)))
            for place in range(at, at + 16, 4):
                if place in relocations:
                    self.relocate(part, index, place - at, relocations[place])
        return part

    def relocate(self, part, index, place, relocation):
        kind, target, addend = relocation
        _, symbol_kind, section, value, _ = self.symbols[target]
        if symbol_kind == STT_FUNC and section:
            part["calls"].append((index, (section, value)))
            part["tokens"].append((index, place, kind, addend))
        else:
            part["tokens"].append((index, place, kind, self.data_of(target, addend)))

    def address_at(self, bank, offset):
        for index, name in enumerate(self.elf.names):
            if name == f".nv.constant{bank}":
                entry = self.relocations.get(index, {}).get(offset)
                if entry:
                    return self.data_of(entry[1], entry[2])
        return offset

    def add_tables(self, section):
        """Jump tables: each function's own, with positions in the function."""
        kernel = self.elf.names[section][len(".text."):]
        name = f".nv.constant2.{kernel}"
        if name not in self.elf.names:
            return
        data = self.elf.contents(self.elf.names.index(name))
        parts = [(begin, part) for (where, begin), part in self.parts.items() if where == section]
        starts = sorted({offset for _, part in parts for _, offset in part["tables"]})
        ends = dict(zip(starts, starts[1:] + [len(data)]))
        for begin, part in parts:
            for index, offset in part["tables"]:
                table = data[offset:ends[offset]]
                entries = [entry for (entry,) in struct.iter_unpack("<I", table[:len(table) & ~3])]
                if all(begin <= entry < part["end"] for entry in entries):
                    part["places"] += [(index, "table", entry - begin) for entry in entries]
                else:
                    part["tokens"].append((index, "table", entries))

    def digest_own(self, part, level):
        """The digest of a function but for what it calls."""
        words = part["words"]
        ordinals = list(range(len(words) + 1))
        if level == "unscheduled":
            kept = [word[0] & 0xFFF not in (NOP, YIELD) for word in words]
            ordinals = [0]
            for keep in kept:
                ordinals.append(ordinals[-1] + keep)
            words = [(low & ~0xF0000 if low & 0xFFF in RECONVERGENCE else low, high & ~SCHEDULING)
                     for (low, high), keep in zip(words, kept) if keep]
        last = len(ordinals) - 1
        return digest(
            b"".join(struct.pack("<QQ", *word) for word in words),
            [(ordinals[token[0]],) + token[1:] for token in part["tokens"]],
            [(ordinals[index], what, ordinals[min(to // 16, last)])
             for index, what, to in part["places"]],
            [ordinals[index] for index, _ in part["calls"]],
            sorted(part["facts"].items()))

    def digest_full(self, key, level, path=()):
        """(digest of a function and all that it calls, whether a recursion is cut in it)."""
        if key in path:
            return f"recursion of {len(path) - path.index(key)}", True
        part = self.parts[key]
        if ("full", level) in part:
            return part["full", level], False
        called, cut = [], False
        for _, target in part["calls"]:
            section, offset = target if isinstance(target, tuple) else (key[0], target)
            if (section, offset) == (key[0], 0) and key[1]:
                called.append("base")  # returns and tables count from there
                continue
            begin = max((b for b, _ in self.ranges[section] if b <= offset), default=0)
            callee, cut_there = self.digest_full((section, begin), level, path + (key,))
            cut = cut or cut_there
            called.append((callee, offset - begin))
        full = digest(part["own", level], called)
        if not cut or not path:
            part["full", level] = full
        return full, cut and bool(path)

    def functions(self):
        for (section, begin), part in self.parts.items():
            part["facts"] = dict(self.attributes.get(part["symbol"], {}))
            if begin == 0:
                part["facts"].update(self.kernel_facts(self.elf.names[section][len(".text."):]))
            for level in LEVELS:
                part["own", level] = self.digest_own(part, level)
        for key, part in self.parts.items():
            full = tuple(self.digest_full(key, level)[0] for level in LEVELS)
            own = tuple(part["own", level] for level in LEVELS)
            name = self.symbols[part["symbol"]][0]
            yield Function(name[1:] if name.startswith("$") else name, key[1] == 0, own, full,
                           len(part["words"]), tuple(sorted(part["facts"].items())))

    def kernel_facts(self, kernel):
        facts = {}
        for index, name in enumerate(self.elf.names):
            if name == f".nv.shared.{kernel}":
                facts["shared"] = self.elf.sections[index][5]
            elif name == f".nv.constant0.{kernel}":
                facts["parameters"] = self.elf.sections[index][5]
            elif name == f".nv.info.{kernel}":
                kept = [a for a in self.attributes_in(index) if a[0] in KERNEL_ATTRIBUTES]
                facts["attributes"] = digest(kept)[:8]
        return facts


class Ptx:
    """The functions of a PTX text in a form without names."""

    HEAD = re.compile(r"((?:\.visible |\.weak |\.common )*)\.(func|entry|global|const|shared)\b")
    NUMBERED = re.compile(r"%(p|rs|r|rd|f|fd|h|hh|rq|b)\d+$")
    WORD = re.compile(r"%\w+|\$?[A-Za-z_][\w$]*")

    def __init__(self, data):
        text = re.sub(  # comments and line information
            r"//.*|^\s*\.(?:loc|file)\b.*|^\$L__(?:tmp|func_begin|func_end)\d+:", "",
            data.rstrip(b"\0").decode(), flags=re.M)
        text = re.sub(r"\s*\n", "\n", text)
        found = re.search(r"\.target sm_(\d+)", text)
        self.architecture = f"PTX {found.group(1)}" if found else "PTX"
        self.bodies, self.data, self.settled = {}, {}, {}
        current = None
        for line in text.splitlines():
            head = current is None and self.HEAD.match(line)
            if head:
                current, what = [], head.group(2)
            if current is not None:
                current.append(line)
                if line == "}" or (line.endswith(";") and "{\n" not in "\n".join(current) + "\n"):
                    self.add(what, "\n".join(current))
                    current = None

    def add(self, what, body):
        if what in ("func", "entry"):
            head = re.sub(r"\.func\s*\([^)]*\)", ".func", body.split("{")[0])
            name = re.search(r"(?<![.\w$])([A-Za-z_$][\w$]*)\s*(?:\(|$)", head)
            begin = body.find("\n{")
            if begin >= 0 and name:
                self.bodies[name.group(1)] = what == "entry", body
        else:
            found = re.match(r"[^=;]*?([\w$]+)(?:\[\d*\])?\s*[=;]", body)
            if found:
                self.data[found.group(1)] = body.replace(found.group(1), "data")

    def canonical(self, name, path=()):
        """(digest alone, digest with all that it calls)."""
        if name in self.settled:
            return self.settled[name]
        kernel, body = self.bodies[name]
        numbers, called = {}, []

        def replace(found):
            word = found.group()
            if word == name or word.startswith(name + "_param_"):
                return "self" + word[len(name):]
            if word in self.bodies:
                cycle = word in path + (name,)
                called.append("recursion" if cycle else self.canonical(word, path + (name,))[1])
                return "callee"
            if word in self.data:
                return digest(self.data[word])
            if self.NUMBERED.match(word) or word.startswith(("$L", "__local_depot", "prototype_")) \
                    or f" {word}[" in body or f" {word};" in body.split("{", 1)[1]:
                kind = re.match(r"%?[a-z]*", word).group() if word[0] == "%" else "name"
                return f"{kind}#{numbers.setdefault(word, len(numbers))}"
            return word

        text = self.WORD.sub(replace, body)
        result = digest(text), digest(text, called)
        if "recursion" not in called:
            self.settled[name] = result
        return result

    def functions(self):
        for name, (kernel, body) in self.bodies.items():
            own, full = self.canonical(name)
            yield Function(name, kernel, (own, own), (full, full), body.count(";"), ())


def functions_of(job):
    root, path = job
    found = []
    for program in programs(path):
        found += [(program.architecture, function) for function in program.functions()]
    return os.path.relpath(path, root) if path != root else os.path.basename(path), found


def code_files(root):
    if os.path.isfile(root):
        return [(root, root)]
    files = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        files += [(root, os.path.join(folder, name)) for name in sorted(names)
                  if name.endswith((".o", ".cubin"))]
    return files


def demangle(names):
    """{mangled: readable}. A function that a kernel has for itself is named after the kernel."""
    tool = shutil.which("cu++filt", path=os.environ.get("PATH", "") + ":/usr/local/cuda/bin")
    tool = tool or shutil.which("c++filt")
    pieces = sorted({piece for name in names for piece in name.split("$") if piece})
    readable = {}
    if tool and pieces:
        output = subprocess.run([tool], input="\n".join(pieces) + "\n", text=True,
                                capture_output=True, check=True).stdout
        readable = dict(zip(pieces, output.splitlines()))
    shown = {}
    for name in names:
        parts = [readable.get(piece, piece) for piece in name.split("$") if piece]
        shown[name] = parts[0] if len(parts) == 1 else f"{parts[-1]} in {parts[0]}"
    return shown


def read_map(path):
    words = []
    if path:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.strip() and not line.startswith("#"):
                    words.append(line.split())
    return words


def translate(name, words):
    for old, new in words:
        name = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _, new=new: new, name)
    return name


def anonymous(name):
    """A name without the number that the compiler gives to a file's own namespace."""
    name = re.sub(r"_GLOBAL__N__[0-9a-f]+_\d+_\w+?_cu_[0-9a-f]+", "(file)", name)
    return re.sub(r"__internal_\d+", "__internal", name)


def describe(function):
    facts = [f"{key} {value}" for key, value in function.facts if key != "attributes"]
    return ", ".join([f"{function.instructions} instructions"] + facts)


def load(root, pool):
    if not os.path.exists(root):
        sys.exit(f"{root}: no such file or folder")
    objects = {}
    for name, found in pool.imap_unordered(functions_of, code_files(root), chunksize=1):
        if found:
            objects[name] = found
    return objects


def bag(entries, attribute, level):
    return collections.Counter((sm, function.kernel, getattr(function, attribute)[level])
                               for _, sm, function in entries)


def left_over(entries, other, level):
    """The entries that `other` has no equal of."""
    spare = bag(other, "full", level)
    rest = []
    for name, sm, function in entries:
        key = sm, function.kernel, function.full[level]
        if spare[key] > 0:
            spare[key] -= 1
        else:
            rest.append((name, sm, function))
    return rest


def report(title, rest, other, level, names, verbose):
    other_own = bag(other, "own", level)
    own = [entry for entry in rest
           if not other_own[entry[1], entry[2].kernel, entry[2].own[level]]]
    callers = len(rest) - len(own)
    print(f"{title}: {len(rest)} functions, {callers} of them only by what they call")
    for name, _, function in rest if verbose else own:
        kind = "kernel" if function.kernel else "function"
        print(f"  {kind} {names[function.name]} ({describe(function)}) in {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--map", metavar="FILE", help="lines 'OLD NEW': words of OLD's names")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--verbose", action="store_true", help="list the callers, too")
    parser.add_argument("--strict", action="store_true", help="scheduling must be equal, too")
    options = parser.parse_args()
    with multiprocessing.Pool(options.jobs) as pool:
        old, new = load(options.old, pool), load(options.new, pool)
    if not old or not new:
        print(f"no CUDA machine code under {options.new if old else options.old}")
        return 2

    old_all, new_all = ([(name, sm, function) for name in sorted(objects)
                         for sm, function in objects[name]] for objects in (old, new))
    only_old, only_new = left_over(old_all, new_all, 0), left_over(new_all, old_all, 0)
    equal, scheduling, level = len(old_all) - len(only_old), 0, 0
    if not options.strict:
        exact_old, exact_new, level = only_old, only_new, 1
        only_old, only_new = left_over(exact_old, exact_new, 1), left_over(exact_new, exact_old, 1)
        scheduling = len(exact_old) - len(only_old)
    words = read_map(options.map)
    names = demangle({function.name for _, _, function in only_old + only_new})
    names = {mangled: anonymous(name) for mangled, name in names.items()}

    report("only in old", only_old, new_all, level, names, options.verbose)
    report("only in new", only_new, old_all, level, names, options.verbose)
    namesakes = collections.defaultdict(list)
    for _, _, function in only_new:
        namesakes[names[function.name]].append(function)
    for _, _, function in only_old:
        same = namesakes.get(translate(names[function.name], words))
        if same:
            other = same.pop(0)
            if other.own[level] != function.own[level]:
                print(f"changed: {names[function.name]}: {describe(function)} -> {describe(other)}")
    for name in sorted(set(old) & set(new)):
        a = collections.Counter(function.full[level] for _, function in old[name])
        b = collections.Counter(function.full[level] for _, function in new[name])
        if a != b:
            print(f"object {name}: {sum((a & b).values())} equal, "
                  f"{sum((a - b).values())} only in old, {sum((b - a).values())} only in new")
    print(f"{len(old)} objects in old, {len(new)} in new, {len(set(old) & set(new))} of one name")
    print(f"{equal} functions equal, {scheduling} equal but for scheduling, "
          f"{len(only_old)} only in old, {len(only_new)} only in new")
    return 1 if only_old or only_new else 0


if __name__ == "__main__":
    sys.exit(main())
