#include <apps/analytics/kernel_errors.hpp>
#include <apps/common/program.hpp>

#include <fmt/format.h>

#include <stdexcept>

namespace gpufs::apps::analytics {

void require_no_error(error_word word, std::vector<std::string> const& files) {
  if (word == 0) return;
  throw std::runtime_error(fmt::format("{}, used by a kernel: {}", files.at((word >> 32) - 1),
                                       error_text(static_cast<std::int64_t>(word & 0xffffffff))));
}

void kernel_errors::require_none(std::vector<std::string> const& files) const {
  error_word word = 0;
  word_.copy_to_host(&word, 1);
  require_no_error(word, files);
}

}  // namespace gpufs::apps::analytics
