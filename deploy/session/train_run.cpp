#include "deploy/session/train_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/exit_status.h"
#include "core/base/files.h"
#include "core/base/folder_lock.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "core/base/private_folder.h"
#include "core/cpu/cpu_cost_model.h"
#include "core/graph/recurrent_memory.h"
#include "deploy/devices/device_registry.h"
#include "deploy/session/calibration.h"
#include "deploy/session/job_files.h"
#include "deploy/session/quantities.h"
#include "deploy/session/ring_deal.h"
#include "deploy/session/ring_devices.h"
#include "deploy/session/ring_links.h"
#include "deploy/session/stop_signal.h"
#include "node/report/tensorboard.h"
#include "node/ring/ring_trainer.h"
#include "partitioner/planning/sample_word.h"
#include "transport/local/local_wire.h"
#include "transport/mpi/mpi_session.h"
#include "transport/mpi/mpi_wire.h"
#include "transport/shaping/shaped_wire.h"

namespace millrace {
namespace {

std::string devices_without_work(const Plan& plan) {
  std::string text;
  for (int64_t device = 0; device < plan.devices(); ++device)
    if (std::ranges::find(plan.shards, device, &Shard::device) == plan.shards.end())
      text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", device, item(plan.cluster.devices, device).device);
  return text;
}

// In blocks goes without saying.
std::string_view dealt(Deal deal) { return deal == Deal::kTurns ? " dealt in turns" : ""; }

void print_forecast(const TrainingTask& task, const TrainingForecast& forecast, Deal deal, const std::string& device) {
  const double epoch_seconds = forecast.seconds_per_update * static_cast<double>(forecast.updates_per_epoch);
  const double total_seconds = forecast.seconds_per_update * static_cast<double>(forecast.total_updates);
  const auto count = [](int64_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : std::string_view(what).ends_with("ch") ? "es" : "s");
  };
  fmt::print("{} on {}, {} on {}{}, {}\n", task.plan.model.name, task.job.data, count(task.plan.devices(), "device"),
             count(static_cast<int64_t>(forecast.memory.size()), "rank"), dealt(deal), device);
  fmt::print("  alignment             {}\n", name_of(task.plan.alignment));
  fmt::print("  mini-batch            {} ({} of {})\n", task.plan.mini_batch, count(task.plan.micro_batches(), "micro-batch"),
             task.plan.micro_batch);
  fmt::print("  parameters            {}\n", task.graph->parameter_count());
  fmt::print("  updates               {} per epoch, {} in all\n", forecast.updates_per_epoch, forecast.total_updates);
  fmt::print("  time per epoch        {:.1f} s, {:.1f} s in all (measured over {} updates, evaluation not included)\n", epoch_seconds,
             total_seconds, forecast.measured_updates);
  for (size_t r = 0; r < forecast.memory.size(); ++r) {
    const RankMemory& memory = forecast.memory[r];
    const SegmentMemory& segments = memory.segments;
    fmt::print("  memory of rank {:<6} {} (exact, of the tensors and messages)\n", r, bytes_text(memory.total()));
    fmt::print("    parameters {}, gradients {}, optimizer {}, activations {}, errors {}, slices of others {}, messages {}\n",
               bytes_text(segments.parameter_bytes), bytes_text(segments.gradient_bytes), bytes_text(segments.optimizer_bytes),
               bytes_text(segments.activation_bytes), bytes_text(segments.error_bytes), bytes_text(memory.slices),
               bytes_text(memory.transport));
  }
  // What limits recurrent networks: how much of every step has to be kept, and what fits into this machine.
  const int64_t machine_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const std::string recurrent = text_of(recurrent_memory(*task.graph), task.plan.mini_batch, machine_bytes);
  if (!recurrent.empty()) fmt::print("{}\n", recurrent);
}

std::string forecast_json(const TrainingTask& task, const TrainingForecast& forecast, Deal deal) {
  using json = nlohmann::ordered_json;
  const auto bytes = [](const RankMemory& memory) {
    return json{{"parameters", memory.segments.parameter_bytes},
                {"gradients", memory.segments.gradient_bytes},
                {"optimizer", memory.segments.optimizer_bytes},
                {"activations", memory.segments.activation_bytes},
                {"errors", memory.segments.error_bytes},
                {"slices", memory.slices},
                {"messages", memory.transport},
                {"total", memory.total()}};
  };
  json ranks = json::array();
  for (const RankMemory& memory : forecast.memory) ranks.push_back(bytes(memory));
  const json line = {{"event", "dry_run"},
                     {"model", task.plan.model.name},
                     {"parameters", task.graph->parameter_count()},
                     {"devices", task.plan.devices()},
                     {"deal", name_of(deal)},
                     {"updates_per_epoch", forecast.updates_per_epoch},
                     {"total_updates", forecast.total_updates},
                     {"seconds_per_update", forecast.seconds_per_update},
                     {"measured_updates", forecast.measured_updates},
                     {"memory_bytes", bytes(forecast.memory.front())},
                     {"memory_bytes_by_rank", ranks}};
  return line.dump() + "\n";
}

// Evaluations as plain lines for people; --json prints every record instead.
class EvaluationLines : public MetricsSink {
 public:
  void write(const MetricsRecord& record) override {
    if (record.event != "evaluation") return;
    const auto number = [&record](std::string_view name) {
      for (const auto& [key, value] : record.values)
        if (key == name) {
          if (const auto* real = std::get_if<double>(&value.content)) return *real;
          if (const auto* whole = std::get_if<int64_t>(&value.content)) return static_cast<double>(*whole);
        }
      return 0.0;
    };
    const double bits = number("bits_per_character");
    log::info("epoch {:.2f}: test loss {:.4f}, test accuracy {:.2f}%{}", number("epoch"), number("loss"), 100 * number("accuracy"),
              bits > 0 ? fmt::format(", {:.3f} bits per character", bits) : "");
  }
};

void print_outcome(const TrainingTask& task, const TrainingOutcome& outcome) {
  fmt::print("{} on {}: test accuracy {:.2f}% of {} samples, loss {:.4f}, after {} updates ({:.2f} epochs)\n", task.plan.model.name,
             task.job.data, 100 * outcome.test.accuracy, outcome.test.samples, outcome.test.loss, outcome.steps, outcome.epochs);
  fmt::print("{:.0f} {}/s training, {:.1f} s in all (measured); ended by {}; weights {}\n", outcome.images_per_second,
             sample_word(Graph(task.plan.model)).many, outcome.seconds, outcome.reason, outcome.weights_digest);
  if (!task.job.out.empty()) fmt::print("run folder: {}\n", task.job.out);
}

// mpirun leaves a second between its SIGTERM and the end: time to name what is there, hardly to make more.
void name_newest_checkpoint(const std::string& out, const std::filesystem::path& newest) {
  set_last_words(newest.empty() ? fmt::format("millrace: SIGTERM: {} has no checkpoint yet, and there may be no time for one", out)
                                : fmt::format("millrace: SIGTERM: the newest checkpoint is {}, and there may be no time for another; "
                                              "millrace train --resume {} goes on from it",
                                              newest.string(), out));
}

int status_of(const TrainingOutcome& outcome, const std::string& out) {
  if (!outcome.interrupted) return kExitDone;
  if (!out.empty()) return kExitInterrupted;
  log::error("interrupted before the end, and without --out nothing is saved");
  return kExitFailed;
}

// Before the first update there is nothing to save.
int status_of_stopped_start(const std::string& out, bool speaks) {
  if (!speaks) return kExitDone;
  if (!out.empty() && std::filesystem::exists(std::filesystem::path(out) / "job.textproto")) {
    log::warning("interrupted before the first update; {} is as it was, and --resume goes on from there", out);
    return kExitInterrupted;
  }
  log::error("interrupted before the first update: nothing is saved, start it again");
  return kExitFailed;
}

TransportSettings transport_settings(const TrainRequest& request) {
  return {.deadline = std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(request.deadline_seconds)),
          .checksums = request.checksums};
}

// By name.
int64_t hosts_of(Agreement& agreement, const std::string& mine) {
  const std::vector<std::string> all = agreement.gather("hosts", mine);
  const std::string count = fmt::format("{}", std::set<std::string>(all.begin(), all.end()).size());
  return std::stoll(agreement.broadcast("hosts", count));
}

// The ring as `wire` joins it, with a column of replicas or none. Returns the exit status: that of the rank that speaks says how it ended.
// `here`: the job with the files that it names as this rank reads them; `host`: where it runs.
int train_on(const TrainRequest& request, const Job& here, const std::string& host, std::unique_ptr<Wire> wire,
             std::unique_ptr<Wire> column_wire) {
  const TransportSettings settings = transport_settings(request);
  const bool speaks = wire->rank() == 0 && (!column_wire || column_wire->rank() == 0);
  TrainingSignals* const signals = request.dry_run ? nullptr : &listen_to_signals();
  const auto stops = [&] {
    const std::chrono::duration<double> running = std::chrono::steady_clock::now() - request.begun;
    return signals != nullptr && (signals->stop || (here.time_limit_seconds > 0 && running.count() >= here.time_limit_seconds));
  };
  TrainingTask task;
  DeviceOptions device_options = request.devices;
  device_options.threads = static_cast<int>(request.job.threads);
  DeviceLinks links(link_settings(request.links, wire->ranks(), request.shape_links, device_options));  // before CUDA is asked anything
  std::exception_ptr unprepared;
  // Before anybody talks: links whose shape needs the plan, and devices that take long to prepare, while nobody waits.
  const bool planned_alone = request.shape_links || job_needs_preparation(here);
  if (planned_alone && request.measure)
    throw SharedError(ErrorCode::kUsage,
                      "--measure: every rank of this ring plans before ranks talk, and would have rates of its own; measure with millrace "
                      "doctor --measure --catalogue-out FILE, plan with --catalogue FILE, and give --plan");
  if (planned_alone) {
    try {
      // Nobody can be asked yet what the others are: figures that do not depend on it.
      task = prepare_task(here, planner_of(request.accounting, "avx512_core"));
    } catch (const Error& error) {  // the others have it, too
      throw SharedError(error.code(), error.what());
    }
    if (request.shape_links) wire = std::make_unique<ShapedWire>(std::move(wire), link_shapes(task.plan));
    try {
      prepare_ring_devices(task.plan, wire->rank(), device_options);
    } catch (const Error&) {
      unprepared = std::current_exception();
    }
  }
  bool stopped = false;
  std::string rates;  // all ranks plan with the first one's; all measure at once, as they will compute
  if (request.measure) {
    try {
      rates = measured_rates(here, stops);
      stopped = stops();
    } catch (const Error& error) {  // the others have it, too
      throw SharedError(error.code(), error.what());
    }
  }
  Transport transport(links.over(std::move(wire)), settings);
  Agreement agreement(transport);
  if (request.measure && anywhere(agreement, "end of measuring", stopped)) {
    agreement.close();
    return status_of_stopped_start(request.job.out, speaks);
  }
  if (!planned_alone) {
    const std::string instruction_set = agreement.broadcast("instruction set", cpu_instruction_set());
    const std::filesystem::path kept = std::filesystem::path(request.resume) / kRatesOfRun;
    together(agreement, "reading the run's rates", [&] {
      if (transport.rank() == 0 && rates.empty() && !request.resume.empty() && std::filesystem::exists(kept)) rates = read_text(kept);
    });
    rates = agreement.broadcast("rates", rates);
    together(agreement, "preparing the training",
             [&] { task = prepare_task(here, planner_of(request.accounting, instruction_set, rates)); });
  }
  task.job = request.job;
  together(agreement, "preparing the devices", [&] {
    if (unprepared) std::rethrow_exception(unprepared);
  });
  std::optional<FolderLock> lock;
  together(agreement, "locking the run's folder", [&] {
    if (!speaks || request.dry_run || request.job.out.empty()) return;
    refuse_planted_folder(request.job.out);
    lock.emplace(request.job.out, "a training");
  });
  together(agreement, "looking for GPUs", [&] {
    refuse_idle_cpu_precision(task.plan, device_options);
    refuse_missing_gpus(task.plan, device_options);
  });
  if (speaks) {
    for (const std::string& note : task.notes) log::info("{}", note);
    if (request.job.time_chunks == 0)
      log::info("sequences are taken {}, micro-batch {} (chosen)",
                task.plan.time_chunks == 1 ? "whole" : fmt::format("in {} chunks of time", task.plan.time_chunks), task.plan.micro_batch);
    if (const std::string idle = devices_without_work(task.plan); !idle.empty() && request.job.strategy == name_of(Strategy::kKind))
      log::info("no work for device {}: the ring is faster without; --divide boards gives every board some", idle);
    warn_of_threads(request.job.threads);
    for (const std::string& note : notes_on_devices(task.plan, device_options)) log::info("{}", note);
  }

  FixedPointRun fixed_point(task, {.calibrate = request.calibrate,
                                   .formats = request.formats,
                                   .resumed = !request.resume.empty(),
                                   .keeps = !request.dry_run,
                                   .limits = {.stop = signals == nullptr ? nullptr : &signals->stop, .begun = request.begun}});
  const OpenDevice open = [&](int64_t index) { return fixed_point.prepared(open_ring_device(task.plan, index, device_options)); };
  TrainerOptions options;
  std::string first_device;
  std::unique_ptr<Device> first;
  together(agreement, "opening the first device", [&] {
    first = open_ring_device(task.plan, 0, device_options);
    first_device = first->description();
    options.fingerprint = fingerprint_of(computing_kind(task.plan.cluster.devices.front().device, device_options), *first, device_options);
  });
  first.reset();
  if (!fixed_point.choose_formats(agreement, some_have_formats(task.plan, device_options), speaks)) {
    agreement.close();
    return status_of_stopped_start(request.job.out, speaks);
  }
  if (const std::string formats = fixed_point.described_formats(); !formats.empty()) options.fingerprint[kFormatsOfRun] = formats;
  options.rates = rates;
  options.report = [&fixed_point] { return fixed_point.report(); };
  options.links = &links;
  options.resume = request.resume;
  options.log_every = request.log_every;
  options.begun = request.begun;
  options.trace = request.trace;
  options.times = request.times;
  options.log_samples = request.log_samples;
  options.pace = request.pace;
  options.computes_on_thread = std::ranges::all_of(task.plan.cluster.devices, [&](const auto& device) {
    return device_kind(computing_kind(device.device, device_options)).on_calling_thread;
  });
  MetricsStream json_lines(stdout);
  EvaluationLines lines;
  options.sinks = {request.json ? static_cast<MetricsSink*>(&json_lines) : &lines};
  std::unique_ptr<TensorBoardFile> board;
  if (speaks && !request.dry_run && !request.job.out.empty()) {
    board = std::make_unique<TensorBoardFile>(std::filesystem::path(request.job.out) / "tensorboard");
    options.sinks.push_back(board.get());
  }
  if (signals != nullptr) {
    options.signals = {.stop = &signals->stop,
                       .checkpoint = &signals->checkpoint,
                       .shared_checkpoints = &signals->shared_checkpoints,
                       .describe = &signals->describe,
                       .any = &signals->any};
    if (speaks && MpiSession::launched() && !request.job.out.empty()) {
      name_newest_checkpoint(request.job.out, {});
      options.saved = [out = request.job.out](const std::filesystem::path& folder) { name_newest_checkpoint(out, folder); };
    }
  }
  const RankPlaces places{.ranks = transport.ranks(),
                          .hosts = hosts_of(agreement, host),
                          .replicas = task.job.replicas,
                          .on_processors = options.computes_on_thread};
  together(agreement, "dealing the devices to the ranks", [&] { options.deal = chosen_deal(request.deal, task.plan, places); });
  std::unique_ptr<Transport> column_transport;
  std::unique_ptr<ReplicaColumn> column;
  if (column_wire) {
    column_transport = std::make_unique<Transport>(std::move(column_wire), settings);
    column = std::make_unique<ReplicaColumn>(*column_transport);
    options.column = column.get();
  }

  RingTrainer trainer(task, transport, agreement, open, options);
  if (request.dry_run) {
    const TrainingForecast forecast = trainer.forecast();
    if (!speaks) return kExitDone;
    if (request.json)
      fmt::print("{}", forecast_json(task, forecast, options.deal));
    else
      print_forecast(task, forecast, options.deal, first_device);
    return kExitDone;
  }
  const TrainingOutcome outcome = trainer.run();
  if (!speaks) return kExitDone;
  if (!request.json) print_outcome(task, outcome);
  std::vector<std::string> unwritten = outcome.unwritten;
  try {
    const std::string arithmetic = fixed_point.finish(outcome.reports);
    if (!request.json && !arithmetic.empty()) fmt::print("{}\n", arithmetic);
  } catch (const Error& error) {
    unwritten.emplace_back(error.what());
  }
  for (const std::string& problem : unwritten) log::error("{}", problem);
  return unwritten.empty() || outcome.interrupted ? status_of(outcome, task.job.out) : kExitFailed;
}

int train_as_rank(const TrainRequest& asked, MpiSession& session) {
  try {
    TrainRequest request = asked;
    std::optional<JobFiles> files;
    if (request.read_job || may_name_files(request.job)) {
      Transport transport(make_ring_wire(session.world()), transport_settings(request));
      Agreement agreement(transport);
      if (request.read_job) {
        together(agreement, "reading the job", [&] {
          if (session.rank() == 0) request.job = request.read_job();
        });
        request.job = parse_job(agreement.broadcast("job", session.rank() == 0 ? text_of(request.job) : ""), "the job of rank 0");
      }
      files.emplace(agreement, request.job);
      agreement.close();
    }
    const Job& here = files ? files->here() : request.job;
    const int64_t replicas = request.job.replicas;
    try {
      refuse_idle_links(request.links, session.ranks() / std::max<int64_t>(1, replicas), request.shape_links);
    } catch (const Error& error) {
      throw SharedError(error.code(), error.what());
    }
    if (session.ranks() % replicas != 0)
      throw SharedError(
          ErrorCode::kUsage,
          fmt::format("--replicas {}: {} ranks cannot be divided into so many rings; start {} or {}", replicas, session.ranks(),
                      std::max<int64_t>(1, session.ranks() / replicas) * replicas, (session.ranks() / replicas + 1) * replicas));
    const int64_t ring = session.ranks() / replicas;
    if (replicas == 1) {
      return train_on(request, here, session.host(), make_ring_wire(session.world()), nullptr);
    }
    const MpiGroup mine = session.split(session.rank() / ring, session.rank());
    const MpiGroup column = session.split(session.rank() % ring, session.rank());
    return train_on(request, here, session.host(), make_ring_wire(mine), make_ring_wire(column));
  } catch (const SharedError&) {
    MpiSession::wait_for_first_rank();
    throw;
  }
}

}  // namespace

int run_training(const TrainRequest& asked) {
  TrainRequest request = asked;
  if (request.read_job && !MpiSession::launched()) request.job = request.read_job();
  if (MpiSession::launched()) {
    const MpiSettings settings{.deadline =
                                   std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(request.deadline_seconds))};
    return run_with_mpi(settings, [&](MpiSession& session) { return train_as_rank(request, session); });
  }
  refuse_idle_links(request.links, 1, request.shape_links);
  if (request.job.replicas != 1)
    fail(ErrorCode::kUsage, "{} needs a rank for every ring: mpirun -n {} millrace train ...{}",
         request.job.plan.empty() ? fmt::format("--replicas {}", request.job.replicas)
                                  : fmt::format("{}, of one of {} rings side by side,", request.job.plan, request.job.replicas),
         request.job.replicas, request.job.plan.empty() ? "" : "; or plan a single ring with --replicas 1");
  return train_on(request, request.job, "here", make_loopback_wire(0, 1), nullptr);
}

}  // namespace millrace
