#include "core/data/cifar.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {
namespace {

constexpr Shape kShape{3, 32, 32};
constexpr size_t kPixels = 3 * 32 * 32;

struct Layout {
  std::string_view name;
  size_t label_bytes;      // the last of them is the label that counts
  int64_t coarse_classes;  // bound of the first label byte when there are two
  int64_t classes;
  std::string_view archive_folder;
  std::vector<std::string> train_files;
  std::string test_file;
  std::string names_file;

  size_t record_bytes() const { return label_bytes + kPixels; }
};

const Layout& layout_of(CifarKind kind) {
  static const Layout cifar10{"CIFAR-10",
                              1,
                              0,
                              10,
                              "cifar-10-batches-bin",
                              {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
                              "test_batch.bin",
                              "batches.meta.txt"};
  static const Layout cifar100{"CIFAR-100", 2, 20, 100, "cifar-100-binary", {"train.bin"}, "test.bin", "fine_label_names.txt"};
  return kind == CifarKind::kCifar10 ? cifar10 : cifar100;
}

int64_t label_at(std::span<const std::byte> bytes, size_t at, int64_t bound, size_t record, std::string_view what,
                 std::string_view origin) {
  const auto label = std::to_integer<int64_t>(bytes[at]);
  if (label >= bound)
    fail(ErrorCode::kMalformed, "{}: {} {} in record {}, expected 0 to {}; the file is damaged or of another kind", origin, what, label,
         record, bound - 1);
  return label;
}

std::vector<std::string> read_class_names(const std::filesystem::path& path, int64_t classes) {
  if (!std::filesystem::exists(path)) return {};
  std::vector<std::string> names;
  std::istringstream lines(read_text(path));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (static_cast<int64_t>(names.size()) != classes)
    fail(ErrorCode::kMalformed, "{}: {} class names, expected {}", path.string(), names.size(), classes);
  return names;
}

std::filesystem::path folder_with(const Layout& layout, const std::filesystem::path& given) {
  if (!std::filesystem::is_directory(given))
    fail(ErrorCode::kNotFound, "{}: no such folder; give the one that holds {} and {}", given.string(), layout.train_files.front(),
         layout.test_file);
  const std::filesystem::path below = given / layout.archive_folder;
  return std::filesystem::is_directory(below) ? below : given;
}

}  // namespace

void append_cifar(CifarKind kind, std::span<const std::byte> bytes, std::string_view origin, Dataset& data) {
  const Layout& layout = layout_of(kind);
  const size_t record_bytes = layout.record_bytes();
  if (bytes.empty() || bytes.size() % record_bytes != 0)
    fail(ErrorCode::kMalformed, "{}: {} bytes, expected a whole number of {} records of {} bytes; the file is truncated or of another kind",
         origin, bytes.size(), layout.name, record_bytes);

  const size_t records = bytes.size() / record_bytes;
  std::vector<int32_t> labels(records);
  for (size_t record = 0; record < records; ++record) {
    const size_t begin = record * record_bytes;
    if (layout.label_bytes == 2) label_at(bytes, begin, layout.coarse_classes, record, "coarse label", origin);
    labels[record] = static_cast<int32_t>(label_at(bytes, begin + layout.label_bytes - 1, layout.classes, record, "label", origin));
  }

  data.shape = kShape;
  data.classes = layout.classes;
  data.labels.insert(data.labels.end(), labels.begin(), labels.end());
  auto& pixels = std::get<std::vector<uint8_t>>(data.images);
  pixels.reserve(pixels.size() + records * kPixels);
  for (size_t record = 0; record < records; ++record) {
    const auto image = bytes.subspan(record * record_bytes + layout.label_bytes, kPixels);
    std::transform(image.begin(), image.end(), std::back_inserter(pixels), [](std::byte value) { return std::to_integer<uint8_t>(value); });
  }
}

DataSplit load_cifar(CifarKind kind, const std::filesystem::path& given) {
  const Layout& layout = layout_of(kind);
  const std::filesystem::path folder = folder_with(layout, given);
  const auto append_file = [&](const std::string& file, Dataset& data) {
    const std::filesystem::path path = folder / file;
    append_cifar(kind, read_bytes_unpacked(path), path.string(), data);
  };
  DataSplit data;
  for (const std::string& file : layout.train_files) append_file(file, data.train);
  append_file(layout.test_file, data.test);
  data.train.class_names = data.test.class_names = read_class_names(folder / layout.names_file, layout.classes);
  return data;
}

}  // namespace millrace
