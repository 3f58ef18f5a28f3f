#include "core/base/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "core/base/error.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

class PrivateFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "millrace_test_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static std::string complaint(const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path root_;
};

TEST_F(PrivateFolder, IsMadeForItsOwnerAlone) {
  const std::filesystem::path folder = root_ / "a" / "b";
  make_private_folder(folder);
  make_private_folder(folder);
  struct stat facts {};
  ASSERT_EQ(stat(folder.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700U);
}

TEST_F(PrivateFolder, OfSomebodyElseWhereAnybodyMayWriteIsNoPlaceForARun) {
  const std::filesystem::path folder = root_ / "run";
  EXPECT_EQ(complaint([&] { refuse_planted_folder(folder); }), "");  // there is none
  std::filesystem::create_directory(folder);
  ASSERT_EQ(chmod(root_.c_str(), 01777), 0);
  EXPECT_EQ(complaint([&] { refuse_planted_folder(folder); }), "");  // our own
  if (geteuid() != 0) GTEST_SKIP() << "root alone can make a folder somebody else's";
  ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
  EXPECT_THAT(complaint([&] { refuse_planted_folder(folder); }), HasSubstr("belongs to user 12345"));
  EXPECT_THAT(complaint([&] { refuse_planted_folder(folder / ""); }), HasSubstr("belongs to user 12345"));
  const std::filesystem::path link = root_ / "link";
  std::filesystem::create_directory_symlink("/etc", link);
  ASSERT_EQ(lchown(link.c_str(), 12345, 12345), 0);
  EXPECT_THAT(complaint([&] { refuse_planted_folder(link); }), HasSubstr("belongs to user 12345"));
  ASSERT_EQ(chmod(root_.c_str(), 0755), 0);
  EXPECT_EQ(complaint([&] { refuse_planted_folder(folder); }), "");  // who may write here gave it to them
}

TEST_F(PrivateFolder, IsRefusedWhereOthersMayWrite) {
  const std::filesystem::path folder = root_ / "shared";
  std::filesystem::create_directory(folder);
  for (const mode_t mode : {mode_t{0777}, mode_t{0770}, mode_t{01777}}) {
    ASSERT_EQ(chmod(folder.c_str(), mode), 0);
    EXPECT_THAT(complaint([&] { make_private_folder(folder); }), HasSubstr("others than its owner may write there"));
  }
  ASSERT_EQ(chmod(folder.c_str(), 0755), 0);
  EXPECT_EQ(complaint([&] { make_private_folder(folder); }), "");
  const std::filesystem::path file = folder / "engine.so";
  std::ofstream(file) << "x";
  ASSERT_EQ(chmod(file.c_str(), 0666), 0);
  EXPECT_THAT(complaint([&] { require_own_file(file); }), HasSubstr("others than its owner may write there"));
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_EQ(complaint([&] { require_own_file(file); }), "");
}

TEST_F(PrivateFolder, IsRefusedWhereSomebodyElsePreparedIt) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make folders of others";
  const std::filesystem::path folder = root_ / "theirs", link = root_ / "link";
  std::filesystem::create_directory(folder);
  ASSERT_EQ(chown(folder.c_str(), 65534, 65534), 0);
  EXPECT_THAT(complaint([&] { make_private_folder(folder); }), HasSubstr("belongs to user 65534"));
  const std::filesystem::path own = root_ / "own";
  make_private_folder(own);
  std::filesystem::create_directory_symlink(own, link);
  EXPECT_EQ(complaint([&] { make_private_folder(link); }), "");
  ASSERT_EQ(lchown(link.c_str(), 65534, 65534), 0);
  EXPECT_THAT(complaint([&] { make_private_folder(link); }), HasSubstr("belongs to user 65534"));
}

}  // namespace
}  // namespace millrace
