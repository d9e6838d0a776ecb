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
  for (; seen_closes_ != now; ++seen_closes_) {
    auto const descriptor = registry_.closed_descriptor(seen_closes_);
    if (descriptor == close_log::not_yet) return;  // the next refresh() goes on here
    if (descriptor == close_log::lost) break;
    auto* const file = current_[rpc::descriptor_index(descriptor)];
    if (file != nullptr && file->descriptor == descriptor) retire(file);
  }
  if (seen_closes_ == now) return;
  // The log has come round. The descriptors of all closes up to `now` are seen as closed.
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
