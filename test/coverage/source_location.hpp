// std::source_location for clang 14. The library of g++ 12 declares it only for compilers that have
// the built-in function for it, and clang has that from version 15 on.
#pragma once

#include <version>

#if defined(__clang__) && __clang_major__ < 15 && !defined(__cpp_lib_source_location)
#include <cstdint>

namespace std {
struct source_location {
  static constexpr source_location current(uint_least32_t line = __builtin_LINE(),
                                           uint_least32_t column = __builtin_COLUMN(),
                                           char const* file = __builtin_FILE(),
                                           char const* function = __builtin_FUNCTION()) noexcept {
    source_location here;
    here.line_ = line;
    here.column_ = column;
    here.file_ = file;
    here.function_ = function;
    return here;
  }
  constexpr uint_least32_t line() const noexcept { return line_; }
  constexpr uint_least32_t column() const noexcept { return column_; }
  constexpr char const* file_name() const noexcept { return file_; }
  constexpr char const* function_name() const noexcept { return function_; }

 private:
  uint_least32_t line_ = 0, column_ = 0;
  char const* file_ = "";
  char const* function_ = "";
};
}  // namespace std
#endif
