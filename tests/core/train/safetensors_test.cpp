#include "core/train/safetensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/random.h"
#include "tests/core/train/temporary_folder.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;
using testing_support::TemporaryFolder;

std::vector<std::byte> bytes_from(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_from(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// A file of the given header and data, lengths as they come.
std::vector<std::byte> file_of(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return bytes_from(text + header + data);
}

// What decoding says about it; "" when it is accepted.
std::string complaint(std::span<const std::byte> bytes) {
  try {
    decode_safetensors(bytes, "some.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMalformed);
    return error.what();
  }
  return "";
}
std::string complaint(const std::string& header, const std::string& data) { return complaint(file_of(header, data)); }

SafetensorsFile one_of_each_type() {
  SafetensorsFile file;
  file.metadata = {{"format", "pt"}, {"note", "a \"quoted\" ü"}};
  for (const StoredType type : {StoredType::kF64, StoredType::kF32, StoredType::kF16, StoredType::kBf16, StoredType::kI64, StoredType::kI32,
                                StoredType::kI16, StoredType::kU8}) {
    HostTensor tensor{type, {3, 1, 5}, {}};
    for (int64_t i = 0; i < tensor.elements() * bytes_of(type); ++i) tensor.bytes.push_back(static_cast<std::byte>(i * 7 + 1));
    file.tensors.emplace(fmt::format("of.{}", name_of(type)), tensor);
  }
  return file;
}

// The format's own description, followed by hand: the padded length 0x38, the header of 54 characters
// and two spaces, then 1.0 and -2.0.
TEST(Safetensors, WritesTheBytesTheFormatDescribes) {
  const std::vector<float> values = {1.0F, -2.0F};
  const auto bytes = encode_safetensors({{{"a", host_tensor({2}, std::span<const float>(values))}}, {}});
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  ASSERT_EQ(header.size(), 54U);
  const std::string expected = std::string("\x38\0\0\0\0\0\0\0", 8) + header + "  " + std::string("\0\0\x80\x3f\0\0\0\xc0", 8);
  EXPECT_EQ(text_from(bytes), expected);
}

TEST(Safetensors, EveryTypeSurvivesARoundTrip) {
  const SafetensorsFile file = one_of_each_type();
  EXPECT_EQ(decode_safetensors(encode_safetensors(file), "memory"), file);
}

TEST(Safetensors, EmptyFilesScalarsAndEmptyTensorsSurvive) {
  EXPECT_EQ(decode_safetensors(encode_safetensors({}), "memory"), SafetensorsFile{});
  SafetensorsFile file;
  const double one = 1.5;
  file.tensors["scalar"] = host_tensor({}, std::span<const double>(&one, 1));
  file.tensors["nothing"] = host_tensor({4, 0, 2}, std::span<const float>());
  EXPECT_EQ(decode_safetensors(encode_safetensors(file), "memory"), file);
}

TEST(Safetensors, EveryTensorIsAlignedToItsElements) {
  SafetensorsFile file = one_of_each_type();
  file.tensors["a.first.by.name"] = HostTensor{StoredType::kU8, {3}, std::vector<std::byte>(3)};
  const auto bytes = encode_safetensors(file);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  EXPECT_EQ(length % 8, 0U);
  // Widest first: the data of an 8-byte tensor leads, that of the bytes is last.
  const std::string header = text_from(bytes).substr(8, length);
  EXPECT_LT(header.find("of.F64"), header.find("of.I64"));
  EXPECT_LT(header.find("of.I64"), header.find("of.F32"));
  EXPECT_LT(header.find("of.I16"), header.find("a.first.by.name"));
  EXPECT_EQ(header.front(), '{');
}

TEST(Safetensors, FilesRoundTripAndEqualContentGivesEqualBytes) {
  const TemporaryFolder folder;
  const SafetensorsFile file = one_of_each_type();
  save_safetensors(folder.path() / "a.safetensors", file);
  save_safetensors(folder.path() / "b.safetensors", load_safetensors(folder.path() / "a.safetensors"));
  EXPECT_EQ(read_bytes(folder.path() / "a.safetensors"), read_bytes(folder.path() / "b.safetensors"));
  EXPECT_THROW(load_safetensors(folder.path() / "absent.safetensors"), Error);
}

TEST(Safetensors, ReadsTensorsInAnyOrderAndUnpaddedHeaders) {
  const SafetensorsFile file = decode_safetensors(
      file_of(R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"a":{"data_offsets":[0,2],"shape":[1],"dtype":"I16"}})", "xyz"), "x");
  EXPECT_EQ(text_from(file.tensors.at("a").bytes), "xy");
  EXPECT_EQ(text_from(file.tensors.at("b").bytes), "z");
}

TEST(Safetensors, RefusesWhatIsNoFile) {
  EXPECT_THAT(complaint(bytes_from("")), HasSubstr("some.safetensors: 0 bytes, too short"));
  EXPECT_THAT(complaint(bytes_from(std::string(16, '\xff'))), HasSubstr("18446744073709551615 bytes, at most 100000000"));
  EXPECT_THAT(complaint(bytes_from(std::string("\x09\0\0\0\0\0\0\0{}", 10))), HasSubstr("9 bytes, only 2 follow; the file is truncated"));
  EXPECT_THAT(complaint(" {}", ""), HasSubstr("does not start with '{'"));
  EXPECT_THAT(complaint("", ""), HasSubstr("does not start with '{'"));
  EXPECT_THAT(complaint("{\"a\":", ""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"\xff\":1}", ""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{}x", ""), HasSubstr("not valid JSON"));
  EXPECT_THAT(complaint("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", ""), HasSubstr("nested deeper"));
}

TEST(Safetensors, RefusesDuplicateNames) {
  const std::string a = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_EQ(complaint("{" + a + "}", "x"), "");
  EXPECT_THAT(complaint("{" + a + "," + a + "}", "x"), HasSubstr("the name \"a\" is given twice"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"),
              HasSubstr("\"dtype\" is given twice"));
}

TEST(Safetensors, RefusesEntriesThatSayTooMuchOrTooLittle) {
  EXPECT_THAT(complaint(R"({"a":3})", ""), HasSubstr("tensor \"a\": is 3, an object was expected"));
  EXPECT_THAT(complaint(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x"), HasSubstr("tensor \"a\": \"dtype\" is missing"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "x"),
              HasSubstr("dtype \"F8\" is not supported; supported: F64"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", "x"), HasSubstr("\"dtype\" is 7, a text was expected"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x"),
              HasSubstr("\"shape\" is [-1], a list of integers"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","shape":[1.5],"data_offsets":[0,1]}})", "x"), HasSubstr("\"shape\" is [1.5]"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","shape":1,"data_offsets":[0,1]}})", "x"), HasSubstr("\"shape\" is 1"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1,1]}})", "x"), HasSubstr("3 data_offsets, two were expected"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]}})", "x"), HasSubstr("data_offsets"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"shapes":[1]}})", "x"),
              HasSubstr("\"shapes\" is not a known name; did you mean \"shape\"?"));
  EXPECT_THAT(complaint(R"({"__metadata__":{"a":1}})", ""), HasSubstr("\"__metadata__\": \"a\" is 1, a text was expected"));
}

TEST(Safetensors, RefusesOffsetsThatDoNotFit) {
  const auto one = [](const char* begin, const char* end) {
    return fmt::format(R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":[{},{}]}}}})", begin, end);
  };
  EXPECT_EQ(complaint(one("0", "2"), "xy"), "");
  EXPECT_THAT(complaint(one("0", "2"), "x"), HasSubstr("tensor \"a\": data_offsets [0, 2] lie outside the 1 bytes of data"));
  EXPECT_THAT(complaint(one("2", "0"), "xy"), HasSubstr("data_offsets [2, 0] lie outside"));
  EXPECT_THAT(complaint(one("0", "1"), "x"), HasSubstr("U8 [2] takes 2 bytes, data_offsets [0, 1] hold 1"));
  EXPECT_THAT(complaint(one("1", "3"), "xyz"), HasSubstr("tensor \"a\": begins at byte 1 of the data, leaving a gap after byte 0"));
  EXPECT_THAT(complaint(one("0", "2"), "xyz"), HasSubstr("3 bytes of data, the tensors account for 2"));
  EXPECT_THAT(
      complaint(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "xyz"),
      HasSubstr("tensor \"b\": begins at byte 1 of the data, overlapping the data before byte 2"));
}

TEST(Safetensors, RefusesShapesTooLargeToCount) {
  EXPECT_THAT(complaint(R"({"a":{"dtype":"U8","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", ""),
              HasSubstr("more bytes than can be counted"));
  EXPECT_THAT(complaint(R"({"a":{"dtype":"F64","shape":[4611686018427387904],"data_offsets":[0,0]}})", ""),
              HasSubstr("more bytes than can be counted"));
}

TEST(Safetensors, NoTruncationOfAFileIsAccepted) {
  const auto bytes = encode_safetensors(one_of_each_type());
  for (size_t size = 0; size < bytes.size(); ++size) EXPECT_NE(complaint(std::span(bytes).first(size)), "") << size;
}

// Flips in the header either fail with an Error or give a file whose data is the same size; they never crash.
TEST(Safetensors, DamagedHeadersFailOrReadBackWhole) {
  const auto bytes = encode_safetensors(one_of_each_type());
  const Philox draw(7, 1);
  for (uint64_t trial = 0; trial < 3000; ++trial) {
    auto damaged = bytes;
    damaged[draw.below(trial * 2, bytes.size())] ^= static_cast<std::byte>(1U << draw.below(trial * 2 + 1, 8));
    try {
      size_t data = 0;
      for (const auto& entry : decode_safetensors(damaged, "x").tensors) data += entry.second.bytes.size();
      EXPECT_EQ(data, 15U * (8 + 4 + 2 + 2 + 8 + 4 + 2 + 1));
    } catch (const Error&) {
    }
  }
}

TEST(Safetensors, RefusesToWriteWhatNobodyCouldRead) {
  EXPECT_THROW(encode_safetensors({{{"__metadata__", HostTensor{StoredType::kU8, {0}, {}}}}, {}}), Error);
  EXPECT_THROW(encode_safetensors({{{"\xff", HostTensor{StoredType::kU8, {0}, {}}}}, {}}), Error);
}

TEST(HostTensor, ValuesComeBackInEitherPrecision) {
  const std::vector<double> values = {0.1, -3, 1e-30, 1e30};
  const HostTensor wide = host_tensor({2, 2}, std::span<const double>(values));
  std::vector<double> doubles(4);
  std::vector<float> floats(4);
  copy_values(wide, std::span<double>(doubles));
  copy_values(wide, std::span<float>(floats));
  EXPECT_EQ(doubles, values);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(floats[i], static_cast<float>(values[i]));
  copy_values(host_tensor({4}, std::span<const float>(floats)), std::span<double>(doubles));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(doubles[i], static_cast<double>(floats[i]));
}

TEST(HostTensor, AnotherSizeOrKindIsNamed) {
  const std::vector<float> values = {1, 2, 3};
  std::vector<float> four(4);
  try {
    copy_values(host_tensor({3}, std::span<const float>(values)), std::span<float>(four), "conv1.weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMismatch);
    EXPECT_THAT(error.what(), HasSubstr("conv1.weight: is F32 [3], 4 elements were expected"));
  }
  EXPECT_THROW(copy_values(HostTensor{StoredType::kI32, {4}, std::vector<std::byte>(16)}, std::span<float>(four)), Error);
}

double real_from(StoredType type, uint16_t bits) {
  HostTensor tensor{type, {1}, std::vector<std::byte>(2)};
  std::memcpy(tensor.bytes.data(), &bits, 2);
  double value = 0;
  copy_values(tensor, std::span<double>(&value, 1));
  return value;
}

// Against the definition, for all 65536 patterns: (-1)^sign 2^(exponent - 15) (1 + fraction / 1024), subnormals
// fraction 2^-24; and for bfloat16 the same with 8 bits of exponent and 7 of fraction.
TEST(HostTensor, SixteenBitRealsFollowTheirDefinition) {
  const auto defined = [](uint32_t bits, int fraction_bits, int exponent_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const double fraction = (bits & ((1U << fraction_bits) - 1U)) * std::pow(2.0, -fraction_bits);
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    if (exponent == (1 << exponent_bits) - 1)
      return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    if (exponent == 0) return sign * fraction * std::pow(2.0, 1 - bias);
    return sign * (1 + fraction) * std::pow(2.0, exponent - bias);
  };
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    for (const auto& [type, expected] :
         {std::pair(StoredType::kF16, defined(bits, 10, 5)), std::pair(StoredType::kBf16, defined(bits, 7, 8))}) {
      const double value = real_from(type, pattern);
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(value)) << bits;
      else
        ASSERT_EQ(value, expected) << bits;
    }
  }
}

}  // namespace
}  // namespace millrace
