#!/usr/bin/env python3
"""Checks rules of this tree that no compiler checks. scripts/house_table.py holds their tables.

  scripts/check_house.py [--root DIR] [--table FILE]

  columns     no line is wider than 100 characters
  layers      a folder includes only folders below it
  namespaces  a file declares things in the namespace of its folder
  public      include/ holds the headers that the table lists
  contracts   comments in include/ have the fixed form
  lengths     no file of the library has over 300 lines, no function over 60

Prints a line 'FILE:LINE: rule: what is wrong, what would be right' for each violation and a
summary. Exit status: 0 if there is none, else 1.
"""
import argparse
import collections
import fnmatch
import os
import re
import runpy
import statistics
import subprocess
import sys

WIDTH_CHECKED = ("*.hpp", "*.h", "*.cpp", "*.cu", "*.cuh", "*.cmake", "*.py", "*.sh", "*.md",
                 "*CMakeLists.txt", "*Makefile", ".ci/run")
SOURCES = ("*.hpp", "*.cpp", "*.cu", "*.cuh")
RULES = ("columns", "layers", "namespaces", "public", "contracts", "lengths")


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def tree_files(root):
    """Files that git tracks or would add; all files where there is no repository."""
    if os.path.exists(os.path.join(root, ".git")):
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True, check=True).stdout.split("\0")
    else:
        listed = []
        for folder, folders, names in os.walk(root):
            folders[:] = [f for f in folders if f not in ("build", "__pycache__")]
            listed += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted({f for f in listed if f and os.path.isfile(os.path.join(root, f))})


class Checker:
    def __init__(self, root, table):
        self.root, self.table = root, table
        self.files = tree_files(root)
        self.names = set(self.files)
        self.violations = []
        self.text = {}
        for name in self.files:
            if matches(name, WIDTH_CHECKED):
                with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
                    self.text[name] = file.read()

    def say(self, name, line, rule, message):
        self.violations.append((name, line, rule, message))

    def sources(self, patterns):
        return [f for f in self.files if matches(f, SOURCES) and matches(f, patterns)]

    # columns

    def check_columns(self):
        limit = self.table["COLUMNS"]
        for name, text in self.text.items():
            for number, line in enumerate(text.splitlines(), 1):
                if len(line) > limit and not (name.endswith(".md") and markdown_exempt(line)) \
                        and not lone_link(line):
                    self.say(name, number, "columns",
                             f"{len(line)} characters, at most {limit} fit")

    # layers

    def room_of(self, name):
        best = None
        for room, tower, level, patterns in self.table["ROOMS"]:
            for pattern in patterns:
                if fnmatch.fnmatchcase(name, pattern) and (not best or len(pattern) > best[0]):
                    best = len(pattern), room, tower, level
        return best[1:] if best else None

    def resolve(self, name, header):
        for folder in ("include", "", "apps", "test", os.path.dirname(name)):
            path = os.path.normpath(os.path.join(folder, header))
            if path in self.names:
                return path
        return None  # of another library

    def may_include(self, source, target, header):
        room, tower, level = source
        other, other_tower, other_level = target
        if room == other or (tower == other_tower and other_level < level):
            return True
        also = self.table["ALSO"]
        allowed = also.get(room, []) + also.get(f"tower {tower}", [])
        aliases = [alias for alias, files in self.table["HEADERS"].items() if header in files]
        return any(a in allowed for a in ["*", other, f"tower {other_tower}"] + aliases)

    def check_layers(self):
        for name in self.sources(["*"]):
            source = self.room_of(name)
            if not source:
                self.say(name, 1, "layers", "in no room of the table, put it into a room's folder")
                continue
            for number, line in enumerate(self.text[name].splitlines(), 1):
                found = re.match(r'\s*#\s*include\s*[<"]([^>"]+)[>"]', line)
                header = found and self.resolve(name, found.group(1))
                target = header and self.room_of(header)
                if not target or self.may_include(source, target, header):
                    continue
                if any(fnmatch.fnmatchcase(name, a) and fnmatch.fnmatchcase(header, b)
                       for a, b, _ in self.table["EXCEPTIONS"]):
                    continue
                self.say(name, number, "layers",
                         f"room {source[0]} ({source[1]} {source[2]}) includes {header} of "
                         f"{target[0]} ({target[1]} {target[2]}), only rooms below may be included")

    # namespaces and lengths

    def allowed_namespaces(self, name):
        for pattern, allowed in self.table["NAMESPACES"]:
            if fnmatch.fnmatchcase(name, pattern.replace("@", "*")):
                if "@" not in pattern:
                    return allowed
                at = pattern.split("/").index("@")
                parts = name.split("/")
                if at < len(parts) - 1:
                    return [entry.replace("@", parts[at]) for entry in allowed]
        return None

    def check_structure(self):
        for name in self.sources(self.table["LIBRARY"]):
            lines = self.text[name].count("\n")
            if lines > self.table["FILE_LINES"]:
                self.say(name, lines, "lengths",
                         f"{lines} lines, a file has at most {self.table['FILE_LINES']}")
            structure = Structure(self.text[name])
            for begin, end, function in sorted(structure.functions):
                if end - begin + 1 > self.table["FUNCTION_LINES"]:
                    self.say(name, begin, "lengths",
                             f"{function} has {end - begin + 1} lines, a function has at most "
                             f"{self.table['FUNCTION_LINES']}")
            allowed = self.allowed_namespaces(name)
            if allowed is None:
                continue
            for space, line in structure.contents.items():
                parts = [part for part in space if part not in ("", "detail")]
                if "::".join(parts) not in allowed:
                    shown = "::".join(part or "(no name)" for part in space)
                    shown = f"namespace {shown}" if space else "the global namespace"
                    wanted = " or ".join(f"namespace {a}" for a in allowed if a)
                    self.say(name, line, "namespaces",
                             f"declares things in {shown}, {wanted} would be right")

    # public headers

    def check_public(self):
        there = {name for name in self.files if name.startswith("include/")}
        listed = set(self.table["PUBLIC_HEADERS"])
        for name in sorted(there - listed):
            self.say(name, 1, "public",
                     "not a public header of the table, list it there or move it to its room")
        for name in sorted(listed - there):
            self.say(name, 1, "public", "in the table of public headers but not in the tree")

    # contracts

    def check_contracts(self):
        lengths = []
        for name in (f for f in self.files if f.startswith("include/")):
            lines = self.text[name].splitlines()
            lengths += sentence_lengths(lines)
            for begin, end in comment_blocks(lines):
                self.check_block(name, lines, begin, end)
        self.median = statistics.median(lengths) if lengths else 0
        if self.median > self.table["MEDIAN_WORDS"]:
            self.say("include", 1, "contracts",
                     f"sentences have {self.median:g} words at the median, at most "
                     f"{self.table['MEDIAN_WORDS']} would be right")

    def check_block(self, name, lines, begin, end):
        block = [line.strip()[3:] for line in lines[begin:end]]
        limit, length = self.table["PARAGRAPH_LINES"], 0
        for number, line in enumerate(block):
            text = line.strip()
            starts = re.match(r"@|- |-E|\|", text) or re.match(r" {1,3}\S+ {2,}\S", line)
            length = 0 if not text else 1 if starts else length + 1
            if length == limit + 1:
                self.say(name, begin + number + 1, "contracts",
                         f"a paragraph of more than {limit} lines, an empty /// line or @return "
                         "should divide it")
        if name not in self.table["CONTRACT_HEADERS"]:
            return
        declaration = " ".join(line.strip() for line in lines[end:end + 8])
        declaration = re.sub(r"^template <[^>]*> ", "", declaration)
        found = re.match(r"[^;{(=]*?\b(?:int|ssize_t|(?:std::)?int64_t)\s+(\w+)\s*\(", declaration)
        if found and not re.search(r"\bReturns\b|@return\b", "\n".join(block)):
            self.say(name, end + 1, "contracts",
                     f"{found.group(1)} returns a result, its comment should have Returns or "
                     "@return")

    def run(self):
        self.check_columns()
        self.check_layers()
        self.check_structure()
        self.check_public()
        self.check_contracts()
        for name, line, rule, message in sorted(self.violations):
            print(f"{name}:{line}: {rule}: {message}")
        counts = collections.Counter(rule for _, _, rule, _ in self.violations)
        print(f"check_house: {len(self.violations)} violations in {len(self.files)} files ("
              + ", ".join(f"{rule} {counts[rule]}" for rule in RULES)
              + f"); sentences in include/ have {self.median:g} words at the median")
        return 1 if self.violations else 0


def lone_link(line):
    """A line with nothing on it that could be broken: a link, with what marks a comment or item."""
    text = re.sub(r"^\s*(?:///?|#+|\*|-|\d+\.|>)?\s*", "", line)
    return re.fullmatch(r"(?:\[[^\]]*\]:\s*)?<?https?://\S+", text) is not None


def markdown_exempt(line):
    text = re.sub(r"^\s*(?:[*+-]|\d+\.|>)?\s*", "", line)
    return text.startswith("|") or \
        re.fullmatch(r"!?\[[^\]]*\](?:\([^)]*\)|:\s*\S+)[.,;:]?", text) is not None


def comment_blocks(lines):
    """(begin, end) of runs of lines that begin with ///."""
    begin = None
    for number, line in enumerate(lines + [""]):
        inside = line.strip().startswith("///") and not line.strip().startswith("///<")
        if inside and begin is None:
            begin = number
        elif not inside and begin is not None:
            yield begin, number
            begin = None


def sentence_lengths(lines):
    """Words of each sentence in comments. Items, tags and empty lines end a sentence."""
    paragraphs, current = [], []
    for line in lines + [""]:
        found = re.match(r"\s*//[/!]?<?(.*)", line) or re.search(r"//[/!]?<(.*)", line)
        text = found.group(1).strip() if found else ""
        if not text or re.match(r"@|- |-E|\|", text):
            paragraphs.append(" ".join(current))
            current = []
        if text:
            current.append(re.sub(r"^@\w+\s*", "", text))
    found = []
    for paragraph in paragraphs + [" ".join(current)]:
        for sentence in re.split(r"(?<=[.!?])(?<!e\.g\.)\s+", paragraph):
            words = re.findall(r"[^\s]*\w[^\s]*", sentence)
            if words:
                found.append(len(words))
    return found


TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<raw>(?:u8|u|U|L)?R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)")
  | (?P<string>"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?\d(?:[\w.]|'\w)*)
  | (?P<word>[A-Za-z_]\w*)
  | (?P<sign>::|->|&&|\|\||[<>=!+\-*/%^&|]=|.)
""", re.X | re.S)


def without_preprocessor(text):
    """The text without directives: with the first branch of each #if, and with the last one."""
    lines, stack, branches, continued = [], [], [], False
    for line in text.split("\n"):
        found = re.match(r"\s*#\s*(\w+)", line)
        directive = found.group(1) if found and not continued else ""
        if directive in ("if", "ifdef", "ifndef"):
            stack.append((len(branches), 0))
            branches.append(0)
        elif directive in ("else", "elif") and stack:
            group, branch = stack.pop()
            stack.append((group, branch + 1))
            branches[group] = branch + 1
        elif directive == "endif" and stack:
            stack.pop()
        hidden = bool(found) or continued
        continued = hidden and line.endswith("\\")
        lines.append(("" if hidden else line, tuple(stack)))
    for keep in [[0] * len(branches), branches] if any(branches) else [branches]:
        yield "\n".join(line if all(keep[group] == branch for group, branch in at) else ""
                        for line, at in lines)


class Structure:
    """Functions of a file and the namespaces in which it declares things, by matching braces."""

    def __init__(self, text):
        self.functions = set()  # (first line, last line, name)
        self.contents = {}  # namespace, a tuple of names -> line of the first declaration in it
        for branch in without_preprocessor(text):
            self.tokens, self.at, line = [], 0, 1
            for found in TOKEN.finditer(branch):
                if not (found.group("space") or found.group("comment")):
                    self.tokens.append((found.group(), line))
                line += found.group().count("\n")
            self.declarations(())

    def close(self, opening, closing):
        """Moves behind the sign that closes the one at `at`."""
        depth = 0
        while self.at < len(self.tokens):
            sign = self.tokens[self.at][0]
            self.at += 1
            depth += (sign == opening) - (sign == closing)
            if depth == 0:
                return

    def declarations(self, space):
        """Reads declarations up to the brace that closes them. space: None inside of a class."""
        statement = []  # tokens and their lines
        while self.at < len(self.tokens):
            sign, line = self.tokens[self.at]
            if sign == "}":
                self.at += 1
                return
            if sign == ";":
                self.declared(space, statement)
                statement = []
                self.at += 1
            elif sign == "(":
                begin = self.at
                self.close("(", ")")
                statement += self.tokens[begin:self.at]
            elif sign == "{":
                if self.brace(space, statement):
                    statement.append(("{}", line))
                else:
                    statement = []
            else:
                statement.append((sign, line))
                self.at += 1
                if sign == ":" and statement[0][0] in ("public", "private", "protected"):
                    statement = []

    def brace(self, space, statement):
        """Reads what a brace opens. Returns whether the statement goes on behind it."""
        bare = signs(statement)
        if bare[:2] == ["inline", "namespace"]:
            bare = bare[1:]
        kind = any(word in bare for word in ("class", "struct", "union"))
        function = "(" in bare and body_follows(bare) and "=" not in without_operator(bare)
        if bare[:1] == ["namespace"]:
            self.at += 1
            names = [word for word in bare[1:] if word not in ("::", "inline")] or [""]
            self.declarations(space + tuple(names) if space is not None else None)
            return False
        if bare[:1] == ["extern"] and len(bare) == 2:  # extern "C" {
            self.at += 1
            self.declarations(space)
            return False
        if function:
            self.declared(space, statement + [("{}", 0)])
            self.close("{", "}")
            begin = statement[heading(statement)][1]
            self.functions.add((begin, self.tokens[self.at - 1][1], function_name(bare)))
            return False
        if kind and "=" not in bare:
            self.declared(space, statement + [("{}", 0)])
            self.at += 1
            self.declarations(None)
        else:
            self.close("{", "}")
        return True

    def declared(self, space, statement):
        bare = signs(statement)
        if space is None or not bare or bare[0] in ("{}", "namespace"):  # an alias
            return
        if bare[0] in ("struct", "class", "union", "enum") and "{}" not in bare \
                and "=" not in bare:  # a forward declaration
            return
        self.contents.setdefault(space, statement[0][1])


def heading(statement):
    """How many tokens attributes and template <...> in front of a statement have."""
    words, at = [word for word, _ in statement], 0
    while at < len(words):
        if words[at:at + 2] == ["template", "<"]:
            depth, at = 0, at + 1
            while at < len(words):
                depth += (words[at] == "<") - (words[at] == ">")
                at += 1
                if depth == 0:
                    break
        elif words[at:at + 2] == ["[", "["]:
            while at < len(words) and words[at:at + 2] != ["]", "]"]:
                at += 1
            at += 2
        else:
            break
    return min(at, max(len(words) - 1, 0))


def signs(statement):
    """The tokens of a statement without its heading and without alignas(...)."""
    bare, depth, aligned = [], 0, False
    for word, _ in statement[heading(statement):]:
        aligned = aligned or word == "alignas"
        depth += (word == "(") - (word == ")")
        if not aligned:
            bare.append(word)
        elif word == ")" and depth == 0:
            aligned = False
    return bare


def without_operator(bare):
    """The statement without operator=, default arguments and the initialisers of members."""
    out, depth, at = [], 0, 0
    while at < len(bare):
        depth += (bare[at] == "(") - (bare[at] == ")")
        if bare[at] == "operator":
            at += 1
        elif depth == 0:
            if bare[at] == ":":
                break
            out.append(bare[at])
        at += 1
    return out


def body_follows(bare):
    """Whether the brace behind the statement opens a function, not a member's initialiser."""
    depth, list_begins = 0, None
    for index, sign in enumerate(bare):
        depth += (sign == "(") - (sign == ")")
        if sign == ":" and depth == 0 and list_begins is None and ")" in bare[:index]:
            list_begins = index
    if list_begins is None:
        return True
    return bare[-1] in (")", "{}")


def function_name(bare):
    """The name before the first bracket that is none of a decltype, noexcept or attribute."""
    for index, sign in enumerate(bare):
        if sign == "(" and index and re.match(r"\w|[^\w\s(]", bare[index - 1]) \
                and bare[index - 1] not in ("decltype", "alignas", "__launch_bounds__",
                                            "__attribute__", "explicit", "noexcept"):
            if "operator" in bare[:index]:
                at = bare.index("operator")
                return "".join(bare[at:index]) if at < index - 1 else "operator()"
            name = bare[index - 1]
            back = index - 1
            while back >= 2 and bare[back - 1] == "::":
                name = bare[back - 2] + "::" + name
                back -= 2
            return name
    return "a function"


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--root", default=os.path.dirname(here))
    parser.add_argument("--table", default=os.path.join(here, "house_table.py"))
    options = parser.parse_args()
    return Checker(options.root, runpy.run_path(options.table)).run()


if __name__ == "__main__":
    sys.exit(main())
