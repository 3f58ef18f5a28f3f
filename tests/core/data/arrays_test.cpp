#include "core/data/arrays.h"

#include <zlib.h>

#include <cstring>

#include "core/data/dataset.h"
#include "core/data/npy.h"
#include "core/data/sample_source.h"
#include "core/data/zip_file.h"
#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

// As numpy.save writes it.
template <typename Value>
std::string npy(const std::string& type, const std::string& shape, const std::vector<Value>& values, const std::string& order = "False") {
  std::string header = "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize((header.size() + 10 + 64) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 255);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  return file.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
}

void put(std::string& to, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) to += static_cast<char>(value >> (8 * i) & 255);
}

std::string deflated(const std::string& content) {
  std::string packed(content.size() + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

struct Packed {
  std::string name, content;
  bool deflate = false;
  uint16_t flags = 0;
  uint64_t claimed = UINT64_MAX;  // instead of the content's size
};

std::string zip(const std::vector<Packed>& files) {
  std::string archive, list;
  for (const Packed& file : files) {
    const std::string stored = file.deflate ? deflated(file.content) : file.content;
    const uint64_t crc = crc32(0, reinterpret_cast<const Bytef*>(file.content.data()), static_cast<uInt>(file.content.size()));
    const uint64_t size = file.claimed == UINT64_MAX ? file.content.size() : file.claimed;
    const uint64_t place = archive.size();
    const auto common = [&](std::string& to) {
      put(to, 20, 2), put(to, file.flags, 2), put(to, file.deflate ? 8 : 0, 2), put(to, 0, 4), put(to, crc, 4);
      put(to, stored.size(), 4), put(to, size, 4), put(to, file.name.size(), 2), put(to, 0, 2);
    };
    put(archive, 0x04034b50, 4);
    common(archive);
    archive += file.name + stored;
    put(list, 0x02014b50, 4), put(list, 20, 2);
    common(list);
    put(list, 0, 2), put(list, 0, 2), put(list, 0, 2), put(list, 0, 4), put(list, place, 4);
    list += file.name;
  }
  const uint64_t begin = archive.size();
  archive += list;
  put(archive, 0x06054b50, 4), put(archive, 0, 4), put(archive, files.size(), 2), put(archive, files.size(), 2);
  put(archive, list.size(), 4), put(archive, begin, 4), put(archive, 0, 2);
  return archive;
}

std::span<const std::byte> bytes_in(const std::string& text) { return std::as_bytes(std::span(text)); }
std::string text_in(const std::vector<std::byte>& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

TEST(ZipFile, ReadsStoredAndDeflatedEntries) {
  const std::string archive = zip({{"a.txt", "stored"}, {"b/c.txt", std::string(5000, 'x'), true}, {"empty", "", true}});
  const ZipFile file(bytes_in(archive), "a.zip");
  ASSERT_EQ(file.entries().size(), 3U);
  EXPECT_EQ(text_in(file.read("a.txt")), "stored");
  EXPECT_EQ(text_in(file.read("b/c.txt")), std::string(5000, 'x'));
  EXPECT_EQ(text_in(file.read("empty")), "");
  expect_error(ErrorCode::kNotFound, "no entry \"d\"", [&] { file.read("d"); });
  expect_error(ErrorCode::kMalformed, "at most 100 are read", [&] { file.read("b/c.txt", 100); });
}

TEST(ZipFile, RefusesWhatLeadsOutOrLies) {
  const auto refused = [](const std::string& archive, const std::string& why, const std::string& name = "x") {
    expect_error(ErrorCode::kMalformed, why, [&] { ZipFile(bytes_in(archive), "a.zip").read(name); });
  };
  refused(zip({{"../x", "1"}}), "leads out");
  refused(zip({{"/etc/x", "1"}}), "leads out");
  refused(zip({{"x", "1"}, {"x", "2"}}), "is there twice");
  refused(zip({{"x", "1", false, 1}}), "encrypted");
  refused(zip({{"x", std::string(100, 'y'), true, 0, 99}}), "does not unpack to the 99 bytes");
  refused(zip({{"x", std::string(100, 'y'), true, 0, 101}}), "does not unpack to the 101 bytes");
  refused(zip({{"x", "small", true, 0, 2'000'000'000}}), "claims 2000000000 bytes");
  refused(zip({{"x", "small", false, 0, 2'000'000'000}}), "two sizes");
  refused("PK", "no zip archive");
  std::string damaged = zip({{"x", "content"}});
  damaged[33] ^= 1;
  refused(damaged, "checksum");
}

TEST(Npy, ReadsNumbersOfAnyWidth) {
  const auto floats = [](const std::string& file) { return floats_of(parse_npy(bytes_in(file), "x.npy"), "x.npy"); };
  EXPECT_EQ(floats(npy<float>("<f4", "(3,)", {1, -2.5F, 3})), (std::vector<float>{1, -2.5F, 3}));
  EXPECT_EQ(floats(npy<double>("<f8", "(1, 2)", {0.1, 7})), (std::vector<float>{0.1F, 7}));
  EXPECT_EQ(floats(npy<uint16_t>("<f2", "(4,)", {0x3c00, 0xc000, 0x0001, 0x3555})), (std::vector<float>{1, -2, 0x1p-24F, 0.333251953125F}));
  EXPECT_EQ(floats(npy<uint8_t>("|u1", "(2,)", {0, 255})), (std::vector<float>{0, 255}));
  const std::string longs = npy<int64_t>("<i8", "(2, 1)", {-1, int64_t{1} << 40});
  EXPECT_EQ(wholes_of(parse_npy(bytes_in(longs), "y"), "y"), (std::vector<int64_t>{-1, int64_t{1} << 40}));
  EXPECT_EQ(text_of(parse_npy(bytes_in(longs), "y")), "int64 [2, 1]");
}

TEST(Npy, RefusesWhatItDoesNotRead) {
  const auto refused = [](const std::string& file, const std::string& why, ErrorCode code = ErrorCode::kMalformed) {
    expect_error(code, why, [&] { floats_of(parse_npy(bytes_in(file), "x.npy"), "x.npy"); });
  };
  const std::vector<float> two = {1, 2};
  refused("nothing", "no .npy file");
  refused(npy("<f4", "(3,)", two), "cut short");
  refused(npy("<f4", "(1,)", two), "longer than it says");
  refused(npy("<f4", "(1000000000000, 1000000000)", two), "takes more than");
  refused(npy("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 2)", two), "more than 8 dimensions");
  refused(npy("<f4", "(2,)", two, "True"), "Fortran");
  refused(npy(">f4", "(2,)", two), "big-endian");
  refused(npy("|O8", "(1,)", two), "elements of type \"|O8\"");
  refused(npy("<f4", "(2,)", std::vector<float>{1, NAN}), "element 1 is nan", ErrorCode::kNumeric);
  const std::string large = npy<uint64_t>("<u8", "(2,)", {1, uint64_t{1} << 63});
  expect_error(ErrorCode::kMalformed, "y: element 1 is 9223372036854775808, numbers below 2^63 are expected",
               [&] { wholes_of(parse_npy(bytes_in(large), "y"), "y"); });
  expect_error(ErrorCode::kMalformed, "whole numbers are expected",
               [&] { wholes_of(parse_npy(bytes_in(npy("<f4", "(2,)", two)), "y"), "y"); });
}

TEST(Arrays, OfBytesAreImages) {
  const TemporaryFolder folder;
  std::vector<uint8_t> pixels(4 * 2 * 2 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(5 * i);
  const std::string x = npy("|u1", "(4, 2, 2, 3)", pixels), y = npy<int32_t>("<i4", "(4,)", {0, 2, 1, 0});
  folder.write("a.npz",
               zip({{"x_train.npy", x, true}, {"y_train.npy", y}, {"x_test.npy", x}, {"y_test.npy", y, true}, {"other.txt", "?"}}));
  folder.write("classes.txt", "red\ngreen\nblue\n");
  const DataSplit data = load_data("arrays:" + folder.text() + "/a.npz");
  EXPECT_EQ(data.train.shape, (Shape{3, 2, 2}));
  EXPECT_EQ(data.train.classes, 3);
  EXPECT_EQ(data.train.class_names[2], "blue");
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{0, 2, 1, 0}));
  std::vector<uint8_t> scratch(12);
  const std::span<const uint8_t> second = image_of(data.train, 1, scratch);
  EXPECT_THAT(second, testing::ElementsAre(60, 75, 90, 105, 65, 80, 95, 110, 70, 85, 100, 115)) << "channels first";
}

TEST(Arrays, OfFloatsAreTakenAsTheyAre) {
  const TemporaryFolder folder;
  std::vector<float> values(10 * 6);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7;
  const std::string y = npy<int64_t>("<i8", "(10, 1)", {0, 1, 0, 1, 0, 1, 0, 1, 0, 1});
  folder.write("x.npy", npy("<f4", "(10, 3, 2)", values));
  folder.write("y.npy", y);
  const DataSplit steps = load_data("arrays:" + folder.text() + ",layout=steps,hold-out=0.3");
  EXPECT_EQ(steps.train.kind, InputKind::kFeatures);
  EXPECT_EQ(steps.train.shape, (Shape{2, 3, 1}));
  EXPECT_EQ(steps.train.size(), 7);
  EXPECT_EQ(steps.test.size(), 3);
  const DataSplit images = load_data("arrays:" + folder.text());
  EXPECT_EQ(images.train.kind, InputKind::kImage);
  EXPECT_EQ(images.train.shape, (Shape{1, 3, 2}));
  std::vector<float> read(6);
  const SampleSource source = sample_source(images.test, {.output = images.test.shape});
  source.read(0, 0, read);
  EXPECT_THAT(values, testing::Contains(read[0]));
  expect_error(ErrorCode::kMismatch, "taken as they are", [&] { sample_source(images.test, {.pad_top = 1, .output = {1, 4, 2}}); });
}

TEST(Arrays, OfIdsAreTokens) {
  const TemporaryFolder folder;
  const std::string name = "arrays:" + folder.text() + ",layout=ids";
  folder.write("x.npy", npy<int64_t>("<i8", "(4, 3)", {0, 7, 2, 1, 1, 1, 3, 0, 6, 5, 4, 2}));
  folder.write("y.npy", npy<int32_t>("<i4", "(4,)", {0, 1, 1, 0}));
  const DataSplit data = load_data(name);
  EXPECT_EQ(data.train.kind, InputKind::kTokens);
  EXPECT_EQ(data.train.shape, (Shape{1, 3, 1}));
  EXPECT_EQ(data.train.vocabulary, 8);
  EXPECT_EQ(data.test.vocabulary, 8) << "of both parts together";
  EXPECT_EQ(data.train.sequences->features(), 1);
  EXPECT_EQ(data.train.sequences->steps(0), 3);
  EXPECT_EQ(load_data(name + ",ids=11").test.vocabulary, 11);
  expect_error(ErrorCode::kMismatch, "id 7, but there are 7", [&] { load_data(name + ",ids=7"); });
  expect_error(ErrorCode::kUsage, "ids has no effect", [&] { load_data("arrays:" + folder.text() + ",ids=7"); });
  folder.write("x.npy", npy<int64_t>("<i8", "(4, 3)", {0, 7, 2, 1, 1, 1, 3, 0, -6, 5, 4, 2}));
  expect_error(ErrorCode::kMalformed, "id -6", [&] { load_data(name); });
  folder.write("x.npy", npy<float>("<f4", "(4, 3)", {0, 7, 2, 1, 1, 1, 3, 0, 6, 5, 4, 2}));
  EXPECT_THROW(load_data(name), Error) << "no whole numbers";
  folder.write("x.npy", npy<int64_t>("<i8", "(4, 3, 1)", {0, 7, 2, 1, 1, 1, 3, 0, 6, 5, 4, 2}));
  expect_error(ErrorCode::kUsage, "[samples, steps]", [&] { load_data(name); });
}

TEST(Arrays, ThatDoNotFitAreRefused) {
  const TemporaryFolder folder;
  const std::string name = "arrays:" + folder.text();
  expect_error(ErrorCode::kNotFound, "no array \"x\"", [&] { load_data(name); });
  folder.write("x.npy", npy<uint8_t>("|u1", "(2, 3, 1, 1)", {1, 2, 3, 4, 5, 6}));
  folder.write("y.npy", npy<int32_t>("<i4", "(3,)", {0, 1, 1}));
  expect_error(ErrorCode::kMismatch, "3 labels for 2 samples", [&] { load_data(name); });
  folder.write("y.npy", npy<int32_t>("<i4", "(2,)", {0, -1}));
  expect_error(ErrorCode::kMalformed, "label -1 of sample 1", [&] { load_data(name); });
  folder.write("y.npy", npy<int32_t>("<i4", "(2, 2)", {0, 1, 1, 0}));
  expect_error(ErrorCode::kMismatch, "argmax", [&] { load_data(name); });
  folder.write("y.npy", npy<int32_t>("<i4", "(2,)", {0, 1}));
  expect_error(ErrorCode::kUsage, "say which are the channels", [&] { load_data(name); });
  EXPECT_EQ(load_data(name + ",layout=chw").train.shape, (Shape{3, 1, 1}));
}

}  // namespace
}  // namespace millrace
