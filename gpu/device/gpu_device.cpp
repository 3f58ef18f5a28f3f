#include "gpu/device/gpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/device/dispatch.h"
#include "core/device/kernel_checks.h"
#include "core/device/optimizer_math.h"
#include "gpu/device/gpu_messages.h"
#include "gpu/device/kernels.h"
#include "gpu/device/replaying_engine.h"

namespace millrace {

namespace gpu {

namespace {

constexpr int64_t kNormPiece = int64_t{1} << 16;  // elements that one block of threads adds up

class GpuDevice final : public Device, public GpuMessages {
 public:
  explicit GpuDevice(SharedContext context) : GpuMessages(context), context_(std::move(context)) {}

  std::string description() const override {
    const Facts facts = context_->engine().facts();
    return fmt::format("gpu ({}, compute capability {}, {}, {})", facts.name, facts.architecture, facts.libraries,
                       name_of(context_->options().precision));
  }
  ElementType compute_type() const override { return ElementType::kFloat32; }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    return dispatch(
        spec, [&] { return make_finish(context_, spec); },
        [&](const auto& operation) { return make_kernel_for(context_, spec, operation); });
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override {
    return translated(
        [&] { return std::make_unique<GpuTensor>(*context_, spec, fmt::format("a tensor of {} x {}", spec.batch, text_of(spec.shape))); });
  }

  void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) override {
    host.visit([&](auto values) { write_from(tensor, channels, values); });
  }
  void read(const Tensor& tensor, ChannelRange channels, HostNumbers host) override {
    host.visit([&](auto values) { read_into(tensor, channels, values); });
  }
  void write_rows(Tensor& tensor, ChannelRange channels, StepRange rows, ConstHostNumbers host) override {
    host.visit([&](auto values) { write_some(tensor, channels, rows, values); });
  }
  void read_rows(const Tensor& tensor, ChannelRange channels, StepRange rows, HostNumbers host) override {
    host.visit([&](auto values) { read_some(tensor, channels, rows, values); });
  }

  void zero(Tensor& tensor) override {
    translated([&] { context_->zero(own(&tensor).buffer()); });
  }
  void copy(const Tensor& from, Tensor& to) override {
    MILLRACE_CHECK(from.elements() == to.elements(), "copy of {} values to {}", from.elements(), to.elements());
    translated([&] {
      context_->run(straight_copy(own(&from).data(), own(&to).data(), from.elements(), false), {&own(&from).buffer()},
                    {&own(&to).buffer()});
    });
  }
  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    check_copy(from, channels, to, to_begin);
    const int64_t plane = from.shape().plane();
    translated([&] {
      const int64_t elements = channels.size() * plane;
      context_->run(StridedCopy{.from = own(&from).data() + channels.begin * plane,
                                .to = own(&to).data() + to_begin * plane,
                                .extent = {1, 1, from.batch(), elements},
                                .from_stride = {0, 0, from.shape().elements(), 1},
                                .to_stride = {0, 0, to.shape().elements(), 1},
                                .adds = add,
                                .elements = from.batch() * elements},
                    {&own(&from).buffer()}, {&own(&to).buffer()});
    });
  }

  void copy_rows(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, StepRange rows, bool add) override {
    check_copy(from, channels, to, to_begin);
    const Shape &here = from.shape(), &there = to.shape();
    translated([&] {
      const int64_t elements = rows.size() * here.width;
      context_->run(StridedCopy{.from = own(&from).data() + channels.begin * here.plane() + rows.begin * here.width,
                                .to = own(&to).data() + to_begin * there.plane() + rows.begin * there.width,
                                .extent = {1, from.batch(), channels.size(), elements},
                                .from_stride = {0, here.elements(), here.plane(), 1},
                                .to_stride = {0, there.elements(), there.plane(), 1},
                                .adds = add,
                                .elements = from.batch() * channels.size() * elements},
                    {&own(&from).buffer()}, {&own(&to).buffer()});
    });
  }

  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    MILLRACE_CHECK(gradient.elements() == parameter.elements(), "update of {} weights with {} gradients", parameter.elements(),
                   gradient.elements());
    MILLRACE_CHECK(static_cast<int>(slots.size()) >= arguments.optimizer.slots(), "{} slots for optimizer {}", slots.size(),
                   name_of(arguments.optimizer.kind));
    const auto slot = [&](size_t i) { return i < slots.size() ? &own(slots[i]) : nullptr; };
    const GpuTensor* first = slot(0);
    const GpuTensor* second = slot(1);
    const GpuTensor* average = arguments.optimizer.averages() ? slot(arguments.optimizer.average_slot()) : nullptr;
    const auto buffer_of = [](const GpuTensor* tensor) { return tensor == nullptr ? nullptr : &tensor->buffer(); };
    translated([&] {
      context_->run(UpdateElements{.weights = own(&parameter).data(),
                                   .gradients = own(&gradient).data(),
                                   .first_slot = first == nullptr ? nullptr : first->data(),
                                   .second_slot = second == nullptr ? nullptr : second->data(),
                                   .average = average == nullptr ? nullptr : average->data(),
                                   .optimizer = OptimizerMath<float>(arguments),
                                   .elements = parameter.elements()},
                    {&own(&gradient).buffer()}, {&own(&parameter).buffer(), buffer_of(first), buffer_of(second), buffer_of(average)});
      context_->end_of_calculation();
    });
  }

  double squared_norm(const Tensor& tensor) override {
    double sum = 0;
    for (const double piece : norms_of(tensor).squares) sum += piece;
    return sum;
  }
  bool all_finite(const Tensor& tensor) override {
    double others = 0;
    for (const double piece : norms_of(tensor).not_finite) others += piece;
    return others == 0;
  }

  void synchronize() override {
    translated([&] { context_->synchronize(); });
  }

 private:
  struct Norms {
    std::vector<double> squares, not_finite;  // by piece
  };
  Norms norms_of(const Tensor& tensor) {
    return translated([&] {
      const int64_t pieces = (tensor.elements() + kNormPiece - 1) / kNormPiece;
      const size_t bytes = to_size(2 * pieces) * sizeof(double);
      // Once for nearly all tensors: memory that is given back waits for whatever runs, a message to a neighbour too.
      context_->reserve(Scratch::kNorms, std::max(bytes, size_t{1} << 16), "norms");
      const Buffer& norms = context_->scratch(Scratch::kNorms);
      context_->reduce(PieceNorm{.values = own(&tensor).data(),
                                 .squares = norms.as<double>(),
                                 .elements = tensor.elements(),
                                 .groups = pieces,
                                 .length = kNormPiece},
                       {&own(&tensor).buffer()}, {&norms});
      context_->end_of_calculation();
      std::vector<double> values(to_size(2 * pieces));
      context_->download(norms, {.pitch = bytes, .width = bytes}, [&](size_t begin, const std::byte* from, size_t size) {
        std::memcpy(reinterpret_cast<std::byte*>(values.data()) + begin, from, size);
      });
      return Norms{{values.begin(), values.begin() + pieces}, {values.begin() + pieces, values.end()}};
    });
  }

  static size_t bytes_of(int64_t elements) { return to_size(elements) * sizeof(float); }

  // Where those channels of all samples lie.
  static Context::Rows rows_of(const Tensor& tensor, ChannelRange channels, size_t host) {
    check_range(tensor, channels);
    const int64_t plane = tensor.shape().plane();
    MILLRACE_CHECK(static_cast<int64_t>(host) == channels.size() * plane * tensor.batch(), "{} host values for channels {} of {} x {}",
                   host, text_of(channels), tensor.batch(), text_of(tensor.shape()));
    return {.offset = bytes_of(channels.begin * plane),
            .pitch = bytes_of(tensor.shape().elements()),
            .width = bytes_of(channels.size() * plane),
            .rows = to_size(tensor.batch())};
  }

  template <typename Number>
  void write_from(Tensor& tensor, ChannelRange channels, std::span<const Number> host) {
    translated([&] { upload(tensor, rows_of(tensor, channels, host.size()), host); });
  }
  template <typename Number>
  void read_into(const Tensor& tensor, ChannelRange channels, std::span<Number> host) {
    translated([&] { download(tensor, rows_of(tensor, channels, host.size()), host); });
  }

  template <typename Number>
  void write_some(Tensor& tensor, ChannelRange channels, StepRange rows, std::span<const Number> host) {
    translated([&] {
      for_each_part(tensor, channels, rows, host.size(),
                    [&](const Context::Rows& part, size_t first, size_t count) { upload(tensor, part, host.subspan(first, count)); });
    });
  }
  template <typename Number>
  void read_some(const Tensor& tensor, ChannelRange channels, StepRange rows, std::span<Number> host) {
    translated([&] {
      for_each_part(tensor, channels, rows, host.size(),
                    [&](const Context::Rows& part, size_t first, size_t count) { download(tensor, part, host.subspan(first, count)); });
    });
  }

  // visit(where those rows lie, the first host value, how many), sample by sample unless all channels are meant.
  template <typename Visit>
  static void for_each_part(const Tensor& tensor, ChannelRange channels, StepRange rows, size_t host, Visit visit) {
    check_range(tensor, channels);
    const Shape& shape = tensor.shape();
    MILLRACE_CHECK(0 <= rows.begin && rows.begin <= rows.end && rows.end <= shape.height, "rows {} to {} of {}", rows.begin, rows.end,
                   shape.height);
    const int64_t length = rows.size() * shape.width;
    MILLRACE_CHECK(static_cast<int64_t>(host) == tensor.batch() * channels.size() * length, "{} host values for {} x {} planes of {}", host,
                   tensor.batch(), channels.size(), length);
    const bool all = channels == whole(tensor);
    const int64_t planes = all ? tensor.batch() * channels.size() : channels.size();
    for (int64_t sample = 0; length > 0 && sample < (all ? 1 : tensor.batch()); ++sample)
      visit(Context::Rows{.offset = bytes_of((sample * shape.channels + channels.begin) * shape.plane() + rows.begin * shape.width),
                          .pitch = bytes_of(shape.plane()),
                          .width = bytes_of(length),
                          .rows = to_size(planes)},
            to_size(sample * planes * length), to_size(planes * length));
  }

  template <typename Number>
  void upload(const Tensor& tensor, const Context::Rows& rows, std::span<const Number> host) {
    context_->upload(own(&tensor).buffer(), rows, [&](size_t begin, std::byte* to, size_t size) {
      const auto part = host.subspan(begin / sizeof(float), size / sizeof(float));
      auto* const floats = reinterpret_cast<float*>(to);
      for (size_t i = 0; i < part.size(); ++i) floats[i] = static_cast<float>(part[i]);
    });
  }
  template <typename Number>
  void download(const Tensor& tensor, const Context::Rows& rows, std::span<Number> host) {
    context_->download(own(&tensor).buffer(), rows, [&](size_t begin, const std::byte* from, size_t size) {
      const auto part = host.subspan(begin / sizeof(float), size / sizeof(float));
      const auto* const floats = reinterpret_cast<const float*>(from);
      for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<Number>(floats[i]);
    });
  }

  SharedContext context_;
};

}  // namespace

}  // namespace gpu

std::string_view name_of(gpu::Precision precision) {
  switch (precision) {
    case gpu::Precision::kFloat32: return "fp32";
    case gpu::Precision::kTensorFloat32: return "tf32";
    case gpu::Precision::kFloat16: return "fp16";
    case gpu::Precision::kBfloat16: break;
  }
  return "bf16";
}

gpu::Precision gpu_precision_from(std::string_view name) {
  std::vector<std::string> known;
  for (const auto precision :
       {gpu::Precision::kFloat32, gpu::Precision::kTensorFloat32, gpu::Precision::kFloat16, gpu::Precision::kBfloat16}) {
    if (name_of(precision) == name) return precision;
    known.emplace_back(name_of(precision));
  }
  fail(ErrorCode::kUsage, "\"{}\" is no precision of GPUs{}", name, suggestion(name, known));
}

void fail_as_error(const gpu::Failure& failure) { fail(ErrorCode::kUnavailable, "{}", failure.what()); }

std::unique_ptr<Device> make_gpu_device(std::unique_ptr<gpu::Engine> engine, const GpuOptions& options) {
  return gpu::translated([&] {
    if (options.graphs) engine = std::make_unique<gpu::ReplayingEngine>(std::move(engine));
    return std::make_unique<gpu::GpuDevice>(std::make_shared<gpu::Context>(std::move(engine), options));
  });
}

}  // namespace millrace
