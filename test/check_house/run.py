#!/usr/bin/env python3
"""Shows that scripts/check_house.py accepts a clean tree and names each planted violation.

  test/check_house/run.py

Builds a small tree of its own with a table of its own, plants one violation at a time and expects
the rule, the file and the line in the output. Exit status: 0 if all is as expected, else 1.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKER = os.path.join(HERE, "..", "..", "scripts", "check_house.sh")

TABLE = '''
ROOMS = [
    ("owner", "device", 40, ["gpufs/owner/*"]),
    ("api", "device", 30, ["include/*"]),
    ("io", "device", 20, ["gpufs/io/*"]),
    ("cache", "device", 10, ["gpufs/cache/*"]),
    ("values", "values", 0, ["include/gpufs/config.hpp"]),
    ("formats", "formats", 0, ["gpufs/cache/*_format.hpp"]),
    ("serve", "host", 10, ["host-daemon/serve/*"]),
    ("backend", "host", 0, ["host-daemon/backend/*"]),
    ("apps", "apps", 0, ["apps/*"]),
]
ALSO = {"tower device": ["values", "formats"], "owner": ["tower host"],
        "tower host": ["values", "formats"], "tower apps": ["api", "values"]}
HEADERS = {}
EXCEPTIONS = [("gpufs/io/*", "include/gpufs/io.hpp", "bodies")]
NAMESPACES = [("gpufs/owner/*", ["gpufs"]), ("gpufs/io/*", ["gpufs::io", "gpufs"]),
              ("gpufs/@/*", ["gpufs::@"]), ("host-daemon/*", ["gpufs::daemon"]),
              ("include/*", ["gpufs"])]
PUBLIC_HEADERS = ["include/gpufs/config.hpp", "include/gpufs/io.hpp"]
CONTRACT_HEADERS = ["include/gpufs/io.hpp"]
LIBRARY = ["include/*", "gpufs/*", "prefetcher/*", "host-daemon/*"]
COLUMNS, FILE_LINES, FUNCTION_LINES, PARAGRAPH_LINES, MEDIAN_WORDS = 100, 300, 60, 3, 25
'''

IO_HPP = '''// The file API.
#pragma once
#include <gpufs/config.hpp>

namespace gpufs {

/// Closes `fd` once.
/// All threads of the group call.
/// Returns 0 or
///   -EBADF | -ETIMEDOUT
///   -EIO daemon stopped
///   -ENOSPC the write-back's error
template <class Group>
[[nodiscard]] int gclose(Group& io, int fd);

}  // namespace gpufs

#include <gpufs/io/close.hpp>
'''

# Long constructs that are no functions, and short functions of odd forms: no false alarms.
FRAME_HPP = '''// Frames.
#pragma once
#include <gpufs/cache/page_format.hpp>

#include <string>

namespace gpufs {
struct fs_ref;
}

namespace gpufs::cache {

struct alignas(64) frame {
  explicit frame(int n) : numbers_{n, n}, name_("a { b") {
    if (n > 0) numbers_[0] = '{';
  }
  bool operator==(frame const&) const = default;
  frame& operator=(frame const& other) { return name_ = other.name_, *this; }

 private:
  int numbers_[2]{};
  std::string name_;
FIELDS
};

#if defined(OF_CUDA)
inline int which() {
#else
inline int which_other() {
#endif
  return 1;
}

namespace {
char const raw[] = R"x(} { )x";
}
namespace detail {
constexpr int table[] = {
ROWS
};
}  // namespace detail

}  // namespace gpufs::cache
'''


def clean_tree():
    return {
        "include/gpufs/config.hpp": "#pragma once\nnamespace gpufs {\nstruct config {};\n}\n",
        "include/gpufs/io.hpp": IO_HPP,
        "gpufs/io/close.hpp": "#include <gpufs/cache/frame.hpp>\n#include <gpufs/io.hpp>\n"
                              "namespace gpufs {\ninline int close() { return 0; }\n}\n",
        "gpufs/cache/frame.hpp": FRAME_HPP.replace(
            "FIELDS", "\n".join(f"  int field_{i} = {i};" for i in range(70))).replace(
            "ROWS", "\n".join(f"    {i}," for i in range(70))),
        "gpufs/cache/page_format.hpp": "namespace gpufs::cache {\nstruct page {};\n}\n",
        "gpufs/owner/filesystem.cpp": "#include <gpufs/io.hpp>\n"
                                      "#include <host-daemon/serve/server.hpp>\n"
                                      "namespace gpufs {\nvoid run() {}\n}\n",
        "host-daemon/serve/server.hpp": "#include <host-daemon/backend/file.hpp>\n",
        "host-daemon/backend/file.hpp": "#include <gpufs/cache/page_format.hpp>\n"
                                        "#include <vector>\n"
                                        "namespace gpufs::daemon {\nstruct file {};\n}\n",
        "apps/cp/main.cpp": "#include <gpufs/io.hpp>\nint main() {}\n",
        "README.md": "# A tree\n| a table | " + "x" * 100 + " |\nhttps://example.org/" + "y" * 100
                     + "\n",
    }


def lines(count, line="// A line."):
    return (line + "\n") * count


def function(length):
    body = "".join(f"  n += {i};\n" for i in range(length - 3))
    return f"namespace gpufs::io {{\nint count(int n) {{\n{body}  return n;\n}}\n}}\n"


def in_cache(include):
    return f"#pragma once\n#include <{include}>\n"


def documented(comment, declaration="int gopen(char const* path);"):
    return IO_HPP.replace("}  // namespace", f"{comment}\n{declaration}\n\n}}  // namespace")


# (what is planted, {file: text}, what the output must have a line with)
PLANTED = [
    ("a line of 101 columns", {"scripts/a.sh": "#!/bin/sh\n# " + "x" * 99 + "\n"},
     "scripts/a.sh:2: columns: 101 characters"),
    ("a wide line of a document", {"docs/a.md": "word " * 21 + "\n"},
     "docs/a.md:1: columns: 105 characters"),
    ("an include upwards", {"gpufs/cache/take.hpp": in_cache("gpufs/io/close.hpp")},
     "gpufs/cache/take.hpp:2: layers: room cache (device 10) includes gpufs/io/close.hpp"),
    ("an include of the daemon by the device side",
     {"gpufs/io/a.hpp": in_cache("host-daemon/backend/file.hpp")}, "gpufs/io/a.hpp:2: layers"),
    ("an include of a device header by the daemon",
     {"host-daemon/backend/a.hpp": in_cache("gpufs/cache/frame.hpp")},
     "host-daemon/backend/a.hpp:2: layers"),
    ("an include of the internals by a program",
     {"apps/cp/main.cpp": in_cache("gpufs/io/close.hpp")}, "apps/cp/main.cpp:2: layers"),
    ("an include by a relative name",
     {"host-daemon/backend/a.hpp": '#include "../serve/server.hpp"\n'},
     "host-daemon/backend/a.hpp:1: layers"),
    ("a file outside of all rooms", {"gpufs/a.hpp": "#pragma once\n"},
     "gpufs/a.hpp:1: layers: in no room"),
    ("a foreign namespace",
     {"gpufs/cache/take.hpp": "namespace gpufs {\nstruct fs_ref;\n\nint take();\n}\n"},
     "gpufs/cache/take.hpp:4: namespaces: declares things in namespace gpufs,"),
    ("the global namespace", {"host-daemon/serve/a.cpp": "\nint take() { return 1; }\n"},
     "host-daemon/serve/a.cpp:2: namespaces: declares things in the global namespace"),
    ("an unlisted public header", {"include/gpufs/new.hpp": "#pragma once\n"},
     "include/gpufs/new.hpp:1: public: not a public header"),
    ("a public header that is missing", {"include/gpufs/config.hpp": None},
     "include/gpufs/config.hpp:1: public: in the table"),
    ("a paragraph of four lines",
     {"include/gpufs/io.hpp": documented("/// Opens a file.\n" * 4 + "/// @return 0")},
     "include/gpufs/io.hpp:19: contracts: a paragraph of more than 3 lines"),
    ("a result that no comment explains",
     {"include/gpufs/io.hpp": documented("/// Opens a file.")},
     "include/gpufs/io.hpp:17: contracts: gopen returns a result"),
    ("sentences that are too long",
     {"include/gpufs/io.hpp": "\n".join(["// " + "word " * 14, "// " + "word " * 14 + "."] * 9)},
     "include:1: contracts: sentences have 28 words"),
    ("a file of 301 lines", {"gpufs/io/a.hpp": lines(301)},
     "gpufs/io/a.hpp:301: lengths: 301 lines"),
    ("a function of 61 lines", {"gpufs/io/a.cpp": function(61)},
     "gpufs/io/a.cpp:2: lengths: count has 61 lines"),
    ("a member function of 61 lines, behind a constructor",
     {"gpufs/io/a.cpp": function(61).replace(
         "int count", "struct a {\n  a(int n) : b{n}, c(n) { ++b; }\n  int b, c;\n"
         "template <class T>\n  int count").replace("}\n}\n", "}\n};\n}\n")},
     "gpufs/io/a.cpp:6: lengths: count has 61 lines"),
]
ALLOWED = [
    ("a file of 300 lines", {"gpufs/io/a.hpp": lines(300)}),
    ("a function of 60 lines", {"gpufs/io/a.cpp": function(60)}),
    ("a line of 100 characters, more bytes", {"scripts/a.sh": "# " + "é" * 98 + "\n"}),
    ("a paragraph of three lines",
     {"include/gpufs/io.hpp": documented("/// Opens.\n" * 3 + "///\n/// Returns 0.")}),
]


def check(name, changes, expected):
    folder = tempfile.mkdtemp(prefix="check_house_")
    try:
        tree = {**clean_tree(), **changes}
        for path, text in tree.items():
            if text is None:
                continue
            path = os.path.join(folder, "tree", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        table = os.path.join(folder, "table.py")
        with open(table, "w", encoding="utf-8") as file:
            file.write(TABLE)
        found = subprocess.run([CHECKER, "--root", os.path.join(folder, "tree"), "--table", table],
                               capture_output=True, text=True, check=False)
    finally:
        shutil.rmtree(folder)
    violations = found.stdout.splitlines()[:-1]
    if expected is None:
        good = found.returncode == 0 and not violations
    else:
        good = found.returncode == 1 and len(violations) == 1 and expected in violations[0]
    if not good:
        print(f"FAILED: {name}: exit status {found.returncode}, expected {expected or 'nothing'}\n"
              f"{found.stdout}{found.stderr}")
    return good


def main():
    results = [check("a clean tree", {}, None)]
    results += [check(name, changes, None) for name, changes in ALLOWED]
    results += [check(name, changes, expected) for name, changes, expected in PLANTED]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
