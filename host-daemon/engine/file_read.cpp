// The steps of a read of a range.
#include <host-daemon/engine/file_read.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpufs::daemon {

namespace {

// A read that is interrupted or told to try again this often in a row fails with that error.
constexpr unsigned most_fruitless = 1000;

}  // namespace

void file_read::begin(local_file& file, std::uint64_t offset, std::uint64_t length, std::byte* to,
                      std::uint64_t room, bool direct, beyond_end beyond) noexcept {
  file_ = &file;
  offset_ = offset;
  length_ = length;
  to_ = to;
  room_ = room;
  direct_ = direct;
  zeros_ = beyond == beyond_end::zeros;
  is_direct_ = false;
  done_ = padded_ = done_directly_ = 0;
  fruitless_ = 0;
  error_ = 0;
}

read_operation file_read::next(std::uint64_t most, std::uint64_t cookie) noexcept {
  auto const length = std::min(left(), most);
  if (direct_) {
    is_direct_ =
        widened_.plan(file_->past_cache->alignment(), offset(), length, to_ + done_, room_ - done_);
    if (is_direct_)
      return {.from = &file_->direct,
              .offset = widened_.offset(),
              .length = widened_.length(),
              .to = widened_.to(),
              .cookie = cookie};
  }
  return {.from = &file_->buffered,
          .offset = offset(),
          .length = std::uint32_t(length),
          .to = to_ + done_,
          .cookie = cookie};
}

bool file_read::absorb(std::int64_t result, path_choice& paths) noexcept {
  if (is_direct_ && !absorb_direct(result, paths)) return false;
  if (result > 0) {
    done_ += std::uint64_t(result);
    fruitless_ = 0;
    return left() == 0;
  }
  if (result == 0) {
    if (zeros_) {
      padded_ = left();
      std::memset(to_ + done_, 0, padded_);
      done_ = length_;
    }
    return true;
  }
  if ((result == -EINTR || result == -EAGAIN) && ++fruitless_ < most_fruitless) return false;
  error_ = std::int32_t(result);
  return true;
}

// Takes in the result of a direct operation. Returns false if it says nothing and a buffered
// operation must tell.
bool file_read::absorb_direct(std::int64_t& result, path_choice& paths) noexcept {
  is_direct_ = false;
  if (result == -EINVAL || result == -EOPNOTSUPP) {
    paths.refused(*file_, int(-result));
    direct_ = false;
    return false;
  }
  if (result < 0) return true;
  // A short read is the end of the file, or was once. A buffered operation finds where it lies and
  // what comes behind it, as it may begin anywhere.
  if (std::uint64_t(result) < widened_.length()) direct_ = false;
  result = widened_.finish(std::uint64_t(result));
  done_directly_ += std::uint64_t(result);
  return result > 0;
}

}  // namespace gpufs::daemon
