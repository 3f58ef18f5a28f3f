// Tensors of the CPU device. Internal to core/cpu.
//
// An activation lies as [sample][block of channels][row][column][channel in the block]; the size of the blocks is a
// function of the shape alone, so that any kernel can read what any other made:
//   up to 4 positions, or a sequence all channels         [sample][position][channel]: rows of a matrix product
//   up to 4 channels                 1                    [sample][channel][row][column]: images
//   everything else                  the vector's length  16 with AVX-512, 8 otherwise; the last block padded with zeros
// Padding is zero from the start and stays so: whoever writes a tensor leaves it alone or writes zeros.
//
// A parameter lies as its kernel wants it; a Packing translates to and from the canonical order.
#pragma once

#include <cstdint>
#include <memory>

#include "core/base/check.h"
#include "core/cpu/memory.h"
#include "core/device/device.h"

namespace millrace::cpu {

int64_t channel_block(const Shape& shape, int64_t vector_length);

// Where the elements of an activation are, whoever owns them.
struct Layout {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t plane = 0;
  int64_t block = 1;

  int64_t blocks() const { return (channels + block - 1) / block; }
  int64_t sample_stride() const { return blocks() * block * plane; }
  int64_t stored() const { return samples * sample_stride(); }  // floats, padding included
  bool padded() const { return channels % block != 0; }
  // Of the first position; the next one lies `block` further.
  int64_t offset(int64_t sample, int64_t channel) const {
    return sample * sample_stride() + channel / block * block * plane + channel % block;
  }
  bool operator==(const Layout&) const = default;
};

Layout canonical_layout(const Shape& shape, int64_t samples);

class Packing {
 public:
  virtual ~Packing() = default;
  virtual int64_t stored() const = 0;  // floats
  virtual void pack(const float* canonical, float* stored) const = 0;
  virtual void unpack(const float* stored, float* canonical) const = 0;
};

class CpuTensor final : public Tensor {
 public:
  // An activation.
  CpuTensor(const TensorSpec& spec, int64_t vector_length);
  // A parameter; without a packing it lies in canonical order.
  CpuTensor(const Shape& shape, std::shared_ptr<const Packing> packing);

  int64_t bytes() const override { return static_cast<int64_t>(buffer_.bytes()); }
  int64_t stored() const { return stored_; }
  // The layout of a parameter is the canonical one; it holds only where there is no packing.
  const Layout& layout() const { return layout_; }
  const Packing* packing() const { return packing_.get(); }

  float* data() { return reinterpret_cast<float*>(buffer_.data()); }
  const float* data() const { return reinterpret_cast<const float*>(buffer_.data()); }

 private:
  Layout layout_;
  std::shared_ptr<const Packing> packing_;
  int64_t stored_ = 0;
  Buffer buffer_;
};

// The tensor as this device's own; one of another device is the caller's mistake.
CpuTensor& own(Tensor* tensor);
const CpuTensor& own(const Tensor* tensor);

// to[to_begin ...) (+)= from[channels): any layouts with equal samples and planes.
void copy_channels(int threads, const Layout& from_layout, const float* from, ChannelRange channels, const Layout& to_layout, float* to,
                   int64_t to_begin, bool add);
// Makes the padding zero again after an operation that does not map zero to zero.
void clear_padding(int threads, const Layout& layout, float* values);

}  // namespace millrace::cpu
