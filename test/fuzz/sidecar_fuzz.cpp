// Sidecars NAME.meta of input files: of real files, and of those that were generated earlier.
#include <apps/common/program.hpp>
#include <apps/harness/data_set.hpp>
#include <apps/harness/real_input.hpp>
#include <test/fuzz/input.hpp>

using namespace gpufs;
using fuzz::require;

namespace {

void read_real(fuzz::input in) {
  std::uint64_t const element = 1 + in.below(16);
  std::string const contents(in.below(64), 'x');
  auto const path = fuzz::put_file("real", contents);
  fuzz::put_file("real.meta", in.rest());
  try {
    auto const found = apps::read_real_input(path, {"width", "height"}, element);
    auto const width = found.at("width"), height = found.at("height");
    require(width * height * element == contents.size(), "the file has the size by its numbers");
    apps::check_rows(path, height, 32);
  } catch (apps::usage_error const&) {
  }
}

void read_generated(fuzz::input in) {
  std::uint64_t const bytes = 8 * (1 + in.below(4));
  fuzz::put_file("made", std::string(8 * in.below(6), '\0'));
  fuzz::put_file("made.meta", in.rest());
  auto const file = apps::whole_file(
      "made", bytes, 8,
      apps::fill_elements<std::uint64_t>([](auto i) { return apps::generate(1, i); }));
  try {
    for (int pass = 0; pass < 2; ++pass) {
      apps::data_set const set({file}, "seed 1", fuzz::folder());
      require(set.files().front().file.size() == bytes, "the file has the size that was asked for");
      // The zeros of above, which the sidecar may describe as it likes, or what was generated.
      std::uint64_t first = 0;
      set.files().front().file.read(&first, sizeof first, 0);
      require(first == 0 || (first == apps::generate(1, 0) && set.changed().empty()),
              "a file is kept as it is or made whole");
    }
  } catch (apps::usage_error const&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  fuzz::input in{data, size};
  in.take<std::uint8_t>() == 'r' ? read_real(in) : read_generated(in);
  return 0;
}
