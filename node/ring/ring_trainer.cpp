#include "node/ring/ring_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "core/base/error.h"
#include "core/base/files.h"
#include "core/base/log.h"
#include "core/base/writable.h"
#include "core/graph/graph.h"
#include "core/plan/time_chunking.h"
#include "core/train/segment_state.h"
#include "core/train/torch_names.h"
#include "node/ring/flow_report.h"
#include "node/ring/plan_changes.h"
#include "node/ring/slice_state.h"
#include "transport/local/local_wire.h"
#include "transport/streams/ring_layout.h"

namespace millrace {

namespace {

// A few updates at a learning rate of zero, to see how long they take.
class Rehearsal final : public Conductor {
 public:
  explicit Rehearsal(int64_t replica) : replica_(replica) {}
  std::optional<Decision> decide(int64_t mini_batch) override {
    constexpr std::chrono::duration<double> kLongEnough{1.0};
    constexpr int64_t kMost = 20;
    // Replicas must agree without talking: they count, and do not look at the clock.
    const bool enough = replica_ < 0 ? begun_ && Clock::now() - started_ > kLongEnough : mini_batch >= 2;
    return Decision{.last = mini_batch >= kMost || (mini_batch > 0 && enough)};
  }
  void updated(int64_t mini_batch) override {
    if (mini_batch == 0) started_ = Clock::now();  // the first one allocates
    begun_ = true;
    updates_ = mini_batch;
    ended_ = Clock::now();
  }
  void scored(int64_t, const Score&) override {}
  void evaluated(int64_t, const Score&) override {}
  void gradient_norm(int64_t, double) override {}
  void saved(int64_t, SaveAssembler&) override {}
  bool step() override { return false; }
  bool finished() override { return true; }
  void stop_requested() override {}
  void checkpoint_requested() override {}

  int64_t updates() const { return updates_; }
  double seconds() const { return std::chrono::duration<double>(ended_ - started_).count(); }

 private:
  using Clock = std::chrono::steady_clock;
  int64_t replica_;
  Clock::time_point started_, ended_;
  bool begun_ = false;
  int64_t updates_ = 0;
};

std::string text_of(const RankMemory& memory) {
  return fmt::format("{} {} {} {} {} {} {}", memory.segments.parameter_bytes, memory.segments.gradient_bytes,
                     memory.segments.optimizer_bytes, memory.segments.activation_bytes, memory.segments.error_bytes, memory.slices,
                     memory.transport);
}

RankMemory memory_from(const std::string& text) {
  RankMemory memory;
  std::istringstream stream(text);
  stream >> memory.segments.parameter_bytes >> memory.segments.gradient_bytes >> memory.segments.optimizer_bytes >>
      memory.segments.activation_bytes >> memory.segments.error_bytes >> memory.slices >> memory.transport;
  return memory;
}

}  // namespace

RingTrainer::RingTrainer(const TrainingTask& task, Transport& transport, Agreement& agreement, OpenDevice open_device,
                         TrainerOptions options)
    : task_(task),
      transport_(transport),
      open_device_(std::move(open_device)),
      options_(std::move(options)),
      plan_(run_plan(task.plan)),
      flows_(ring_flows(plan_, *task.graph)),
      agreement_(agreement),
      course_(task),
      first_ring_(options_.column == nullptr || options_.column->replica() == 0) {
  if (options_.column != nullptr) column_agreement_.emplace(options_.column->transport());
  if (!options_.trace.empty()) trace_ = std::make_unique<Trace>();
  // What is slept out is no processor time.
  if (!options_.times.empty()) watch_ = std::make_unique<ActionStopwatch>(options_.computes_on_thread && options_.pace.empty());
}

RingTrainer::~RingTrainer() = default;

void RingTrainer::refuse_what_does_not_fit() const {
  const Job& job = task_.job;
  ring_layout(plan_.devices(), transport_.ranks(), options_.deal);  // every rank has a device
  if (plan_.time_chunks > 1 && !(options_.times.empty() && options_.pace.empty()))
    fail(ErrorCode::kUsage, "--times-out and --pace take whole samples: train, or plan, with --time-chunks 1");
  if (job.clip == ClipKind::kGlobalNorm && !drains(plan_.alignment))
    fail(ErrorCode::kUsage,
         "--clip-norm with alignment {}: devices update at different times, so there is no moment at which the norm of all gradients is "
         "known; use --clip-value, or an alignment that drains (flush, 1f1b, zero-bubble)",
         name_of(plan_.alignment));
  if (job.label_smoothing > 0 && !std::holds_alternative<SoftmaxCrossEntropy>(task_.graph->node(task_.graph->loss()).layer.operation))
    fail(ErrorCode::kUsage, "--label-smoothing has no effect: the loss of model \"{}\" is not softmax_cross_entropy; leave it out",
         plan_.model.name);
  const double warmup_updates = job.learning_rate.warmup_epochs * static_cast<double>(course_.updates_per_epoch());
  // What stops early stands for a part of a training whose updates need not be as large.
  if (options_.stop_after == 0 && job.steps > 0 && warmup_updates > static_cast<double>(job.steps))
    fail(ErrorCode::kUsage, "--warmup {}: that is {:.6g} updates, more than the {} of --steps; lower one or raise the other",
         job.learning_rate.warmup_epochs, warmup_updates, job.steps);
  check_time_chunks(plan_.time_chunks, *task_.graph);
  if (job.replicas > 1)
    for (const Layer& layer : plan_.model.layers)
      if (traits_of(layer.operation).keeps_state)
        fail(ErrorCode::kUsage, "layer \"{}\" is stateful: what it carries belongs to one ring, so it trains with --replicas 1",
             layer.name);
}

// Known before the first update; where less is trained than was asked for, it is too late.
void RingTrainer::refuse_times_of_one_update(const CheckpointContent* resumed) const {
  if (options_.times.empty()) return;
  const int64_t total = (resumed == nullptr ? course_ : Course(task_, resumed->facts)).total_updates();
  const int64_t ahead = std::max<int64_t>(0, total - (resumed == nullptr ? 0 : resumed->facts.step));
  if (ahead < 2)
    fail(ErrorCode::kUsage, "--times-out: {} ahead, and the first one allocates; train for two at least: raise --epochs or --steps",
         ahead == 0 ? "no updates are" : "a single update is");
}

void RingTrainer::agree_on_everything() {
  agreement_.require_equal("plan", digest_of(text_of(plan_)));
  agreement_.require_equal("job", digest_of(text_of(task_.job)));
  agreement_.require_equal("training samples", fmt::format("{}", task_.data.train.size()));
  agreement_.require_equal("dealing of devices to ranks", std::string(name_of(options_.deal)));
  together(agreement_, "checking the task", [this] { refuse_what_does_not_fit(); });
  agreement_.require_equal("pace", options_.pace.empty() ? "none" : "given");
  if (!options_.pace.empty()) together(agreement_, "the pace", [this] { load_pace(); });
}

// Flows of links that take NCCL stay on their devices.
void RingTrainer::choose_links(const DevicesHere& devices) {
  if (options_.links == nullptr || plan_.devices() == 1) return;
  DeviceLinks& links = *options_.links;
  const std::vector<LinkDevice> mine = link_devices(plan_, *task_.graph, devices);
  const std::vector<LinkChoice>& chosen = links.choose(transport_, agreement_, plan_.devices(), mine);
  const std::string refusal = refusal_of(chosen, links.settings().use);
  if (!refusal.empty()) throw SharedError(ErrorCode::kInfeasible, refusal);
  keep_on_devices(flows_.table, plan_, chosen, transport_.settings().eager_bytes);
  if (speaks() && links.had_choice()) log::info("{}", text_of(chosen));
}

void RingTrainer::make_rank(const CheckpointContent* resumed) {
  if (resumed != nullptr) course_ = Course(task_, resumed->facts);
  DevicesHere devices;
  together(agreement_, "opening the devices", [&] {
    for (const int64_t d : ring_layout(plan_.devices(), transport_.ranks(), options_.deal).devices_of(transport_.rank()))
      devices[d] = open_device_(d);
  });
  choose_links(devices);
  transport_.open(flows_.table, options_.deal);
  const OpenDevice hand_over = [&devices](int64_t index) { return std::move(devices.at(index)); };
  together(agreement_, "building the segments", [&] {
    RingContext context;
    context.task = &task_;
    context.course = &course_;
    context.run = &plan_;
    context.transport = &transport_;
    context.trace = trace_.get();
    context.watch = watch_.get();
    context.pace = pace_ ? &*pace_ : nullptr;
    context.replica = options_.column == nullptr ? 0 : options_.column->replica();
    context.first_mini_batch = resumed == nullptr ? 0 : resumed->facts.step;
    rank_ = std::make_unique<Rank>(context, flows_, hand_over, options_.signals, options_.column);
  });
}

// Of the rank that speaks: to the first rank of every ring, and from there to its ring.
HandedOut RingTrainer::hand_out(std::string_view what, const std::filesystem::path& path) {
  HandedOut from_first;
  if (column_agreement_ && transport_.rank() == 0) from_first = HandedOut(*column_agreement_, what, path);
  const std::filesystem::path here = column_agreement_ ? from_first.path() : path;
  if (!from_first.is_copy()) return {agreement_, what, here};
  HandedOut to_ring(agreement_, what, here);
  return from_first;
}

// The newest complete checkpoint: the first ring's rank 0 says which, every rank reads it by itself, or a copy.
std::optional<CheckpointContent> RingTrainer::find_checkpoint() {
  std::string folder;
  together(agreement_, "looking for the checkpoint", [&] {
    if (!speaks() || options_.resume.empty()) return;
    if (stopped_before_its_first_checkpoint(options_.resume))
      log::info("{} has no checkpoint yet: training starts from the beginning", options_.resume.string());
    else
      folder = locate_checkpoint(options_.resume).string();
  });
  const HandedOut here = hand_out("checkpoint", folder);
  if (here.path().empty()) return std::nullopt;
  std::optional<CheckpointContent> content;
  together(agreement_, "reading the checkpoint", [&] {
    content = read_checkpoint(here.path());
    const CheckpointFacts& facts = content->facts;
    const std::string changes = speaks() ? text_of_changes(facts, options_.resume / "plan.textproto", task_.plan, task_.job.data) : "";
    if (!changes.empty()) log::warning("{}: training goes on from the checkpoint's weights, not bitwise as it would have", changes);
    if (facts.seed != task_.job.seed)
      fail(ErrorCode::kMismatch, "the checkpoint was written with seed {}, this run asks for {}; leave --seed out when resuming",
           facts.seed, task_.job.seed);
    if (facts.optimizer.kind != plan_.optimizer.kind)
      fail(ErrorCode::kMismatch,
           "the checkpoint was written with optimizer {}, this run asks for {}; leave --optimizer out when resuming, or start "
           "anew from its weights with --init-from",
           name_of(facts.optimizer.kind), name_of(plan_.optimizer.kind));
  });
  return content;
}

void RingTrainer::open_rank(const CheckpointContent* resumed) {
  make_rank(resumed);
  std::filesystem::path given;
  together(agreement_, "looking for the weights", [&] {
    const std::filesystem::path from = task_.job.init_from;
    if (resumed != nullptr || !speaks() || from.empty()) return;
    if (!std::filesystem::exists(from)) fail(ErrorCode::kNotFound, "{}: no such file or folder to take weights from", from.string());
    given = std::filesystem::is_directory(from) ? locate_checkpoint(from) : from;
  });
  // Whoever is alone reads what is the newest by then: a training that goes on there may have removed what was found. Ranks must read the
  // same.
  const bool alone = agreement_.ranks() == 1 && !column_agreement_;
  const HandedOut weights = alone ? HandedOut() : hand_out("weights", given);
  const std::filesystem::path here = alone ? std::filesystem::path(task_.job.init_from) : weights.path();
  together(agreement_, "loading the weights", [&] {
    if (resumed != nullptr) return rank_->restore(*resumed);
    rank_->initialize(task_.job.seed);
    if (task_.job.init_from.empty()) return;
    const WeightsFit fit = fit_weights(*task_.graph, load_weights(here));
    if (fit.taken.empty())
      fail(ErrorCode::kMismatch,
           "{}: no tensor has the name and shape of a parameter of model \"{}\"; choose the --model they were trained with",
           task_.job.init_from, plan_.model.name);
    rank_->take_weights(fit.taken);
    if (!speaks()) return;
    log::info("{} tensors start from {}", fit.taken.size(), task_.job.init_from);
    for (const std::string& note : fit.notes()) log::warning("{}: {}", task_.job.init_from, note);
  });
}

TrainingOutcome RingTrainer::run() {
  agree_on_everything();
  const std::filesystem::path out = task_.job.out;
  together(agreement_, "the run's folder", [&] {
    if (!speaks()) return;
    // The trace is written at the end, which is too late to hear that there is no place for it.
    require_writable("--trace", options_.trace);
    require_writable("--times-out", options_.times);
    if (out.empty() || !options_.resume.empty()) return;
    if (std::filesystem::exists(out / "job.textproto") || std::filesystem::exists(out / "checkpoints"))
      fail(ErrorCode::kUsage, "{} already holds a run; choose another --out, or continue it with --resume {}", out.string(), out.string());
  });
  const std::optional<CheckpointContent> resumed = find_checkpoint();
  const CheckpointContent* const from = resumed ? &*resumed : nullptr;
  together(agreement_, "checking the task", [&] { refuse_times_of_one_update(from); });
  open_rank(from);
  tell_memory();
  const bool nothing_left = from != nullptr && from->facts.step >= course_.total_updates();
  if (nothing_left) rank_->evaluate_only();

  std::unique_ptr<Conductor> conductor;
  TrainingLead* lead = nullptr;
  if (speaks()) {
    LeadOptions options{.sinks = options_.sinks,
                        .fingerprint = options_.fingerprint,
                        .rates = options_.rates,
                        .log_every = options_.log_every,
                        .stop_after = options_.stop_after,
                        .saved = options_.saved,
                        .log_samples = options_.log_samples,
                        .bar = options_.bar,
                        .begun = options_.begun};
    if (options_.column != nullptr)
      options.announce = [column = options_.column](int64_t mini_batch, const Decision& decision) {
        column->announce(mini_batch, decision);
      };
    auto made = std::make_unique<TrainingLead>(task_, course_, std::move(options));
    lead = made.get();
    conductor = std::move(made);
  } else if (transport_.rank() == 0) {
    conductor = std::make_unique<Follower>(*options_.column);
  }
  together(agreement_, "the run's folder", [&] {
    if (lead != nullptr) lead->start(from);
  });
  TrainingOutcome outcome;
  try {
    rank_->run(conductor.get());
    if (lead != nullptr) outcome = lead->outcome();
  } catch (const Error& error) {
    transport_.abort(error);
    if (lead == nullptr) throw;
    rank_->collect();
    throw lead->explained(error);
  }
  // The training is done: what cannot be written of how it went must not hide what came of it, nor keep the rest from being written.
  const auto written = [&outcome](const auto& write) {
    try {
      write();
    } catch (const Error& error) {
      outcome.unwritten.emplace_back(error.what());
    }
  };
  const std::vector<std::string> traces =
      options_.trace.empty() ? std::vector<std::string>() : agreement_.gather("traces", trace_->encoded());
  const std::vector<std::string> times =
      options_.times.empty() ? std::vector<std::string>() : agreement_.gather("times of actions", watch_->encoded());
  const std::vector<std::string> counts = agreement_.gather("counts", received_here());
  if (options_.report) outcome.reports = agreement_.gather("reports", options_.report());
  if (column_agreement_) column_agreement_->close();
  agreement_.close();
  if (lead != nullptr && from == nullptr) written([&] { write_flows(*lead, counts); });
  written([&] { write_times(times); });
  written([&] { write_trace(traces); });
  return outcome;
}

void RingTrainer::tell_memory() {
  const std::vector<std::string> all = agreement_.gather("memory", text_of(rank_->memory()));
  if (transport_.ranks() == 1 || !speaks()) return;
  int64_t least = INT64_MAX, most = 0;
  for (const std::string& one : all) {
    least = std::min(least, memory_from(one).total());
    most = std::max(most, memory_from(one).total());
  }
  log::info("{} devices on {} ranks{}; memory per rank for tensors and messages: {:.1f} to {:.1f} MB (exact)", plan_.devices(),
            transport_.ranks(), options_.deal == Deal::kTurns ? ", dealt in turns" : "", static_cast<double>(least) / 1e6,
            static_cast<double>(most) / 1e6);
}

void RingTrainer::write_trace(const std::vector<std::string>& all) const {
  if (options_.trace.empty() || !speaks()) return;
  write_atomically(options_.trace,
                   trace_json(all, fmt::format("{} on {} devices, {} ranks", plan_.model.name, plan_.devices(), transport_.ranks())));
  log::info("trace written to {}; open it at https://ui.perfetto.dev", options_.trace.string());
}

void RingTrainer::load_pace() { pace_ = load_action_times(options_.pace, task_.plan); }

void RingTrainer::write_times(const std::vector<std::string>& all) const {
  if (options_.times.empty() || !speaks()) return;
  save(action_times(task_.plan, all), options_.times);
  log::info("what the actions took is written to {}: millrace simulate --plan ... --times {}", options_.times.string(),
            options_.times.string());
}

std::string RingTrainer::received_here() const {
  std::string text;
  for (size_t f = 0; f < plan_.flows.size(); ++f) text += fmt::format("{} ", transport_.counters(static_cast<int64_t>(f)).received.bytes);
  return text;
}

// Of a run from its beginning: a resumed one sends some of its first micro-batches again, so it is not compared.
void RingTrainer::write_flows(const TrainingLead& lead, const std::vector<std::string>& all) const {
  if (task_.job.out.empty() || plan_.flows.empty()) return;
  std::vector<int64_t> moved(plan_.flows.size(), 0);
  for (const std::string& one : all) {
    std::istringstream stream(one);
    for (int64_t& sum : moved) {
      int64_t bytes = 0;
      stream >> bytes;
      sum += bytes;
    }
  }
  for (size_t f = 0; f < plan_.flows.size(); ++f) moved[f] = moved[f] * 8 / bits_of(plan_.flows[f].wire);
  const int64_t mini_batches = lead.steps();
  const std::vector<int64_t> planned =
      planned_elements(plan_, mini_batches, lead.evaluations() * evaluation_micro_batches(task_.data.test, plan_));
  const std::filesystem::path path = std::filesystem::path(task_.job.out) / "flows.json";
  if (!write_flow_report(path, plan_, mini_batches, planned, moved))
    log::error("{}: some flows moved another number of elements than planned; this is a mistake of Millrace, please report it",
               path.string());
}

TrainingForecast RingTrainer::forecast() {
  agree_on_everything();
  make_rank(nullptr);
  rank_->initialize(task_.job.seed);
  rank_->rehearse();
  Rehearsal rehearsal(options_.column == nullptr ? -1 : options_.column->replica());
  try {
    rank_->run(transport_.rank() == 0 ? &rehearsal : nullptr);
  } catch (const Error& error) {
    transport_.abort(error);
    throw;
  }
  TrainingForecast forecast;
  forecast.updates_per_epoch = task_.updates_per_epoch();
  forecast.total_updates = course_.total_updates();
  forecast.measured_updates = rehearsal.updates();
  forecast.seconds_per_update = rehearsal.seconds() / static_cast<double>(std::max<int64_t>(1, rehearsal.updates()));
  for (const std::string& one : agreement_.gather("memory", text_of(rank_->memory()))) forecast.memory.push_back(memory_from(one));
  if (column_agreement_) column_agreement_->close();
  agreement_.close();
  return forecast;
}

TrainingOutcome train_alone(const TrainingTask& task, const OpenDevice& open_device, const TrainerOptions& options) {
  Transport transport(make_loopback_wire(0, 1));
  Agreement agreement(transport);
  return RingTrainer(task, transport, agreement, open_device, options).run();
}

TrainingForecast forecast_alone(const TrainingTask& task, const OpenDevice& open_device) {
  Transport transport(make_loopback_wire(0, 1));
  Agreement agreement(transport);
  return RingTrainer(task, transport, agreement, open_device, {}).forecast();
}

}  // namespace millrace
