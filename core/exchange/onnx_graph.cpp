#include "core/exchange/onnx_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/train/safetensors.h"

namespace millrace {
namespace {

namespace fs = std::filesystem;
using onnx::AttributeProto;
using onnx::TensorProto;

static_assert(std::endian::native == std::endian::little, "raw data is copied as it is");
constexpr int64_t kMostElements = int64_t{1} << 33;

int64_t bytes_of_type(int32_t type) {
  switch (type) {
    case TensorProto::DOUBLE:
    case TensorProto::INT64: return 8;
    case TensorProto::FLOAT:
    case TensorProto::INT32: return 4;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16: return 2;
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8: return 1;
    default: return 0;
  }
}

bool is_floating(int32_t type) {
  return type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16 || type == TensorProto::BFLOAT16;
}

// In the list that its type has, where its elements are not raw bytes.
int listed_elements(const TensorProto& tensor) {
  switch (tensor.data_type()) {
    case TensorProto::FLOAT: return tensor.float_data_size();
    case TensorProto::DOUBLE: return tensor.double_data_size();
    case TensorProto::INT64: return tensor.int64_data_size();
    default: return tensor.int32_data_size();
  }
}

// Bytes beside the model: a file in its folder or below, reached without links that lead out.
std::string external_bytes(const TensorProto& tensor, std::string_view origin, const fs::path& folder, uint64_t wanted) {
  std::string location;
  uint64_t offset = 0, length = wanted;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    uint64_t value = 0;
    const auto [end, reason] = std::from_chars(entry.value().data(), entry.value().data() + entry.value().size(), value);
    if (reason != std::errc{} || end != entry.value().data() + entry.value().size())
      fail(ErrorCode::kMalformed, "{}: {} \"{}\" of its external data is no number", origin, entry.key(), entry.value());
    (entry.key() == "offset" ? offset : length) = value;
  }
  if (folder.empty() || location.empty()) fail(ErrorCode::kMalformed, "{}: its data lies elsewhere, and nobody said where", origin);
  std::error_code trouble;
  const fs::path root = fs::canonical(folder, trouble), path = fs::canonical(folder / location, trouble);
  const fs::path within = path.lexically_relative(root);
  if (trouble || fs::path(location).is_absolute() || within.empty() || *within.begin() == "..")
    fail(ErrorCode::kMalformed, "{}: its data lies in \"{}\", which is missing or outside of the model's folder", origin, location);
  const uint64_t size = fs::file_size(path, trouble);
  if (trouble || length != wanted || offset > size || length > size - offset)
    fail(ErrorCode::kMalformed, "{}: {} bytes of external data at {} in a file of {}, {} were expected", origin, length, offset, size,
         wanted);
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  std::string bytes(length, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(length))) fail(ErrorCode::kIo, "{}: {} cannot be read", origin, path.string());
  return bytes;
}

template <typename Stored>
Stored value_at(const std::string& bytes, size_t i) {
  Stored value;
  std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
  return value;
}

}  // namespace

OnnxConstant read_onnx_tensor(const TensorProto& tensor, std::string_view origin, const fs::path& folder) {
  OnnxConstant constant{.name = tensor.name(), .dimensions = {tensor.dims().begin(), tensor.dims().end()}, .floats = {}, .wholes = {}};
  int64_t elements = 1;
  for (const int64_t extent : constant.dimensions)
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements) || elements > kMostElements)
      fail(ErrorCode::kMalformed, "{}: [{}] is no shape of a tensor; the file is damaged", origin, fmt::join(constant.dimensions, ", "));
  const int64_t width = bytes_of_type(tensor.data_type());
  if (width == 0) fail(ErrorCode::kUsage, "{}: elements of type {}, only numbers are read", origin, tensor.data_type());
  const auto wanted = static_cast<uint64_t>(elements * width);
  const bool external = tensor.data_location() == TensorProto::EXTERNAL;
  const bool is_raw = external || tensor.has_raw_data();
  const std::string raw = external ? external_bytes(tensor, origin, folder, wanted) : tensor.raw_data();
  if (is_raw && raw.size() != wanted)
    fail(ErrorCode::kMalformed, "{}: {} bytes for [{}], {} were expected; the file is damaged", origin, raw.size(),
         fmt::join(constant.dimensions, ", "), wanted);
  // Before memory is asked for.
  const int listed = listed_elements(tensor);
  if (!is_raw && listed != elements)
    fail(ErrorCode::kMalformed, "{}: {} elements for [{}]; the file is damaged", origin, listed, fmt::join(constant.dimensions, ", "));
  constant.whole = !is_floating(tensor.data_type());
  const auto n = to_size(elements);
  if (constant.whole) {
    const bool longs = tensor.data_type() == TensorProto::INT64;
    constant.wholes.resize(n);
    for (size_t i = 0; i < n; ++i) {
      int64_t& value = constant.wholes[i];
      if (!is_raw)
        value = longs ? tensor.int64_data(static_cast<int>(i)) : tensor.int32_data(static_cast<int>(i));
      else if (width == 8)
        value = value_at<int64_t>(raw, i);
      else if (width == 4)
        value = value_at<int32_t>(raw, i);
      else
        value = tensor.data_type() == TensorProto::INT8 ? value_at<int8_t>(raw, i) : value_at<uint8_t>(raw, i);
    }
    return constant;
  }
  constant.floats.resize(n);
  if (tensor.data_type() == TensorProto::FLOAT16 || tensor.data_type() == TensorProto::BFLOAT16) {
    HostTensor half{
        .type = tensor.data_type() == TensorProto::FLOAT16 ? StoredType::kF16 : StoredType::kBf16, .dimensions = {elements}, .bytes = {}};
    half.bytes.resize(2 * n);
    for (size_t i = 0; i < n; ++i) {
      const uint16_t bits = is_raw ? value_at<uint16_t>(raw, i) : static_cast<uint16_t>(tensor.int32_data(static_cast<int>(i)));
      std::memcpy(half.bytes.data() + 2 * i, &bits, 2);
    }
    copy_values(half, std::span<float>(constant.floats), origin);
  } else {
    const bool doubles = tensor.data_type() == TensorProto::DOUBLE;
    for (size_t i = 0; i < n; ++i) {
      if (doubles)
        constant.floats[i] = static_cast<float>(is_raw ? value_at<double>(raw, i) : tensor.double_data(static_cast<int>(i)));
      else
        constant.floats[i] = is_raw ? value_at<float>(raw, i) : tensor.float_data(static_cast<int>(i));
    }
  }
  for (const float value : constant.floats)
    if (!std::isfinite(value)) fail(ErrorCode::kNumeric, "{}: a value of {} among its elements", origin, value);
  return constant;
}

std::string OnnxNode::who() const { return fmt::format("{} \"{}\"", type(), layer_name()); }

const AttributeProto* OnnxNode::find(const char* name) const {
  const auto found = std::ranges::find_if(proto_.attribute(), [&](const AttributeProto& one) { return one.name() == name; });
  return found == proto_.attribute().end() ? nullptr : &*found;
}

const AttributeProto* OnnxNode::take(const char* name, AttributeProto::AttributeType type) {
  taken_.insert(name);
  const AttributeProto* const found = find(name);
  // Files of the first versions do not say the type.
  if (found != nullptr && found->type() != type && found->type() != AttributeProto::UNDEFINED)
    fail(ErrorCode::kMalformed, "{}: attribute \"{}\" is of another type; the file is damaged", who(), name);
  return found;
}

int64_t OnnxNode::whole(const char* name, int64_t otherwise) {
  const AttributeProto* const found = take(name, AttributeProto::INT);
  return found == nullptr ? otherwise : found->i();
}

float OnnxNode::number(const char* name, float otherwise) {
  const AttributeProto* const found = take(name, AttributeProto::FLOAT);
  if (found != nullptr && !std::isfinite(found->f())) fail(ErrorCode::kNumeric, "{}: attribute \"{}\" is {}", who(), name, found->f());
  return found == nullptr ? otherwise : found->f();
}

std::string OnnxNode::word(const char* name, const std::string& otherwise) {
  const AttributeProto* const found = take(name, AttributeProto::STRING);
  return found == nullptr ? otherwise : found->s();
}

std::vector<int64_t> OnnxNode::wholes(const char* name) {
  const AttributeProto* const found = take(name, AttributeProto::INTS);
  return found == nullptr ? std::vector<int64_t>{} : std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

std::vector<float> OnnxNode::numbers(const char* name) {
  const AttributeProto* const found = take(name, AttributeProto::FLOATS);
  return found == nullptr ? std::vector<float>{} : std::vector<float>(found->floats().begin(), found->floats().end());
}

std::vector<std::string> OnnxNode::words(const char* name) {
  const AttributeProto* const found = take(name, AttributeProto::STRINGS);
  return found == nullptr ? std::vector<std::string>{} : std::vector<std::string>(found->strings().begin(), found->strings().end());
}

const TensorProto* OnnxNode::tensor(const char* name) {
  const AttributeProto* const found = take(name, AttributeProto::TENSOR);
  return found == nullptr ? nullptr : &found->t();
}

void OnnxNode::no_more() const {
  for (const AttributeProto& one : proto_.attribute())
    if (!taken_.contains(one.name())) refuse("attribute \"{}\" has no counterpart here", one.name());
}

const OnnxActivation& OnnxGraph::activation(const OnnxNode& node, int index) const {
  const std::string name = node.input(index);
  const auto found = activations.find(name);
  if (found == activations.end()) {
    if (is_constant(name) || filled.contains(name)) node.refuse("its input {} \"{}\" is a constant, not something computed", index, name);
    if (stacks.contains(name)) node.refuse("its input {} \"{}\" holds last states of several layers; only one may be picked", index, name);
    fail(ErrorCode::kMalformed, "{}: its input {} \"{}\" is made by no node before it", node.who(), index, name);
  }
  if (found->second.is_scores) node.refuse("it follows a softmax, which is read at the end of a network only");
  return found->second;
}

const OnnxConstant& OnnxGraph::constant(const OnnxNode& node, int index) const {
  const std::string name = node.input(index);
  const auto found = constants.find(name);
  if (found == constants.end()) node.refuse("its input {} \"{}\" is not a constant of the file", index, name);
  return found->second;
}

const OnnxConstant& OnnxGraph::weights(const OnnxNode& node, int index) const {
  const OnnxConstant& found = constant(node, index);
  if (found.whole) node.refuse("its input {} \"{}\" holds whole numbers, floating point was expected", index, found.name);
  return found;
}

void OnnxGraph::set(const OnnxNode& node, int output, OnnxActivation activation) {
  const std::string name = node.output(output);
  if (name.empty()) return;
  if (constants.contains(name) || !activations.emplace(name, std::move(activation)).second)
    fail(ErrorCode::kMalformed, "{}: \"{}\" is made twice; the file is damaged", node.who(), name);
}

void OnnxGraph::refuse_outputs_from(const OnnxNode& node, int first) const {
  for (int i = first; !node.output(i).empty() || i < 8; ++i)
    if (const auto found = readers.find(node.output(i)); !node.output(i).empty() && found != readers.end() && found->second > 0)
      node.refuse("its output {} \"{}\" is read, and has no counterpart here", i, node.output(i));
}

}  // namespace millrace
