// Files read whole and written so that a reader never sees half of one.
//
//   const std::string text = read_text("plan.textproto");
//   write_atomically("plan.textproto", text);          // temporary file, fsync, rename, fsync of the folder
//
// All of these throw Error(kNotFound | kIo) naming the path and the operating system's reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

std::string read_text(const std::filesystem::path& path);
std::vector<std::byte> read_bytes(const std::filesystem::path& path);
// As read_bytes, through zlib when the file starts with the gzip magic. Limit: `most` bytes once unpacked.
std::vector<std::byte> read_bytes_unpacked(const std::filesystem::path& path, size_t most = size_t{4} << 30);

// A link stays one: what it points to is replaced, or made. A file that is replaced keeps its rights, a new one has those that the umask
// leaves. Into a device, pipe or socket the content is written as it is.
void write_atomically(const std::filesystem::path& path, std::string_view content);
void write_atomically(const std::filesystem::path& path, std::span<const std::byte> content);

// Where writing `path` ends: behind its links, existing or not; `path` itself where it is no link, or leads to a device, pipe or socket.
std::filesystem::path linked_target(const std::filesystem::path& path);

// Flushes a file or folder to the disk.
void sync_to_disk(const std::filesystem::path& path);
void make_folders(const std::filesystem::path& path);

// 128-bit XXH3 of the bytes as 32 hexadecimal digits: detects damage and names content; not a defence against forgery.
std::string digest_of(std::span<const std::byte> bytes);
std::string digest_of(std::string_view bytes);

}  // namespace millrace
