// What a device can leave to these, slow but right: rows by way of whole channels, copies by way of the host.
#include "core/device/device.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"

namespace millrace {
namespace {

// Calls visit(place among all rows, place among these rows, length) for every run of elements that lie together.
template <typename Visit>
void for_each_run(const Tensor& tensor, ChannelRange channels, StepRange rows, size_t host, Visit visit) {
  const Shape& shape = tensor.shape();
  MILLRACE_CHECK(0 <= rows.begin && rows.begin <= rows.end && rows.end <= shape.height, "rows {} to {} of {}", rows.begin, rows.end,
                 shape.height);
  const int64_t planes = tensor.batch() * channels.size();
  const int64_t length = rows.size() * shape.width;
  MILLRACE_CHECK(static_cast<int64_t>(host) == planes * length, "{} elements for {} planes of {}", host, planes, length);
  for (int64_t plane = 0; plane < planes; ++plane)
    visit((plane * shape.height + rows.begin) * shape.width, plane * length, to_size(length));
}

template <typename T>
std::vector<T> all_rows(Device& device, const Tensor& tensor, ChannelRange channels) {
  std::vector<T> all(to_size(tensor.batch() * channels.size() * tensor.shape().plane()));
  device.read(tensor, channels, all);
  return all;
}

}  // namespace

void Device::write_rows(Tensor& tensor, ChannelRange channels, StepRange rows, ConstHostNumbers host) {
  host.visit([&]<typename T>(std::span<const T> values) {
    std::vector<T> all = all_rows<T>(*this, tensor, channels);
    for_each_run(tensor, channels, rows, values.size(),
                 [&](int64_t there, int64_t here, size_t length) { std::copy_n(values.begin() + here, length, all.begin() + there); });
    write(tensor, channels, all);
  });
}
void Device::read_rows(const Tensor& tensor, ChannelRange channels, StepRange rows, HostNumbers host) {
  host.visit([&]<typename T>(std::span<T> values) {
    const std::vector<T> all = all_rows<T>(*this, tensor, channels);
    for_each_run(tensor, channels, rows, values.size(),
                 [&](int64_t there, int64_t here, size_t length) { std::copy_n(all.begin() + there, length, values.begin() + here); });
  });
}

void Device::copy_rows(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, StepRange rows, bool add) {
  const ChannelRange target{to_begin, to_begin + channels.size()};
  const auto copied = [&]<typename T>(std::vector<T> values) {
    values.resize(to_size(from.batch() * channels.size() * rows.size() * from.shape().width));
    read_rows(from, channels, rows, std::span<T>(values));
    if (add) {
      std::vector<T> there(values.size());
      read_rows(to, target, rows, std::span<T>(there));
      for (size_t i = 0; i < values.size(); ++i) values[i] = there[i] + values[i];
    }
    write_rows(to, target, rows, std::span<const T>(values));
  };
  compute_type() == ElementType::kFloat64 ? copied(std::vector<double>{}) : copied(std::vector<float>{});
}

void Device::copy(const Tensor& from, Tensor& to) {
  std::vector<double> values(to_size(from.elements()));
  read(from, whole(from), std::span<double>(values));
  write(to, whole(to), std::span<const double>(values));
}

}  // namespace millrace
