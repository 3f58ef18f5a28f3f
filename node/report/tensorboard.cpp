#include "node/report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "core/base/crc32c.h"
#include "core/base/error.h"
#include "core/base/files.h"

namespace millrace {
namespace {

// The few words of protobuf's wire format that an event needs.
void put_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7f) | 0x80);
  to += static_cast<char>(value);
}
template <typename T>
void put_fixed(std::string& to, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  to.append(bytes, sizeof(T));
}
void put_text(std::string& to, uint8_t field, const std::string& text) {
  to += static_cast<char>((field << 3) | 2);
  put_varint(to, text.size());
  to += text;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// Event: double wall_time = 1, int64 step = 2, string file_version = 3, Summary summary = 5.
std::string event_head(int64_t step) {
  std::string event;
  event += static_cast<char>((1 << 3) | 1);
  put_fixed(event, now());
  event += static_cast<char>(2 << 3);
  put_varint(event, static_cast<uint64_t>(step));
  return event;
}

// Summary: repeated Value value = 1; Value: string tag = 1, float simple_value = 2.
std::string scalar(const std::string& tag, double number) {
  std::string value;
  put_text(value, 1, tag);
  value += static_cast<char>((2 << 3) | 5);
  put_fixed(value, static_cast<float>(number));
  return value;
}

uint32_t masked_checksum(const std::string& bytes) {
  const uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return std::rotr(crc, 15) + 0xa282ead8U;
}

}  // namespace

TensorBoardFile::~TensorBoardFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void TensorBoardFile::open() {
  make_folders(folder_);
  path_ = folder_ / fmt::format("events.out.tfevents.{}.{}", static_cast<int64_t>(now()), getpid());
  file_ = std::fopen(path_.c_str(), "ab");
  if (file_ == nullptr) fail(ErrorCode::kIo, "{}: cannot write: {}", path_.string(), std::strerror(errno));
  std::string event = event_head(0);
  put_text(event, 3, "brain.Event:2");
  put(event);
}

void TensorBoardFile::put(const std::string& event) {
  std::string length;
  put_fixed(length, static_cast<uint64_t>(event.size()));
  std::string record = length;
  put_fixed(record, masked_checksum(length));
  record += event;
  put_fixed(record, masked_checksum(event));
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() || std::fflush(file_) != 0)
    fail(ErrorCode::kIo, "{}: cannot write: {}", path_.string(), std::strerror(errno));
}

void TensorBoardFile::write(const MetricsRecord& record) {
  if (record.event == "checkpoint") return;
  const std::string group = record.event == "evaluation" ? "test" : record.event == "step" ? "train" : record.event;
  int64_t step = 0;
  std::string summary;
  for (const auto& [name, value] : record.values) {
    const auto* whole = std::get_if<int64_t>(&value.content);
    const auto* real = std::get_if<double>(&value.content);
    if (name == "step" && whole != nullptr) step = *whole;
    if (name == "step" || (whole == nullptr && real == nullptr)) continue;
    put_text(summary, 1, scalar(group + "/" + name, real != nullptr ? *real : static_cast<double>(*whole)));
  }
  if (file_ == nullptr) open();
  std::string event = event_head(step);
  put_text(event, 5, summary);
  put(event);
}

}  // namespace millrace
