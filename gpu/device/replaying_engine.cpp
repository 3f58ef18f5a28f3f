#include "gpu/device/replaying_engine.h"

#include <algorithm>
#include <type_traits>
#include <utility>

namespace millrace::gpu {

namespace {

constexpr size_t kMostRows = 4096;  // of which those that came once make room

// Bytes that belong to no member may be anything: two equal calls would differ.
template <typename Arguments>
void append(std::string& key, Arguments arguments) {
  static_assert(std::is_trivially_copyable_v<Arguments>);
#if defined(__GNUC__) && !defined(__clang__)
  __builtin_clear_padding(&arguments);
#endif
  key.append(reinterpret_cast<const char*>(&arguments), sizeof(arguments));
}

template <typename... Kinds>
void append(std::string& key, const std::variant<Kinds...>& call) {
  key.push_back(static_cast<char>(call.index()));
  std::visit([&](const auto& arguments) { append(key, arguments); }, call);
}

}  // namespace

ReplayingEngine::ReplayingEngine(std::unique_ptr<Engine> engine, ReplayCounts* counts)
    : engine_(std::move(engine)), counts_(counts != nullptr ? *counts : own_counts_) {}

ReplayingEngine::~ReplayingEngine() = default;

void ReplayingEngine::record(int event, Queue queue) {
  if (queue != Queue::kCompute || held_.empty()) {
    if (is_held(event)) let_go();
    return engine_->record(event, queue);
  }
  if (!is_held(event)) events_.push_back(event);
  if (held_.size() >= kEnough) let_go();
}

void ReplayingEngine::wait(Queue queue, int event) {
  if (queue == Queue::kCompute || is_held(event)) let_go();
  engine_->wait(queue, event);
}

void ReplayingEngine::wait_here(int event) {
  if (is_held(event)) let_go();
  engine_->wait_here(event);
}

void ReplayingEngine::synchronize() {
  let_go();
  engine_->synchronize();
}

void ReplayingEngine::copy(Queue queue, const Copy& copy) {
  if (queue == Queue::kCompute) return hold(copy);
  engine_->copy(queue, copy);
}

ConvolutionChoice ReplayingEngine::choose(const ConvolutionGeometry& geometry, ConvolutionPhase phase, Precision precision,
                                          size_t most_workspace, bool measure) {
  let_go();
  return engine_->choose(geometry, phase, precision, most_workspace, measure);
}

RecurrenceChoice ReplayingEngine::choose(const RecurrenceGeometry& geometry) {
  let_go();
  return engine_->choose(geometry);
}

// Its kernels are launched so that all blocks are there at once, and tell the host when they hang.
void ReplayingEngine::recurrence(const Recurrence& call) {
  let_go();
  engine_->recurrence(call);
}

void ReplayingEngine::hold(Call call) {
  held_.push_back(std::move(call));
  if (held_.size() >= kMost) let_go();
}

bool ReplayingEngine::is_held(int event) const { return std::ranges::find(events_, event) != events_.end(); }

void ReplayingEngine::let_go() {
  const std::vector<Call> calls = std::exchange(held_, {});
  const std::vector<int> events = std::exchange(events_, {});
  if (calls.size() < 2) {
    issue_all(calls);
  } else {
    std::string key;
    for (const Call& call : calls) append(key, call);
    if (rows_.size() >= kMostRows) std::erase_if(rows_, [](const auto& row) { return row.second.graph < 0; });
    const auto [found, is_new] = rows_.try_emplace(std::move(key));
    Row& row = found->second;
    // The first time all kernels are loaded and all plans made, which a capture must not do.
    if (!is_new && row.graph < 0 && !row.refused && counts_.captured < kMostGraphs) {
      row.graph = capture(calls);
      row.refused = row.graph < 0;
      ++(row.refused ? counts_.refused : counts_.captured);
    }
    if (row.graph < 0) {
      issue_all(calls);
    } else {
      engine_->replay(row.graph);
      ++counts_.replayed;
      counts_.in_graphs += static_cast<int64_t>(calls.size());
    }
  }
  for (const int event : events) engine_->record(event, Queue::kCompute);
}

int ReplayingEngine::capture(const std::vector<Call>& calls) {
  if (!engine_->begin_capture()) return -1;
  try {
    for (const Call& call : calls) issue(call);
  } catch (const Failure&) {  // a library refused: it may do without a capture, and says what is wrong where it does not
    engine_->end_capture();
    return -1;
  }
  return engine_->end_capture();
}

void ReplayingEngine::issue_all(const std::vector<Call>& calls) {
  for (const Call& call : calls) issue(call);
  counts_.issued += static_cast<int64_t>(calls.size());
}

void ReplayingEngine::issue(const Call& call) {
  std::visit(
      [&](const auto& c) {
        using Kind = std::decay_t<decltype(c)>;
        if constexpr (std::is_same_v<Kind, Copy>)
          engine_->copy(Queue::kCompute, c);
        else if constexpr (std::is_same_v<Kind, Zero>)
          engine_->fill_zero(c.memory, c.bytes);
        else if constexpr (std::is_same_v<Kind, Convolution>)
          engine_->convolution(c);
        else if constexpr (std::is_same_v<Kind, Gemm>)
          engine_->gemm(c);
        else
          engine_->run(c);
      },
      call);
}

}  // namespace millrace::gpu
