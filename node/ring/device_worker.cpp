#include "node/ring/device_worker.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/error.h"
#include "core/base/index.h"
#include "core/plan/home_routes.h"
#include "core/plan/placement.h"
#include "core/plan/retention.h"
#include "node/ring/wire_format.h"

namespace millrace {
namespace {

int64_t chunks_of(const Plan& plan, const Action& action) { return action.chunk < 0 ? 1 : plan.time_chunks; }
int32_t chunk_of(const Action& action) { return std::max(0, action.chunk); }

}  // namespace

int64_t device_of_loss(const Plan& plan, const Graph& graph) {
  return graph.loss() < 0 ? plan.devices() - 1 : Placement(plan, graph).owner_of(graph.loss());
}

Worker::Worker(const RingContext& context, int64_t index, std::unique_ptr<Device> device)
    : context_(context),
      index_(index),
      scores_here_(index == device_of_loss(context.plan(), context.graph())),
      device_(std::move(device)),
      segment_(context.plan(), context.graph(), index, *device_),
      cursor_(schedule_spec(context.plan(), index, 0), context.first_mini_batch),
      passes_(schedule_spec(context.plan(), index, 0)),
      ports_(*context.transport, context.plan(), index, context.trace),
      updates_(context.first_mini_batch) {
  evaluation_loader_ = evaluation_loader(context.task->data.test, context.task->transform, plan(), loading());
  const ScheduleSpec spec = schedule_spec(plan(), index, 1);
  held_.resize(to_size(micro_batches_held(spec)));
  find_remote();
}

// Everybody knows the samples' ids; pixels and labels are read where they are needed.
LoaderOptions Worker::loading() const {
  const bool first = index_ == 0;
  return {.pixels = first, .labels = scores_here_, .prefetch = first ? 2 : 0};
}

void Worker::find_remote() {
  const std::vector<RemoteParameter>& remote = segment_.remote_parameters();
  // One vector per layer and tensor, one behind the other.
  std::map<std::pair<std::string, std::string>, int64_t> begins;
  for (const RemoteParameter& parameter : remote) {
    const auto begin = begins.try_emplace({parameter.layer, parameter.tensor}, remote_elements_ - parameter.offset).first->second;
    remote_places_.push_back(begin + parameter.offset);
    remote_elements_ += parameter.elements;
  }
  const std::vector<HomeRoute> routes = home_routes(plan());
  for (size_t h = 0; h < plan().homes.size(); ++h) {
    const ParameterHome& home = plan().homes[h];
    const auto begin = begins.find({home.layer, home.tensor});
    if (home.user != index_ || begin == begins.end()) continue;
    LentPiece piece{.home = h, .place = begin->second + home.offset};
    if (home.home == index_) {
      slices_.push_back(std::make_unique<HomeSlice>(plan(), h, *device_));
      piece.local = slices_.back().get();
    } else {
      const auto route = std::ranges::find(routes, h, &HomeRoute::home);
      piece.parameters = route->parameters.back();
      if (!route->gradients.empty()) piece.gradients = route->gradients.front();
    }
    pieces_.push_back(piece);
  }
}

void Worker::make_gradients_for(HomeSlice& slice) {
  const std::vector<GradientOfRecord>& made = segment_.gradients_of_records();
  const auto found = std::ranges::find_if(
      made, [&](const GradientOfRecord& one) { return one.layer == slice.where().layer && one.tensor == slice.where().tensor; });
  MILLRACE_CHECK(found != made.end(), "no gradient of {}.{} on device {}", slice.where().layer, slice.where().tensor, index_);
  const ParameterHome& home = slice.where();
  record_pieces_.push_back(
      {&slice, to_size(found - made.begin()), ShardVector(plan(), context_.graph(), home.user, home.layer, home.tensor)});
}

void Worker::give_gradients_of_records() {
  for (const RecordPiece& piece : record_pieces_) {
    const ParameterHome& home = piece.slice->where();
    std::vector<double> own(to_size(home.count));
    piece.places.extract(segment_.gradient_of_record(piece.gradient), home.offset, own);
    const HostNumbers numbers = buffer_.of(device_->compute_type(), home.count);
    numbers.assign(own);
    piece.slice->add_gradient(numbers);
  }
}

int64_t Worker::slice_bytes() const {
  int64_t bytes = 0;
  for (const auto& slice : slices_) bytes += slice->bytes();
  return bytes;
}

void Worker::decide(int64_t mini_batch, const Decision& decision) {
  // Replicas have equal weights: one evaluates for all.
  const bool evaluates = decision.evaluate && context_.replica == 0;
  const Dataset& test = context_.task->data.test;
  cursor_.decide(mini_batch, {.last = decision.last, .evaluation_micro_batches = evaluates ? evaluation_micro_batches(test, plan()) : 0});
}

void Worker::evaluate_only() {
  cursor_.evaluate_only(context_.replica == 0 ? evaluation_micro_batches(context_.task->data.test, plan()) : 0);
}

bool Worker::begins_undecided() {
  const Action* action = cursor_.next();
  if (action == nullptr) return !cursor_.over();
  return action->kind == ActionKind::kForward && action->index == cursor_.awaited_decision() * plan().micro_batches();
}

std::string Worker::next_action() const {
  ScheduleCursor cursor = cursor_;
  const Action* action = cursor.next();
  return action == nullptr ? "" : text_of(*action);
}

Worker::State Worker::look(std::vector<Interest>& missing) {
  if (cursor_.over()) return State::kOver;
  const Action* action = cursor_.next();
  if (action == nullptr) return State::kWaits;
  if (action->kind == ActionKind::kUpdate) return State::kUpdate;
  const size_t before = missing.size();
  // What it stores for others may not be updated yet.
  const bool full = std::ranges::any_of(record_pieces_, [](const RecordPiece& piece) { return piece.slice->complete(); });
  if (action->kind == ActionKind::kParameterGradient && full) return State::kWaits;
  look_for(*action, missing);
  return missing.size() == before ? State::kReady : State::kWaits;
}

void Worker::look_for(const Action& action, std::vector<Interest>& missing) {
  Transport& transport = *context_.transport;
  const MessageId id{action.index, action.chunk};
  const auto want_message = [&](int64_t flow, const MessageId& of) {
    if (!transport.has_message(flow)) missing.push_back({Want::kMessage, flow, of});
  };
  const auto want_credit = [&](int64_t flow, const MessageId& of) {
    if (!transport.can_send(flow)) missing.push_back({Want::kCredit, flow, of});
  };
  if (action.kind == ActionKind::kParameterGradient) {
    for (const LentPiece& piece : pieces_)
      if (piece.gradients >= 0) want_credit(piece.gradients, id);
    return;
  }
  if (!takes_pass_) takes_pass_ = phase_ == 0 && passes_.takes_pass(action);
  if (*takes_pass_)
    for (const LentPiece& piece : pieces_)
      if (piece.local == nullptr) want_message(piece.parameters, {passes_taken_});
  const bool back = action.kind == ActionKind::kErrorBack;
  const auto chunks = static_cast<int32_t>(chunks_of(plan(), action));
  const SegmentExecutor::Messages messages =
      back ? segment_.error_messages(chunk_of(action), chunks, phase_) : segment_.forward_messages(chunk_of(action), chunks, phase_);
  const auto flow_for = [&](int64_t flow) { return action.kind == ActionKind::kValidate ? transport.table().evaluation_of(flow) : flow; };
  for (const int64_t flow : messages.in) want_message(flow_for(flow), id);
  for (const int64_t flow : messages.rows)
    if (!ports_.states().here(flow_for(flow)))
      missing.push_back({Want::kMessage, flow_for(flow), {action.index, static_cast<int32_t>(phase_ - 1)}});
  for (const int64_t flow : messages.out) want_credit(flow_for(flow), id);
}

void Worker::perform() {
  const Action action = *cursor_.next();
  ports_.begin({action.index, action.chunk}, action.kind != ActionKind::kValidate);
  ports_.begin_phase(phase_);
  const Instant begin = begin_action(action);
  if (takes_pass_.value_or(false) && !pieces_.empty()) {
    fetch_remote(action);
    ++passes_taken_;
  }
  takes_pass_.reset();
  const bool averages = action.kind == ActionKind::kValidate && plan().optimizer.averages();
  if (!averages) segment_.use_own_weights();
  // G gathers statistics for its own mini-batch, whatever weights its F and E took.
  const bool gathers = action.kind == ActionKind::kParameterGradient;
  if (current_weights_) use_current_weights(gathers ? action.index / plan().micro_batches() : action.version);
  if (averages) segment_.use_averages(action.version);
  switch (action.kind) {
    case ActionKind::kForward: forward(action); break;
    case ActionKind::kErrorBack:
      segment_.error_back(held(action.index).part(chunk_of(action), static_cast<int32_t>(chunks_of(plan(), action))), &ports_,
                          action.version, phase_);
      break;
    case ActionKind::kParameterGradient:
      segment_.parameter_gradient(held(action.index).part(chunk_of(action), static_cast<int32_t>(chunks_of(plan(), action))));
      if (chunk_of(action) == 0) give_gradients_of_records();
      if (!pieces_.empty() && chunk_of(action) == 0) {
        ports_.await_due();
        return_gradients(action.index);
      }
      break;
    case ActionKind::kValidate: validate(action); break;
    case ActionKind::kUpdate: MILLRACE_CHECK(false, "updates are made by update()"); break;
  }
  end_action(action, begin);
  if (++phase_ < phases_of(action)) return;
  phase_ = 0;
  cursor_.pop();
}

int64_t Worker::phases_of(const Action& action) const {
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kErrorBack: return segment_.phases(chunk_of(action), static_cast<int32_t>(chunks_of(plan(), action)));
    case ActionKind::kValidate: return segment_.phases(0, 1);
    case ActionKind::kParameterGradient:
    case ActionKind::kUpdate: break;
  }
  return 1;
}

Instant Worker::begin_action(const Action& action) {
  if (context_.watch != nullptr) context_.watch->begin();
  const ActionTime* pace = context_.pace == nullptr || phase_ > 0 ? nullptr : item(context_.pace->devices, index_).of(action.kind);
  if (context_.trace == nullptr && pace == nullptr) return {};
  const Instant begin = machine_clock().now();
  if (pace != nullptr) ports_.hold_until(begin + std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(pace->seconds)));
  return begin;
}

void Worker::end_action(const Action& action, Instant begin) {
  // Who measures an action waits for its work; otherwise the device may still be at it while the next begins.
  if (context_.pace != nullptr || context_.watch != nullptr || context_.trace != nullptr) device_->synchronize();
  if (context_.pace != nullptr) ports_.await_due();
  if (context_.watch != nullptr) context_.watch->end(index_, action.kind);
  if (context_.trace != nullptr) context_.trace->span(index_, text_of(action), begin, machine_clock().now());
}

void Worker::forward(const Action& action) {
  const int32_t chunk = chunk_of(action);
  const auto chunks = static_cast<int32_t>(chunks_of(plan(), action));
  HeldBatch& batch = held(action.index);
  std::span<const float> pixels;
  if (chunk == 0 && phase_ == 0) {
    // Whoever only evaluates needs none.
    if (!loader_) loader_ = training_loader(*context_.task, loading(), context_.replica, context_.course->ahead());
    const Batch& loaded = loader_->load(action.index);
    if (index_ == 0) context_.events->loaded(action.index, loaded.sample_ids);
    batch.take(loaded, {.training = true,
                        .seed = context_.task->job.seed,
                        .error_scale = 1.0 / static_cast<double>(plan().mini_batch * context_.task->job.replicas),
                        .label_smoothing = context_.task->job.label_smoothing,
                        .micro_batch = plan().micro_batch});
    pixels = loaded.pixels;
  }
  Score score;
  segment_.forward(batch.part(chunk, chunks), pixels, &ports_, &score, action.version, phase_);
  if (scores_here_ && chunk + 1 == chunks && phase_ + 1 == phases_of(action)) count(action.index, score);
}

void Worker::count(int64_t s, const Score& score) {
  if (!std::isfinite(score.loss)) context_.events->loss_not_finite(s);
  const int64_t mini_batch = s / plan().micro_batches();
  Scored& scored = scores_[mini_batch];
  scored.score += score;
  if (++scored.micro_batches < plan().micro_batches()) return;
  context_.events->mini_batch_scored(mini_batch, scored.score);
  scores_.erase(mini_batch);
}

void Worker::validate(const Action& action) {
  const int64_t in_all = evaluation_micro_batches(context_.task->data.test, plan());
  if (phase_ == 0) {
    evaluation_batch_ = &evaluation_loader_->load(action.index);
    evaluated_.take(*evaluation_batch_, {.training = false, .micro_batch = plan().micro_batch});
  }
  const Batch& loaded = *evaluation_batch_;
  segment_.forward(evaluated_.view(), loaded.pixels, &ports_, &evaluation_.score, action.version, phase_);
  if (phase_ + 1 < phases_of(action)) return;
  if (action.index + 1 == in_all) segment_.use_own_weights();
  if (!scores_here_) return;
  if (context_.evaluations != nullptr) (*context_.evaluations)(segment_, loaded);
  if (++evaluation_.micro_batches < in_all) return;
  context_.events->evaluation_scored(updates_ - 1, evaluation_.score);
  evaluation_ = {};
}

void Worker::fetch_remote(const Action& action) {
  const HostNumbers all = remote_numbers();
  Transport& transport = *context_.transport;
  for (const LentPiece& piece : pieces_) {
    const ParameterHome& home = plan().homes[piece.home];
    const HostNumbers values = all.subspan(piece.place, home.count);
    if (piece.local != nullptr) {
      if (action.kind == ActionKind::kValidate)
        piece.local->read_average(action.version, values);
      else
        piece.local->read(action.version, values);
      continue;
    }
    const ElementType wire = item(plan().flows, piece.parameters).wire;
    unpack(wire, transport.begin_receive(piece.parameters, {passes_taken_}, wire_bytes(wire, home.count)), values);
    transport.release(piece.parameters);
  }
  const std::vector<RemoteParameter>& remote = segment_.remote_parameters();
  for (size_t i = 0; i < remote.size(); ++i) segment_.write_remote(i, all.subspan(remote_places_[i], remote[i].elements));
  segment_.remote_parameters_written();
}

void Worker::return_gradients(int64_t s) {
  const HostNumbers all = remote_numbers();
  const std::vector<RemoteParameter>& remote = segment_.remote_parameters();
  for (size_t i = 0; i < remote.size(); ++i)
    if (remote[i].returns) segment_.read_remote_gradient(i, all.subspan(remote_places_[i], remote[i].elements));
  Transport& transport = *context_.transport;
  for (const LentPiece& piece : pieces_) {
    const ParameterHome& home = plan().homes[piece.home];
    const HostNumbers values = all.subspan(piece.place, home.count);
    if (piece.local != nullptr) {
      piece.local->add_gradient(values);
      continue;
    }
    if (piece.gradients < 0) continue;
    const ElementType wire = item(plan().flows, piece.gradients).wire;
    const size_t bytes = wire_bytes(wire, home.count);
    pack(wire, values, transport.begin_send(piece.gradients).first(bytes));
    transport.commit_send(piece.gradients, {s}, bytes);
  }
}

// ---- updates

// A device without work waits for no message, and so may be here before anybody has decided.
int64_t Worker::due() {
  const Action* action = cursor_.next();
  const bool update = action != nullptr && action->kind == ActionKind::kUpdate && context_.decisions->knows(action->index);
  return update ? action->index : -1;
}

int64_t Worker::gradient_elements() const {
  int64_t elements = segment_.gradient_elements();
  for (const auto& slice : slices_) elements += slice->gradient_elements();
  return elements;
}

void Worker::read_gradients(HostNumbers values) {
  segment_.read_gradients(values);
  values = values.behind(segment_.gradient_elements());
  for (const auto& slice : slices_) {
    slice->read_gradients(values.first(slice->gradient_elements()));
    values = values.behind(slice->gradient_elements());
  }
}

void Worker::write_gradients(ConstHostNumbers values) {
  segment_.write_gradients(values);
  values = values.behind(segment_.gradient_elements());
  for (const auto& slice : slices_) {
    slice->write_gradients(values.first(slice->gradient_elements()));
    values = values.behind(slice->gradient_elements());
  }
}

double Worker::squared_gradient_norm() {
  double sum = segment_.squared_gradient_norm();
  for (const auto& slice : slices_) sum += slice->squared_gradient_norm();
  return sum;
}

void Worker::update(const UpdateArguments& arguments) {
  const Action action = *cursor_.next();
  ports_.begin({action.index, action.chunk}, true);
  const Instant begin = begin_action(action);
  MILLRACE_CHECK(action.kind == ActionKind::kUpdate && context_.decisions->knows(action.index), "an update before {}", text_of(action));
  segment_.use_own_weights();
  if (current_weights_) use_current_weights(action.version);
  const Decision& decision = context_.decisions->on(action.index);
  SaveWriter writer(device_->compute_type());
  if (decision.checkpoint && !drains(plan().alignment)) save_parameters(writer, SaveKind::kPrevious);
  segment_.update(arguments, action.version);
  for (const auto& slice : slices_) slice->update(arguments);
  if (decision.checkpoint) {
    save_parameters(writer, SaveKind::kWeights);
    save_optimizer(writer);
    context_.events->saved(action.index, index_, writer.take());
  }
  end_action(action, begin);
  cursor_.pop();
  ++updates_;
}

}  // namespace millrace
