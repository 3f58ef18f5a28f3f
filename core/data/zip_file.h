// A zip archive in memory: what NumPy's .npz and Keras's .keras files are.
//
//   const ZipFile zip(bytes, "mnist.npz");
//   for (const ZipEntry& entry : zip.entries()) fmt::print("{} {}\n", entry.name, entry.bytes);
//   const std::vector<std::byte> content = zip.read("x_train.npy", most);
//
// Entries are stored or deflated; each is checked against its own CRC. Nothing is ever written to a disk. Sizes are compared with the
// archive's and with `most` before memory is asked for.
// Refused with kMalformed: encryption, several disks, archives beyond 4 GB, names that lead out (.. or a leading /), names given twice,
// entries that overlap the end of the file, other methods. Borrows the bytes. Immutable, thread safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

struct ZipEntry {
  std::string name;
  uint64_t bytes = 0;         // once unpacked
  uint64_t packed_bytes = 0;  // in the archive
  uint64_t header = 0;        // where its local header begins
  uint32_t crc = 0;
  bool deflated = false;
};

class ZipFile {
 public:
  // `origin` names the archive in messages.
  ZipFile(std::span<const std::byte> bytes, std::string_view origin);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  // Null when there is none.
  const ZipEntry* find(std::string_view name) const;
  // Fails with kNotFound, and with kMalformed when the entry holds more than `most` bytes.
  std::vector<std::byte> read(std::string_view name, uint64_t most = uint64_t{4} << 30) const;

 private:
  std::span<const std::byte> bytes_;
  std::string origin_;
  std::vector<ZipEntry> entries_;
};

}  // namespace millrace
