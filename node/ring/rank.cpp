#include "node/ring/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "core/base/index.h"
#include "core/base/log.h"
#include "node/ring/slice_state.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kLookAgain = 5ms;  // when something goes on beside the loop

// A decision as a note has it.
int64_t bits_of(const Decision& decision) { return (decision.last ? 1 : 0) + (decision.evaluate ? 2 : 0) + (decision.checkpoint ? 4 : 0); }
Decision decision_from(int64_t bits) { return {.last = (bits & 1) != 0, .evaluate = (bits & 2) != 0, .checkpoint = (bits & 4) != 0}; }

Note note_of(NoteKind kind, int64_t mini_batch, const Score& score) {
  return {.kind = kind, .index = mini_batch, .value = score.loss, .correct = score.correct, .samples = score.samples};
}

}  // namespace

Rank::Rank(RingContext context, const RingFlows& flows, const OpenDevice& open_device, const RankSignals& signals, ReplicaSum* replicas)
    : context_(context),
      signals_(signals),
      notes_(*context.transport, [this](const Note& note, int64_t from) { receive_note(note, from); }) {
  context_.decisions = &decisions_;
  context_.events = this;
  open_devices(open_device);
  const std::vector<HomeRoute> routes = home_routes(context_.plan());
  const int64_t devices = context_.plan().devices();
  const int64_t parts = devices + static_cast<int64_t>(routes.size());
  saves_.emplace(context_, flows, context_.transport->layout().devices_of(context_.transport->rank()), parts);
  updates_.emplace(context_, workers_.front()->device().compute_type(), parts, notes_, replicas);
  // Backward along the ring, as the last updates come: a fixed order for all replicas.
  for (size_t i = workers_.size(); i-- > 0;) updates_->add(*workers_[i], workers_[i]->index());
  serve_slices(routes);
}

Rank::~Rank() = default;

void Rank::open_devices(const OpenDevice& open_device) {
  const Transport& transport = *context_.transport;
  for (const int64_t d : transport.layout().devices_of(transport.rank()))
    workers_.push_back(std::make_unique<Worker>(context_, d, open_device(d)));
}

// The slices that are stored here, and the stations of others' ways.
void Rank::serve_slices(const std::vector<HomeRoute>& routes) {
  Transport& transport = *context_.transport;
  const auto here = [&](int64_t device) { return transport.layout().rank_of(device) == transport.rank(); };
  for (size_t r = 0; r < routes.size(); ++r) {
    const ParameterHome& home = context_.plan().homes[routes[r].home];
    if (here(home.home)) {
      Worker& host = **std::ranges::find(workers_, home.home, [](const auto& worker) { return worker->index(); });
      servers_.push_back(std::make_unique<SliceServer>(context_, routes[r], host.device()));
      if (routes[r].gradients.empty()) host.make_gradients_for(servers_.back()->slice());
      updates_->add(*servers_.back(), context_.plan().devices() + static_cast<int64_t>(r));
    }
    for (const std::vector<int64_t>* way : {&routes[r].parameters, &routes[r].gradients})
      for (size_t i = 0; i + 1 < way->size(); ++i)
        if (here(item(transport.table().flows, (*way)[i]).to)) relays_.emplace_back(transport, (*way)[i], (*way)[i + 1]);
  }
  // E of shared steps takes columns of the recurrent weights, whose rows several slices have.
  for (const auto& server : servers_)
    for (const auto& other : servers_)
      if (columns_in_back(context_.plan(), context_.graph(), server->slice().where()) &&
          other->slice().where().layer == server->slice().where().layer && other->slice().where().tensor == server->slice().where().tensor)
        server->give_columns_of(other->slice());
}

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

// ---- notes

void Rank::Diagnosis::take(int64_t of_device, const std::string& name) {
  if (name.empty() || of_device >= device) return;
  device = of_device;
  layer = name;
}

void Rank::receive_note(const Note& note, int64_t from) {
  const auto score = [&note] { return Score{.loss = note.value, .correct = note.correct, .samples = note.samples}; };
  switch (note.kind) {
    case NoteKind::kDecision: enter_decision(note.index, decision_from(note.first)); break;
    case NoteKind::kScore: conductor_->scored(note.index, score()); break;
    case NoteKind::kEvaluation: conductor_->evaluated(note.index, score()); break;
    case NoteKind::kStop: conductor_->stop_requested(); break;
    case NoteKind::kCheckpoint: take_checkpoint_request(note.index); break;
    case NoteKind::kNorm:
      if (const auto norm = updates_->take_norm(note.index, note.first, note.value)) conductor_->gradient_norm(note.index, *norm);
      break;
    case NoteKind::kScale: updates_->take_scale(note.index, note.value); break;
    case NoteKind::kDiagnose: {
      Note answer{.kind = NoteKind::kDiagnosis, .index = note.index};
      const auto [device, layer] = first_non_finite(note.index);
      answer.first = device;
      answer.set_name(layer);
      notes_.send(from, answer);
      break;
    }
    case NoteKind::kDiagnosis:
      ++diagnosis_.answers;
      diagnosis_.take(note.first, note.name.data());
      break;
    case NoteKind::kDone: ++done_ranks_; break;
    case NoteKind::kFinish: finished_ = true; break;
  }
}

void Rank::mini_batch_scored(int64_t mini_batch, const Score& score) { notes_.send(0, note_of(NoteKind::kScore, mini_batch, score)); }
void Rank::evaluation_scored(int64_t mini_batch, const Score& score) { notes_.send(0, note_of(NoteKind::kEvaluation, mini_batch, score)); }

void Rank::loaded(int64_t s, std::span<const int64_t> samples) {
  if (conductor_ != nullptr) conductor_->loaded(s, samples);
}

void Rank::saved(int64_t mini_batch, int64_t device, std::vector<std::byte> share) { saves_->push(mini_batch, device, std::move(share)); }

// The device and its layer; no layer: none of this rank.
std::pair<int64_t, std::string> Rank::first_non_finite(int64_t s) {
  for (const auto& worker : workers_)
    if (std::string layer = worker->first_non_finite(s); !layer.empty()) return {worker->index(), layer};
  return {0, ""};
}

// The cause may lie upstream: everybody looks at what they hold of this micro-batch.
void Rank::loss_not_finite(int64_t s) {
  notes_.send(kEveryRank, {.kind = NoteKind::kDiagnose, .index = s});
  Transport& transport = *context_.transport;
  while (diagnosis_.answers + 1 < transport.ranks()) {
    transport.wait(std::array{notes_.interest()});
    notes_.receive();
  }
  const auto [device, own] = first_non_finite(s);
  diagnosis_.take(device, own);
  const std::string& layer = diagnosis_.layer;
  const int64_t step = s / context_.plan().micro_batches();
  fail(ErrorCode::kNumeric, "step {}: the loss is not finite{}; lower the learning rate (now {:g}) or clip the gradients (--clip-norm)",
       step + 1, layer.empty() ? "" : fmt::format("; the first layer whose output is not is \"{}\"", layer),
       context_.course->learning_rate(step));
}

void Rank::watch_signals() {
  if (signals_.any != nullptr) signals_.any->store(false);
  if (signals_.stop != nullptr && !sent_stop_ && signals_.stop->load()) {
    sent_stop_ = true;
    notes_.send(0, {.kind = NoteKind::kStop});
  }
  if (signals_.checkpoint != nullptr && signals_.checkpoint->exchange(false)) notes_.send(0, {.kind = NoteKind::kCheckpoint});
  if (const int64_t shared = signals_.shared_checkpoints != nullptr ? signals_.shared_checkpoints->load() : 0; shared > sent_checkpoints_) {
    sent_checkpoints_ = shared;
    notes_.send(0, {.kind = NoteKind::kCheckpoint, .index = shared});
  }
  if (signals_.describe != nullptr && signals_.describe->exchange(false)) log::info("{}", status());
}

// `shared`: the how manieth of those that every rank hears of; 0 for one of a single rank.
void Rank::take_checkpoint_request(int64_t shared) {
  if (shared != 0 && shared <= shared_checkpoints_) return;  // another rank was quicker
  shared_checkpoints_ = std::max(shared_checkpoints_, shared);
  conductor_->checkpoint_requested();
}

// ---- leading

void Rank::enter_decision(int64_t mini_batch, const Decision& decision) {
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

bool Rank::lead_training() {
  if (conductor_ == nullptr) {
    watch_signals();
    return false;
  }
  bool acted = false;
  Worker& first = *workers_.front();
  for (; led_updates_ < first.updates(); ++led_updates_) {
    conductor_->updated(led_updates_);
    acted = true;
  }
  collect();
  conductor_busy_ = conductor_->step();
  watch_signals();
  while (first.begins_undecided()) {
    const int64_t mini_batch = first.awaited_decision();
    const std::optional<Decision> decision = conductor_->decide(mini_batch);
    if (!decision) break;
    notes_.send(kEveryRank, {.kind = NoteKind::kDecision, .index = mini_batch, .first = bits_of(*decision)});
    enter_decision(mini_batch, *decision);
    acted = true;
  }
  return acted;
}

void Rank::collect() {
  saves_->collect([&](int64_t mini_batch, SaveAssembler& content) { conductor_->saved(mini_batch, content); });
}

// ---- the loop

bool Rank::pass_messages() {
  bool acted = false;
  for (Relay& relay : relays_) acted = relay.step() || acted;
  for (const auto& worker : workers_) acted = worker->states().step() || acted;
  for (const auto& server : servers_) acted = server->step() || acted;
  return saves_->step() || acted;
}

bool Rank::run_action() {
  Worker* first = nullptr;
  for (const auto& worker : workers_) {
    missing_.clear();
    if (worker->look(missing_) == Worker::State::kReady && (first == nullptr || worker->turn() < first->turn())) first = worker.get();
  }
  if (first == nullptr) return false;
  first->perform();
  return true;
}

// Nothing is left to do here, but perhaps to pass on what others send.
bool Rank::is_idle() {
  missing_.clear();
  return std::ranges::all_of(workers_, [this](const auto& worker) { return worker->look(missing_) == Worker::State::kOver; }) &&
         std::ranges::all_of(servers_, [](const auto& server) { return server->over(); }) && saves_->idle();
}

void Rank::report_done() {
  if (conductor_ == nullptr) {
    if (reported_done_ || !is_idle()) return;
    reported_done_ = true;
    notes_.send(0, {.kind = NoteKind::kDone});
    return;
  }
  if (finished_ || done_ranks_ + 1 < context_.transport->ranks() || !is_idle() || !conductor_->finished()) return;
  notes_.send(kEveryRank, {.kind = NoteKind::kFinish});
  finished_ = true;
}

void Rank::wait() {
  missing_.clear();
  for (const auto& worker : workers_)
    if (worker->look(missing_) == Worker::State::kReady) return;  // room to send was found only now
  const bool idle = missing_.empty();                             // the devices lack nothing but decisions, sums or an end
  for (const auto& server : servers_) server->look(missing_);
  saves_->look(missing_);
  for (const Relay& relay : relays_) relay.look(missing_);
  for (const auto& worker : workers_) worker->states().look(missing_);
  missing_.push_back(notes_.interest());
  WaitLimits limits;
  limits.interrupt = signals_.any;
  limits.while_alive = idle;
  if (conductor_busy_ || updates_->sum_under_way()) limits.at_most = updates_->sum_under_way() ? 200us : kLookAgain;
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
  led_updates_ = context_.first_mini_batch;
  while (!finished_) {
    context_.transport->progress();
    notes_.receive();
    bool acted = pass_messages();
    acted = updates_->run() || acted;
    acted = lead_training() || acted;
    acted = run_action() || acted;
    report_done();
    if (!acted && !finished_) wait();
  }
}

}  // namespace millrace
