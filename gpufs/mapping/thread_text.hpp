// A text of each thread that outlives the thread's other objects.
#pragma once

#include <new>
#include <string>
#include <utility>

namespace gpufs::shared {

/// One text per thread, whatever the object of this class. exit() ends the objects of its thread
/// before static ones, and what these do may still set the text. If memory runs out, it is empty.
class thread_text {
 public:
  thread_text& operator=(std::string text) noexcept {
    thread_local end_of_thread const end;
    if (text_ == nullptr) text_ = new (std::nothrow) std::string;
    if (text_ != nullptr) *text_ = std::move(text);
    return *this;
  }
  void clear() noexcept {
    if (text_ != nullptr) text_->clear();
  }
  /// Throws std::bad_alloc.
  operator std::string() const& { return text_ == nullptr ? std::string() : *text_; }
  operator std::string() && noexcept {
    return text_ == nullptr ? std::string() : std::move(*text_);
  }

 private:
  // What is set later is never given back.
  struct end_of_thread {
    end_of_thread() = default;
    ~end_of_thread() { delete std::exchange(text_, nullptr); }
  };

  static inline constinit thread_local std::string* text_ = nullptr;
};

}  // namespace gpufs::shared
