#include <apps/bench/idle_mapping.hpp>

#include <cstring>
#include <system_error>

namespace gpufs::apps {

idle_mapping::idle_mapping(bool wanted) {
  if (!wanted) return;
  memory_.emplace();
  object_ = memory_->allocate(64 << 20);
  std::memset(object_.data(), 1, object_.size());
  if (int const error = object_.prefetch_to_device(0, object_.size()))
    throw std::system_error(-error, std::generic_category(), "idle mapping");
}

}  // namespace gpufs::apps
