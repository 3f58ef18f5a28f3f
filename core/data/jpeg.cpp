#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/data/picture_formats.h"

#ifdef MILLRACE_HAS_JPEG
#include <jerror.h>
#include <jpeglib.h>
#endif

namespace millrace {

// Segments up to the first start of a frame: height, width, components. Read here, so that a folder of pictures can be looked through
// without decoding any.
Shape read_jpeg_shape(std::span<const std::byte> bytes, std::string_view origin) {
  const auto byte_at = [&](size_t at) { return std::to_integer<uint32_t>(bytes[at]); };
  size_t at = 2;
  while (at + 4 <= bytes.size()) {
    if (byte_at(at) != 0xff) break;
    const uint32_t marker = byte_at(at + 1);
    if (marker == 0xff) {  // fill
      ++at;
      continue;
    }
    if (marker == 0x01 || (0xd0 <= marker && marker <= 0xd8)) {  // no length behind it
      at += 2;
      continue;
    }
    const bool frame = 0xc0 <= marker && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame && at + 10 <= bytes.size()) {
      const uint32_t components = byte_at(at + 9);
      return {.channels = components == 1 ? 1 : 3,
              .height = int64_t{byte_at(at + 5) << 8 | byte_at(at + 6)},
              .width = int64_t{byte_at(at + 7) << 8 | byte_at(at + 8)}};
    }
    if (marker == 0xd9 || marker == 0xda) break;
    at += 2 + (byte_at(at + 2) << 8 | byte_at(at + 3));
  }
  fail(ErrorCode::kMalformed, "{}: a JPEG file without the size of its picture; it is damaged", origin);
}

#ifdef MILLRACE_HAS_JPEG
namespace {

// A file of tiny scans that each touch the whole picture takes hours: real ones have about ten.
constexpr int kMostScans = 200;

// What the library tells us through C: it must not be unwound by an exception.
struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf place;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void leave(j_common_ptr info) {
  auto* failure = reinterpret_cast<Failure*>(info->err);
  info->err->format_message(info, failure->text);
  std::longjmp(failure->place, 1);
}

// Warnings say that the decoder went on with something made up; what is only superfluous is let pass.
void warn(j_common_ptr info, int level) {
  if (level >= 0) return;
  const int code = info->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR || code == JWRN_TOO_MUCH_DATA) return;
  leave(info);
}

void limit_scans(j_common_ptr info) {
  auto* const reading = reinterpret_cast<j_decompress_ptr>(info);
  if (reading->input_scan_number <= kMostScans) return;
  auto* failure = reinterpret_cast<Failure*>(info->err);
  std::snprintf(failure->text, sizeof(failure->text), "more than %d scans", kMostScans);
  std::longjmp(failure->place, 1);
}

// CMYK as Adobe stores it, inverted: what is there is how much ink is missing.
void rgb_from_cmyk(const uint8_t* cmyk, bool inverted, std::span<uint8_t> rgb) {
  for (size_t i = 0; i < rgb.size() / 3; ++i) {
    const auto missing = [&](size_t c) { return static_cast<uint32_t>(inverted ? cmyk[4 * i + c] : 255 - cmyk[4 * i + c]); };
    for (size_t c = 0; c < 3; ++c) {
      const uint32_t product = missing(c) * missing(3) + 128;
      rgb[3 * i + c] = static_cast<uint8_t>((product + (product >> 8)) >> 8);
    }
  }
}

}  // namespace

void decode_jpeg(std::span<const std::byte> bytes, std::string_view origin, const PictureFacts& facts, PictureRows& sink) {
  const auto width = to_size(facts.shape.width), channels = to_size(facts.shape.channels);
  // libjpeg-turbo writes aligned lines past the caches, from where they would have to be fetched again.
  constexpr size_t kOutOfStep = 1;
  std::vector<uint8_t> aligned(width * 4 + kOutOfStep), rgb;
  const std::span<uint8_t> line = std::span(aligned).subspan(kOutOfStep);
  jpeg_decompress_struct info;
  jpeg_progress_mgr progress{};
  Failure failure;
  std::memset(&info, 0, sizeof(info));
  info.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = leave;
  failure.manager.emit_message = warn;
  progress.progress_monitor = limit_scans;
  // Everything with a destructor lives outside of what longjmp skips.
  if (setjmp(failure.place) != 0) {
    jpeg_destroy_decompress(&info);
    fail(ErrorCode::kMalformed, "{}: {}; the file is damaged", origin, static_cast<const char*>(failure.text));
  }
  jpeg_create_decompress(&info);
  info.progress = &progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&info, TRUE);
  const bool ink = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : ink ? JCS_CMYK : JCS_RGB;
  const bool inverted = info.saw_Adobe_marker != 0;
  if (info.image_width != width || info.image_height != to_size(facts.shape.height)) {
    std::snprintf(failure.text, sizeof(failure.text), "two sizes in one file");
    std::longjmp(failure.place, 1);
  }
  jpeg_start_decompress(&info);
  bool thrown = false;
  std::exception_ptr reason;
  uint8_t* const lines[] = {line.data()};
  while (info.output_scanline < info.output_height && !thrown) {
    const int64_t index = info.output_scanline;
    jpeg_read_scanlines(&info, const_cast<JSAMPARRAY>(lines), 1);
    try {
      if (ink && channels == 3) {
        rgb.resize(width * 3);
        rgb_from_cmyk(line.data(), inverted, rgb);
        sink.row(index, rgb);
      } else {
        sink.row(index, line.first(width * channels));
      }
    } catch (...) {
      reason = std::current_exception();
      thrown = true;
    }
  }
  if (!thrown) jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  if (thrown) std::rethrow_exception(reason);
}
#else
void decode_jpeg(std::span<const std::byte>, std::string_view origin, const PictureFacts&, PictureRows&) {
  fail(ErrorCode::kUnavailable, "{}: this build reads no JPEG; install libjpeg62-turbo-dev and configure again", origin);
}
#endif

}  // namespace millrace
