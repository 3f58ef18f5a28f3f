// The binary version of CIFAR-10 and CIFAR-100: records of one or two label bytes and 3 x 32 x 32 pixels. Internal to core/data.
//
//   const DataSplit data = load_cifar(CifarKind::kCifar10, "/data/cifar-10-batches-bin");
//
// Strict: a file must be a whole number of records and every label within its range; errors name the file, the record,
// what was expected and what was found. CIFAR-100 is read with its 100 fine labels.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "core/data/dataset.h"

namespace millrace {

enum class CifarKind { kCifar10, kCifar100 };

// Appends the records of one file to `data`, whose shape, classes and images it sets up when empty.
// `origin` names the bytes in messages. Fails with kMalformed; `data` is then unchanged.
void append_cifar(CifarKind kind, std::span<const std::byte> bytes, std::string_view origin, Dataset& data);

// CIFAR-10: data_batch_1.bin to data_batch_5.bin and test_batch.bin; CIFAR-100: train.bin and test.bin; in `folder` or
// in the folder the archive unpacks to (cifar-10-batches-bin, cifar-100-binary) below it. Each plain or .gz inside.
// Class names come from batches.meta.txt or fine_label_names.txt where present.
DataSplit load_cifar(CifarKind kind, const std::filesystem::path& folder);

}  // namespace millrace
