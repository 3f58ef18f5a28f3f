#include "node/ring/save_records.h"

#include <cstring>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {
namespace {

int64_t product(std::span<const int64_t> dimensions) {
  int64_t elements = 1;
  for (const int64_t dimension : dimensions) elements *= dimension;
  return elements;
}

// Of a record, before name, dimensions and numbers.
struct Head {
  SaveKind kind = SaveKind::kWeights;
  uint8_t wide = 0;
  uint8_t divided = 0;
  int64_t home = -1;
  Block block;
  int64_t name_bytes = 0;
  int64_t dimensions = 0;
  int64_t elements = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::span<const std::byte> take(size_t count) {
    MILLRACE_CHECK(count <= bytes_.size(), "a record of a checkpoint is cut short");
    const auto taken = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return taken;
  }
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace

template <typename T>
void SaveWriter::put(const T& value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  bytes_.insert(bytes_.end(), bytes, bytes + sizeof(T));
}

void SaveWriter::head(SaveKind kind, const std::string& name, std::span<const int64_t> dimensions, int64_t home,
                      const ParameterSlice* slice, size_t elements) {
  Head head;
  head.kind = kind;
  head.wide = wide_ ? 1 : 0;
  head.home = home;
  if (slice != nullptr) {
    head.divided = slice->divided ? 1 : 0;
    head.block = slice->block;
  }
  head.name_bytes = static_cast<int64_t>(name.size());
  head.dimensions = static_cast<int64_t>(dimensions.size());
  head.elements = static_cast<int64_t>(elements);
  put(head);
  const auto* const text = reinterpret_cast<const std::byte*>(name.data());
  bytes_.insert(bytes_.end(), text, text + name.size());
  for (const int64_t dimension : dimensions) put(dimension);
}

void SaveWriter::numbers(std::span<const double> values) {
  if (wide_)
    for (const double value : values) put(value);
  else
    for (const double value : values) put(static_cast<float>(value));
}

void SaveWriter::slice(SaveKind kind, const std::string& name, const ParameterSlice& slice, std::span<const double> values) {
  head(kind, name, slice.dimensions, -1, &slice, values.size());
  numbers(values);
}
void SaveWriter::piece(SaveKind kind, const std::string& name, std::span<const int64_t> dimensions, size_t home,
                       std::span<const double> values) {
  head(kind, name, dimensions, static_cast<int64_t>(home), nullptr, values.size());
  numbers(values);
}
void SaveWriter::whole(SaveKind kind, const std::string& name, std::span<const int64_t> dimensions, std::span<const double> values) {
  head(kind, name, dimensions, -1, nullptr, values.size());
  numbers(values);
}

void SaveAssembler::add(std::span<const std::byte> bytes) {
  Reader reader(bytes);
  std::vector<double> values;
  while (!reader.empty()) {
    const Head head = reader.take<Head>();
    const std::span<const std::byte> text = reader.take(to_size(head.name_bytes));
    const std::string name(reinterpret_cast<const char*>(text.data()), text.size());
    std::vector<int64_t> dimensions(to_size(head.dimensions));
    for (int64_t& dimension : dimensions) dimension = reader.take<int64_t>();
    values.resize(to_size(head.elements));
    for (double& value : values) value = head.wide != 0 ? reader.take<double>() : static_cast<double>(reader.take<float>());

    Part& part = open_[{head.kind, name}];
    if (part.full.empty()) {
      part.dimensions = dimensions;
      part.full.resize(to_size(product(dimensions)));
    }
    if (head.home >= 0) {
      const ParameterHome& home = item(plan_.homes, head.home);
      ShardVector(plan_, graph_, home.user, home.layer, home.tensor).insert(values, home.offset, part.full);
    } else {
      ParameterSlice slice;
      slice.tensor = name;
      slice.dimensions = dimensions;
      slice.block = head.block;
      slice.divided = head.divided != 0;
      slice.elements = head.elements;
      insert_slice(slice, values, part.full);
    }
    part.covered += head.elements;
    if (part.covered < static_cast<int64_t>(part.full.size())) continue;
    finish(head.kind, name, part, head.wide != 0);
    open_.erase({head.kind, name});
  }
}

void SaveAssembler::finish(SaveKind kind, const std::string& name, Part& part, bool wide) {
  if (wide) {
    done_[kind][name] = host_tensor(part.dimensions, std::span<const double>(part.full));
    return;
  }
  const std::vector<float> narrow(part.full.begin(), part.full.end());
  done_[kind][name] = host_tensor(part.dimensions, std::span<const float>(narrow));
}

void SaveAssembler::move_into(CheckpointContent& content) {
  MILLRACE_CHECK(open_.empty(), "{} is not complete", open_.begin()->first.second);
  content.weights = std::move(done_[SaveKind::kWeights]);
  content.optimizer = std::move(done_[SaveKind::kOptimizer]);
  content.previous_weights = std::move(done_[SaveKind::kPrevious]);
}

}  // namespace millrace
