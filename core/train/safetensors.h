// Named tensors in memory and in the safetensors format, which PyTorch, JAX and others read: eight bytes of
// little-endian header length, a JSON header with each tensor's dtype, shape and data_offsets, then the data.
//
//   TensorMap tensors;
//   tensors["conv1.weight"] = host_tensor({64, 3, 3, 3}, std::span<const float>(weights));
//   save_safetensors("weights.safetensors", {tensors, {{"format", "pt"}}});
//   SafetensorsFile file = load_safetensors("weights.safetensors");
//   copy_values(file.tensors.at("conv1.weight"), std::span<float>(weights));
//
// The bytes written are a pure function of the content: widest element first, then by name, so that every tensor is
// aligned; the header is padded with spaces to a multiple of eight. The reader accepts any order and is strict about
// the rest: the data is covered exactly once, sizes match shapes, no name twice. It fails with kMalformed naming file,
// tensor and value, and never allocates more than a small multiple of what it was given.
// Limits: headers of 100 MB at most, as everybody else's; encoding and decoding hold the content twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

enum class StoredType { kF64, kF32, kF16, kBf16, kI64, kI32, kI16, kU8 };
// "F64", "F32", "F16", "BF16", "I64", "I32", "I16", "U8": the format's own words.
std::string_view name_of(StoredType type);
int64_t bytes_of(StoredType type);

// Row-major, little-endian. No dimensions: a single element.
struct HostTensor {
  StoredType type = StoredType::kF32;
  std::vector<int64_t> dimensions;
  std::vector<std::byte> bytes;

  // What the dimensions say.
  int64_t elements() const;
  bool operator==(const HostTensor&) const = default;
};
// "F32 [64, 3, 3, 3]"
std::string text_of(const HostTensor& tensor);

using TensorMap = std::map<std::string, HostTensor>;

// A copy of the values; their number must be what the dimensions say.
HostTensor host_tensor(std::vector<int64_t> dimensions, std::span<const float> values);
HostTensor host_tensor(std::vector<int64_t> dimensions, std::span<const double> values);
// The values as numbers, widened or rounded to the wanted type; F64, F32, F16 and BF16 only. Fails with kMismatch
// naming `what` when the type or the number of elements is another.
void copy_values(const HostTensor& tensor, std::span<float> values, std::string_view what = "tensor");
void copy_values(const HostTensor& tensor, std::span<double> values, std::string_view what = "tensor");

struct SafetensorsFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;  // the header's __metadata__
  bool operator==(const SafetensorsFile&) const = default;
};

// Fails with kMalformed on a name that is not UTF-8 or is the reserved "__metadata__".
std::vector<std::byte> encode_safetensors(const SafetensorsFile& file);
// `origin` names the bytes in messages.
SafetensorsFile decode_safetensors(std::span<const std::byte> bytes, std::string_view origin);

void save_safetensors(const std::filesystem::path& path, const SafetensorsFile& file);
SafetensorsFile load_safetensors(const std::filesystem::path& path);

}  // namespace millrace
