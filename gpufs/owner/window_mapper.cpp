// Maps file windows, and stores their entries in the table in device memory.
#include <gpufs/device.hpp>
#include <gpufs/device/file_window.hpp>
#include <gpufs/device/memory.hpp>
#include <gpufs/owner/window_mapper.hpp>

#include <array>
#include <cstddef>
#include <exception>

namespace gpufs::owner {

namespace {

class table_mapper final : public daemon::window_mapper {
 public:
  table_mapper(rpc::window_entry* table, std::uint64_t entries, std::uint32_t const* users)
      : table_(table), entries_(entries), users_(users) {}

  outcome map(int fd, std::uint64_t offset, std::uint64_t bytes, daemon::registered_window& out,
              std::string& why) override {
    try {
      be_current();
    } catch (std::exception const& e) {
      why = e.what();
      return outcome::no_device;
    }
    detail::file_window window;
    auto const result = detail::map_file_window(fd, offset, bytes, window);
    if (result.refused != detail::mapping_refusal::none) {
      why = std::string(result.call) + ": " + result.why;
      return result.refused == detail::mapping_refusal::file ? outcome::no_file
                                                             : outcome::no_device;
    }
    out = {reinterpret_cast<std::uintptr_t>(window.address), window.bytes, window.host};
    return outcome::mapped;
  }

  void unmap(daemon::registered_window const& window) noexcept override {
    try {
      be_current();
    } catch (std::exception const&) {  // the device has failed and runs nothing
    }
    detail::unmap_file_window(
        {reinterpret_cast<std::byte*>(window.address), window.bytes, window.host});
  }

  [[nodiscard]] std::uint64_t entries() const noexcept override { return entries_; }

  bool publish(std::uint64_t entry, daemon::published_window const& w) noexcept override {
    // The tag comes first in memory and last in time, as rpc::window_entry demands.
    static_assert(offsetof(rpc::window_entry, tag) == 0 &&
                  offsetof(rpc::window_entry, version) == 8);
    std::array const fields{w.version, w.window, w.address, w.bytes};
    std::array const tag{++last_tag_};
    // Before the first one, kernels are told that there are windows.
    is_announced_ = is_announced_ || store(entries_, 0, tag);
    return is_announced_ && store(entry, 1, fields) && store(entry, 0, tag);
  }

  bool withdraw(std::uint64_t entry) noexcept override {
    return store(entry, 0, std::array{std::uint64_t(0)});
  }

  [[nodiscard]] bool idle() noexcept override {
    try {
      be_current();
      return detail::load_device_word(users_) == 0;
    } catch (std::exception const&) {
      return false;
    }
  }

 private:
  void be_current() { device_memory::enter_library_thread(device_); }  // the thread that maps

  bool store(std::uint64_t entry, unsigned from, std::span<std::uint64_t const> words) noexcept {
    try {
      be_current();
      detail::store_device_words(&table_[entry].tag + from, words);
      return true;
    } catch (std::exception const&) {
      return false;
    }
  }

  int device_ = current_device_number();
  rpc::window_entry* table_;
  std::uint64_t entries_;
  std::uint32_t const* users_;
  std::uint64_t last_tag_ = 0;
  bool is_announced_ = false;
};

}  // namespace

std::unique_ptr<daemon::window_mapper> make_window_mapper(rpc::window_entry* table,
                                                          std::uint64_t entries,
                                                          std::uint32_t const* users) {
  return std::make_unique<table_mapper>(table, entries, users);
}

}  // namespace gpufs::owner
