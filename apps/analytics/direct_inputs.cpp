#include <gpufs/device.hpp>

#include <apps/analytics/direct_inputs.hpp>
#include <apps/common/managed_memory.hpp>
#include <apps/common/worker_threads.hpp>
#include <apps/harness/loader.hpp>

#include <algorithm>
#include <atomic>

namespace gpufs::apps::analytics {

namespace {

/// Host memory that kernels reach.
template <class Memory>
class reachable_inputs final : public direct_inputs {
 public:
  explicit reachable_inputs(std::vector<data_file const*> const& files) : files_(files) {
    for (auto const* f : files)
      memory_.push_back(std::make_unique<Memory>(std::max<std::uint64_t>(f->file.size(), 1)));
  }

  void load() override {
    for (std::size_t i = 0; i < files_.size(); ++i)
      read_by_threads(files_[i]->file, memory_[i]->data(), files_[i]->file.size());
  }

  std::byte const* bytes(unsigned file) const override { return memory_.at(file)->data(); }

 private:
  std::vector<data_file const*> files_;
  std::vector<std::unique_ptr<Memory>> memory_;
};

/// Device memory, by one of the loaders of the other applications.
class device_inputs final : public direct_inputs {
 public:
  device_inputs(std::vector<data_file const*> const& files, std::unique_ptr<loader> by,
                bool is_loaded)
      : by_(std::move(by)) {
    for (auto const* f : files) memory_.emplace_back(std::max<std::uint64_t>(f->file.size(), 1));
    for (std::size_t i = 0; i < files.size(); ++i) items_.push_back({files[i], &memory_[i]});
    by_->prepare(items_);
    if (!is_loaded) return;
    by_->load(items_);
    items_.clear();
  }

  void load() override { by_->load(items_); }
  std::byte const* bytes(unsigned file) const override { return memory_.at(file).data(); }

 private:
  std::unique_ptr<loader> by_;
  std::vector<buffer<std::byte>> memory_;
  std::vector<load_item> items_;
};

}  // namespace

std::unique_ptr<direct_inputs> make_direct_inputs(variant how,
                                                  std::vector<data_file const*> const& files) {
  if (how == variant::zerocopy)
    return std::make_unique<reachable_inputs<pinned_buffer<std::byte>>>(files);
  if (how == variant::managed) return std::make_unique<reachable_inputs<managed_memory>>(files);
  if (how != variant::copy)
    return std::make_unique<device_inputs>(files, make_pipelined_loader(), how == variant::memory);
  std::uint64_t most = 1;
  for (auto const* f : files) most = std::max(most, f->file.size());
  return std::make_unique<device_inputs>(files, make_cpuio_loader(most, false), false);
}

void read_by_threads(host_file const& file, std::byte* to, std::uint64_t bytes,
                     std::uint64_t offset) {
  constexpr std::uint64_t piece = 4 << 20;
  std::atomic<std::uint64_t> next{0};
  run_on_threads(8, [&](unsigned) {
    // Relaxed: a counter, which orders nothing.
    for (std::uint64_t at; (at = next.fetch_add(piece, std::memory_order_relaxed)) < bytes;)
      file.read(to + at, std::min(piece, bytes - at), offset + at);
  });
}

}  // namespace gpufs::apps::analytics
