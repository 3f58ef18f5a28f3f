// One end of a Unix socket, and whole pieces of bytes through it. Internal to fpga/xrt.
//
//   const LocalSocket host = LocalSocket::connected_to("/tmp/user/xcl_sock", /*seconds=*/20);
//   if (!host.receive(header)) return;          // the other end is closed
//   auto [mine, theirs] = LocalSocket::pair();  // for a child process
//
// Owns its descriptor. receive and deliver wait until all bytes are through; false says that the other end is gone. Nothing
// here raises SIGPIPE.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace millrace::xrt {

class LocalSocket {
 public:
  explicit LocalSocket(int descriptor) : descriptor_(descriptor) {}
  LocalSocket(LocalSocket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  LocalSocket& operator=(LocalSocket&& other) noexcept;
  ~LocalSocket() { close(); }

  // Tries again until somebody listens; fails with kTimeout.
  static LocalSocket connected_to(const std::string& path, int seconds);
  static std::pair<LocalSocket, LocalSocket> pair();

  bool receive(std::span<uint8_t> bytes) const;
  bool deliver(std::span<const uint8_t> bytes) const;
  // Whether something (or the end) can be received within so many milliseconds.
  bool readable_within(int milliseconds) const;
  bool closed_by_peer() const;
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

}  // namespace millrace::xrt
