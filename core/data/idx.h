// The IDX format of MNIST: two zero bytes, an element type, a number of dimensions, each as a big-endian 32-bit
// number, then the elements. Internal to core/data.
//
//   const IdxArray images = parse_idx(bytes, "train-images-idx3-ubyte", 3);
//   const DataSplit data = load_idx("/data/mnist");     // four files, under the names MNIST uses, plain or .gz
//
// Strict: magic, type, dimensions and size must agree exactly, and every error names the file, what was expected and
// what was found. Limits: elements are unsigned bytes; at most 2^40 of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/data/dataset.h"

namespace millrace {

struct IdxArray {
  std::vector<int64_t> dimensions;    // all positive
  std::span<const std::byte> values;  // borrowed from the bytes that were parsed
};

// `origin` names the bytes in messages. Fails with kMalformed.
IdxArray parse_idx(std::span<const std::byte> bytes, std::string_view origin);

// One part of a data set: images {n, height, width} or {n, channels, height, width} and labels {n}. Fills name, shape,
// images and labels; with `classes` 0 they are the largest label + 1, otherwise no label may reach them.
Dataset parse_idx_images(std::span<const std::byte> images, std::string_view images_origin, std::span<const std::byte> labels,
                         std::string_view labels_origin, int64_t classes);

// train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte in one folder,
// each plain or .gz. Test labels must be among the training part's classes.
DataSplit load_idx(const std::filesystem::path& folder, int64_t classes = 0);

}  // namespace millrace
