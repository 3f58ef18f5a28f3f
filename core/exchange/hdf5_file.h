// An HDF5 file in memory, as far as Keras uses it: groups, attributes of text, arrays of numbers.
//
//   const std::unique_ptr<Hdf5File> file = open_hdf5(bytes, "net.h5");
//   const std::optional<std::string> config = file->text("/", "model_config");
//   const std::vector<std::string> names = file->texts("/model_weights", "layer_names").value();
//   const Hdf5Array kernel = file->array("/model_weights/dense/dense/kernel:0");
//
// Read from the given bytes alone: soft and external links, external storage, virtual data sets and filters from plug-ins are refused. What
// a data set declares is compared with what the file stores for it before memory is asked for. Texts may be of fixed or variable length,
// and lists may be split over NAME0, NAME1, ... as Keras does beyond 64 kB. Fails with kMalformed naming the file and the place; with
// kNotFound for arrays that are not there. One thread at a time: the library is not thread safe. Internal to core/exchange.
//
// The HDF5 library brings thirty others, which take longer to load than most commands to run: a module of ours, libmillrace_hdf5.so
// (core/exchange/hdf5), links it, and is loaded with the first file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct Hdf5Array {
  std::vector<int64_t> dimensions;
  std::vector<float> values;  // rounded from what was stored
};

class Hdf5File {
 public:
  Hdf5File() = default;
  virtual ~Hdf5File() = default;
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  // Whether a group or an array lies there, reached without soft or external links.
  virtual bool has(const std::string& path) const = 0;
  // Names of what lies in a group, sorted.
  virtual std::vector<std::string> members(const std::string& group) const = 0;
  virtual std::optional<std::string> text(const std::string& object, const std::string& attribute) const = 0;
  virtual std::optional<std::vector<std::string>> texts(const std::string& object, const std::string& attribute) const = 0;
  virtual Hdf5Array array(const std::string& path) const = 0;
};

// Keeps a copy of the bytes. Fails with kUnavailable, saying what to do, where the module is missing or cannot be loaded.
std::unique_ptr<Hdf5File> open_hdf5(std::span<const std::byte> bytes, const std::string& origin);

}  // namespace millrace
