#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/data/picture_formats.h"

#ifdef MILLRACE_HAS_PNG
#include <png.h>
#endif

namespace millrace {

#ifdef MILLRACE_HAS_PNG
namespace {

struct Reading {
  std::span<const std::byte> rest;
  char text[160] = "";
  std::exception_ptr reason;
};

[[noreturn]] void leave(png_structp png, png_const_charp text) {
  auto* const reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::snprintf(reading->text, sizeof(reading->text), "%s", text);
  png_longjmp(png, 1);
}

void read_some(png_structp png, png_bytep to, size_t count) {
  auto* const reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading->rest.size()) png_error(png, "the file ends too early");
  std::memcpy(to, reading->rest.data(), count);
  reading->rest = reading->rest.subspan(count);
}

// Everything the library allocates ends with `close`, whatever happens between.
struct Library {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Library() { png_destroy_read_struct(&png, &info, nullptr); }
};

// What a picture may carry beside its pixels is never kept.
constexpr png_alloc_size_t kMostChunkBytes = 8 << 20;

}  // namespace

void decode_png(std::span<const std::byte> bytes, std::string_view origin, const PictureFacts& facts, PictureRows& sink) {
  const auto height = to_size(facts.shape.height), row_bytes = to_size(facts.shape.width * facts.shape.channels);
  Reading reading{.rest = bytes, .reason = nullptr};
  std::vector<uint8_t> held;
  std::vector<png_bytep> rows;
  Library library;
  library.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, leave, [](png_structp, png_const_charp) {});
  library.info = library.png == nullptr ? nullptr : png_create_info_struct(library.png);
  if (library.info == nullptr) fail(ErrorCode::kUnavailable, "libpng does not start; its version is not the one that was built against");
  png_structp const png = library.png;
  png_infop const info = library.info;
  if (setjmp(png_jmpbuf(png)) != 0)
    fail(ErrorCode::kMalformed, "{}: {}; the file is damaged", origin, static_cast<const char*>(reading.text));
  png_set_read_fn(png, &reading, read_some);
  png_set_chunk_malloc_max(png, kMostChunkBytes);
  png_set_user_limits(png, static_cast<png_uint_32>(kMostPicturePixels), static_cast<png_uint_32>(kMostPicturePixels));
  png_read_info(png, info);
  if (png_get_image_width(png, info) != to_size(facts.shape.width) || png_get_image_height(png, info) != height)
    png_error(png, "two sizes in one file");
  png_set_expand(png);    // palettes to RGB, grey to eight bits
  png_set_strip_16(png);  // the upper eight bits
  png_set_strip_alpha(png);
  const bool interlaced = png_set_interlace_handling(png) > 1;
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "its colours are not what its header says");
  held.resize(interlaced ? row_bytes * height : row_bytes);
  if (interlaced) {
    rows.resize(height);
    for (size_t y = 0; y < height; ++y) rows[y] = held.data() + y * row_bytes;
    png_read_image(png, rows.data());
  }
  for (size_t y = 0; y < height && !reading.reason; ++y) {
    if (!interlaced) png_read_row(png, held.data(), nullptr);
    try {
      sink.row(static_cast<int64_t>(y), interlaced ? std::span(held).subspan(y * row_bytes, row_bytes) : std::span(held));
    } catch (...) {
      reading.reason = std::current_exception();
    }
  }
  if (reading.reason) std::rethrow_exception(reading.reason);
  png_read_end(png, nullptr);
}
#else
void decode_png(std::span<const std::byte>, std::string_view origin, const PictureFacts&, PictureRows&) {
  fail(ErrorCode::kUnavailable, "{}: this build reads no PNG; install libpng-dev and configure again", origin);
}
#endif

}  // namespace millrace
