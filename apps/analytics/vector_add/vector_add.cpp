#include <apps/analytics/vector_add/vector_add.hpp>
#include <apps/common/generator.hpp>
#include <apps/harness/parallel.hpp>

#include <fmt/format.h>

namespace gpufs::apps::analytics {

std::unique_ptr<vector_add> make_vector_add(variant how, vector_add_setup const& s) {
  if (uses_filesystem(how)) return make_file_add(how, s);
  return how == variant::tiles ? make_tiled_add(s) : make_direct_add(how, s);
}

std::vector<input_file> vector_add_inputs(std::uint64_t elements, std::uint64_t seed) {
  auto const file = [&](char const* name, std::uint64_t of) {
    return whole_file(
        name, elements * sizeof(std::uint64_t), sizeof(std::uint64_t),
        fill_elements<std::uint64_t>([of](std::uint64_t i) { return generate(of, i); }));
  };
  return {file("a.u64", seed), file("b.u64", seed + 1)};
}

std::string check_sums(std::string const& path, std::uint64_t elements, std::uint64_t seed) {
  host_file const file(path);
  if (file.size() != elements * sizeof(std::uint64_t)) {
    return fmt::format("{} has {} bytes, not {}", path, file.size(),
                       elements * sizeof(std::uint64_t));
  }
  mapped_file const map(file);
  auto const* const sums = reinterpret_cast<std::uint64_t const*>(map.bytes().data());
  auto const right = [&](std::uint64_t i) { return generate(seed, i) + generate(seed + 1, i); };
  std::uint64_t const wrong =
      parallel_find(elements, [&](std::uint64_t i) { return sums[i] != right(i); });
  if (wrong == elements) return {};
  return fmt::format("c[{}] is {:#x}, not {:#x}", wrong, sums[wrong], right(wrong));
}

}  // namespace gpufs::apps::analytics
