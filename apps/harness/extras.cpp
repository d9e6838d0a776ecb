#include <apps/common/program.hpp>
#include <apps/harness/extras.hpp>

#include <fmt/format.h>

#include <charconv>

namespace gpufs::apps {

std::uint64_t number_option(problem const& p, std::string const& name, std::uint64_t low,
                            std::uint64_t high) {
  std::string const& text = p.extras.at(name);
  std::uint64_t value = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    throw usage_error(fmt::format("--{}={}: must be from {} to {}", name, text, low, high));
  }
  return value;
}

unsigned choice_option(problem const& p, std::string const& name,
                       std::initializer_list<char const*> choices) {
  std::string const& text = p.extras.at(name);
  std::string all;
  unsigned i = 0;
  for (auto const* c : choices) {
    if (text == c) return i;
    all += (i++ == 0 ? "" : " or ") + std::string(c);
  }
  throw usage_error(fmt::format("--{}={}: must be {}", name, text, all));
}

}  // namespace gpufs::apps
