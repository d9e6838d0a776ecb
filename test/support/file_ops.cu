#include <gpufs/gpufs.hpp>

#include <test/support/file_ops.hpp>

#include <cstring>

namespace gpufs::test {

namespace {

namespace cg = cooperative_groups;

template <class Group>
__device__ void carry_out(fs_ref const& fs, Group const& group, file_op* ops, std::uint32_t count,
                          std::uint32_t caller, std::byte* memory) {
  io_context io(fs, group);
  for (std::uint32_t i = 0; i < count; ++i) {
    file_op& op = ops[i];
    if (op.caller != caller) continue;
    std::int64_t result = 0;
    switch (op.what) {
      case call::read: result = gread(io, op.fd, memory + op.place, op.count, op.offset); break;
      case call::write: result = gwrite(io, op.fd, memory + op.place, op.count, op.offset); break;
      case call::sync: result = gfsync(io, op.fd); break;
      case call::truncate: result = gftruncate(io, op.fd, op.offset); break;
      case call::close: result = gclose(io, op.fd); break;
      case call::size: {
        file_status status{};
        result = gfstat(io, op.fd, &status);
        if (result == 0) result = static_cast<std::int64_t>(status.size);
        break;
      }
    }
    if (group.thread_rank() == 0) op.result = result;
  }
}

__global__ __launch_bounds__(256) void by_blocks(fs_ref fs, file_op* ops, std::uint32_t count,
                                                 std::byte* memory) {
  carry_out(fs, cg::this_thread_block(), ops, count, blockIdx.x, memory);
}

__global__ __launch_bounds__(256) void by_tiles(fs_ref fs, file_op* ops, std::uint32_t count,
                                                std::byte* memory) {
  auto const block = cg::this_thread_block();
  auto const tile = cg::tiled_partition<32>(block);
  carry_out(fs, tile, ops, count, blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, memory);
}

}  // namespace

std::size_t op_batch::add(file_op const& op) {
  ops_.push_back(op);
  return ops_.size() - 1;
}

std::uint64_t op_batch::room(std::uint64_t count, unsigned misalign) {
  std::uint64_t const at = (memory_.size() + 63) / 64 * 64 + misalign;
  memory_.resize(at + count + 8);
  return at;
}

std::size_t op_batch::write(unsigned caller, int fd, std::int64_t offset,
                            std::vector<std::byte> const& bytes, unsigned misalign) {
  auto const at = room(bytes.size(), misalign);
  if (!bytes.empty()) std::memcpy(memory_.data() + at, bytes.data(), bytes.size());
  return add({call::write, fd, offset, bytes.size(), at, 0, caller, 0});
}

std::size_t op_batch::read(unsigned caller, int fd, std::int64_t offset, std::uint64_t count,
                           unsigned misalign) {
  return add({call::read, fd, offset, count, room(count, misalign), 0, caller, 0});
}

void op_batch::start(fs_ref const& fs, unsigned blocks, unsigned threads, caller_kind who) {
  device_ops_ = buffer<file_op>(ops_.size());
  device_ops_.copy_from_host(ops_.data(), ops_.size());
  device_memory_ = buffer<std::byte>(memory_.size() + 1);
  device_memory_.copy_from_host(memory_.data(), memory_.size());
  auto const count = static_cast<std::uint32_t>(ops_.size());
  launch(who == caller_kind::block ? by_blocks : by_tiles, blocks, threads, fs, device_ops_.data(),
         count, device_memory_.data());
}

void op_batch::finish() {
  this_thread_stream().synchronize();
  done_.resize(ops_.size());
  device_ops_.copy_to_host(done_.data(), done_.size());
  after_.resize(memory_.size());
  device_memory_.copy_to_host(after_.data(), after_.size());
}

void op_batch::run(fs_ref const& fs, unsigned blocks, unsigned threads, caller_kind who) {
  start(fs, blocks, threads, who);
  finish();
}

std::vector<std::byte> op_batch::bytes(std::size_t op) const {
  auto const& o = done_[op];
  if (o.result <= 0) return {};
  return {after_.begin() + std::ptrdiff_t(o.place),
          after_.begin() + std::ptrdiff_t(o.place) + o.result};
}

void op_batch::clear() {
  ops_.clear();
  done_.clear();
  memory_.clear();
}

std::vector<std::byte> some_bytes(std::uint64_t seed, std::uint64_t offset, std::uint64_t count) {
  std::vector<std::byte> bytes(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t const at = offset + i;
    std::uint64_t word = (seed * 0x9e3779b97f4a7c15ull + at / 8 + 1) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
    bytes[i] = static_cast<std::byte>((word ^ word >> 31) >> at % 8 * 8);
  }
  return bytes;
}

}  // namespace gpufs::test
