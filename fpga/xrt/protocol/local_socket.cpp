#include "fpga/xrt/protocol/local_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/base/error.h"
#include "core/base/index.h"

namespace millrace::xrt {

LocalSocket& LocalSocket::operator=(LocalSocket&& other) noexcept {
  close();
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

void LocalSocket::close() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

LocalSocket LocalSocket::connected_to(const std::string& path, int seconds) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    fail(ErrorCode::kUsage, "the socket {} has a path of more than {} characters", path, sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  while (true) {
    LocalSocket tried(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (tried.descriptor_ < 0) fail(ErrorCode::kIo, "no socket: {}", std::strerror(errno));
    if (connect(tried.descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return tried;
    const int reason = errno;
    if (std::chrono::steady_clock::now() > end)
      fail(ErrorCode::kTimeout, "nobody listens at {} after {} seconds: {}", path, seconds, std::strerror(reason));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::pair<LocalSocket, LocalSocket> LocalSocket::pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail(ErrorCode::kIo, "no pair of sockets: {}", std::strerror(errno));
  return {LocalSocket(ends[0]), LocalSocket(ends[1])};
}

bool LocalSocket::receive(std::span<uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = recv(descriptor_, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(to_size(count));
  }
  return true;
}

bool LocalSocket::deliver(std::span<const uint8_t> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes = bytes.subspan(to_size(count));
  }
  return true;
}

bool LocalSocket::readable_within(int milliseconds) const {
  pollfd wanted{descriptor_, POLLIN, 0};
  return poll(&wanted, 1, milliseconds) > 0;
}

bool LocalSocket::closed_by_peer() const {
  pollfd wanted{descriptor_, POLLRDHUP, 0};
  return poll(&wanted, 1, 0) > 0 && (wanted.revents & (POLLHUP | POLLRDHUP | POLLERR)) != 0;
}

}  // namespace millrace::xrt
