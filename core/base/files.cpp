#include "core/base/files.h"

#define XXH_INLINE_ALL
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <zlib.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace {
namespace {

// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

[[noreturn]] void fail_from_errno(const std::filesystem::path& path, const char* doing) {
  const int reason = errno;
  fail(reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot {}: {}", path.string(), doing, std::strerror(reason));
}

template <typename Container>
Container read_whole(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_from_errno(path, "open");
  if (std::filesystem::is_directory(path)) fail(ErrorCode::kIo, "{}: is a folder, a file was expected", path.string());
  Container content;
  constexpr size_t kChunk = size_t{1} << 20;
  for (;;) {
    const size_t before = content.size();
    content.resize(before + kChunk);
    const ssize_t got = ::read(file.get(), content.data() + before, kChunk);
    if (got < 0 && errno == EINTR) {
      content.resize(before);
      continue;
    }
    if (got < 0) fail_from_errno(path, "read");
    content.resize(before + to_size(got));
    if (got == 0) return content;
  }
}

void write_all(int descriptor, std::span<const std::byte> content, const std::filesystem::path& path) {
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t wrote = ::write(descriptor, content.data() + done, content.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_from_errno(path, "write");
    done += to_size(wrote);
  }
}

// A device, pipe or socket: nothing can take its place, what is written goes through it.
void write_into(const std::filesystem::path& target, std::span<const std::byte> content, const std::filesystem::path& path) {
  const Descriptor file(::open(target.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) fail_from_errno(path, "open");
  write_all(file.get(), content, path);
  if (::fsync(file.get()) != 0 && errno != EINVAL && errno != EROFS) fail_from_errno(path, "flush");
}

// A new file with the rights that the umask leaves, which mkostemp would not ask; below 0 with errno where there can be none.
int create_beside(const std::filesystem::path& target, std::string* name) {
  std::random_device random;
  for (;;) {
    *name = (target.parent_path() / fmt::format(".{}.{:06x}", target.filename().string(), random() & 0xffffffU)).string();
    const int descriptor = ::open(name->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
}

}  // namespace

std::string read_text(const std::filesystem::path& path) { return read_whole<std::string>(path); }
std::vector<std::byte> read_bytes(const std::filesystem::path& path) { return read_whole<std::vector<std::byte>>(path); }

std::vector<std::byte> read_bytes_unpacked(const std::filesystem::path& path, size_t most) {
  std::vector<std::byte> packed = read_bytes(path);
  const bool gzip = packed.size() >= 2 && packed[0] == std::byte{0x1f} && packed[1] == std::byte{0x8b};
  if (!gzip) return packed;

  z_stream stream{};
  constexpr int kGzipWindow = 15 + 16;
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) fail(ErrorCode::kIo, "{}: zlib cannot start", path.string());
  const std::unique_ptr<z_stream, void (*)(z_stream*)> closer(&stream, [](z_stream* open) { inflateEnd(open); });
  stream.next_in = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_in = static_cast<uInt>(packed.size());
  std::vector<std::byte> content;
  std::array<std::byte, size_t{1} << 16> chunk;
  for (int status = Z_OK; status != Z_STREAM_END;) {
    stream.next_out = reinterpret_cast<Bytef*>(chunk.data());
    stream.avail_out = static_cast<uInt>(chunk.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END)
      fail(ErrorCode::kMalformed, "{}: damaged gzip data after {} bytes; install or copy the file again", path.string(), content.size());
    const size_t got = chunk.size() - stream.avail_out;
    if (content.size() + got > most) fail(ErrorCode::kMalformed, "{}: unpacks to more than {} bytes, refused", path.string(), most);
    content.insert(content.end(), chunk.begin(), chunk.begin() + static_cast<ptrdiff_t>(got));
    if (status == Z_OK && stream.avail_in == 0 && got == 0)
      fail(ErrorCode::kMalformed, "{}: gzip data ends early; install or copy the file again", path.string());
  }
  if (stream.avail_in > 0)
    fail(ErrorCode::kMalformed, "{}: {} bytes follow the end of its gzip data; install or copy the file again", path.string(),
         stream.avail_in);
  return content;
}

std::filesystem::path linked_target(const std::filesystem::path& path) {
  std::error_code none;
  struct stat found {};
  // The system says which links may be followed: not those of others in a folder that all may write into, nor links in a circle.
  const bool exists = ::stat(path.c_str(), &found) == 0;
  // What is written through keeps its name: behind that of a descriptor there may be none, as of the pipe behind /dev/stdout.
  if (exists && !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode)) return path;
  if (!exists && errno != ENOENT) {
    const int reason = errno;
    if (!std::filesystem::is_symlink(path, none)) return path;  // whoever writes it says what is wrong
    errno = reason;
    fail_from_errno(path, "open");
  }
  std::filesystem::path target = path;
  constexpr int kMostLinks = 40;  // as the system follows
  for (int followed = 0; std::filesystem::is_symlink(target, none); ++followed) {
    if (followed == kMostLinks) fail(ErrorCode::kIo, "{}: more than {} links lead from there", path.string(), kMostLinks);
    std::error_code reason;
    target = target.parent_path() / std::filesystem::read_symlink(target, reason);
    if (reason) fail(ErrorCode::kIo, "{}: cannot follow the link: {}", path.string(), reason.message());
  }
  return target;
}

void write_atomically(const std::filesystem::path& path, std::span<const std::byte> content) {
  const std::filesystem::path target = linked_target(path);
  struct stat before {};
  const bool replaces = ::stat(target.c_str(), &before) == 0;
  if (replaces && !S_ISREG(before.st_mode) && !S_ISDIR(before.st_mode)) {
    write_into(target, content, path);
    return;
  }
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  std::string temporary;
  {
    const Descriptor file(create_beside(target, &temporary));
    if (file.get() < 0) fail_from_errno(path, "create");
    try {
      write_all(file.get(), content, path);
      constexpr mode_t kRights = S_IRWXU | S_IRWXG | S_IRWXO;
      if ((replaces && ::fchmod(file.get(), before.st_mode & kRights) != 0) || ::fsync(file.get()) != 0) fail_from_errno(path, "flush");
    } catch (...) {
      ::unlink(temporary.c_str());
      throw;
    }
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    fail_from_errno(path, "rename into place");
  }
  sync_to_disk(folder);
}

void write_atomically(const std::filesystem::path& path, std::string_view content) {
  write_atomically(path, std::as_bytes(std::span(content.data(), content.size())));
}

void sync_to_disk(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) fail_from_errno(path, "open");
  if (::fsync(file.get()) != 0 && errno != EINVAL) fail_from_errno(path, "flush");
}

void make_folders(const std::filesystem::path& path) {
  std::error_code reason;
  std::filesystem::create_directories(path, reason);
  if (reason) fail(ErrorCode::kIo, "{}: cannot make the folder: {}", path.string(), reason.message());
}

std::string digest_of(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of(std::string_view bytes) { return digest_of(std::as_bytes(std::span(bytes.data(), bytes.size()))); }

}  // namespace millrace
