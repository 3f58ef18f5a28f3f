#include "core/data/cifar.h"

#include "tests/core/data/data_files.h"

namespace millrace {
namespace {

std::vector<std::byte> joined(std::vector<std::byte> first, const std::vector<std::byte>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

void write_cifar10(const TemporaryFolder& folder, const std::string& below) {
  std::filesystem::create_directories(folder.path() / below);
  for (int batch = 1; batch <= 5; ++batch)
    folder.write(below + "data_batch_" + std::to_string(batch) + ".bin", joined(cifar_record(1, batch, 10 * batch), cifar_record(1, 0, 1)));
  folder.write(below + "test_batch.bin", cifar_record(1, 9, 200));
}

TEST(AppendCifar, ReadsLabelsAndPixelsOfBothKinds) {
  Dataset ten;
  append_cifar(CifarKind::kCifar10, joined(cifar_record(1, 3, 30), cifar_record(1, 9, 90)), "file", ten);
  EXPECT_EQ(ten.shape, (Shape{3, 32, 32}));
  EXPECT_EQ(ten.classes, 10);
  EXPECT_EQ(ten.labels, (std::vector<int32_t>{3, 9}));
  EXPECT_THAT(image_of(ten, 1, {}), testing::Each(90));

  Dataset hundred;
  std::vector<std::byte> record = cifar_record(2, 19, 7);
  record[1] = std::byte{99};
  append_cifar(CifarKind::kCifar100, record, "file", hundred);
  EXPECT_EQ(hundred.labels, (std::vector<int32_t>{99}));
  EXPECT_EQ(hundred.classes, 100);
  EXPECT_THAT(image_of(hundred, 0, {}), testing::Each(7));
}

TEST(AppendCifar, RefusesBadFilesAndLeavesTheDataAlone) {
  Dataset data;
  append_cifar(CifarKind::kCifar10, cifar_record(1, 3, 30), "file", data);
  const auto refuse = [&](CifarKind kind, const std::vector<std::byte>& bytes, const std::string& message) {
    expect_error(ErrorCode::kMalformed, message, [&] { append_cifar(kind, bytes, "some.bin", data); });
    EXPECT_EQ(data.size(), 1);
    EXPECT_EQ(std::get<std::vector<uint8_t>>(data.images).size(), 3072U);
  };
  refuse(CifarKind::kCifar10, {}, "some.bin: 0 bytes, expected a whole number of CIFAR-10 records of 3073 bytes");
  std::vector<std::byte> record = cifar_record(1, 3, 30);
  record.pop_back();
  refuse(CifarKind::kCifar10, record, "some.bin: 3072 bytes");
  record.resize(3074);
  refuse(CifarKind::kCifar10, record, "some.bin: 3074 bytes");
  refuse(CifarKind::kCifar10, joined(cifar_record(1, 9, 0), cifar_record(1, 10, 0)), "label 10 in record 1, expected 0 to 9");
  refuse(CifarKind::kCifar100, cifar_record(2, 20, 0), "coarse label 20 in record 0, expected 0 to 19");
  std::vector<std::byte> fine = cifar_record(2, 5, 0);
  fine[1] = std::byte{100};
  refuse(CifarKind::kCifar100, fine, "label 100 in record 0, expected 0 to 99");
}

TEST(LoadCifar, ReadsAFolderAndTheOneInsideTheArchive) {
  for (const std::string below : {"", "cifar-10-batches-bin/"}) {
    const TemporaryFolder folder;
    write_cifar10(folder, below);
    const DataSplit data = load_data("cifar10:" + folder.text());
    EXPECT_EQ(data.train.labels, (std::vector<int32_t>{1, 0, 2, 0, 3, 0, 4, 0, 5, 0}));
    EXPECT_EQ(data.test.labels, (std::vector<int32_t>{9}));
    EXPECT_THAT(image_of(data.train, 8, {}), testing::Each(50));
    EXPECT_TRUE(data.train.class_names.empty());
  }
}

TEST(LoadCifar, ReadsClassNames) {
  const TemporaryFolder folder;
  write_cifar10(folder, "");
  folder.write("batches.meta.txt", "a\nb\r\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  EXPECT_EQ(load_cifar(CifarKind::kCifar10, folder.path()).test.class_names[1], "b");
  folder.write("batches.meta.txt", "a\nb\n");
  expect_error(ErrorCode::kMalformed, "batches.meta.txt: 2 class names, expected 10",
               [&] { load_cifar(CifarKind::kCifar10, folder.path()); });
}

TEST(LoadCifar, ReadsTheHundredClasses) {
  const TemporaryFolder folder;
  folder.write("train.bin", joined(cifar_record(2, 4, 1), cifar_record(2, 5, 2)));
  folder.write("test.bin", cifar_record(2, 6, 3));
  const DataSplit data = load_data("cifar100:" + folder.text());
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(data.train.name, "cifar100/train");
}

TEST(LoadCifar, NamesTheMissingFile) {
  const TemporaryFolder folder;
  write_cifar10(folder, "");
  std::filesystem::remove(folder.path() / "data_batch_4.bin");
  expect_error(ErrorCode::kNotFound, "data_batch_4.bin", [&] { load_cifar(CifarKind::kCifar10, folder.path()); });
  expect_error(ErrorCode::kNotFound, "no such folder", [&] { load_cifar(CifarKind::kCifar10, folder.path() / "data_batch_1.bin"); });
}

}  // namespace
}  // namespace millrace
