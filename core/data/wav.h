// Sound from WAV files: uncompressed, 16 bits, one channel. Internal to core/data.
//
//   const WavSound sound = parse_wav(bytes, "hello.wav");
//   log::info("{:.1f} s", sound.seconds());
//
// Strict: sizes must agree with the file's, so that a recording cut short is named and not taken for a short one. Chunks other
// than "fmt " and "data" are passed over. Fails with kMalformed, saying what was expected and what was found.
// Limits: RIFF files below 4 GB; no compression, no other depth, no second channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace millrace {

struct WavSound {
  int64_t rate = 0;  // samples per second
  std::vector<int16_t> samples;

  double seconds() const { return static_cast<double>(samples.size()) / static_cast<double>(rate); }
};

WavSound parse_wav(std::span<const std::byte> bytes, std::string_view origin);

}  // namespace millrace
