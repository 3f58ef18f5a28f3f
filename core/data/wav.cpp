#include "core/data/wav.h"

#include <algorithm>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace millrace {
namespace {

constexpr size_t kChunkHeader = 8;

// The little-endian numbers of a file, each with its place checked.
class Bytes {
 public:
  Bytes(std::span<const std::byte> bytes, std::string_view origin) : bytes_(bytes), origin_(origin) {}

  size_t size() const { return bytes_.size(); }
  uint32_t number(size_t at, size_t width) const {
    if (at + width > bytes_.size())
      fail(ErrorCode::kMalformed, "{}: {} bytes, but at least {} are needed; the file is truncated, copy it again", origin_, bytes_.size(),
           at + width);
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) value |= static_cast<uint32_t>(bytes_[at + i]) << (8 * i);
    return value;
  }
  std::string tag(size_t at) const {
    const uint32_t packed = number(at, 4);
    std::string text;
    for (int i = 0; i < 4; ++i) {
      const auto c = static_cast<char>(packed >> (8 * i) & 0xFF);
      text.push_back(c >= ' ' && c <= '~' ? c : '?');
    }
    return text;
  }
  void expect_tag(size_t at, std::string_view expected) const {
    if (const std::string found = tag(at); found != expected)
      fail(ErrorCode::kMalformed, "{}: \"{}\" at byte {}, expected \"{}\"; this is no WAV file", origin_, found, at, expected);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view origin_;
};

}  // namespace

WavSound parse_wav(std::span<const std::byte> bytes, std::string_view origin) {
  const Bytes file(bytes, origin);
  file.expect_tag(0, "RIFF");
  file.expect_tag(8, "WAVE");
  if (const size_t stated = size_t{file.number(4, 4)} + kChunkHeader; stated > bytes.size())
    fail(ErrorCode::kMalformed, "{}: {} bytes, but it says it has {}; the recording is truncated, copy it again", origin, bytes.size(),
         stated);

  WavSound sound;
  std::optional<std::span<const std::byte>> data;
  for (size_t at = 12; at + kChunkHeader <= bytes.size() && !data;) {
    const std::string tag = file.tag(at);
    const size_t size = file.number(at + 4, 4), begin = at + kChunkHeader;
    if (size > bytes.size() - begin)
      fail(ErrorCode::kMalformed, "{}: chunk \"{}\" has {} bytes, but the file ends after {}; the recording is truncated, copy it again",
           origin, tag, size, bytes.size() - begin);
    if (tag == "fmt ") {
      constexpr uint32_t kUncompressed = 1, kOneChannel = 1, kDepth = 16;
      const uint32_t format = file.number(begin, 2), channels = file.number(begin + 2, 2), depth = file.number(begin + 14, 2);
      sound.rate = file.number(begin + 4, 4);
      if (size < 16 || format != kUncompressed || channels != kOneChannel || depth != kDepth || sound.rate == 0)
        fail(ErrorCode::kMalformed,
             "{}: format {}, {} channel(s) of {} bits at {} Hz; expected format 1 (uncompressed), one channel of 16 bits", origin, format,
             channels, depth, sound.rate);
    }
    if (tag == "data") data = bytes.subspan(begin, size);
    at = begin + size + size % 2;  // chunks begin at even places
  }
  if (sound.rate == 0) fail(ErrorCode::kMalformed, "{}: no format in front of the sound; the file is damaged", origin);
  if (!data) fail(ErrorCode::kMalformed, "{}: no sound in it (no chunk \"data\")", origin);
  if (data->size() % 2 != 0)
    fail(ErrorCode::kMalformed, "{}: {} bytes of sound, an odd number for samples of 16 bits", origin, data->size());
  sound.samples.reserve(data->size() / 2);
  for (size_t i = 0; i < data->size(); i += 2)
    sound.samples.push_back(static_cast<int16_t>(static_cast<uint16_t>((*data)[i]) | static_cast<uint16_t>((*data)[i + 1]) << 8));
  return sound;
}

}  // namespace millrace
