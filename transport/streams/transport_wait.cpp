// Waiting, and what is said when it was in vain.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/base/check.h"
#include "core/base/index.h"
#include "transport/streams/transport.h"

namespace millrace {

namespace {

using namespace std::chrono_literals;

constexpr Nanoseconds kAbortLingers = 100ms;
constexpr int kPolls = 16;        // before a wait looks at the clock
constexpr int kPollsOfCrowd = 2;  // where others need the core; what a rank sends to itself comes with the second

double seconds(Nanoseconds duration) { return std::chrono::duration<double>(duration).count(); }

std::string text_of(MessageId id) {
  return id.chunk < 0 ? fmt::format("micro-batch {}", id.index) : fmt::format("micro-batch {} (chunk {})", id.index, id.chunk);
}

}  // namespace

bool Transport::crowded() const {
  Waker* const waker = wire_->waker();
  return waker != nullptr && waker->crowded();
}

bool Transport::ready(const Interest& interest) {
  switch (interest.want) {
    case Want::kMessage: return has_message(interest.flow);
    case Want::kCredit: return can_send(interest.flow);
    case Want::kControl: return control_.has(interest.control_kind);
  }
  return false;
}

std::optional<size_t> Transport::first_ready(std::span<const Interest> interests) {
  for (size_t i = 0; i < interests.size(); ++i)
    if (ready(interests[i])) return i;
  return std::nullopt;
}

std::optional<size_t> Transport::wait(std::span<const Interest> interests, const WaitLimits& limits) {
  MILLRACE_CHECK(!interests.empty(), "a wait for nothing");
  // What is about to come is not kept waiting by what follows.
  const int polls = crowded() ? kPollsOfCrowd : kPolls;
  for (int poll = 0; poll < polls; ++poll) {
    pump();
    if (const auto found = first_ready(interests)) return found;
  }
  return wait_long(interests, limits);
}

std::optional<size_t> Transport::wait_long(std::span<const Interest> interests, const WaitLimits& limits) {
  waiting_ = interests.front();
  waited_ = {};
  Patience patience(clock_, wire_->waker());
  const auto left = [&] { return limits.at_most ? *limits.at_most - patience.waited() : Nanoseconds::max(); };
  for (;;) {
    if (left() <= 0ns || (limits.interrupt != nullptr && limits.interrupt->load(std::memory_order_relaxed))) return std::nullopt;
    patience.pause(next_event_, left(), last_sent_ == nullptr || last_sent_->sent(last_sent_slot_));
    pump();
    if (const auto found = first_ready(interests)) return found;
    if (!patience.napping()) continue;
    waited_ = patience.waited();
    control_.tick(patience.now(), note(patience));
    check_deadline(patience, interests, limits.while_alive);
  }
}

ControlMessage Transport::await_control(uint32_t kind, std::string_view what, int64_t from) {
  awaited_control_ = what;
  awaited_from_ = from;
  Interest interest;
  interest.want = Want::kControl;
  interest.control_kind = kind;
  wait(std::array{interest});
  return *control_.take(kind);
}

HeartbeatNote Transport::note(const Patience& patience) const {
  HeartbeatNote note;
  note.flow = waiting_->want == Want::kControl ? kNoFlow : static_cast<uint32_t>(waiting_->flow);
  note.want = static_cast<uint32_t>(waiting_->want);
  note.index = waiting_->id.index;
  note.waited = patience.waited().count();
  return note;
}

// Where the frames come from that would make it ready; none when that is this rank itself.
std::optional<Side> Transport::side_of(const Interest& interest) const {
  switch (interest.want) {
    case Want::kMessage: return ends(interest.flow).receive_side;
    case Want::kCredit: return ends(interest.flow).send_side;
    case Want::kControl: return ranks() == 1 ? std::nullopt : std::optional(Side::kPrevious);
  }
  return std::nullopt;
}

void Transport::check_deadline(const Patience& patience, std::span<const Interest> interests, bool while_alive) {
  if (patience.waited() < settings_.deadline) return;
  const Interest* longest = &interests.front();
  Nanoseconds silence = -1ns;
  for (const Interest& interest : interests)
    if (const auto side = side_of(interest)) {
      const Nanoseconds silent = patience.now() - control_.last_heard(*side);
      if (silent > silence) longest = &interest;
      silence = std::max(silence, silent);
    }
  // A neighbour that is alive waits for somebody else: who stands beside that one reports it first.
  const bool alive = silence >= 0ns && silence < settings_.deadline / 2;
  if (alive && (while_alive || patience.waited() < settings_.deadline / 4 * 5)) return;
  time_out(patience, *longest);
}

std::string Transport::describe(const Interest& interest) const {
  if (interest.want == Want::kControl) return fmt::format("{} (control)", awaited_control_);
  const FlowSpec& spec = item(table_.flows, interest.flow);
  const FlowEnds& ends = this->ends(interest.flow);
  const std::string what = fmt::format("{} \"{}\" of {}", name_of(spec.stream), spec.tensor, text_of(interest.id));
  if (interest.want == Want::kMessage)
    return fmt::format("{} (flow {}, message {}, from device {} to {})", what, interest.flow, ends.receiver.arrived, spec.from, spec.to);
  return fmt::format("a credit to send {} (flow {}, message {}, from device {} to {}; {} of {} credits are out)", what, interest.flow,
                     ends.sender.committed, spec.from, spec.to, ends.sender.committed - ends.sender.credited, spec.credits);
}

std::string Transport::describe(const HeartbeatNote& note) const {
  if (note.waited <= 0) return "at work";
  const double waited = seconds(Nanoseconds(note.waited));
  if (note.flow >= table_.flows.size()) return fmt::format("waiting for a control message ({:.1f} s so far)", waited);
  const FlowSpec& spec = table_.flows[note.flow];
  const bool credit = note.want == static_cast<uint32_t>(Want::kCredit);
  return fmt::format("waiting itself for {}{} \"{}\" of micro-batch {} {} rank {} ({:.1f} s so far)", credit ? "a credit to send " : "",
                     name_of(spec.stream), spec.tensor, note.index, credit ? "to" : "from", layout_.rank_of(credit ? spec.to : spec.from),
                     waited);
}

void Transport::time_out(const Patience& patience, const Interest& interest) {
  const double waited = seconds(patience.waited());
  const double deadline = seconds(settings_.deadline);
  const auto side = side_of(interest);
  if (!side)
    fail(ErrorCode::kTimeout,
         "rank {} waited {:.1f} s (deadline {:g} s) for {}, which only this rank itself can bring: its devices wait for each other", rank(),
         waited, deadline, describe(interest));
  const int64_t peer = control_.peer(*side);
  const std::string source =
      interest.want == Want::kControl && awaited_from_ != peer ? fmt::format("rank {} by way of ", awaited_from_) : "";
  const Nanoseconds silent = patience.now() - control_.last_heard(*side);
  if (silent >= settings_.deadline / 2)
    fail(
        ErrorCode::kTimeout,
        "rank {} waited {:.1f} s (deadline {:g} s) for {} from {}rank {}, which was silent for {:.1f} s: it has stopped, hangs, or was cut "
        "off; a longer deadline helps only when it computes for so long",
        rank(), waited, deadline, describe(interest), source, peer, seconds(silent));
  fail(ErrorCode::kTimeout, "rank {} waited {:.1f} s (deadline {:g} s) for {} from {}rank {}, which is alive, last heard {:.1f} s ago, {}",
       rank(), waited, deadline, describe(interest), source, peer, seconds(silent), describe(control_.note_of(*side)));
}

std::string Transport::last_wait() const {
  if (!waiting_) return "nothing yet";
  return fmt::format("{} ({:.1f} s)", describe(*waiting_), seconds(waited_));
}

void Transport::drain() {
  Patience patience(clock_);
  for (;;) {
    pump();
    if (idle()) return;
    patience.pause(next_event_);
    control_.tick(patience.now(), {});
    if (patience.waited() >= settings_.deadline)
      fail(ErrorCode::kTimeout, "rank {} waited {:.1f} s (deadline {:g} s) for its last messages to be taken", rank(),
           seconds(patience.waited()), seconds(settings_.deadline));
  }
}

void Transport::leave() {
  control_.say_goodbye();
  for (LinkLane& lane : lanes_) push_bare(FrameKind::kGoodbye, lane.lane, {});
  const auto stays = [](const Incoming& incoming) { return incoming.use != Use::kFlow && !incoming.left; };
  Patience patience(clock_);
  for (;;) {
    pump();
    repost();  // the neighbours wait for it, and no other call may follow
    const auto found = std::find_if(incoming_.begin(), incoming_.end(), stays);
    if (found == incoming_.end() && idle()) return;
    patience.pause(next_event_);
    if (patience.waited() < settings_.deadline) continue;
    fail(ErrorCode::kTimeout, "rank {} waited {:.1f} s (deadline {:g} s) for {}", rank(), seconds(patience.waited()),
         seconds(settings_.deadline), found == incoming_.end() ? "its goodbye to be heard" : "the goodbye of " + found->origin);
  }
}

void Transport::abort(const Error& reason) {
  control_.announce_abort(reason.code(), reason.what());
  // What arrives now is of no interest any more.
  for (Patience patience(clock_); !control_.drained() && patience.waited() < kAbortLingers; patience.pause(kNoInstant)) {
    arrivals_.clear();
    static_cast<void>(wire_->progress(arrivals_));
    control_.flush();
  }
}

}  // namespace millrace
