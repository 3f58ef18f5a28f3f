#include "core/train/weights_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/base/files.h"
#include "core/base/index.h"

namespace millrace {
namespace {

bool holds_reals(StoredType type) {
  return type == StoredType::kF64 || type == StoredType::kF32 || type == StoredType::kF16 || type == StoredType::kBf16;
}

// The number where there is one, and always the bytes: -0 and 0, or two NaNs, differ only there.
std::string element_text(const HostTensor& tensor, size_t element) {
  const auto width = to_size(bytes_of(tensor.type));
  const std::span<const std::byte> bytes = std::span(tensor.bytes).subspan(element * width, width);
  std::string hexadecimal;
  for (size_t i = width; i-- > 0;) hexadecimal += fmt::format("{:02x}", static_cast<unsigned>(bytes[i]));
  if (!holds_reals(tensor.type)) return "0x" + hexadecimal;
  double value = 0;
  copy_values(HostTensor{tensor.type, {}, {bytes.begin(), bytes.end()}}, std::span<double>(&value, 1));
  return fmt::format("{:.9g} (0x{})", value, hexadecimal);
}

}  // namespace

std::string tensor_digest(const HostTensor& tensor) {
  return digest_of(fmt::format("{} {} {}", name_of(tensor.type), fmt::join(tensor.dimensions, "x"), digest_of(tensor.bytes)));
}

std::map<std::string, std::string> tensor_digests(const TensorMap& tensors) {
  std::map<std::string, std::string> digests;
  for (const auto& [name, tensor] : tensors) digests.emplace(name, tensor_digest(tensor));
  return digests;
}

std::string weights_digest(const std::map<std::string, std::string>& digests_by_name) {
  std::string lines;
  for (const auto& [name, digest] : digests_by_name) lines += fmt::format("{} {}\n", name, digest);
  return digest_of(lines);
}

std::string weights_digest(const TensorMap& tensors) { return weights_digest(tensor_digests(tensors)); }

std::string first_difference(const TensorMap& a, const TensorMap& b) {
  for (const auto& [name, tensor] : a) {
    const auto found = b.find(name);
    if (found == b.end()) return fmt::format("{}: only in the first", name);
    const HostTensor& other = found->second;
    if (tensor.type != other.type || tensor.dimensions != other.dimensions)
      return fmt::format("{}: is {} and {}", name, text_of(tensor), text_of(other));
    const auto [mine, theirs] = std::ranges::mismatch(tensor.bytes, other.bytes);
    if (mine == tensor.bytes.end() && theirs == other.bytes.end()) continue;
    const size_t element = to_size(mine - tensor.bytes.begin()) / to_size(bytes_of(tensor.type));
    return fmt::format("{}: element {} is {} and {}", name, element, element_text(tensor, element), element_text(other, element));
  }
  for (const auto& entry : b)
    if (!a.contains(entry.first)) return fmt::format("{}: only in the second", entry.first);
  return "";
}

}  // namespace millrace
