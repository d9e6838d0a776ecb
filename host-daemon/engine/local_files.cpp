// The files that one thread has borrowed.
#include <host-daemon/engine/local_files.hpp>

#include <memory>

namespace gpufs::daemon {

local_file* local_files::use(std::int32_t descriptor) {
  if (!registry_.is_open(descriptor)) return nullptr;
  auto& entry = current_[rpc::descriptor_index(descriptor)];
  if (entry != nullptr && entry->descriptor != descriptor) retire(entry);
  if (entry == nullptr) {
    auto file = std::make_unique<local_file>();
    file->host = registry_.borrow(descriptor);
    if (!file->host) return nullptr;
    file->begin();
    file->descriptor = descriptor;
    entry = file.release();
  }
  ++entry->in_use;
  return entry;
}

void local_files::done(local_file* file) noexcept {
  if (--file->in_use == 0 && !file->current) drop(file);
}

void local_files::give_closed_back() noexcept {
  auto const now = registry_.closes();
  for (auto n = seen_closes_; n != now && now - n < file_registry::log_length; ++n) {
    auto const descriptor = registry_.closed_descriptor(n);
    auto* const file = current_[rpc::descriptor_index(descriptor)];
    if (file != nullptr && file->descriptor == descriptor) retire(file);
  }
  // If the log has come round meanwhile, some of its entries were missed.
  if (registry_.closes() - seen_closes_ >= file_registry::log_length)
    for (auto* const file : current_)
      if (file != nullptr && !registry_.is_open(file->descriptor)) retire(file);
  seen_closes_ = now;
}

void local_files::give_all_back() noexcept {
  for (auto* const file : current_)
    if (file != nullptr) retire(file);
}

void local_files::retire(local_file* file) noexcept {
  current_[rpc::descriptor_index(file->descriptor)] = nullptr;
  file->current = false;
  if (file->in_use == 0) drop(file);
}

void local_files::drop(local_file* file) noexcept {
  engine_.forget(*file);
  delete file;
}

}  // namespace gpufs::daemon
