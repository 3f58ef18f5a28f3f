#include "core/base/index.h"

#include "core/base/check.h"

namespace millrace {

void index_failed(int64_t index, size_t size, const std::source_location& where) {
  check_failed(where.file_name(), static_cast<int>(where.line()), "index < size", fmt::format("index {} of {}", index, size));
}

void size_failed(int64_t size, const std::source_location& where) {
  check_failed(where.file_name(), static_cast<int>(where.line()), "size >= 0", fmt::format("a size of {}", size));
}

}  // namespace millrace
