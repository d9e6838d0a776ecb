// What the device does with pages of an object: hashes that find changed pages, and copies of
// single pages. Nobody is told of these launches.
#pragma once

#include <gpufs/device.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpufs::shared {

/// The unit of writes to files.
inline constexpr std::uint64_t file_page = 4096;

/// Two hashes of a page, multilinear over its words of 32 bits, modulo 2^64. A page of zeros has
/// zeros. Pages that differ have the same hashes with a probability of 2^-64, whatever they are, as
/// long as nobody knows the keys: each hash is strongly universal in its upper half.
struct page_hash {
  std::uint64_t first, second;
};

/// Random bits that nobody can guess. Throws device_error: the system gives none.
void draw(std::span<std::uint64_t> to);

/// The keys of one address space.
class page_hasher {
 public:
  static constexpr unsigned words = file_page / 4;

  /// Draws keys. Throws device_error.
  page_hasher();

  /// Puts behind the work of `on`: known[i] = the hash of page i.
  void hash(stream& on, std::byte const* pages, std::uint64_t count, page_hash* known) const;

  /// Puts behind the work of `on`: now[i] = the hash of page i, and changed[i] = whether it differs
  /// from known[i]. `changed` is pinned memory.
  void compare(stream& on, std::byte const* pages, std::uint64_t count, page_hash const* known,
               page_hash* now, std::uint8_t* changed) const;

 private:
  buffer<std::uint64_t> keys_{2 * words};
};

/// Puts behind the work of `on`: known[i] = now[i].
void copy_hashes(stream& on, page_hash const* now, std::uint64_t count, page_hash* known);

/// Puts behind the work of `on`: page which[i] goes to place i of `to`. `which` and `to` are pinned
/// memory.
void gather_pages(stream& on, std::byte const* pages, std::uint32_t const* which,
                  std::uint64_t count, std::byte* to);

/// The word of 8 bytes that bytes nobody has written have, in objects whose file is not read.
/// `word`: its number in the file.
[[nodiscard]] std::uint64_t unwritten_word(std::uint64_t key, std::uint64_t word);

/// Puts behind the work of `on`: such words, from number `first_word` on. `bytes`: a multiple of 8.
void fill_unwritten(stream& on, std::byte* to, std::uint64_t bytes, std::uint64_t key,
                    std::uint64_t first_word);

}  // namespace gpufs::shared
