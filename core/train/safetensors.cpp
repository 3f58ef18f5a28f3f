#include "core/train/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/train/strict_json.h"

namespace millrace {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and the values are copied as they are");

constexpr size_t kLengthBytes = 8;
constexpr size_t kHeaderAlignment = 8;
constexpr uint64_t kLongestHeader = 100'000'000;
const char* const kMetadata = "__metadata__";

struct TypeFacts {
  StoredType type;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array kTypes = {
    TypeFacts{StoredType::kF64, "F64", 8},   TypeFacts{StoredType::kF32, "F32", 4}, TypeFacts{StoredType::kF16, "F16", 2},
    TypeFacts{StoredType::kBf16, "BF16", 2}, TypeFacts{StoredType::kI64, "I64", 8}, TypeFacts{StoredType::kI32, "I32", 4},
    TypeFacts{StoredType::kI16, "I16", 2},   TypeFacts{StoredType::kU8, "U8", 1},
};

const TypeFacts& facts_of(StoredType type) { return item(kTypes, type); }

// Nothing when the product does not fit, or a dimension is negative.
std::optional<int64_t> product_of(std::span<const int64_t> dimensions) {
  int64_t product = 1;
  for (const int64_t dimension : dimensions)
    if (dimension < 0 || __builtin_mul_overflow(product, dimension, &product)) return std::nullopt;
  return product;
}

std::string text_of_dimensions(std::span<const int64_t> dimensions) {
  constexpr size_t kMostShown = 8;
  if (dimensions.size() <= kMostShown) return fmt::format("[{}]", fmt::join(dimensions, ", "));
  return fmt::format("[{}, ... {} dimensions]", fmt::join(dimensions.first(kMostShown), ", "), dimensions.size());
}

template <typename Value>
HostTensor tensor_of(StoredType type, std::vector<int64_t> dimensions, std::span<const Value> values) {
  HostTensor tensor{type, std::move(dimensions), {}};
  MILLRACE_CHECK(std::cmp_equal(values.size(), tensor.elements()), "{} values for {}", values.size(), text_of(tensor));
  const auto bytes = std::as_bytes(values);
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

template <typename Value>
Value load(const std::byte* from) {
  Value value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. Exact in single precision.
float from_half(uint16_t half) {
  constexpr int kFractionBits = 10;
  constexpr int kSpecialExponent = 31;
  const float sign = (half & 0x8000u) != 0 ? -1.0F : 1.0F;
  const int exponent = (half >> kFractionBits) & 0x1f;
  const auto fraction = static_cast<float>(half & 0x3ffu);
  if (exponent == kSpecialExponent)
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(fraction + 1024.0F, exponent - 25);
}

void check_complete(const HostTensor& tensor, std::string_view what) {
  MILLRACE_CHECK(std::cmp_equal(tensor.bytes.size(), tensor.elements() * bytes_of(tensor.type)), "{}: {} in {} bytes", what,
                 text_of(tensor), tensor.bytes.size());
}

// The upper half of a single.
float from_brain(uint16_t brain) { return std::bit_cast<float>(static_cast<uint32_t>(brain) << 16); }

template <typename Value>
void copy_values_to(const HostTensor& tensor, std::span<Value> values, std::string_view what) {
  if (!std::cmp_equal(tensor.elements(), values.size()))
    fail(ErrorCode::kMismatch, "{}: is {}, {} elements were expected; is it of another model?", what, text_of(tensor), values.size());
  check_complete(tensor, what);
  const std::byte* from = tensor.bytes.data();
  switch (tensor.type) {
    case StoredType::kF64:
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Value>(load<double>(from + i * sizeof(double)));
      return;
    case StoredType::kF32:
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Value>(load<float>(from + i * sizeof(float)));
      return;
    case StoredType::kF16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = from_half(load<uint16_t>(from + i * sizeof(uint16_t)));
      return;
    case StoredType::kBf16:
      for (size_t i = 0; i < values.size(); ++i) values[i] = from_brain(load<uint16_t>(from + i * sizeof(uint16_t)));
      return;
    default: fail(ErrorCode::kMismatch, "{}: is {}, a tensor of real numbers was expected", what, text_of(tensor));
  }
}

}  // namespace

std::string_view name_of(StoredType type) { return facts_of(type).name; }
int64_t bytes_of(StoredType type) { return facts_of(type).bytes; }

int64_t HostTensor::elements() const {
  const std::optional<int64_t> product = product_of(dimensions);
  MILLRACE_CHECK(product.has_value(), "the dimensions {} hold more elements than can be counted", text_of_dimensions(dimensions));
  return *product;
}

std::string text_of(const HostTensor& tensor) { return fmt::format("{} {}", name_of(tensor.type), text_of_dimensions(tensor.dimensions)); }

HostTensor host_tensor(std::vector<int64_t> dimensions, std::span<const float> values) {
  return tensor_of(StoredType::kF32, std::move(dimensions), values);
}
HostTensor host_tensor(std::vector<int64_t> dimensions, std::span<const double> values) {
  return tensor_of(StoredType::kF64, std::move(dimensions), values);
}

void copy_values(const HostTensor& tensor, std::span<float> values, std::string_view what) { copy_values_to(tensor, values, what); }
void copy_values(const HostTensor& tensor, std::span<double> values, std::string_view what) { copy_values_to(tensor, values, what); }

std::vector<std::byte> encode_safetensors(const SafetensorsFile& file) {
  if (file.tensors.contains(kMetadata)) fail(ErrorCode::kMalformed, "a tensor cannot be named \"{}\": the format reserves it", kMetadata);

  // The map is ordered by name already; a stable sort by width keeps that order within each width.
  std::vector<const TensorMap::value_type*> order;
  for (const auto& entry : file.tensors) order.push_back(&entry);
  std::ranges::stable_sort(order, std::greater<>(), [](const auto* entry) { return bytes_of(entry->second.type); });

  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header[kMetadata] = file.metadata;
  size_t data_bytes = 0;
  for (const auto* entry : order) {
    const HostTensor& tensor = entry->second;
    check_complete(tensor, entry->first);
    const size_t begin = std::exchange(data_bytes, data_bytes + tensor.bytes.size());
    header[entry->first] = {{"dtype", name_of(tensor.type)}, {"shape", tensor.dimensions}, {"data_offsets", {begin, data_bytes}}};
  }

  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception& reason) {
    fail(ErrorCode::kMalformed, "a tensor's name or metadata is not valid UTF-8: {}", reason.what());
  }
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const uint64_t length = text.size();
  if (length > kLongestHeader)
    fail(ErrorCode::kMalformed, "the names of {} tensors make a header of {} bytes, the format allows {}", order.size(), length,
         kLongestHeader);

  std::vector<std::byte> bytes(kLengthBytes + text.size() + data_bytes);
  std::byte* to = bytes.data();
  const auto append = [&to](std::span<const std::byte> more) { to = std::ranges::copy(more, to).out; };
  append(std::as_bytes(std::span(&length, 1)));
  append(std::as_bytes(std::span(text)));
  for (const auto* entry : order) append(entry->second.bytes);
  return bytes;
}

namespace {

// A tensor as the header announces it: [begin, end) of the data.
struct Announced {
  std::string name;
  HostTensor tensor;  // still without its bytes
  uint64_t begin = 0;
  uint64_t end = 0;
};

Announced announced_from(const std::string& name, const nlohmann::json& value, uint64_t data_bytes, std::string_view origin) {
  JsonFields fields(value, fmt::format("{}: tensor {}", origin, text_of_json(name)));
  const std::string& where = fields.where();
  Announced announced{name, {}, 0, 0};

  const std::string type = fields.text("dtype");
  const auto known = std::ranges::find(kTypes, type, &TypeFacts::name);
  if (known == kTypes.end()) {
    std::vector<std::string> names;
    for (const TypeFacts& facts : kTypes) names.emplace_back(facts.name);
    fail(ErrorCode::kMalformed, "{}: dtype \"{}\" is not supported; supported: {}", where, type, fmt::join(names, ", "));
  }
  announced.tensor.type = known->type;
  announced.tensor.dimensions = fields.integers("shape");

  const std::vector<int64_t> offsets = fields.integers("data_offsets");
  if (offsets.size() != 2) fail(ErrorCode::kMalformed, "{}: {} data_offsets, two were expected", where, offsets.size());
  announced.begin = static_cast<uint64_t>(offsets[0]);
  announced.end = static_cast<uint64_t>(offsets[1]);
  fields.no_others();
  if (announced.begin > announced.end || announced.end > data_bytes)
    fail(ErrorCode::kMalformed, "{}: data_offsets [{}, {}] lie outside the {} bytes of data; is the file truncated?", where,
         announced.begin, announced.end, data_bytes);

  const std::optional<int64_t> elements = product_of(announced.tensor.dimensions);
  int64_t wanted = 0;
  if (!elements || __builtin_mul_overflow(*elements, known->bytes, &wanted))
    fail(ErrorCode::kMalformed, "{}: {} has more bytes than can be counted", where, text_of(announced.tensor));
  if (!std::cmp_equal(wanted, announced.end - announced.begin))
    fail(ErrorCode::kMalformed, "{}: {} takes {} bytes, data_offsets [{}, {}] hold {}", where, text_of(announced.tensor), wanted,
         announced.begin, announced.end, announced.end - announced.begin);
  return announced;
}

// Every byte of the data belongs to exactly one tensor.
void check_coverage(std::vector<Announced>& tensors, uint64_t data_bytes, std::string_view origin) {
  std::ranges::sort(tensors, {}, [](const Announced& tensor) { return std::pair(tensor.begin, tensor.end); });
  uint64_t covered = 0;
  for (const Announced& tensor : tensors) {
    if (tensor.begin != covered)
      fail(ErrorCode::kMalformed, "{}: tensor {}: begins at byte {} of the data, {} byte {}, where the one before it ends", origin,
           text_of_json(tensor.name), tensor.begin, tensor.begin < covered ? "overlapping the data before" : "leaving a gap after",
           covered);
    covered = tensor.end;
  }
  if (covered != data_bytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes of data, the tensors account for {}; is the file damaged?", origin, data_bytes, covered);
}

}  // namespace

SafetensorsFile decode_safetensors(std::span<const std::byte> bytes, std::string_view origin) {
  if (bytes.size() < kLengthBytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes, too short for a safetensors file; copy it again", origin, bytes.size());
  const uint64_t length = load<uint64_t>(bytes.data());
  const uint64_t rest = bytes.size() - kLengthBytes;
  if (length > kLongestHeader)
    fail(ErrorCode::kMalformed, "{}: a header of {} bytes, at most {} are allowed; is it a safetensors file?", origin, length,
         kLongestHeader);
  if (length > rest)
    fail(ErrorCode::kMalformed, "{}: a header of {} bytes, only {} follow; the file is truncated, copy it again", origin, length, rest);

  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  if (!text.starts_with('{')) fail(ErrorCode::kMalformed, "{}: the header does not start with '{{'; is it a safetensors file?", origin);
  const nlohmann::json header = parse_strict_json(text, origin);
  const std::span<const std::byte> data = bytes.subspan(kLengthBytes + length);

  SafetensorsFile file;
  std::vector<Announced> announced;
  JsonFields fields(header, std::string(origin));
  for (const auto& item : header.items()) {
    if (item.key() == kMetadata)
      file.metadata = fields.texts(kMetadata);
    else
      announced.push_back(announced_from(item.key(), item.value(), data.size(), origin));
  }
  check_coverage(announced, data.size(), origin);

  for (Announced& tensor : announced) {
    const auto own = data.subspan(tensor.begin, tensor.end - tensor.begin);
    tensor.tensor.bytes.assign(own.begin(), own.end());
    file.tensors.emplace(std::move(tensor.name), std::move(tensor.tensor));
  }
  return file;
}

void save_safetensors(const std::filesystem::path& path, const SafetensorsFile& file) { write_atomically(path, encode_safetensors(file)); }

SafetensorsFile load_safetensors(const std::filesystem::path& path) { return decode_safetensors(read_bytes(path), path.string()); }

}  // namespace millrace
