#include "node/ring/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "node/ring/slice_state.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

constexpr uint32_t kNotes = 1;           // the kind of all control messages here
constexpr Nanoseconds kLookAgain = 5ms;  // when something goes on beside the loop

}  // namespace

// What ranks tell each other besides the streams.
enum class Rank::Word : uint32_t {
  kDecision,    // first: bits of a Decision
  kScore,       // of mini-batch `index`
  kEvaluation,  // likewise
  kStop,        // somebody was asked to stop
  kCheckpoint,  // or to make a checkpoint
  kNorm,        // squared, of mini-batch `index`; first: whose
  kScale,       // value: of the gradients; second value: their norm
  kDiagnose,    // is anything of micro-batch `index` not finite?
  kDiagnosis,   // the layer, in `name`
  kParting,     // nothing left to do
  kFinish       // for all
};

struct Rank::Note {
  Word word = Word::kParting;
  uint32_t zero = 0;
  int64_t index = 0;
  int64_t first = 0;
  double value = 0;
  int64_t correct = 0;
  int64_t samples = 0;
  std::array<char, 104> name{};
};

Rank::Rank(RingContext context, const RingFlows& flows, const OpenDevice& open_device, const RankSignals& signals, ReplicaSum* replicas)
    : context_(context), signals_(signals), replicas_(replicas) {
  context_.decisions = &decisions_;
  context_.events = this;
  Transport& transport = *context_.transport;
  const RingLayout& layout = transport.layout();
  const int64_t begin = layout.first_device(transport.rank()), end = layout.end_device(transport.rank());
  const auto here = [&](int64_t device) { return begin <= device && device < end; };
  const std::vector<HomeRoute> routes = home_routes(context_.plan());
  shares_ = context_.plan().devices() + static_cast<int64_t>(routes.size());
  for (int64_t d = begin; d < end; ++d) {
    workers_.push_back(std::make_unique<Worker>(context_, d, open_device(d)));
    saves_.emplace_back(transport, flows, d);
  }
  // Backward along the ring, as the last updates come: a fixed order for all replicas.
  for (size_t i = workers_.size(); i-- > 0;) settling_.push_back({.updatable = workers_[i].get(), .number = workers_[i]->index()});
  for (size_t r = 0; r < routes.size(); ++r) {
    const ParameterHome& home = context_.plan().homes[routes[r].home];
    if (here(home.home)) {
      Worker& host = *workers_[static_cast<size_t>(home.home - begin)];
      servers_.push_back(std::make_unique<SliceServer>(context_, routes[r], host.device()));
      if (routes[r].gradients.empty()) host.make_gradients_for(servers_.back()->slice());
      settling_.push_back({.updatable = servers_.back().get(), .number = context_.plan().devices() + static_cast<int64_t>(r)});
    }
    for (const std::vector<int64_t>* way : {&routes[r].parameters, &routes[r].gradients})
      for (size_t i = 0; i + 1 < way->size(); ++i)
        if (here(transport.table().flows[static_cast<size_t>((*way)[i])].to)) relays_.emplace_back(transport, (*way)[i], (*way)[i + 1]);
  }
  // E of shared steps takes columns of the recurrent weights, whose rows several slices have.
  for (const auto& server : servers_)
    for (const auto& other : servers_)
      if (columns_in_back(context_.plan(), context_.graph(), server->slice().where()) &&
          other->slice().where().layer == server->slice().where().layer && other->slice().where().tensor == server->slice().where().tensor)
        server->give_columns_of(other->slice());
}

Rank::~Rank() = default;

void Rank::initialize(uint64_t seed) {
  for (const auto& worker : workers_) worker->initialize(seed);
  for (const auto& server : servers_) initialize_slice(server->slice(), context_.plan(), context_.graph(), seed);
}
void Rank::restore(const CheckpointContent& content) {
  for (const auto& worker : workers_) worker->restore(content);
  for (const auto& server : servers_) restore_slice(server->slice(), context_.plan(), context_.graph(), content);
}
void Rank::take_weights(const TensorMap& weights) {
  for (const auto& worker : workers_) worker->take_weights(weights);
  for (const auto& server : servers_) take_slice_weights(server->slice(), context_.plan(), context_.graph(), weights);
}

void Rank::evaluate_only() {
  for (const auto& worker : workers_) worker->evaluate_only();
  const int64_t micro_batches = context_.replica == 0 ? evaluation_micro_batches(context_.task->data.test, context_.plan()) : 0;
  for (const auto& server : servers_) server->evaluate_only(micro_batches);
}

RankMemory Rank::memory() const {
  RankMemory memory;
  for (const auto& worker : workers_) {
    memory.segments += worker->segment().memory();
    memory.slices += worker->slice_bytes();
  }
  for (const auto& server : servers_) memory.slices += server->slice().bytes();
  const Transport& transport = *context_.transport;
  memory.transport = static_cast<int64_t>(memory_of(transport.table(), transport.layout(), transport.rank(), transport.settings()).total());
  return memory;
}

std::string Rank::status() const {
  std::string text;
  for (const auto& worker : workers_) {
    const std::string action = worker->next_action();
    text += fmt::format("device {} {}; ", worker->index(), action.empty() ? "waits for a decision or is done" : "is at " + action);
  }
  return text + "waiting for " + context_.transport->last_wait();
}

// ---- talking

void Rank::tell(int64_t to, const Note& note) {
  const int64_t me = context_.transport->rank();
  if (to == me) return hear(note, me);
  if (to == kEveryRank && context_.transport->ranks() == 1) return;
  context_.transport->send_control(to, kNotes, std::as_bytes(std::span(&note, 1)));
}

void Rank::hear() {
  while (auto message = context_.transport->take_control(kNotes)) {
    Note note;
    MILLRACE_CHECK(message->payload.size() == sizeof(note), "a note of {} bytes", message->payload.size());
    std::memcpy(&note, message->payload.data(), sizeof(note));
    hear(note, message->source);
  }
}

void Rank::hear(const Note& note, int64_t from) {
  const auto score = [&note] { return Score{.loss = note.value, .correct = note.correct, .samples = note.samples}; };
  switch (note.word) {
    case Word::kDecision:
      enter(note.index, {.last = (note.first & 1) != 0, .evaluate = (note.first & 2) != 0, .checkpoint = (note.first & 4) != 0});
      break;
    case Word::kScore: conductor_->scored(note.index, score()); break;
    case Word::kEvaluation: conductor_->evaluated(note.index, score()); break;
    case Word::kStop: conductor_->stop_requested(); break;
    case Word::kCheckpoint: conductor_->checkpoint_requested(); break;
    case Word::kNorm: take_norm(note.index, note.first, note.value); break;
    case Word::kScale: scales_[note.index] = note.value; break;
    case Word::kDiagnose: {
      Note answer{.word = Word::kDiagnosis, .index = note.index};
      const std::string layer = first_non_finite(note.index);
      std::copy_n(layer.begin(), std::min(layer.size(), answer.name.size() - 1), answer.name.begin());
      tell(from, answer);
      break;
    }
    case Word::kDiagnosis:
      // Ranks stand in the order of the ring: the first that names a layer has the first layer.
      if (note.name[0] != '\0')
        diagnosis_ = fmt::format("{:06} {}", from, note.name.data()) < diagnosis_.value_or("~")
                         ? fmt::format("{:06} {}", from, note.name.data())
                         : diagnosis_;
      ++diagnoses_;
      break;
    case Word::kParting: ++parted_; break;
    case Word::kFinish: finished_ = true; break;
  }
}

void Rank::mini_batch_scored(int64_t mini_batch, const Score& score) {
  tell(0, {.word = Word::kScore, .index = mini_batch, .value = score.loss, .correct = score.correct, .samples = score.samples});
}
void Rank::evaluation_scored(int64_t mini_batch, const Score& score) {
  tell(0, {.word = Word::kEvaluation, .index = mini_batch, .value = score.loss, .correct = score.correct, .samples = score.samples});
}

void Rank::loaded(int64_t s, std::span<const int64_t> samples) {
  if (conductor_ != nullptr) conductor_->loaded(s, samples);
}

void Rank::saved(int64_t mini_batch, int64_t device, std::vector<std::byte> share) {
  const int64_t first = workers_.front()->index();
  saves_[static_cast<size_t>(device - first)].push({.mini_batch = mini_batch, .share = device, .bytes = std::move(share)});
}

std::string Rank::first_non_finite(int64_t s) {
  for (const auto& worker : workers_)
    if (std::string layer = worker->first_non_finite(s); !layer.empty()) return layer;
  return "";
}

// The cause may lie upstream: everybody looks at what they hold of this micro-batch.
void Rank::loss_not_finite(int64_t s) {
  tell(kEveryRank, {.word = Word::kDiagnose, .index = s});
  Transport& transport = *context_.transport;
  while (diagnoses_ + 1 < transport.ranks()) {
    transport.wait(std::array{Interest{.want = Want::kControl, .control_kind = kNotes}});
    hear();
  }
  std::string layer = diagnosis_ ? diagnosis_->substr(7) : first_non_finite(s);
  const int64_t step = s / context_.plan().micro_batches();
  fail(ErrorCode::kNumeric, "step {}: the loss is not finite{}; lower the learning rate (now {:g}) or clip the gradients (--clip-norm)",
       step + 1, layer.empty() ? "" : fmt::format("; the first layer whose output is not is \"{}\"", layer),
       context_.course->learning_rate(step));
}

void Rank::watch_signals() {
  if (signals_.any != nullptr) signals_.any->store(false);
  if (signals_.stop != nullptr && !told_stop_ && signals_.stop->load()) {
    told_stop_ = true;
    tell(0, {.word = Word::kStop});
  }
  if (signals_.checkpoint != nullptr && signals_.checkpoint->exchange(false)) tell(0, {.word = Word::kCheckpoint});
  if (signals_.describe != nullptr && signals_.describe->exchange(false)) log::info("{}", status());
}

// ---- leading

void Rank::enter(int64_t mini_batch, const Decision& decision) {
  decisions_.enter(mini_batch, decision);
  // A device without work may be far behind: nobody waits for it.
  int64_t reached = mini_batch - 3;
  for (const auto& worker : workers_) reached = std::min(reached, worker->updates());
  decisions_.forget_before(reached);
  for (const auto& worker : workers_) worker->decide(mini_batch, decision);
  const int64_t micro_batches =
      decision.evaluate && context_.replica == 0 ? evaluation_micro_batches(context_.task->data.test, context_.plan()) : 0;
  for (const auto& server : servers_) server->decide(mini_batch, {.last = decision.last, .evaluation_micro_batches = micro_batches});
}

bool Rank::lead() {
  if (conductor_ == nullptr) {
    watch_signals();
    return false;
  }
  bool acted = false;
  Worker& first = *workers_.front();
  for (; told_updates_ < first.updates(); ++told_updates_) {
    conductor_->updated(told_updates_);
    acted = true;
  }
  collect();
  conductor_busy_ = conductor_->step();
  watch_signals();
  while (first.begins_undecided()) {
    const int64_t mini_batch = first.awaited_decision();
    const std::optional<Decision> decision = conductor_->decide(mini_batch);
    if (!decision) break;
    const int64_t bits = (decision->last ? 1 : 0) + (decision->evaluate ? 2 : 0) + (decision->checkpoint ? 4 : 0);
    tell(kEveryRank, {.word = Word::kDecision, .index = mini_batch, .first = bits});
    enter(mini_batch, *decision);
    acted = true;
  }
  return acted;
}

void Rank::collect() {
  for (SavedShare& share : saves_.front().take()) {
    Collected& collected = collected_[share.mini_batch];
    if (!collected.assembler) collected.assembler = std::make_unique<SaveAssembler>(context_.plan(), context_.graph());
    collected.assembler->add(share.bytes);
    if (++collected.shares < shares_) continue;
    conductor_->saved(share.mini_batch, *collected.assembler);
    collected_.erase(share.mini_batch);
  }
}

// ---- updates

UpdateArguments Rank::arguments_for(int64_t mini_batch) const {
  const TrainingTask& task = *context_.task;
  UpdateArguments arguments;
  arguments.optimizer = task.plan.optimizer;
  arguments.learning_rate = rehearsing_ ? 0 : context_.course->learning_rate(mini_batch);
  arguments.step = mini_batch + 1;
  if (task.job.clip == ClipKind::kValue) arguments.value_limit = task.job.clip_limit;
  if (task.job.clip == ClipKind::kGlobalNorm) arguments.gradient_scale = scales_.at(mini_batch);
  return arguments;
}

// All devices' norms are added up in one order, whatever the number of ranks.
void Rank::take_norm(int64_t mini_batch, int64_t number, double squared) {
  std::map<int64_t, double>& norms = norms_[mini_batch];
  norms[number] = squared;
  if (static_cast<int64_t>(norms.size()) < shares_) return;
  double sum = 0;
  for (const auto& [who, norm] : norms) sum += norm;
  const double norm = std::sqrt(sum), limit = context_.task->job.clip_limit;
  norms_.erase(mini_batch);
  conductor_->gradient_norm(mini_batch, norm);
  const Note note{.word = Word::kScale, .index = mini_batch, .value = norm > limit ? limit / norm : 1};
  tell(kEveryRank, note);
  hear(note, 0);
}

bool Rank::settle() {
  bool acted = false;
  for (size_t i = 0; i < settling_.size(); ++i) acted = settle(i) || acted;
  return acted;
}

bool Rank::settle(size_t number) {
  Settling& settling = settling_[number];
  const int64_t mini_batch = settling.updatable->due();
  if (mini_batch < 0) return false;
  bool acted = false;
  if (replicas_ != nullptr && settling.summed < mini_batch) {
    if (number != summing_) return false;
    const auto elements = static_cast<size_t>(settling.updatable->gradient_elements());
    const bool wide = workers_.front()->device().compute_type() == ElementType::kFloat64;
    const int64_t index = mini_batch * static_cast<int64_t>(settling_.size()) + static_cast<int64_t>(number);
    if (!sum_under_way_) {
      if (wide) {
        wide_.resize(elements);
        settling.updatable->read_gradients(std::span(wide_));
        replicas_->begin(std::span(wide_), index);
      } else {
        narrow_.resize(elements);
        settling.updatable->read_gradients(std::span(narrow_));
        replicas_->begin(std::span(narrow_), index);
      }
      sum_under_way_ = true;
    }
    if (!replicas_->advance()) return false;
    sum_under_way_ = false;
    if (wide)
      settling.updatable->write_gradients(std::span<const double>(wide_));
    else
      settling.updatable->write_gradients(std::span<const float>(narrow_));
    settling.summed = mini_batch;
    summing_ = (summing_ + 1) % settling_.size();
    acted = true;
  }
  if (context_.task->job.clip == ClipKind::kGlobalNorm) {
    if (settling.normed < mini_batch) {
      settling.normed = mini_batch;
      tell(0, {.word = Word::kNorm, .index = mini_batch, .first = settling.number, .value = settling.updatable->squared_gradient_norm()});
      acted = true;
    }
    if (!scales_.contains(mini_batch)) return acted;
  }
  settling.updatable->update(arguments_for(mini_batch));
  scales_.erase(scales_.begin(), scales_.lower_bound(mini_batch));
  return true;
}

// ---- the loop

bool Rank::serve() {
  bool acted = false;
  for (Relay& relay : relays_) acted = relay.step() || acted;
  for (const auto& worker : workers_) acted = worker->states().step() || acted;
  for (const auto& server : servers_) acted = server->step() || acted;
  for (SaveStream& save : saves_) acted = save.step() || acted;
  return acted;
}

bool Rank::act() {
  for (const auto& worker : workers_) {
    missing_.clear();
    if (worker->look(missing_) != Worker::State::kReady) continue;
    worker->perform();
    return true;
  }
  return false;
}

// Nothing is left to do here, but perhaps to pass on what others send.
bool Rank::rests() {
  missing_.clear();
  return std::ranges::all_of(workers_, [this](const auto& worker) { return worker->look(missing_) == Worker::State::kOver; }) &&
         std::ranges::all_of(servers_, [](const auto& server) { return server->over(); }) &&
         std::ranges::all_of(saves_, [](const SaveStream& save) { return save.idle(); });
}

void Rank::part() {
  if (conductor_ == nullptr) {
    if (told_parting_ || !rests()) return;
    told_parting_ = true;
    tell(0, {.word = Word::kParting});
    return;
  }
  if (finished_ || parted_ + 1 < context_.transport->ranks() || !rests() || !conductor_->finished()) return;
  tell(kEveryRank, {.word = Word::kFinish});
  finished_ = true;
}

void Rank::wait() {
  missing_.clear();
  for (const auto& worker : workers_) worker->look(missing_);
  const bool rests = missing_.empty();  // the devices lack nothing but decisions, sums or an end
  for (const auto& server : servers_) server->look(missing_);
  for (const SaveStream& save : saves_) save.look(missing_);
  for (const Relay& relay : relays_) relay.look(missing_);
  for (const auto& worker : workers_) worker->states().look(missing_);
  missing_.push_back({.want = Want::kControl, .control_kind = kNotes});
  WaitLimits limits;
  limits.interrupt = signals_.any;
  limits.while_alive = rests;
  if (conductor_busy_ || sum_under_way_) limits.at_most = sum_under_way_ ? 200us : kLookAgain;
  const Instant begin = context_.trace == nullptr ? Instant{} : machine_clock().now();
  if (context_.watch != nullptr) context_.watch->pause();
  context_.transport->wait(missing_, limits);
  if (context_.watch != nullptr) context_.watch->resume(/*at_a_cost=*/context_.transport->crowded());
  if (context_.trace == nullptr) return;
  for (const auto& worker : workers_)
    if (const std::string action = worker->next_action(); !action.empty())
      context_.trace->span(worker->index(), "wait", begin, machine_clock().now(), "before " + action);
}

void Rank::run(Conductor* conductor) {
  conductor_ = conductor;
  told_updates_ = context_.first_mini_batch;
  while (!finished_) {
    context_.transport->progress();
    hear();
    bool acted = serve();
    acted = settle() || acted;
    acted = lead() || acted;
    acted = act() || acted;
    part();
    if (!acted && !finished_) wait();
  }
}

}  // namespace millrace
