#include "core/base/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <fstream>
#include <string>
#include <thread>

#include "core/base/error.h"
#include "core/base/writable.h"

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

TEST_F(Files, FollowLinksAndLeaveThem) {
  std::filesystem::create_directory(folder / "far");
  write_atomically(folder / "far" / "a.txt", std::string_view("first"));
  std::filesystem::create_symlink("far/a.txt", folder / "near");
  std::filesystem::create_symlink("near", folder / "nearer");
  write_atomically(folder / "nearer", std::string_view("second"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "nearer"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "near"));
  EXPECT_EQ(read_text(folder / "far" / "a.txt"), "second");

  std::filesystem::create_symlink(folder / "far" / "b.txt", folder / "dangling");
  require_writable("--out", folder / "dangling");
  EXPECT_FALSE(std::filesystem::exists(folder / "far" / "b.txt"));
  write_atomically(folder / "dangling", std::string_view("new"));
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "dangling"));
  EXPECT_EQ(read_text(folder / "far" / "b.txt"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "far"), std::filesystem::directory_iterator()), 2);

  std::filesystem::create_symlink("none/c.txt", folder / "nowhere");
  EXPECT_THROW(require_writable("--out", folder / "nowhere"), Error);
  EXPECT_THROW(write_atomically(folder / "nowhere", std::string_view("x")), Error);
  std::filesystem::create_symlink("circle", folder / "circle");
  EXPECT_THROW(require_writable("--out", folder / "circle"), Error);
  EXPECT_THROW(write_atomically(folder / "circle", std::string_view("x")), Error);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "circle"));
}

TEST_F(Files, WriteIntoPipes) {
  const std::filesystem::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  require_writable("--out", pipe);  // waits for no reader
  std::string got;
  std::thread reader([&] { got = read_text(pipe); });
  write_atomically(pipe, std::string_view("through it"));
  reader.join();
  EXPECT_EQ(got, "through it");
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

// As /dev/stdout is in a pipeline: a link of a link to what has no name.
TEST_F(Files, WriteIntoPipesOfDescriptors) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const std::filesystem::path link = folder / "stdout";
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(ends[1]), link);
  require_writable("--out", link);
  write_atomically(link, std::string_view("through it"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  std::array<char, 32> got{};
  ASSERT_EQ(read(ends[0], got.data(), got.size()), 10);
  EXPECT_STREQ(got.data(), "through it");
  for (const int end : ends) close(end);
}

// The node of the device that is always full, in the test's own folder: the machine's must not be at stake.
TEST_F(Files, WriteIntoDevicesAndSayWhenTheyAreFull) {
  const std::filesystem::path full = folder / "full";
  if (mknod(full.c_str(), S_IFCHR | 0666, makedev(1, 7)) != 0)
    GTEST_SKIP() << "mknod is not permitted here: it needs the right to make devices (CAP_MKNOD)";
  const int trial = open(full.c_str(), O_WRONLY | O_CLOEXEC);
  if (trial < 0) GTEST_SKIP() << "devices cannot be opened here: the folder of temporary files is mounted with nodev";
  close(trial);
  require_writable("--out", full);
  try {
    write_atomically(full, std::string_view("x"));
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), testing::HasSubstr("full: cannot write: No space left"));
  }
  EXPECT_TRUE(std::filesystem::is_character_file(full));
}

TEST_F(Files, HaveTheRightsOfTheFileBeforeOrWhatTheUmaskLeaves) {
  const auto rights = [&](const char* name) { return static_cast<unsigned>(std::filesystem::status(folder / name).permissions()); };
  const mode_t before = umask(0027);
  write_atomically(folder / "a.txt", std::string_view("new"));
  EXPECT_EQ(rights("a.txt"), 0640U);
  for (const unsigned kept : {0600U, 0664U, 0755U}) {
    std::filesystem::permissions(folder / "a.txt", std::filesystem::perms{kept});
    write_atomically(folder / "a.txt", std::string_view("again"));
    EXPECT_EQ(rights("a.txt"), kept);
  }
  umask(before);
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
