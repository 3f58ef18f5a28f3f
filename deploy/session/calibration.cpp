#include "deploy/session/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/plan/assemble.h"
#include "core/reference/reference_device.h"
#include "core/train/checkpoint_manifest.h"
#include "fpga/calibration/format_choice.h"
#include "fpga/conv_ce/arithmetic/formats_file.h"
#include "fpga/emulated/arithmetic_report.h"
#include "node/ring/ring_trainer.h"
#include "node/ring/together.h"

namespace millrace {

namespace {

// The same training on one device, without an evaluation worth its time.
TrainingTask measured_task(const TrainingTask& task) {
  TrainingTask small;
  small.job = task.job;
  small.job.out.clear();
  small.job.checkpoint_every = 0;
  small.job.evaluate_every_epochs = 0;
  small.job.replicas = 1;
  small.job.threads = 1;
  small.data = task.data;
  Dataset& test = small.data.test;
  test.labels.resize(std::min(test.labels.size(), to_size(task.plan.micro_batch)));
  small.transform = task.transform;
  small.graph = std::make_unique<Graph>(task.plan.model);
  PlanRequest request;
  request.cluster = find_cluster("reference");
  request.alignment = Alignment::kOneForwardOneBackward;
  request.mini_batch = task.plan.mini_batch;
  request.micro_batch = task.plan.micro_batch;
  request.optimizer = task.plan.optimizer;
  request.windows = {1};
  small.plan = single_device_plan(*small.graph, request);
  return small;
}

std::filesystem::path formats_file(const TrainingTask& task) { return std::filesystem::path(task.job.out) / "formats.txt"; }

std::string text_at(const nlohmann::json& document, const char* name) {
  return document.is_object() && document.contains(name) && document[name].is_string() ? document[name].get<std::string>() : "";
}

// What the run says of its formats: before its first checkpoint in its fingerprint, and then in each of those. Empty: it has none.
std::string recorded_formats(const std::filesystem::path& out) {
  const auto recorded = [](const std::filesystem::path& file, const char* within) -> std::string {
    std::error_code none;
    if (!std::filesystem::exists(file, none)) return "";
    const nlohmann::json document = nlohmann::json::parse(read_text(file), nullptr, /*allow_exceptions=*/false);
    if (within == nullptr) return text_at(document, kFormatsOfRun);
    return document.is_object() && document.contains(within) ? text_at(document[within], kFormatsOfRun) : "";
  };
  std::string text = recorded(out / "fingerprint.json", nullptr);
  const std::filesystem::path checkpoints = out / "checkpoints";
  if (!text.empty() || !std::filesystem::is_directory(checkpoints)) return text;
  for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
    if (text.empty()) text = recorded(entry.path() / kManifestName, "attributes");
  return text;
}

std::string described(const LayerFormats& formats) {
  const auto range = [&formats](FixedFormat EngineFormats::*format) {
    int least = kMostFractionBits, most = 0;
    for (const auto& [layer, one] : formats) {
      least = std::min(least, (one.*format).fraction_bits);
      most = std::max(most, (one.*format).fraction_bits);
    }
    return least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  };
  return fmt::format("fraction bits of activations {}, weights {}, errors {}", range(&EngineFormats::sum), range(&EngineFormats::weight),
                     range(&EngineFormats::error));
}

}  // namespace

std::optional<LayerFormats> calibrated_formats(const TrainingTask& task, int64_t updates, const CalibrationLimits& limits) {
  const TrainingTask small = measured_task(task);
  NumberRanges ranges;
  const TrainingOutcome outcome =
      train_alone(small, [&ranges](int64_t) { return make_measuring_device(make_reference_device(ElementType::kFloat32), ranges); },
                  {.signals = {.stop = limits.stop}, .stop_after = updates, .bar = "calibrating", .begun = limits.begun});
  if (outcome.interrupted) return std::nullopt;
  // Of several replicas each makes its share of the error.
  const auto replicas = static_cast<double>(task.job.replicas);
  for (auto& [layer, seen] : ranges)
    for (double* of_errors : {&seen.output_error, &seen.input_error, &seen.gradient, &seen.bias_gradient}) *of_errors /= replicas;
  return chosen_formats(*task.graph, ranges, 1 / (static_cast<double>(task.plan.mini_batch) * replicas), {});
}

// Asked for or kept in the run's folder: the text of their file, empty where there is none.
std::string FixedPointRun::known_formats(bool wanted) const {
  if (!request_.formats.empty()) return read_text(request_.formats);
  if (!request_.resumed) return "";
  const std::filesystem::path out = task_.job.out;
  if (std::filesystem::exists(formats_file(task_))) return read_text(formats_file(task_));
  if (wanted && !std::filesystem::exists(out / "job.textproto"))
    fail(ErrorCode::kNotFound,
         "{}: the first rank of a replica does not see this folder, which may hold its devices' formats; put those "
         "ranks where it is seen",
         out.string());
  return "";
}

std::string FixedPointRun::described_formats() const {
  return formats_.empty() ? "" : fmt::format("{} layers, {}", formats_.size(), digest_of(text_of(formats_)));
}

// Others would be chosen silently, and the weights be none that this run could have had.
void FixedPointRun::require_formats_of_run() const {
  const std::string recorded = recorded_formats(task_.job.out), found = described_formats();
  if (recorded.empty() || recorded == found) return;
  fail(
      ErrorCode::kMismatch,
      "{}: {}, and the run is trained in formats of its own ({}); put that file back from a copy of the run, or begin another one from its "
      "weights: --init-from {} with --formats or --calibrate",
      formats_file(task_).string(), found.empty() ? "holds no formats" : fmt::format("holds others ({})", found), recorded, task_.job.out);
}

bool FixedPointRun::choose_formats(Agreement& agreement, bool wanted, bool speaks) {
  std::string text;
  together(agreement, "choosing formats", [&] {
    if ((request_.calibrate > 0 || !request_.formats.empty()) && !wanted)
      fail(ErrorCode::kUsage,
           "{}: every device of the ring computes in floating point and has no formats; leave it out, or choose a --cluster with "
           "emulated-fpga",
           request_.calibrate > 0 ? fmt::format("--calibrate {}", request_.calibrate) : "--formats " + request_.formats);
    if (request_.calibrate == 0 && agreement.rank() == 0) text = known_formats(wanted);
  });
  text = agreement.broadcast("formats", text);
  const std::string origin = request_.formats.empty() ? formats_file(task_).string() : "--formats " + request_.formats;
  bool stopped = false;
  together(agreement, "choosing formats", [&] {
    if (request_.calibrate > 0) {
      std::optional<LayerFormats> calibrated = calibrated_formats(task_, request_.calibrate, request_.limits);
      stopped = !calibrated;
      formats_ = std::move(calibrated).value_or(LayerFormats{});
    } else if (!text.empty()) {
      formats_ = parse_formats(text, origin);
    }
    for (const auto& [layer, formats] : formats_)
      if (std::ranges::none_of(task_.plan.model.layers, [&layer = layer](const Layer& known) { return known.name == layer; }))
        fail(ErrorCode::kMismatch, "{}: model \"{}\" has no layer \"{}\"", origin, task_.plan.model.name, layer);
  });
  if (request_.calibrate > 0 && anywhere(agreement, "end of calibrating", stopped)) return false;
  together(agreement, "keeping formats", [&] {
    if (request_.resumed && wanted && agreement.rank() == 0) require_formats_of_run();
    const std::filesystem::path out = task_.job.out;
    if (!speaks || !request_.keeps || formats_.empty() || out.empty() || std::filesystem::exists(out / "job.textproto")) return;
    make_folders(out);
    write_atomically(formats_file(task_), text_of(formats_));
  });
  agreement.require_equal("formats", digest_of(text_of(formats_)));
  if (speaks && !formats_.empty())
    log::info("formats of {} layers {}: {}", formats_.size(),
              request_.calibrate > 0 ? fmt::format("from {} update{} in fp32", request_.calibrate, request_.calibrate == 1 ? "" : "s")
                                     : "from " + (request_.formats.empty() ? formats_file(task_).string() : request_.formats),
              described(formats_));
  return true;
}

std::unique_ptr<Device> FixedPointRun::prepared(std::unique_ptr<Device> device) {
  auto* fpga = dynamic_cast<EmulatedFpga*>(device.get());
  if (fpga == nullptr || fpga->compute_type() != ElementType::kFixed16) return device;
  fpga->use_formats(formats_);
  devices_.push_back(fpga);
  return device;
}

std::string FixedPointRun::report() const {
  std::string text;
  for (const EmulatedFpga* device : devices_) text += text_of(device->counters());
  return text;
}

std::string FixedPointRun::finish(const std::vector<std::string>& reports) const {
  const std::vector<TensorArithmetic> arithmetic = merged_arithmetic(reports);
  if (arithmetic.empty()) return "";
  if (!task_.job.out.empty())
    write_atomically(std::filesystem::path(task_.job.out) / "arithmetic.json", std::string_view(arithmetic_json(arithmetic)));
  return arithmetic_summary(arithmetic);
}

}  // namespace millrace
