// std::source_location for clang before version 16, which lacks what libstdc++ makes it of. Every
// source of the fuzz targets includes this file first.
#pragma once

#include <version>

#if !defined(__cpp_lib_source_location)

#include <cstdint>

namespace std {

class source_location {
 public:
  static constexpr source_location current(char const* file = __builtin_FILE(),
                                           char const* function = __builtin_FUNCTION(),
                                           uint_least32_t line = __builtin_LINE()) noexcept {
    source_location here;
    here.file_ = file;
    here.function_ = function;
    here.line_ = line;
    return here;
  }
  [[nodiscard]] constexpr uint_least32_t line() const noexcept { return line_; }
  [[nodiscard]] constexpr uint_least32_t column() const noexcept { return 0; }
  [[nodiscard]] constexpr char const* file_name() const noexcept { return file_; }
  [[nodiscard]] constexpr char const* function_name() const noexcept { return function_; }

 private:
  char const* file_ = "";
  char const* function_ = "";
  uint_least32_t line_ = 0;
};

}  // namespace std

#endif
