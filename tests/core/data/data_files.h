// What the data tests share: a folder that cleans up after itself, bytes of well-formed files, and the errors of bad ones.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"

namespace millrace {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "millrace-data-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::filesystem::filesystem_error("mkdtemp", {});
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string text() const { return path_.string(); }
  void write(const std::string& name, const std::vector<std::byte>& content) const {
    write(name, std::string_view(reinterpret_cast<const char*>(content.data()), content.size()));
  }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file << content;
    if (!file.flush()) throw std::filesystem::filesystem_error("write", path_ / name, {});
  }

 private:
  std::filesystem::path path_;
};

inline std::vector<std::byte> bytes_of(const std::vector<int>& values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// An IDX file of unsigned bytes: the i-th element is i modulo `period`.
inline std::vector<std::byte> idx_file(const std::vector<int>& dimensions, int period) {
  std::vector<std::byte> bytes = bytes_of({0, 0, 8, static_cast<int>(dimensions.size())});
  int elements = 1;
  for (const int dimension : dimensions) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::byte>(dimension >> shift));
    elements *= dimension;
  }
  for (int i = 0; i < elements; ++i) bytes.push_back(static_cast<std::byte>(i % period));
  return bytes;
}

// CIFAR records: `label_bytes` labels of value `label`, then 3072 pixels of value `pixel`.
inline std::vector<std::byte> cifar_record(size_t label_bytes, int label, int pixel) {
  std::vector<std::byte> bytes(label_bytes + 3072, static_cast<std::byte>(pixel));
  for (size_t i = 0; i < label_bytes; ++i) bytes[i] = static_cast<std::byte>(label);
  return bytes;
}

template <typename Call>
void expect_error(ErrorCode code, const std::string& message_part, Call&& call) {
  try {
    call();
    ADD_FAILURE() << "no error, expected one with \"" << message_part << "\"";
  } catch (const Error& error) {
    EXPECT_EQ(name_of(error.code()), name_of(code)) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(message_part));
  }
}

}  // namespace millrace
