// Pictures as people keep them: JPEG and PNG, decoded row by row into whatever wants the rows.
//
//   const PictureFacts facts = read_picture_facts(bytes, "cat.jpg");          // 3 x 480 x 640, from the header alone
//   decode_picture(bytes, "cat.jpg", facts, sink);                            // sink.row(0, ..) ... sink.row(479, ..)
//
// A row is interleaved, `channels` bytes a pixel: 1 for grey pictures, 3 (red, green, blue) for all others. Palettes are resolved, 16
// bits become the upper 8, transparency is dropped, CMYK becomes RGB as Pillow does it. The orientation that a camera notes beside the
// picture is not applied, as torchvision and Pillow do not apply it.
// Everything is borrowed for the call alone; thread safe. A picture is never in memory as a whole, but for interlaced PNG and
// progressive JPEG, whose formats ask for it.
// Fails with kMalformed naming the file when it is damaged or cut short (rows may have been given out by then), and when it claims more
// pixels than its bytes can hold or than kMostPicturePixels, before memory is asked for; with kUnavailable when this build lacks the
// library that reads the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/documents/model.h"

namespace millrace {

inline constexpr int64_t kMostPicturePixels = int64_t{1} << 26;

enum class PictureKind { kJpeg, kPng };

// By the first bytes; nothing when they are of neither.
std::optional<PictureKind> picture_kind(std::span<const std::byte> bytes);
// Whether the end that the format prescribes is there, as far as the last bytes can tell.
bool picture_is_complete(PictureKind kind, std::span<const std::byte> last_bytes);
inline constexpr size_t kPictureEndBytes = 64;

struct PictureFacts {
  PictureKind kind = PictureKind::kJpeg;
  Shape shape;  // 1 or 3 channels
  bool operator==(const PictureFacts&) const = default;
};
// From the header; `bytes` may be the file's beginning if `file_bytes` says how long it is.
PictureFacts read_picture_facts(std::span<const std::byte> bytes, std::string_view origin, std::optional<size_t> file_bytes = {});

class PictureRows {
 public:
  virtual ~PictureRows() = default;
  // Rows come in order, each once.
  virtual void row(int64_t index, std::span<const uint8_t> pixels) = 0;
};

void decode_picture(std::span<const std::byte> bytes, std::string_view origin, const PictureFacts& facts, PictureRows& sink);

}  // namespace millrace
