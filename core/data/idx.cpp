#include "core/data/idx.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"

namespace millrace {
namespace {

constexpr size_t kMagicBytes = 4;
constexpr int64_t kMostElements = int64_t{1} << 40;

std::string name_of_type(uint8_t type) {
  switch (type) {
    case 0x08: return "unsigned byte";
    case 0x09: return "signed byte";
    case 0x0B: return "16-bit integer";
    case 0x0C: return "32-bit integer";
    case 0x0D: return "32-bit float";
    case 0x0E: return "64-bit float";
    default: return "unknown";
  }
}

uint8_t byte_at(std::span<const std::byte> bytes, size_t at) { return std::to_integer<uint8_t>(bytes[at]); }

int64_t big_endian_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = (value << 8) | byte_at(bytes, at + i);
  return value;
}

std::vector<int32_t> labels_from(const IdxArray& array, std::string_view origin, int64_t& classes) {
  if (array.dimensions.size() != 1)
    fail(ErrorCode::kMalformed, "{}: {} dimensions, labels have 1; is this the images' file?", origin, array.dimensions.size());
  std::vector<int32_t> labels(array.values.size());
  std::transform(array.values.begin(), array.values.end(), labels.begin(), [](std::byte value) { return std::to_integer<int32_t>(value); });
  const auto largest = std::max_element(labels.begin(), labels.end());
  if (classes == 0) classes = int64_t{*largest} + 1;
  if (*largest >= classes)
    fail(ErrorCode::kMalformed, "{}: label {} at sample {}, expected 0 to {}; the file is damaged or belongs to another data set", origin,
         *largest, largest - labels.begin(), classes - 1);
  return labels;
}

Shape shape_from(const IdxArray& array, std::string_view origin) {
  const std::vector<int64_t>& d = array.dimensions;
  if (d.size() == 3) return {1, d[1], d[2]};
  if (d.size() == 4) return {d[1], d[2], d[3]};
  fail(ErrorCode::kMalformed, "{}: {} dimensions, images have 3 (samples, height, width) or 4 (samples, channels, height, width){}", origin,
       d.size(), d.size() == 1 ? "; is this the labels' file?" : "");
}

std::filesystem::path plain_or_packed(const std::filesystem::path& folder, const char* name) {
  const std::filesystem::path plain = folder / name;
  const std::filesystem::path packed = folder / (std::string(name) + ".gz");
  if (std::filesystem::exists(plain)) return plain;
  if (std::filesystem::exists(packed)) return packed;
  fail(ErrorCode::kNotFound, "{}: neither {} nor {}.gz is in this folder", folder.string(), name, name);
}

Dataset load_part(const std::filesystem::path& folder, const char* images_name, const char* labels_name, int64_t classes) {
  const std::filesystem::path images = plain_or_packed(folder, images_name);
  const std::filesystem::path labels = plain_or_packed(folder, labels_name);
  return parse_idx_images(read_bytes_unpacked(images), images.string(), read_bytes_unpacked(labels), labels.string(), classes);
}

}  // namespace

IdxArray parse_idx(std::span<const std::byte> bytes, std::string_view origin) {
  if (bytes.size() < kMagicBytes)
    fail(ErrorCode::kMalformed, "{}: {} bytes, an IDX file has at least {}; the file is truncated", origin, bytes.size(), kMagicBytes);
  if (byte_at(bytes, 0) != 0 || byte_at(bytes, 1) != 0)
    fail(ErrorCode::kMalformed, "{}: starts with {:02x} {:02x}, an IDX file starts with 00 00", origin, byte_at(bytes, 0),
         byte_at(bytes, 1));
  if (const uint8_t type = byte_at(bytes, 2); type != 0x08)
    fail(ErrorCode::kMalformed, "{}: element type {:02x} ({}), only 08 (unsigned byte) is read; convert the file", origin, type,
         name_of_type(type));

  const size_t rank = byte_at(bytes, 3);
  if (rank < 1 || rank > 4) fail(ErrorCode::kMalformed, "{}: {} dimensions, expected 1 (labels), 3 or 4 (images)", origin, rank);
  const size_t header = kMagicBytes + 4 * rank;
  if (bytes.size() < header)
    fail(ErrorCode::kMalformed, "{}: {} bytes, the header for {} dimensions alone takes {}; the file is truncated", origin, bytes.size(),
         rank, header);

  IdxArray array;
  int64_t elements = 1;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t dimension = big_endian_at(bytes, kMagicBytes + 4 * i);
    if (dimension == 0) fail(ErrorCode::kMalformed, "{}: dimension {} of {} is 0", origin, i + 1, rank);
    array.dimensions.push_back(dimension);
    if (elements > kMostElements / dimension)
      fail(ErrorCode::kMalformed, "{}: dimensions {} make more than {} elements, the header is damaged", origin,
           fmt::join(array.dimensions, "x"), kMostElements);
    elements *= dimension;
  }
  const size_t expected = header + to_size(elements);
  if (bytes.size() != expected)
    fail(ErrorCode::kMalformed, "{}: {} bytes, expected {} for dimensions {}; the file {}, install or copy it again", origin, bytes.size(),
         expected, fmt::join(array.dimensions, "x"), bytes.size() < expected ? "is truncated" : "has something behind its end");
  array.values = bytes.subspan(header);
  return array;
}

Dataset parse_idx_images(std::span<const std::byte> images, std::string_view images_origin, std::span<const std::byte> labels,
                         std::string_view labels_origin, int64_t classes) {
  const IdxArray pixels = parse_idx(images, images_origin);
  Dataset data;
  data.shape = shape_from(pixels, images_origin);
  data.classes = classes;
  data.labels = labels_from(parse_idx(labels, labels_origin), labels_origin, data.classes);
  if (pixels.dimensions[0] != data.size())
    fail(ErrorCode::kMismatch, "{} has {} images, {} has {} labels; the files belong to different sets", images_origin,
         pixels.dimensions[0], labels_origin, data.size());
  std::vector<uint8_t> stored(pixels.values.size());
  std::transform(pixels.values.begin(), pixels.values.end(), stored.begin(),
                 [](std::byte value) { return std::to_integer<uint8_t>(value); });
  data.images = std::move(stored);
  return data;
}

DataSplit load_idx(const std::filesystem::path& folder, int64_t classes) {
  if (!std::filesystem::is_directory(folder))
    fail(ErrorCode::kNotFound, "{}: no such folder; give the one that holds train-images-idx3-ubyte and its three companions",
         folder.string());
  DataSplit data;
  data.train = load_part(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", classes);
  data.test = load_part(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", data.train.classes);
  if (data.train.shape != data.test.shape)
    fail(ErrorCode::kMismatch, "{}: training images are {}, test images {}", folder.string(), text_of(data.train.shape),
         text_of(data.test.shape));
  return data;
}

}  // namespace millrace
