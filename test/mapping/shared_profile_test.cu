// Launches that have a name: what they touch is found in managed memory, and placed by it
// elsewhere.
#include <gpufs/config.hpp>
#include <gpufs/mapping.hpp>

#include <test/mapping/budgets.hpp>
#include <test/mapping/kernels.hpp>
#include <test/mapping/named_file.hpp>
#include <test/support/files.hpp>
#include <test/support/seed.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace gpufs;
using namespace gpufs::test;

namespace {

constexpr std::uint64_t mebi = 1 << 20, unit = 2 * mebi, words_of_unit = unit / 4;

/// Reads or changes a word of each part that `touched` has: 1 reads, 2 writes.
__global__ void touch_parts(std::uint32_t* words, std::uint8_t const* touched, std::uint64_t parts,
                            std::uint64_t within, std::uint32_t* sum) {
  for (auto i = thread_number(); i < parts; i += thread_count()) {
    auto& word = words[i * words_of_unit + within];
    if (touched[i] == 2) word += 1;
    if (touched[i] == 1 && word == 12345) *sum = 1;
  }
}

/// `parts` objects' parts, and what a kernel does to them.
struct scene {
  scene(shared_memory& of, std::uint64_t parts,
        std::optional<memory_backing> backing_of_data = std::nullopt)
      : memory(of),
        touched(of.allocate(parts)),
        sum(of.allocate(4)),
        data(of.allocate(parts * unit, {.backing = backing_of_data, .block = mebi})),
        count(parts) {
    for (auto* const small : {&touched, &sum})
      CHECK(small->advise(0, small->size(), memory_advice::device) == 0);
  }

  void launch_named(std::string const& name, std::uint64_t within = 7) {
    shared_call call;
    call.profile(name).reads_writes(data).reads(touched).writes(sum);
    launch(call, touch_parts, dim3(2), dim3(32), data.as<std::uint32_t>(),
           touched.as<std::uint8_t const>(), count, within, sum.as<std::uint32_t>());
    memory.synchronize();
  }

  shared_memory& memory;
  mapping touched, sum, data;
  std::uint64_t count;
};

mapping_config managed(std::string const& profile) {
  mapping_config c;
  c.backing = memory_backing::managed;
  c.mapping_profile = profile;
  return c;
}

bool has_line(std::string const& file, std::string const& line) {
  return ("\n" + text_of(file)).find("\n" + line + "\n") != std::string::npos;
}

bool has_note(shared_memory const& memory, std::string const& part) {
  return std::ranges::any_of(memory.notes(), [&](std::string const& note) {
    return note.find(part) != std::string::npos;
  });
}

std::string refused(mapping_config const& c) {
  try {
    shared_memory const memory(c);
  } catch (config_error const& e) {
    return e.what();
  }
  return "";
}

/// Files that were renamed, by their former names.
std::vector<std::string> renamed;

}  // namespace

// The library's calls come here.
extern "C" int rename(char const* from, char const* to) noexcept {
  renamed.emplace_back(from);
  return int(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

TEST_CASE("profile: two that are written at once do not share a temporary file") {
  scratch_folder const folder;
  auto const file = folder / "gpufs.profile";
  renamed.clear();
  shared_memory const memory(managed(file)), other(managed(file));
  REQUIRE(renamed.size() == 2);
  CHECK(renamed[0] != renamed[1]);
}

TEST_CASE("profile: exactly what a launch touches is found, and bytes stay") {
  scratch_folder const folder;
  auto const file = folder / "gpufs.profile";
  std::mt19937_64 random(seed());
  shared_memory memory(managed(file));
  for (std::uint64_t round = 0; round < 6; ++round) {
    scene s(memory, 5 + round);
    std::string wanted;
    for (std::uint64_t i = 0; i < s.count; ++i) {
      s.data.as<std::uint32_t>()[i * words_of_unit + 9] = std::uint32_t(i) + 1;
      bool const is_touched = random() % 2 == 0;
      s.touched.as<std::uint8_t>()[i] = std::uint8_t(is_touched ? 1 + random() % 2 : 0);
    }
    s.touched.as<std::uint8_t>()[0] = 2;
    s.touched.as<std::uint8_t>()[1] = 0;
    for (std::uint64_t i = 0; i < s.count; ++i) {
      if (s.touched.as<std::uint8_t>()[i] == 0) continue;
      auto first = i;
      while (i + 1 < s.count && s.touched.as<std::uint8_t>()[i + 1] != 0) ++i;
      wanted += (wanted.empty() ? "" : ",") + std::to_string(first);
      if (i != first) wanted += "-" + std::to_string(i);
    }
    // Words at both ends of a part.
    auto const within = round % 3 == 0 ? 0 : round % 3 == 1 ? words_of_unit - 1 : 7;
    s.launch_named("round", within);
    CAPTURE(text_of(file));
    CHECK(has_line(file, "0 " + std::to_string(s.count * unit) + " " + wanted + " round"));
    CHECK(has_line(file, "1 " + std::to_string(s.count) + " 0 round"));
    bool is_right = true;
    for (std::uint64_t i = 0; i < s.count; ++i) {
      auto const* const part = s.data.as<std::uint32_t>() + i * words_of_unit;
      is_right = is_right && part[9] == i + 1 &&
                 part[within] == (s.touched.as<std::uint8_t>()[i] == 2 ? 1 : 0);
    }
    CHECK(is_right);
  }
  CHECK(memory.notes().empty());
}

TEST_CASE("profile: launches of a name are joined, also those of other processes") {
  scratch_folder const folder;
  auto const file = folder / "gpufs.profile";
  shared_memory memory(managed(file)), other(managed(file));
  scene a(memory, 4), b(other, 4);
  a.touched.as<std::uint8_t>()[0] = 1;
  a.launch_named("x");
  b.touched.as<std::uint8_t>()[2] = 2;
  b.launch_named("x");
  a.touched.as<std::uint8_t>()[0] = 0;
  a.touched.as<std::uint8_t>()[3] = 1;
  a.launch_named("x");
  CHECK(has_line(file, "0 8388608 0,2-3 x"));
  // What is not declared is not looked at, and a launch without a name is none.
  shared_call part;
  part.profile("part").reads(a.data, unit, unit).reads(a.touched).writes(a.sum);
  launch(part, touch_parts, dim3(1), dim3(32), a.data.as<std::uint32_t>(),
         a.touched.as<std::uint8_t const>(), a.count, std::uint64_t{0}, a.sum.as<std::uint32_t>());
  memory.synchronize();
  CHECK_FALSE(has_line(file, "0 8388608 3 part"));
  CHECK(has_line(file, "1 4 0 part"));
}

TEST_CASE("profile: what launches touch comes to device memory") {
  scratch_folder const folder;
  auto const file = folder / "gpufs.profile";
  std::ofstream(file) << "# found before\n0 10485760 3-4 hot\n0 10485760 0 cold\n";
  for (bool const is_named : {false, true}) {
    auto settings = tight(8 * mebi, 20 * mebi);  // two parts beside two small objects
    if (is_named) settings.mapping_profile = file;
    shared_memory memory(settings);
    scene s(memory, 5);
    mapping const ballast = memory.allocate(unit);
    std::fill_n(s.touched.as<std::uint8_t>(), 5, std::uint8_t(2));
    auto const write_and_launch = [&](std::uint64_t part) {
      s.data.as<std::uint32_t>()[part * words_of_unit] = 1;
      auto const before = s.data.stats().bytes_h2d;
      s.launch_named("hot");
      return s.data.stats().bytes_h2d - before;
    };
    static_cast<void>(write_and_launch(0));
    static_cast<void>(write_and_launch(4));
    // Only parts in device memory are sent.
    std::vector<bool> sent;
    for (std::uint64_t part = 0; part < 5; ++part) sent.push_back(write_and_launch(part) != 0);
    CHECK(sent == (is_named ? std::vector{false, false, false, true, true}
                            : std::vector{true, true, false, false, false}));
    CHECK_FALSE(has_note(memory, "mapping_profile"));
    auto const moves = memory.stats().moves;
    for (unsigned round = 0; round < 3; ++round) s.launch_named("hot");
    CHECK(memory.stats().moves == moves);
    for (std::uint64_t part = 0; part < 5; ++part)
      CHECK(s.data.as<std::uint32_t>()[part * words_of_unit + 7] == 10);
  }
}

TEST_CASE("profile: objects in managed memory are watched beside others, and placed by it later") {
  scratch_folder const folder;
  auto settings = tight(8 * mebi, 20 * mebi);  // two parts beside two small objects
  settings.mapping_profile = folder / "gpufs.profile";
  {
    shared_memory memory(settings);
    scene s(memory, 5, memory_backing::managed);
    s.touched.as<std::uint8_t>()[2] = 2;
    s.touched.as<std::uint8_t>()[4] = 1;
    s.launch_named("hot");
    CHECK(s.data.as<std::uint32_t>()[2 * words_of_unit + 7] == 1);
    CHECK(has_line(settings.mapping_profile, "0 10485760 2,4 hot"));
    CHECK(text_of(settings.mapping_profile).find("\n1 ") == std::string::npos);
    // Of the objects that are placed, nothing is known.
    CHECK(has_note(memory, "mapping_profile: nothing is known of launches of hot "));
    // The others keep their places in the declaration.
    shared_call later;
    later.profile("later").reads(s.touched).writes(s.sum).reads_writes(s.data);
    launch(later, touch_parts, dim3(2), dim3(32), s.data.as<std::uint32_t>(),
           s.touched.as<std::uint8_t const>(), s.count, std::uint64_t{0},
           s.sum.as<std::uint32_t>());
    CHECK(has_line(settings.mapping_profile, "2 10485760 2,4 later"));
    // Launches of managed objects only find all out.
    auto const notes = memory.notes().size();
    shared_call only;
    only.profile("only").reads(s.data);
    CHECK(only.release() == 0);
    only.launched();
    CHECK(memory.notes().size() == notes);
  }
  shared_memory memory(settings);
  scene s(memory, 5);
  std::fill_n(s.touched.as<std::uint8_t>(), 5, std::uint8_t(2));
  for (unsigned round = 0; round < 2; ++round) s.launch_named("hot");
  CHECK_FALSE(has_note(memory, "mapping_profile"));
  std::vector<bool> sent;
  for (std::uint64_t part = 0; part < 5; ++part) {
    s.data.as<std::uint32_t>()[part * words_of_unit] = 1;
    auto const before = s.data.stats().bytes_h2d;
    s.launch_named("hot");
    sent.push_back(s.data.stats().bytes_h2d != before);
  }
  CHECK(sent == std::vector{false, false, true, false, true});
}

TEST_CASE("profile: what is not known is said once, and bad names and files are refused") {
  scratch_folder const folder;
  auto const file = folder / "gpufs.profile";
  auto settings = tight(8 * mebi, 20 * mebi);
  settings.mapping_profile = file;
  {
    shared_memory memory(settings);  // it may be missing
    CHECK_FALSE(std::filesystem::exists(file));
    scene s(memory, 2);
    s.launch_named("x");
    s.launch_named("x");
    CHECK(has_note(memory, "mapping_profile: nothing is known of launches of x "));
    CHECK(std::ranges::count_if(memory.notes(), [](std::string const& note) {
            return note.starts_with("mapping_profile");
          }) == 1);
    shared_call empty, lines;
    CHECK(empty.profile("").reads(s.data).release() == -EINVAL);
    CHECK(lines.profile("a\nb").reads(s.data).release() == -EINVAL);
  }
  std::ofstream(file) << "# two lines\n0 8 1 x\n";
  CHECK(refused(settings).find("mapping_profile=" + file) != std::string::npos);
  CHECK(refused(settings).find("(line 2: must be NUMBER BYTES PARTS NAME") != std::string::npos);
  settings.mapping_profile = folder.path();
  CHECK(refused(settings).find("cannot be read: Is a directory") != std::string::npos);
  CHECK(refused(managed(folder.path())).find("cannot be") != std::string::npos);
  CHECK(refused(managed(folder / "none/file")).find("No such file") != std::string::npos);
}

TEST_CASE("profile: a file that cannot be replaced is told, and the launch runs") {
  scratch_folder const folder;
  auto const file = folder / "gpufs.profile";
  shared_memory memory(managed(file));
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  std::ofstream(folder / "gpufs.profile/inside") << "x";
  scene s(memory, 2);
  s.touched.as<std::uint8_t>()[1] = 2;
  s.launch_named("x");
  CHECK(s.data.as<std::uint32_t>()[words_of_unit + 7] == 1);
  CHECK(has_note(memory, "mapping_profile: " + file + ": cannot be"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}
