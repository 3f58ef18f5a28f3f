#include "core/base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <fstream>

#include "core/base/error.h"

namespace millrace {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "millrace-files-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::vector<std::byte> gzipped(const std::string& text) const {
    const std::string path = (folder / "made.gz").string();
    gzFile file = gzopen(path.c_str(), "wb");
    gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
    gzclose(file);
    return read_bytes(path);
  }
  ErrorCode code_of_unpacking(const std::vector<std::byte>& content, size_t most = size_t{1} << 20) const {
    write_atomically(folder / "bad.gz", std::span<const std::byte>(content));
    try {
      read_bytes_unpacked(folder / "bad.gz", most);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("bad.gz"));
      return error.code();
    }
    ADD_FAILURE() << "was accepted";
    return ErrorCode::kIo;
  }

  std::filesystem::path folder;
};

TEST_F(Files, WritesWholeAndReplaces) {
  write_atomically(folder / "a.txt", std::string_view("first"));
  write_atomically(folder / "a.txt", std::string_view("second, longer"));
  EXPECT_EQ(read_text(folder / "a.txt"), "second, longer");
  // Nothing temporary stays behind.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()), 1);
}

TEST_F(Files, NameWhatIsMissingOrAFolder) {
  try {
    read_text(folder / "nothing");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), testing::HasSubstr("nothing: cannot open: No such file"));
  }
  EXPECT_THROW(read_text(folder), Error);
  EXPECT_THROW(write_atomically(folder / "no" / "such" / "folder.txt", std::string_view("x")), Error);
}

TEST_F(Files, UnpackGzipAndPassOthersThrough) {
  const std::string text(100'000, 'x');
  write_atomically(folder / "good.gz", std::span<const std::byte>(gzipped(text)));
  EXPECT_EQ(read_bytes_unpacked(folder / "good.gz").size(), text.size());
  write_atomically(folder / "plain", std::string_view("plain"));
  EXPECT_EQ(read_bytes_unpacked(folder / "plain").size(), 5U);
}

TEST_F(Files, RefuseDamagedGzip) {
  const std::vector<std::byte> good = gzipped(std::string(5000, 'y') + "end");
  for (size_t size = 2; size < good.size(); ++size)
    EXPECT_EQ(code_of_unpacking({good.begin(), good.begin() + static_cast<ptrdiff_t>(size)}), ErrorCode::kMalformed) << size;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{7});
  EXPECT_EQ(code_of_unpacking(longer), ErrorCode::kMalformed);
  std::vector<std::byte> flipped = good;
  flipped[flipped.size() - 6] ^= std::byte{1};  // the checksum
  EXPECT_EQ(code_of_unpacking(flipped), ErrorCode::kMalformed);
  EXPECT_EQ(code_of_unpacking(good, 4000), ErrorCode::kMalformed);  // larger than allowed
}

TEST(Digest, IsThatOfTheContent) {
  // XXH3-128 of nothing, as its authors publish it.
  EXPECT_EQ(digest_of(std::string_view("")), "99aa06d3014798d86001c324468d497f");
  EXPECT_NE(digest_of(std::string_view("a")), digest_of(std::string_view("b")));
}

}  // namespace
}  // namespace millrace
