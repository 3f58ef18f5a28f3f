#include "core/data/picture.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/data/picture_formats.h"

namespace millrace {
namespace {

constexpr std::array<uint8_t, 8> kPngMagic = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr std::array<uint8_t, 3> kJpegMagic = {0xff, 0xd8, 0xff};
// No picture packs more pixels into a byte: 8x8 blocks that repeat their neighbour, deflate's 1032 to 1 over single bits.
constexpr uint64_t kMostPixelsPerByte = 8256;

template <size_t Size>
bool begins_with(std::span<const std::byte> bytes, const std::array<uint8_t, Size>& magic) {
  return bytes.size() >= Size &&
         std::ranges::equal(bytes.first(Size), magic, {}, [](std::byte value) { return std::to_integer<uint8_t>(value); });
}

uint32_t big_endian(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint32_t value = 0;
  for (size_t i = 0; i < count; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  return value;
}

// Magic, then a chunk IHDR of 13 bytes: width, height, bits, colour type, ...
Shape read_png_shape(std::span<const std::byte> bytes, std::string_view origin) {
  constexpr size_t kHeaderBytes = 33;
  constexpr uint32_t kHeaderChunk = 0x49484452;  // "IHDR"
  if (bytes.size() < kHeaderBytes || big_endian(bytes, 8, 4) != 13 || big_endian(bytes, 12, 4) != kHeaderChunk)
    fail(ErrorCode::kMalformed, "{}: a PNG file without a header; it is damaged", origin);
  const auto colours = std::to_integer<uint8_t>(bytes[25]);
  const bool grey = colours == 0 || colours == 4;
  return {.channels = grey ? 1 : 3, .height = int64_t{big_endian(bytes, 20, 4)}, .width = int64_t{big_endian(bytes, 16, 4)}};
}

}  // namespace

std::optional<PictureKind> picture_kind(std::span<const std::byte> bytes) {
  if (begins_with(bytes, kJpegMagic)) return PictureKind::kJpeg;
  if (begins_with(bytes, kPngMagic)) return PictureKind::kPng;
  return std::nullopt;
}

bool picture_is_complete(PictureKind kind, std::span<const std::byte> last_bytes) {
  static constexpr std::array<uint8_t, 2> kJpegEnd = {0xff, 0xd9};
  static constexpr std::array<uint8_t, 4> kPngEnd = {'I', 'E', 'N', 'D'};
  // Cameras and tools write a few bytes behind the end.
  const auto holds = [&](const auto& end) {
    const auto same = [](std::byte a, uint8_t b) { return std::to_integer<uint8_t>(a) == b; };
    return std::search(last_bytes.begin(), last_bytes.end(), end.begin(), end.end(), same) != last_bytes.end();
  };
  return kind == PictureKind::kJpeg ? holds(kJpegEnd) : holds(kPngEnd);
}

PictureFacts read_picture_facts(std::span<const std::byte> bytes, std::string_view origin, std::optional<size_t> file_bytes) {
  const std::optional<PictureKind> kind = picture_kind(bytes);
  if (!kind)
    fail(ErrorCode::kMalformed, "{}: {}; JPEG and PNG are read", origin,
         bytes.empty() ? "an empty file" : "neither a JPEG nor a PNG file, whatever its name says");
  const PictureFacts facts{.kind = *kind,
                           .shape = *kind == PictureKind::kJpeg ? read_jpeg_shape(bytes, origin) : read_png_shape(bytes, origin)};
  const Shape& shape = facts.shape;
  if (shape.height < 1 || shape.width < 1)
    fail(ErrorCode::kMalformed, "{}: {} x {} pixels; the file is damaged", origin, shape.height, shape.width);
  if (shape.height > kMostPicturePixels / shape.width)
    fail(ErrorCode::kMalformed, "{}: {} x {} pixels, at most {} are read; make the picture smaller", origin, shape.height, shape.width,
         kMostPicturePixels);
  const uint64_t size = file_bytes.value_or(bytes.size());
  if (static_cast<uint64_t>(shape.plane()) / kMostPixelsPerByte > size)
    fail(ErrorCode::kMalformed, "{}: {} x {} pixels in {} bytes; the file is damaged", origin, shape.height, shape.width, size);
  return facts;
}

void decode_picture(std::span<const std::byte> bytes, std::string_view origin, const PictureFacts& facts, PictureRows& sink) {
  if (facts.kind == PictureKind::kJpeg) return decode_jpeg(bytes, origin, facts, sink);
  decode_png(bytes, origin, facts, sink);
}

}  // namespace millrace
