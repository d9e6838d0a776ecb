#!/usr/bin/env python3
"""machine_order.py NVCC SOURCE-TREE ARCHITECTURE...: checks orders of accesses in machine code.

gpufs announces some stores, and gives some pages back, without a fence. It relies on loads that
have returned by then (docs/memory-model.md). The compiler need not keep these orders. This program
compiles machine_order.cu for each architecture, 80 for sm_80, and checks them in the machine code.
The PTX of the last architecture is also assembled for later GPUs, as their drivers do.

A load has returned when an instruction behind it has waited for its scoreboard. The instructions
of a warp issue in order. So that one, and all behind it, come after the load.
"""
import os
import struct
import subprocess
import sys
import tempfile

LATER = (100, 120)  # GPUs that get the PTX of the last architecture

# Opcodes: the lowest 12 bits of an instruction, the same from sm_80 to sm_120.
LOADS = {0x980, 0x981}  # LD, LDG
STORES = {0x985, 0x986}  # ST, STG
ATOMICS = {0x98A, 0x98E, 0x9A8, 0x38D, 0x3A9}  # ATOM, RED, ATOMG, compare-and-swaps
CALLS = {0x343, 0x344}  # CALL through a pointer
BRANCH, BSSY, BSYNC = 0x947, 0x945, 0x941  # BSYNC goes on where BSSY says
INDIRECT = {0x949, 0x349, 0x94A, 0x34A, 0x94C, 0x34C}  # BRX, JMP, JMX
ENDS = {0x94D, 0x950, 0x350}  # EXIT, RET

WEAK, GPU, SYSTEM = 0, 7, 10  # order and scope of an access; volatile and ld.cv are SYSTEM


class Instruction:
    def __init__(self, at, low, high):
        self.at, self.low, self.high = at, low, high
        self.opcode = low & 0xFFF
        self.always = low >> 12 & 15 == 7  # no predicate
        self.scoreboard = high >> 46 & 7  # set while the load is under way
        self.waits = high >> 52 & 63  # scoreboards that must be clear before it issues
        self.bytes = (1, 1, 2, 2, 4, 8, 16, 0)[high >> 9 & 7]
        self.order = high >> 13 & 15
        self.offset = low >> 40  # of the address; our kernels have none below 0

    def is_load(self, *orders):
        return self.opcode in LOADS and self.order in orders

    def is_store(self, order, size):
        return self.opcode in STORES and self.order == order and self.bytes == size

    def is_atomic(self):
        return self.opcode in ATOMICS

    def target(self, architecture):
        words = (self.low >> 34 ^ 1 << 29) - (1 << 29)
        if self.opcode == BRANCH and architecture >= 90:  # its lowest bits stand apart
            words = words << 8 | self.low >> 16 & 0xFF
        return self.at + 16 + 4 * words

    def barrier(self):
        return self.low >> 16 & 15


def functions(path):
    """Yields name and instructions of each function in a 64-bit ELF file."""
    with open(path, "rb") as file:
        data = file.read()
    (headers,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, headers + i * size) for i in range(count)]
    for _, kind, _, _, start, length, link, *_ in sections:
        if kind != 2:  # the symbol table
            continue
        for at in range(start, start + length, 24):
            name, info, _, section, value, span = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 != 2:  # a function
                continue
            text = sections[link][4] + name
            begin = sections[section][4] + value
            words = struct.iter_unpack("<QQ", data[begin:begin + span])
            yield (data[text:data.index(b"\0", text)].decode(),
                   [Instruction(16 * i, *pair) for i, pair in enumerate(words)])


def successors(code, architecture):
    """Indices of the instructions that may follow each one. Rather too many than too few."""
    ends = [(c.barrier(), c.target(architecture)) for c in code if c.opcode == BSSY]
    following = []
    for c in code:
        to = {c.at + 16}
        if c.opcode in INDIRECT:
            to = range(0, 16 * len(code), 16)
        elif c.opcode in ENDS and c.always:
            to = ()
        elif c.opcode == BRANCH:
            # Other forms have conditions besides the predicate.
            always = c.low & 0x3FF00FFFF == 0x7947 and c.high >> 18 & 0x1FF == 0xE0
            to = {c.target(architecture)} | (set() if always else to)
        elif c.opcode == BSYNC:
            reached = {target for barrier, target in ends if barrier == c.barrier()}
            # It mostly stands where all paths meet, or just before. Else it is a branch to there.
            to = to if reached & {c.at, c.at + 16} else reached
        following.append([at // 16 for at in to if 0 <= at < 16 * len(code)])
    return following


class Failure(Exception):
    pass


def check(code, architecture, is_awaited, is_next, loads, nexts, always_loads=True):
    """Fails unless all awaited loads have returned when a next access issues. Fails if there are
    fewer than `loads` of them or `nexts` of these. With always_loads, each path to a next access
    has an awaited load."""
    found = sum(map(is_awaited, code)), sum(map(is_next, code))
    if found[0] < loads or found[1] < nexts:
        raise Failure(f"the code has {found[0]} awaited loads and {found[1]} accesses behind them; "
                      f"expected are at least {loads} and {nexts}")
    following = successors(code, architecture)
    # For each instruction, over all paths to it: the scoreboards of awaited loads under way, and
    # whether a path has no awaited load.
    before = {0: (0, True)}
    todo = [0]
    while todo:
        i = todo.pop()
        c = code[i]
        pending, without = before[i]
        pending &= ~c.waits
        if is_awaited(c):
            pending |= 1 << c.scoreboard
            without = without and not c.always
        for j in following[i]:
            old = before.get(j, (0, False))
            new = (old[0] | pending, old[1] or without)
            if j not in before or new != old:
                before[j] = new
                todo.append(j)
    for i, (pending, without) in before.items():
        c = code[i]
        if is_next(c) and pending & ~c.waits != 0:
            raise Failure(f"at {c.at:x}: a load before it may not have returned")
        if is_next(c) and without and always_loads:
            raise Failure(f"at {c.at:x}: the load that should come before it comes later")


def peek(code, arch, loads=1):
    check(code, arch, lambda c: c.is_load(SYSTEM), lambda c: c.is_load(GPU), loads, 1)


def see(code, arch):
    def is_state(c):
        return c.is_load(GPU) and c.bytes == 8 and c.offset == 0
    check(code, arch, is_state, lambda c: c.is_load(GPU) and not is_state(c), 1, 3)


def find(code, arch, loads=1):
    def is_state(c):
        return c.is_load(GPU) and c.bytes == 8 and c.offset == 0
    states = sorted(c.at for c in code if is_state(c))
    if len(states) != 2:
        raise Failure(f"{len(states)} loads of the state instead of 2")
    check(code, arch, lambda c: c.at == states[0],
          lambda c: c.is_load(SYSTEM) or c.is_load(GPU) and not is_state(c), 1, 2 + loads)
    check(code, arch, lambda c: c.is_load(SYSTEM), lambda c: c.at == states[1], loads, 1)


def settle(code, arch, size):
    check(code, arch, lambda c: c.is_load(SYSTEM), lambda c: c.is_store(GPU, 4), 2, 1)
    first_load = min(c.at for c in code if c.is_load(SYSTEM))
    if any(c.is_store(WEAK, size) and c.at > first_load for c in code):
        raise Failure("a word is loaded back before it is stored")


def pull(code, arch):
    check(code, arch, lambda c: c.is_load(SYSTEM),
          lambda c: c.is_store(GPU, 4) or c.is_store(GPU, 8) or c.is_atomic(), 16, 3, False)


def request(code, arch):
    check(code, arch, lambda c: c.is_load(SYSTEM), lambda c: c.is_store(SYSTEM, 8) or c.is_atomic(),
          16, 2, False)


def unpin(code, arch, sizes=(1, 2, 4, 8, 16)):
    check(code, arch, lambda c: c.is_load(WEAK, SYSTEM) and c.bytes in sizes,
          Instruction.is_atomic, 1, 1, False)


def quick_hit(code, arch):
    pins = [c.at for c in code if c.is_atomic() and c.scoreboard != 7]
    if len(pins) != 1:
        raise Failure(f"{len(pins)} atomic operations with a result instead of the pin alone")
    looks = [c.at for c in code if c.is_load(GPU) and c.bytes == 8 and c.at < pins[0]]
    if len(looks) != 1:
        raise Failure(f"{len(looks)} loads before the pin instead of the look at the bucket alone")

    def is_next(c):  # a unit, or of the header
        return c.is_load(GPU) and c.at not in looks
    if sum(is_next(c) and c.bytes == 4 for c in code) < 1 or \
       sum(is_next(c) and c.bytes == 8 for c in code) < 2:
        raise Failure("the page's name or the number of its valid bytes is not loaded")
    check(code, arch, lambda c: c.at == pins[0], is_next, 1, 3 + 8 + 1, False)
    # Lanes without the pin get its answer by a shuffle.
    shuffles = [c.at for c in code if c.opcode & 0xFF == 0x89 and c.at > pins[0]]
    check(code, arch, lambda c: c.at == max(shuffles, default=-1), is_next, 1, 3 + 8 + 1)
    check(code, arch, lambda c: c.is_load(GPU) and c.bytes == 16,
          lambda c: c.is_atomic() and c.at != pins[0], 8 + 1, 1, False)
    if any(c.is_load(WEAK, SYSTEM) and c.bytes == 16 for c in code):
        raise Failure("a unit is loaded through the multiprocessor's cache")


def stream(code, arch):
    """Fails unless three loads of elements are under way together: from each of three loads a short
    path leads to another one without a wait for the first."""
    following = successors(code, arch)
    element = {i for i, c in enumerate(code)
               if c.opcode == 0x981 and c.order == WEAK and c.bytes == 8}  # LDG

    def has_next(first):
        reached, now = {first}, set(following[first])
        for _ in range(24):  # instructions
            if now & element - {first}:
                return True
            now = {j for i in now if not code[i].waits >> code[first].scoreboard & 1
                   for j in following[i]} - reached
            reached |= now
        return False
    together = sum(map(has_next, element))
    if together < 3:
        raise Failure(f"{together} loads of elements have another one behind them that does not "
                      "wait for them; expected are 3")


def calls(code, arch):
    check(code, arch, lambda c: c.is_load(WEAK, SYSTEM), lambda c: c.opcode in CALLS, 1, 1, False)


def share(code, arch):
    fields = [c.at for c in code if c.is_store(GPU, 8) and c.offset >= 16]
    check(code, arch, Instruction.is_atomic, lambda c: c.at in fields, 1, 4)
    check(code, arch, lambda c: c.is_load(SYSTEM),
          lambda c: c.is_store(GPU, 8) and c.offset == 0 and c.at > max(fields, default=0), 4, 1)


def take(code, arch):
    looks = [c.at for c in code if c.is_load(GPU) and c.offset == 0]
    if len(looks) != 2:
        raise Failure(f"{len(looks)} loads of the generation instead of 2")

    def is_field(c):
        return c.is_load(GPU) and c.offset >= 16
    check(code, arch, lambda c: c.at == looks[0], is_field, 1, 4)
    check(code, arch, is_field, lambda c: c.at == looks[1], 4, 1)


def adopt(code, arch):
    # The exchange is the atomic operation with a result. The stores are of size and version.
    check(code, arch, lambda c: c.is_atomic() and c.scoreboard != 7,
          lambda c: c.is_store(GPU, 8), 1, 2)


def load_size(code, arch, before=("size",)):
    looks = [c.at for c in code if c.is_load(GPU)]
    if len(looks) != len(before) + 1:
        raise Failure(f"{len(looks)} loads instead of those of {', '.join(before)} and version")
    check(code, arch, lambda c: c.at in looks[:-1], lambda c: c.at == looks[-1], len(before), 1)


# Kernels by name. The last are all functions of that name below a kernel.
CHECKS = {
    "peek_1": peek, "peek_1_bool": peek, "peek_2": peek, "peek_4": peek, "peek_4_of_2": peek,
    "peek_8": peek, "peek_3": lambda *code: peek(*code, 3), "peek_16": lambda *code: peek(*code, 2),
    "see": see, "find_1": find, "find_2": find, "find_4": find, "find_8": find,
    "find_16": lambda *code: find(*code, 2),
    "pull": pull, "pull_two": pull, "request": request, "unpin": unpin,
    "quick_hit": quick_hit,
    "settle_1": lambda *code: settle(*code, 1), "settle_8": lambda *code: settle(*code, 8),
    "share_record": share, "take_record": take, "adopt": adopt, "load_size": load_size,
    "load_noted": lambda *code: load_size(*code, ("note", "size")),
    "elements": calls, "stream": stream,
    # Of bytes. Wider loads are of the handle, which no one writes while kernels run.
    "load_element": lambda *code: unpin(*code, (1,)),
}


def check_all(path, architecture):
    """Prints what is wrong. Returns how many checks have passed and failed."""
    failures = passed = 0
    code = dict(functions(path))
    for name, run in CHECKS.items():
        found = [name] if name in code else [f for f in code if f"{len(name)}{name}I" in f]
        try:
            if not found:
                raise Failure("the machine code has no such function")
            for function in found:
                run(code[function], architecture)
                passed += 1
        except Failure as failure:
            failures += 1
            print(f"sm_{architecture}, {name}: {failure}")
    return passed, failures


def compile_all(nvcc, tree, architectures, folder):
    """Yields the machine code files with their architectures. Uses two processors."""
    def start(*command):
        return command, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def finish(command, process):
        output, _ = process.communicate()
        if process.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{output.decode()}")
    ptx = [os.path.join(folder, f"{a}.ptx") for a in architectures]
    for job in [start(nvcc, "-std=c++20", "-O3", "-DNDEBUG", "--extended-lambda",
                      "--expt-relaxed-constexpr", f"-arch=compute_{a}", "-I", f"{tree}/include",
                      "-I", tree, "-ptx", f"{tree}/test/device/machine_order.cu", "-o", file)
                for a, file in zip(architectures, ptx)]:
        finish(*job)
    ptxas = os.path.join(os.path.dirname(os.path.realpath(nvcc)), "ptxas")
    known = subprocess.run([nvcc, "--list-gpu-code"], stdout=subprocess.PIPE).stdout.split()
    later = [a for a in LATER if f"sm_{a}".encode() in known]
    jobs = list(zip(architectures, ptx)) + [(a, ptx[-1]) for a in later]
    for begin in range(0, len(jobs), 2):
        running = [(a, os.path.join(folder, f"{a}.cubin"), file)
                   for a, file in jobs[begin:begin + 2]]
        for job in [start(ptxas, f"-arch=sm_{a}", file, "-o", to) for a, to, file in running]:
            finish(*job)
        for a, to, _ in running:
            yield to, a


def main():
    nvcc, tree, *architectures = sys.argv[1:]
    passed = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, architecture in compile_all(nvcc, tree, [int(a) for a in architectures], folder):
            good, bad = check_all(path, architecture)
            passed += good
            failures += bad
    print(f"{passed} passed, {failures} failed")
    sys.exit(failures != 0)


if __name__ == "__main__":
    main()
