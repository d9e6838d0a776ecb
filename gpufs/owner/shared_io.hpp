// I/O on objects of an address space, for the public calls and for wrapped ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace gpufs::shared {
class address_space;
}

namespace gpufs::owner {

/// What a transfer reads or writes.
class transfer_end {
 public:
  virtual ~transfer_end() = default;

  /// Bytes [done, done + bytes) of the transfer. The memory is no object's. Return the number of
  /// bytes or -errno. Fewer than asked for end the transfer.
  [[nodiscard]] virtual std::int64_t read(void* to, std::uint64_t bytes,
                                          std::uint64_t done) const = 0;
  [[nodiscard]] virtual std::int64_t write(void const* from, std::uint64_t bytes,
                                           std::uint64_t done) const = 0;
  /// Whether it gives what it has, and may never give more: a pipe.
  [[nodiscard]] virtual bool may_give_less() const = 0;

  /// Its next `bytes` bytes, as something that several threads may read at once. It moves behind
  /// them; give_back() moves it back by what was not read. Null: its bytes come in turn only.
  [[nodiscard]] virtual std::unique_ptr<transfer_end> claim(std::uint64_t) const { return nullptr; }
  virtual void give_back(std::uint64_t) const {}
};

/// A file at its position, or at an offset.
class descriptor final : public transfer_end {
 public:
  descriptor(int fd, std::optional<std::uint64_t> offset) : fd_(fd), offset_(offset) {}
  [[nodiscard]] std::int64_t read(void* to, std::uint64_t bytes, std::uint64_t done) const override;
  [[nodiscard]] std::int64_t write(void const* from, std::uint64_t bytes,
                                   std::uint64_t done) const override;
  [[nodiscard]] bool may_give_less() const override;
  [[nodiscard]] std::unique_ptr<transfer_end> claim(std::uint64_t bytes) const override;
  void give_back(std::uint64_t bytes) const override;

 private:
  int fd_;
  std::optional<std::uint64_t> offset_;
};

// As the calls of shared_memory of these names.
[[nodiscard]] std::int64_t read_to(shared::address_space& space, transfer_end const& file, void* to,
                                   std::uint64_t bytes);
[[nodiscard]] std::int64_t write_from(shared::address_space& space, transfer_end const& file,
                                      void const* from, std::uint64_t bytes);
/// With `by_touch`, pieces that cannot be had are moved by that function through the objects'
/// addresses. Only if nothing has been moved, an error is returned then.
using true_move = void* (*)(void*, void const*, std::size_t);
[[nodiscard]] int copy(shared::address_space& space, void* to, void const* from,
                       std::uint64_t bytes, true_move by_touch = nullptr);
[[nodiscard]] int set(shared::address_space& space, void* to, int value, std::uint64_t bytes);

}  // namespace gpufs::owner
