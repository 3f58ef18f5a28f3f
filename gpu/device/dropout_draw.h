// The draw of core/device/dropout_mask.h on a GPU: the same Philox words, so that every device drops the same elements.
//
//   const DropoutDraw draw = dropout_draw(dropout, batch.seed, layer, epoch, elements_per_sample);     // on the host
//   y = x * draw.factor(sample_id, element);
//
// A copy of core/base/random.h's rounds, which are compiled for the host alone; a test holds the two equal.
#pragma once

#include <cstdint>

#include "core/base/host_device.h"

namespace millrace::gpu {

// One word of Philox 4x32, ten rounds.
MILLRACE_HOST_DEVICE inline uint32_t philox_word(uint64_t seed, uint64_t stream, uint64_t element) {
  uint32_t c[4] = {static_cast<uint32_t>(element >> 2), static_cast<uint32_t>(element >> 34), static_cast<uint32_t>(stream),
                   static_cast<uint32_t>(stream >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c[element & 3];
}

struct DropoutDraw {
  uint64_t seed = 0;
  uint64_t stream = 0;     // of the layer and the epoch
  uint64_t stride = 0;     // between samples
  uint64_t threshold = 0;  // of 2^32: draws below it are dropped
  float scale = 1;

  MILLRACE_HOST_DEVICE float factor(int64_t sample_id, int64_t element) const {
    const uint64_t at = static_cast<uint64_t>(sample_id) * stride + static_cast<uint64_t>(element);
    return philox_word(seed, stream, at) < threshold ? 0.0f : scale;
  }
};

}  // namespace millrace::gpu
