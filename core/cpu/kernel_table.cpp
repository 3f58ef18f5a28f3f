#include "core/cpu/kernel_table.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {

extern const char* const kShippedKernelTable;  // generated from kernel_table.csv

namespace {

constexpr std::string_view kHeader =
    "isa,phase,in_channels,in_height,in_width,out_channels,kernel_h,kernel_w,stride_h,stride_w,pad_h,pad_w,dilation_h,dilation_w,groups,"
    "micro_batch,algorithm";
constexpr size_t kFields = 17;

// One line of the file, with what is needed to complain about it.
class Line {
 public:
  Line(std::string_view text, std::string where) : where_(std::move(where)) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      fields_.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    if (fields_.size() != kFields) fail(ErrorCode::kMalformed, "{}: {} fields, expected {}: {}", where_, fields_.size(), kFields, kHeader);
  }

  std::string_view word() { return fields_[next_++]; }
  int64_t number() {
    const std::string_view field = word();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc{} || end != field.data() + field.size() || value < 0)
      fail(ErrorCode::kMalformed, "{}: field {} is \"{}\", expected a number", where_, next_, field);
    return value;
  }
  template <typename Value, size_t N>
  Value one_of(const std::array<Value, N>& values) {
    const std::string_view field = word();
    for (const Value value : values)
      if (name_of(value) == field) return value;
    std::vector<std::string> names;
    for (const Value value : values) names.emplace_back(name_of(value));
    fail(ErrorCode::kMalformed, "{}: field {} is \"{}\"{}", where_, next_, field, suggestion(field, names));
  }

 private:
  std::string where_;
  std::vector<std::string_view> fields_;
  size_t next_ = 0;
};

}  // namespace

std::string_view name_of(ConvAlgorithm algorithm) {
  switch (algorithm) {
    case ConvAlgorithm::kDirect: return "direct";
    case ConvAlgorithm::kWinograd: return "winograd";
    case ConvAlgorithm::kTaps: break;
  }
  return "taps";
}

const KernelTable& KernelTable::shipped() {
  static const KernelTable table = parse(kShippedKernelTable, "the shipped kernel table");
  return table;
}

KernelTable KernelTable::load(const std::filesystem::path& path) { return parse(read_text(path), path.string()); }

KernelTable KernelTable::parse(std::string_view text, std::string_view origin) {
  KernelTable table;
  int64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view content = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (number == 1) {
      if (content != kHeader)
        fail(ErrorCode::kMalformed, "{}:1: this is not a kernel table: the first line must be \"{}\"", origin, kHeader);
      continue;
    }
    if (content.empty()) continue;
    Line line(content, fmt::format("{}:{}", origin, number));
    ConvKey key;
    key.isa = line.word();
    key.phase = line.one_of(kConvPhases);
    key.input.channels = line.number(), key.input.height = line.number(), key.input.width = line.number();
    Conv2d& conv = key.conv;
    conv.out_channels = line.number();
    conv.kernel_h = line.number(), conv.kernel_w = line.number();
    conv.stride_h = line.number(), conv.stride_w = line.number();
    conv.pad_h = line.number(), conv.pad_w = line.number();
    conv.dilation_h = line.number(), conv.dilation_w = line.number();
    conv.groups = line.number();
    key.micro_batch = line.number();
    table.set(key, line.one_of(kConvAlgorithms));
  }
  if (number == 0) fail(ErrorCode::kMalformed, "{}: the kernel table is empty; its first line must be \"{}\"", origin, kHeader);
  return table;
}

std::string KernelTable::shape_text(const ConvKey& key) {
  const Conv2d& c = key.conv;
  return fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}", key.isa, name_of(key.phase), key.input.channels, key.input.height,
                     key.input.width, c.out_channels, c.kernel_h, c.kernel_w, c.stride_h, c.stride_w, c.pad_h, c.pad_w, c.dilation_h,
                     c.dilation_w, c.groups);
}

KernelTable::Place KernelTable::place_of(const ConvKey& key) {
  const Conv2d& c = key.conv;
  return {fmt::format("{},{},{},{},{},{},{},{},{},{},{}", key.isa, name_of(key.phase), c.kernel_h, c.kernel_w, c.stride_h, c.stride_w,
                      c.pad_h, c.pad_w, c.dilation_h, c.dilation_w, c.groups),
          cpu::logs_of(key.input.channels, c.out_channels, key.input.height * key.input.width)};
}

ConvAlgorithm KernelTable::choice(const ConvKey& key) const {
  constexpr double kFarthest = 3;
  auto shape = choices_.find(shape_text(key));
  if (shape == choices_.end())
    shape = cpu::nearest_shape(choices_, place_of(key), kFarthest, [](const auto& known) -> const Place& { return known.second.place; });
  if (shape == choices_.end()) return ConvAlgorithm::kDirect;
  const Measured* const measured = &shape->second;
  const auto above = measured->by_micro_batch.upper_bound(key.micro_batch);
  return above == measured->by_micro_batch.begin() ? ConvAlgorithm::kDirect : std::prev(above)->second;
}

void KernelTable::set(const ConvKey& key, ConvAlgorithm algorithm) {
  choices_.try_emplace(shape_text(key), Measured{place_of(key), {}}).first->second.by_micro_batch[key.micro_batch] = algorithm;
}

void KernelTable::merge(const KernelTable& other) {
  for (const auto& [shape, measured] : other.choices_)
    for (const auto& [micro_batch, algorithm] : measured.by_micro_batch)
      choices_.try_emplace(shape, Measured{measured.place, {}}).first->second.by_micro_batch[micro_batch] = algorithm;
}

std::string KernelTable::text() const {
  std::string text = fmt::format("{}\n", kHeader);
  for (const auto& [shape, measured] : choices_)
    for (const auto& [micro_batch, algorithm] : measured.by_micro_batch)
      text += fmt::format("{},{},{}\n", shape, micro_batch, name_of(algorithm));
  return text;
}

void KernelTable::save(const std::filesystem::path& path) const { write_atomically(path, text()); }

std::string KernelTable::digest() const { return digest_of(text()); }

}  // namespace millrace
