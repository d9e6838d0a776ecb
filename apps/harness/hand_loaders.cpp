// The loaders that a program without gpufs would have.
#include <gpufs/device.hpp>

#include <apps/common/transfer.hpp>
#include <apps/common/worker_threads.hpp>
#include <apps/harness/loader.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

namespace gpufs::apps {

namespace {

class cpuio_loader final : public loader {
 public:
  cpuio_loader(std::uint64_t most_bytes, bool pinned) {
    if (pinned) {
      pinned_ = pinned_buffer<std::byte>(most_bytes);
      pinned_.fill_zero();
      memory_ = pinned_.data();
    } else {
      pageable_ = std::make_unique<std::byte[]>(most_bytes);  // value-initialised: touched
      memory_ = pageable_.get();
    }
  }

  void load(std::vector<load_item> const& items) override {
    for (auto const& item : items) {
      std::uint64_t const bytes = item.from->file.size();
      item.from->file.read(memory_, bytes, 0);
      item.to->copy_from_host(memory_, bytes);
    }
  }

 private:
  std::unique_ptr<std::byte[]> pageable_;
  pinned_buffer<std::byte> pinned_;
  std::byte* memory_ = nullptr;
};

class pipelined_loader final : public loader {
 public:
  pipelined_loader() : chunks_(threads * 2 * chunk) { chunks_.fill_zero(); }

  void load(std::vector<load_item> const& items) override {
    struct range {
      load_item const* item;
      std::uint64_t offset;
      std::uint64_t bytes;
    };
    std::vector<range> ranges;
    for (auto const& item : items) {
      std::uint64_t const size = item.from->file.size();
      for (std::uint64_t at = 0; at < size; at += chunk)
        ranges.push_back({&item, at, std::min(chunk, size - at)});
    }
    std::atomic<std::size_t> next{0};
    run_on_threads(threads, [&](unsigned thread) {
      worker& mine = workers_[thread];
      for (unsigned side = 0;; side ^= 1) {
        std::size_t const i =
            next.fetch_add(1, std::memory_order_relaxed);  // a counter: orders nothing
        if (i >= ranges.size()) break;
        range const& p = ranges[i];
        std::byte* const from = chunks_.data() + (2 * thread + side) * chunk;
        mine.copied[side].synchronize();
        p.item->from->file.read(from, p.bytes, p.offset);
        mine.queue.copy_to_device(p.item->to->data() + p.offset, from, p.bytes);
        mine.queue.record(mine.copied[side]);
      }
      mine.queue.synchronize();
    });
  }

 private:
  static constexpr unsigned threads = 8;
  static constexpr std::uint64_t chunk = 4 << 20;
  struct worker {
    transfer_queue queue;
    std::array<event, 2> copied;
  };

  pinned_buffer<std::byte> chunks_;
  std::array<worker, threads> workers_;
};

}  // namespace

std::unique_ptr<loader> make_cpuio_loader(std::uint64_t most_bytes, bool pinned) {
  return std::make_unique<cpuio_loader>(most_bytes, pinned);
}

std::unique_ptr<loader> make_pipelined_loader() { return std::make_unique<pipelined_loader>(); }

}  // namespace gpufs::apps
