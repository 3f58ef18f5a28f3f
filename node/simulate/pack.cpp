#include "node/simulate/pack.h"

#include <cstring>
#include <type_traits>
#include <vector>

#include "core/base/error.h"

namespace millrace::simulation {
namespace {

class Packer {
 public:
  template <typename T>
  void field(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <typename T>
  void field(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    field(values.size());
    if (!values.empty()) bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  void field(T& value) {
    copy(&value, sizeof(T));
  }
  template <typename T>
  void field(std::vector<T>& values) {
    size_t count = 0;
    field(count);
    if (count > bytes_.size() / sizeof(T))
      fail(ErrorCode::kMalformed, "a rank's result announces {} entries where {} bytes are left", count, bytes_.size());
    values.resize(count);
    if (count > 0) copy(values.data(), count * sizeof(T));
  }
  bool empty() const { return bytes_.empty(); }

 private:
  void copy(void* to, size_t size) {
    if (size > bytes_.size()) fail(ErrorCode::kMalformed, "a rank's result ends {} bytes early", size - bytes_.size());
    std::memcpy(to, bytes_.data(), size);
    bytes_.remove_prefix(size);
  }
  std::string_view bytes_;
};

// One list for both ways. Rates come later, from all blocks together.
template <typename Archive, typename Result>
void walk(Archive& archive, Result& result) {
  archive.field(result.samples);
  archive.field(result.devices);
  archive.field(result.links);
  archive.field(result.flows);
  archive.field(result.stages);
  archive.field(result.shards);
  archive.field(result.begun);
  archive.field(result.finished);
  archive.field(result.events);
  archive.field(result.state_bytes);
  archive.field(result.trace);
  archive.field(result.updates);
  archive.field(result.ranks);
}

}  // namespace

std::string packed(const SimulationResult& result) {
  Packer packer;
  walk(packer, result);
  return packer.take();
}

SimulationResult unpacked(std::string_view bytes) {
  Unpacker unpacker(bytes);
  SimulationResult result;
  walk(unpacker, result);
  if (!unpacker.empty()) fail(ErrorCode::kMalformed, "a rank's result has more bytes than it announces");
  return result;
}

}  // namespace millrace::simulation
