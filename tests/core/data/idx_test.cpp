#include "core/data/idx.h"

#include <zlib.h>

#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

std::vector<std::byte> shortened(std::vector<std::byte> bytes, size_t by) {
  bytes.resize(bytes.size() - by);
  return bytes;
}

std::vector<std::byte> with_byte(std::vector<std::byte> bytes, size_t at, int value) {
  bytes[at] = static_cast<std::byte>(value);
  return bytes;
}

std::vector<std::byte> gzipped(const std::vector<std::byte>& bytes) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::vector<std::byte> packed(deflateBound(&stream, bytes.size()));
  std::vector<std::byte> input = bytes;
  stream.next_in = reinterpret_cast<Bytef*>(input.data());
  stream.avail_in = static_cast<uInt>(input.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

void write_set(const TemporaryFolder& folder, int train, int test) {
  folder.write("train-images-idx3-ubyte", idx_file({train, 2, 3}, 251));
  folder.write("train-labels-idx1-ubyte", idx_file({train}, 5));
  folder.write("t10k-images-idx3-ubyte.gz", gzipped(idx_file({test, 2, 3}, 7)));
  folder.write("t10k-labels-idx1-ubyte.gz", gzipped(idx_file({test}, 3)));
}

TEST(ParseIdx, YieldsDimensionsAndValues) {
  const std::vector<std::byte> file = idx_file({2, 3, 4}, 100);
  const IdxArray array = parse_idx(file, "file");
  EXPECT_EQ(array.dimensions, (std::vector<int64_t>{2, 3, 4}));
  ASSERT_EQ(array.values.size(), 24U);
  EXPECT_EQ(array.values[23], std::byte{23});
}

TEST(ParseIdx, RefusesEveryShorterFile) {
  const std::vector<std::byte> file = idx_file({2, 3, 4}, 100);
  for (size_t missing = 1; missing <= file.size(); ++missing)
    expect_error(ErrorCode::kMalformed, "truncated", [&] { parse_idx(shortened(file, missing), "file"); });
}

TEST(ParseIdx, NamesFileExpectedAndFound) {
  const std::vector<std::byte> file = idx_file({2, 3, 4}, 100);
  expect_error(ErrorCode::kMalformed, "some.idx: 39 bytes, expected 40 for dimensions 2x3x4",
               [&] { parse_idx(shortened(file, 1), "some.idx"); });
  std::vector<std::byte> longer = file;
  longer.push_back(std::byte{0});
  expect_error(ErrorCode::kMalformed, "41 bytes, expected 40", [&] { parse_idx(longer, "some.idx"); });
  expect_error(ErrorCode::kMalformed, "starts with 00 07", [&] { parse_idx(with_byte(file, 1, 7), "some.idx"); });
  expect_error(ErrorCode::kMalformed, "element type 0d (32-bit float)", [&] { parse_idx(with_byte(file, 2, 0x0D), "some.idx"); });
  expect_error(ErrorCode::kMalformed, "0 dimensions", [&] { parse_idx(with_byte(file, 3, 0), "some.idx"); });
  expect_error(ErrorCode::kMalformed, "255 dimensions", [&] { parse_idx(with_byte(file, 3, 255), "some.idx"); });
  expect_error(ErrorCode::kMalformed, "dimension 2 of 3 is 0", [&] { parse_idx(with_byte(file, 11, 0), "some.idx"); });
}

TEST(ParseIdx, RefusesDimensionsWhoseProductOverflows) {
  // 2^31 to the power 4 wraps to 0 in 64 bits.
  std::vector<std::byte> file = bytes_of({0, 0, 8, 4});
  for (int i = 0; i < 4; ++i)
    for (const int byte : {128, 0, 0, 0}) file.push_back(static_cast<std::byte>(byte));
  expect_error(ErrorCode::kMalformed, "more than 1099511627776 elements", [&] { parse_idx(file, "file"); });
}

TEST(ParseIdxImages, AcceptsChannels) {
  const Dataset data = parse_idx_images(idx_file({2, 3, 4, 5}, 200), "images", idx_file({2}, 2), "labels", 0);
  EXPECT_EQ(data.shape, (Shape{3, 4, 5}));
  EXPECT_EQ(data.labels, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(data.classes, 2);
}

TEST(ParseIdxImages, RefusesWhatDoesNotBelongTogether) {
  const std::vector<std::byte> images = idx_file({6, 2, 2}, 9);
  expect_error(ErrorCode::kMismatch, "images has 6 images, labels has 5 labels",
               [&] { parse_idx_images(images, "images", idx_file({5}, 2), "labels", 0); });
  expect_error(ErrorCode::kMalformed, "labels: label 5 at sample 5, expected 0 to 4",
               [&] { parse_idx_images(images, "images", idx_file({6}, 6), "labels", 5); });
  expect_error(ErrorCode::kMalformed, "is this the labels' file?",
               [&] { parse_idx_images(idx_file({6}, 2), "images", idx_file({6}, 2), "labels", 0); });
  expect_error(ErrorCode::kMalformed, "is this the images' file?", [&] { parse_idx_images(images, "images", images, "labels", 0); });
}

TEST(LoadIdx, ReadsPlainAndPackedFiles) {
  const TemporaryFolder folder;
  write_set(folder, 10, 6);
  const DataSplit data = load_data("idx:" + folder.text());
  EXPECT_EQ(data.train.size(), 10);
  EXPECT_EQ(data.test.size(), 6);
  EXPECT_EQ(data.train.shape, (Shape{1, 2, 3}));
  EXPECT_EQ(data.train.classes, 5);
  EXPECT_EQ(data.test.classes, 5);  // although only three occur there
  EXPECT_EQ(data.test.normalisation, data.train.normalisation);
  EXPECT_THAT(std::vector(image_of(data.train, 9, {}).begin(), image_of(data.train, 9, {}).end()),
              testing::ElementsAre(54, 55, 56, 57, 58, 59));
  EXPECT_THAT(std::vector(image_of(data.test, 1, {}).begin(), image_of(data.test, 1, {}).end()), testing::ElementsAre(6, 0, 1, 2, 3, 4));
}

TEST(LoadIdx, NamesWhatIsMissingOrDoesNotFit) {
  const TemporaryFolder folder;
  expect_error(ErrorCode::kNotFound, "no such folder", [&] { load_idx(folder.path() / "nothing"); });
  expect_error(ErrorCode::kNotFound, "neither train-images-idx3-ubyte nor", [&] { load_idx(folder.path()); });
  write_set(folder, 10, 6);
  folder.write("t10k-images-idx3-ubyte", idx_file({6, 3, 2}, 7));
  expect_error(ErrorCode::kMismatch, "training images are 1x2x3, test images 1x3x2", [&] { load_idx(folder.path()); });
}

TEST(LoadIdx, RefusesDamagedGzip) {
  const TemporaryFolder folder;
  write_set(folder, 10, 6);
  const std::vector<std::byte> packed = gzipped(idx_file({6, 2, 3}, 7));
  for (size_t missing = 1; missing < packed.size() - 2; ++missing) {
    folder.write("t10k-images-idx3-ubyte.gz", shortened(packed, missing));
    expect_error(ErrorCode::kMalformed, "t10k-images-idx3-ubyte.gz", [&] { load_idx(folder.path()); });
  }
  // A flipped bit of the compressed data or of its checksum is noticed. (The header's time and system are not data, nor
  // are the high bits of the last byte before the checksum.)
  constexpr size_t kGzipHeader = 10;
  for (size_t at = kGzipHeader; at < packed.size(); ++at) {
    folder.write("t10k-images-idx3-ubyte.gz", with_byte(packed, at, std::to_integer<int>(packed[at]) ^ 0x01));
    expect_error(ErrorCode::kMalformed, "t10k-images-idx3-ubyte.gz", [&] { load_idx(folder.path()); });
  }
}

}  // namespace
}  // namespace millrace
