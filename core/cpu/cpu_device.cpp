#include "core/cpu/cpu_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/cpu/engine.h"
#include "core/cpu/instruction_set.h"
#include "core/cpu/kernels.h"
#include "core/cpu/tensor.h"
#include "core/cpu/threading.h"
#include "core/cpu/vector_math.h"
#include "core/device/dispatch.h"
#include "core/device/kernel_checks.h"

namespace millrace {

namespace cpu {

namespace {

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(SharedEngine engine) : engine_(std::move(engine)) {}

  std::string description() const override {
    const dnnl_version_t* version = dnnl_version();
    return fmt::format("cpu (oneDNN {}.{}.{}, {}{}, {} thread{})", version->major, version->minor, version->patch, engine_->isa,
                       engine_->halves ? " with bf16" : "", threads(), threads() == 1 ? "" : "s");
  }
  ElementType compute_type() const override { return ElementType::kFloat32; }

  std::unique_ptr<Kernel> make_kernel(const KernelSpec& spec) override {
    const ComputeScope scope(threads());
    return dispatch(
        spec, [&] { return make_finish(engine_, spec); }, [&](const auto& operation) { return make_kernel_for(engine_, spec, operation); });
  }
  std::unique_ptr<Tensor> make_tensor(const TensorSpec& spec) override { return std::make_unique<CpuTensor>(spec, engine_->vector_length); }

  void write(Tensor& tensor, ChannelRange channels, ConstHostNumbers host) override {
    host.visit([&]<typename Number>(std::span<const Number> values) {
      if constexpr (std::is_same_v<Number, float>)
        write_from(tensor, channels, values);
      else
        write_from(tensor, channels, std::vector<float>(values.begin(), values.end()));
    });
  }
  void read(const Tensor& tensor, ChannelRange channels, HostNumbers host) override {
    host.visit([&]<typename Number>(std::span<Number> values) {
      if constexpr (std::is_same_v<Number, float>) {
        read_into(tensor, channels, values);
      } else {
        std::vector<float> narrow(values.size());
        read_into(tensor, channels, narrow);
        std::ranges::copy(narrow, values.begin());
      }
    });
  }

  void write_rows(Tensor& tensor, ChannelRange channels, StepRange rows, ConstHostNumbers host) override {
    CpuTensor& target = own(&tensor);
    host.visit([&](auto values) {
      for_each_row(tensor, channels, rows, values.size(),
                   [&](int64_t there, int64_t here) { target.data()[there] = static_cast<float>(values.data()[here]); });
    });
  }
  void read_rows(const Tensor& tensor, ChannelRange channels, StepRange rows, HostNumbers host) override {
    const CpuTensor& source = own(&tensor);
    host.visit([&](auto values) {
      for_each_row(tensor, channels, rows, values.size(), [&](int64_t there, int64_t here) { values.data()[here] = source.data()[there]; });
    });
  }

  void copy(const Tensor& from, Tensor& to) override {
    MILLRACE_CHECK(own(&from).stored() == own(&to).stored(), "copy of {} stored values to {}", own(&from).stored(), own(&to).stored());
    std::copy_n(own(&from).data(), own(&from).stored(), own(&to).data());
  }

  void zero(Tensor& tensor) override {
    const ComputeScope scope(threads());
    float* const values = own(&tensor).data();
    parallel_chunks(threads(), own(&tensor).stored(), [&](int64_t begin, int64_t size) { std::fill_n(values + begin, size, 0.0f); });
  }

  void copy_channels(const Tensor& from, ChannelRange channels, Tensor& to, int64_t to_begin, bool add) override {
    const ComputeScope scope(threads());
    const CpuTensor& source = own(&from);
    CpuTensor& target = own(&to);
    check_copy(from, channels, to, to_begin);
    cpu::copy_channels(threads(), source.layout(), source.data(), channels, target.layout(), target.data(), to_begin, add);
  }

  void update(const UpdateArguments& arguments, Tensor& parameter, const Tensor& gradient, std::span<Tensor* const> slots) override {
    const ComputeScope scope(threads());
    CpuTensor& weights = own(&parameter);
    const auto slot = [&](size_t index) { return index < slots.size() ? own(slots[index]).data() : nullptr; };
    MILLRACE_CHECK(own(&gradient).stored() == weights.stored(), "update of {} stored weights with {} gradients", weights.stored(),
                   own(&gradient).stored());
    MILLRACE_CHECK(static_cast<int>(slots.size()) >= arguments.optimizer.slots(), "{} slots for optimizer {}", slots.size(),
                   name_of(arguments.optimizer.kind));
    float* const w = weights.data();
    const float* const g = own(&gradient).data();
    float* const first = slot(0);
    float* const second = slot(1);
    float* const average = slot(arguments.optimizer.average_slot());
    parallel_chunks(threads(), weights.stored(), [&](int64_t begin, int64_t size) {
      const auto from = [begin](float* values) { return values == nullptr ? nullptr : values + begin; };
      cpu::update(arguments, w + begin, g + begin, from(first), from(second), from(average), size);
    });
  }

  double squared_norm(const Tensor& tensor) override {
    const ComputeScope scope(threads());
    const CpuTensor& values = own(&tensor);
    // Pieces of fixed size, added up in order: the same for any number of threads.
    constexpr int64_t kPiece = int64_t{1} << 20;
    double total = 0;
    for (int64_t begin = 0; begin < values.stored(); begin += kPiece) {
      std::array<double, kPiece / kChunk> parts{};
      parallel_chunks(threads(), std::min(kPiece, values.stored() - begin), [&](int64_t offset, int64_t size) {
        fast_item(parts, offset / kChunk) = sum_of_squares(values.data() + begin + offset, size);
      });
      for (const double part : parts) total += part;
    }
    return total;
  }

  bool all_finite(const Tensor& tensor) override {
    const CpuTensor& values = own(&tensor);
    return cpu::all_finite(values.data(), values.stored());
  }

 private:
  int threads() const { return engine_->threads; }

  void write_from(Tensor& tensor, ChannelRange channels, std::span<const float> host) const {
    const ComputeScope scope(threads());
    check_host(tensor, channels, host.size());
    CpuTensor& target = own(&tensor);
    if (target.packing() != nullptr) {
      MILLRACE_CHECK(channels == whole(tensor), "parameters are written whole, not {}", text_of(channels));
      return target.packing()->pack(host.data(), target.data());
    }
    const Layout layout = host_layout(tensor, channels);
    cpu::copy_channels(threads(), layout, host.data(), {0, channels.size()}, target.layout(), target.data(), channels.begin, false);
  }
  void read_into(const Tensor& tensor, ChannelRange channels, std::span<float> host) const {
    const ComputeScope scope(threads());
    check_host(tensor, channels, host.size());
    const CpuTensor& source = own(&tensor);
    if (source.packing() != nullptr) {
      MILLRACE_CHECK(channels == whole(tensor), "parameters are read whole, not {}", text_of(channels));
      return source.packing()->unpack(source.data(), host.data());
    }
    const Layout layout = host_layout(tensor, channels);
    cpu::copy_channels(threads(), source.layout(), source.data(), channels, layout, host.data(), 0, false);
  }
  // visit(place in the tensor, place in the canonical order of those rows) for every element.
  template <typename Visit>
  static void for_each_row(const Tensor& tensor, ChannelRange channels, StepRange rows, size_t host, Visit visit) {
    check_range(tensor, channels);
    const int64_t width = tensor.shape().width;
    MILLRACE_CHECK(0 <= rows.begin && rows.begin <= rows.end && rows.end <= tensor.shape().height &&
                       static_cast<int64_t>(host) == tensor.batch() * channels.size() * rows.size() * width,
                   "{} host values for rows {} to {} of {} x {}", host, rows.begin, rows.end, tensor.batch(), text_of(tensor.shape()));
    const Layout& layout = own(&tensor).layout();
    int64_t here = 0;
    for (int64_t sample = 0; sample < tensor.batch(); ++sample)
      for (int64_t channel = channels.begin; channel < channels.end; ++channel)
        for (int64_t place = rows.begin * width; place < rows.end * width; ++place, ++here)
          visit(layout.offset(sample, channel) + place * layout.block, here);
  }
  static Layout host_layout(const Tensor& tensor, ChannelRange channels) {
    Shape shape = tensor.shape();
    shape.channels = channels.size();
    return canonical_layout(shape, tensor.batch());
  }

  SharedEngine engine_;
};

}  // namespace

Engine::Engine(int threads_, KernelTable table_, bool halves_)
    : threads(threads_),
      table(std::move(table_)),
      isa(name_of(instruction_set())),
      vector_length(instruction_set() == InstructionSet::kAvx512 ? 16 : 8),
      halves(halves_) {}

std::unique_ptr<Device> make_device(int threads, KernelTable table) {
  return make_device(std::make_shared<Engine>(threads, std::move(table)));
}
std::unique_ptr<Device> make_device(SharedEngine engine) { return std::make_unique<CpuDevice>(std::move(engine)); }

}  // namespace cpu

namespace {

KernelTable table_of(const CpuOptions& options) {
  KernelTable table = KernelTable::shipped();
  if (!options.kernel_table.empty()) table.merge(KernelTable::load(options.kernel_table));
  return table;
}

}  // namespace

std::unique_ptr<Device> make_cpu_device(const CpuOptions& options) {
  if (options.threads < 1) fail(ErrorCode::kUsage, "{} threads for the CPU device; give at least one", options.threads);
  const bool halves = options.precision == CpuPrecision::kBfloat16;
  if (halves && !cpu_has_bf16())
    fail(ErrorCode::kUnavailable,
         "products in bf16: this processor has no AVX-512 BF16, only {}; take fp32, or run where millrace doctor finds bf16",
         cpu::name_of(cpu::instruction_set()));
  return cpu::make_device(std::make_shared<cpu::Engine>(options.threads, table_of(options), halves));
}

std::string_view name_of(CpuPrecision precision) { return precision == CpuPrecision::kFloat32 ? "fp32" : "bf16"; }

CpuPrecision cpu_precision_from(std::string_view name) {
  for (const CpuPrecision precision : {CpuPrecision::kFloat32, CpuPrecision::kBfloat16})
    if (name_of(precision) == name) return precision;
  fail(ErrorCode::kUsage, "\"{}\" is no precision of processors{}", name, suggestion(name, {"fp32", "bf16"}));
}

bool cpu_has_bf16() { return cpu::has_bf16(); }

std::string kernel_table_digest(const CpuOptions& options) { return table_of(options).digest(); }

}  // namespace millrace
