#include "core/data/zip_file.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <set>

#include "core/base/error.h"

namespace millrace {
namespace {

constexpr size_t kEndBytes = 22, kLongestComment = 65535, kCentralBytes = 46, kLocalBytes = 30;
constexpr uint32_t kEndMagic = 0x06054b50, kCentralMagic = 0x02014b50, kLocalMagic = 0x04034b50;
constexpr uint32_t kInZip64 = 0xffffffff;
// Deflate's best: more than that is a lie about the size.
constexpr uint64_t kMostExpansion = 1032;

uint64_t little_endian(std::span<const std::byte> bytes, size_t at, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes[at + i]);
  return value;
}

// Where the record at the archive's end begins; it may be followed by a comment.
size_t find_end(std::span<const std::byte> bytes, std::string_view origin) {
  if (bytes.size() >= kEndBytes) {
    const size_t last = bytes.size() - kEndBytes;
    for (size_t back = 0; back <= std::min(last, kLongestComment); ++back)
      if (little_endian(bytes, last - back, 4) == kEndMagic && little_endian(bytes, last - back + 20, 2) == back) return last - back;
  }
  fail(ErrorCode::kMalformed, "{}: no zip archive, or one that was cut short", origin);
}

bool leads_out(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != std::string_view::npos || name.find('\0') != std::string_view::npos)
    return true;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return true;
    begin = end + 1;
  }
  return false;
}

std::vector<std::byte> inflate_raw(std::span<const std::byte> packed, size_t bytes, std::string_view origin, const std::string& name) {
  std::vector<std::byte> content(bytes);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(ErrorCode::kUnavailable, "zlib does not start");
  // zlib counts in 32 bits, as the format does; one more byte of room would show that there is more than was said.
  std::byte beyond{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(content.empty() ? &beyond : content.data());
  stream.avail_out = static_cast<uInt>(content.empty() ? 1 : content.size());
  const int outcome = inflate(&stream, Z_FINISH);
  const bool whole = outcome == Z_STREAM_END && stream.total_out == bytes;
  inflateEnd(&stream);
  if (!whole)
    fail(ErrorCode::kMalformed, "{}: entry \"{}\" does not unpack to the {} bytes it claims; the file is damaged", origin, name, bytes);
  return content;
}

}  // namespace

ZipFile::ZipFile(std::span<const std::byte> bytes, std::string_view origin) : bytes_(bytes), origin_(origin) {
  const size_t end = find_end(bytes, origin);
  const uint64_t count = little_endian(bytes, end + 10, 2), size = little_endian(bytes, end + 12, 4);
  uint64_t at = little_endian(bytes, end + 16, 4);
  if (little_endian(bytes, end + 4, 2) != 0 || little_endian(bytes, end + 6, 2) != 0)
    fail(ErrorCode::kMalformed, "{}: an archive over several disks; pack it into one file", origin);
  if (at == kInZip64 || count == 0xffff)
    fail(ErrorCode::kMalformed, "{}: a zip64 archive of more than 4 GB or 65534 entries; divide it", origin);
  if (at > end || size > end - at) fail(ErrorCode::kMalformed, "{}: its list of entries lies outside of the file; it is damaged", origin);
  std::set<std::string, std::less<>> names;
  for (uint64_t i = 0; i < count; ++i) {
    if (at + kCentralBytes > end || little_endian(bytes, at, 4) != kCentralMagic)
      fail(ErrorCode::kMalformed, "{}: entry {} of {} is missing from the list; the file is damaged", origin, i, count);
    const uint64_t flags = little_endian(bytes, at + 8, 2), method = little_endian(bytes, at + 10, 2);
    const size_t name_bytes = little_endian(bytes, at + 28, 2);
    const size_t rest = name_bytes + little_endian(bytes, at + 30, 2) + little_endian(bytes, at + 32, 2);
    if (at + kCentralBytes + rest > end) fail(ErrorCode::kMalformed, "{}: entry {} runs out of the list; the file is damaged", origin, i);
    ZipEntry entry{.name = std::string(reinterpret_cast<const char*>(bytes.data()) + at + kCentralBytes, name_bytes),
                   .bytes = little_endian(bytes, at + 24, 4),
                   .packed_bytes = little_endian(bytes, at + 20, 4),
                   .header = little_endian(bytes, at + 42, 4),
                   .crc = static_cast<uint32_t>(little_endian(bytes, at + 16, 4)),
                   .deflated = method == 8};
    at += kCentralBytes + rest;
    if (leads_out(entry.name)) fail(ErrorCode::kMalformed, "{}: entry {} has a name that leads out of the archive", origin, i);
    if ((flags & 1) != 0) fail(ErrorCode::kMalformed, "{}: entry \"{}\" is encrypted; unpack the archive first", origin, entry.name);
    if (method != 0 && method != 8)
      fail(ErrorCode::kMalformed, "{}: entry \"{}\" is packed by method {}, only stored and deflated ones are read", origin, entry.name,
           method);
    if (entry.bytes == kInZip64 || entry.packed_bytes == kInZip64 || entry.header == kInZip64)
      fail(ErrorCode::kMalformed, "{}: entry \"{}\" has more than 4 GB; divide it", origin, entry.name);
    if (!names.insert(entry.name).second) fail(ErrorCode::kMalformed, "{}: entry \"{}\" is there twice", origin, entry.name);
    if (!entry.deflated && entry.bytes != entry.packed_bytes)
      fail(ErrorCode::kMalformed, "{}: entry \"{}\" is stored with two sizes; the file is damaged", origin, entry.name);
    entries_.push_back(std::move(entry));
  }
}

const ZipEntry* ZipFile::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &ZipEntry::name);
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<std::byte> ZipFile::read(std::string_view name, uint64_t most) const {
  const ZipEntry* const entry = find(name);
  if (entry == nullptr) fail(ErrorCode::kNotFound, "{}: no entry \"{}\" in the archive", origin_, name);
  const auto damaged = [&] { fail(ErrorCode::kMalformed, "{}: entry \"{}\" lies outside of the file; it is damaged", origin_, name); };
  if (entry->header + kLocalBytes > bytes_.size() || little_endian(bytes_, entry->header, 4) != kLocalMagic) damaged();
  const uint64_t begin =
      entry->header + kLocalBytes + little_endian(bytes_, entry->header + 26, 2) + little_endian(bytes_, entry->header + 28, 2);
  if (begin > bytes_.size() || entry->packed_bytes > bytes_.size() - begin) damaged();
  if (entry->bytes > most)
    fail(ErrorCode::kMalformed, "{}: entry \"{}\" has {} bytes, at most {} are read", origin_, name, entry->bytes, most);
  if (entry->deflated && entry->bytes / kMostExpansion > entry->packed_bytes)
    fail(ErrorCode::kMalformed, "{}: entry \"{}\" claims {} bytes out of {}; the file is damaged", origin_, name, entry->bytes,
         entry->packed_bytes);
  const std::span<const std::byte> packed = bytes_.subspan(begin, entry->packed_bytes);
  std::vector<std::byte> content =
      entry->deflated ? inflate_raw(packed, entry->bytes, origin_, entry->name) : std::vector<std::byte>(packed.begin(), packed.end());
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  if (crc != entry->crc)
    fail(ErrorCode::kMalformed, "{}: entry \"{}\" has another checksum than it claims; the file is damaged", origin_, name);
  return content;
}

}  // namespace millrace
