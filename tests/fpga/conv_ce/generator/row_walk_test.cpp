// Drawn networks of streams, stages and queues: their times against a recursion that asks each event what it waits for.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "fpga/conv_ce/generator/row_timing.h"

namespace millrace {
namespace {

struct DrawnRows {
  std::vector<RowBlocks> blocks;
  std::vector<double> row_seconds;
  std::vector<RowStage> stages;
  std::vector<RowQueue> queues;
  size_t scores = 0, errors = 0;
  RowRun how;

  size_t stream(const RowBlocks& of, double seconds) {
    blocks.push_back(of);
    row_seconds.push_back(seconds);
    return blocks.size() - 1;
  }
  RowTimes run() const {
    RowTiming timing;
    for (size_t i = 0; i < blocks.size(); ++i) timing.stream(blocks[i], row_seconds[i]);
    for (const RowStage& stage : stages) timing.stage(stage);
    for (const RowQueue& queue : queues) timing.queue(queue);
    timing.host(scores, errors);
    return timing.run(how);
  }
};

// The rules of row_timing.h, one question at a time.
class Recursion {
 public:
  explicit Recursion(const DrawnRows& network) : net_(network) {
    for (const RowBlocks& blocks : net_.blocks) {
      std::vector<int64_t>& begins = begins_.emplace_back(1, 0);
      for (int64_t row = 0; row < net_.how.samples * blocks.rows;) {
        const int64_t local = row % blocks.rows;
        row += std::min(local == 0 ? blocks.first_block_rows : blocks.block_rows, blocks.rows - local);
        begins.push_back(row);
      }
    }
  }

  // Nothing where some wait for each other.
  std::optional<double> period() {
    std::vector<double> done(static_cast<size_t>(net_.how.samples), 0);
    for (size_t s = 0; s < begins_.size(); ++s)
      for (size_t u = 0; u + 1 < begins_[s].size(); ++u) {
        double& own = done[static_cast<size_t>((begins_[s][u + 1] - 1) / net_.blocks[s].rows)];
        own = std::max(own, end(s, u));
      }
    for (size_t g = 0; g < net_.stages.size(); ++g)
      for (int64_t k = 0; k < net_.how.samples / net_.stages[g].samples_of_pass * net_.stages[g].reads.front().steps; ++k) step_end(g, k);
    if (circle_) return std::nullopt;
    const size_t half = done.size() / 2;
    return (done.back() - done[done.size() - 1 - half]) / static_cast<double>(half);
  }
  double peak(const RowQueue& queue) {
    double most = 0;
    for (size_t u = (begins_[queue.in].size() - 1) / 2; u + 1 < begins_[queue.in].size(); ++u) {
      const double now = end(queue.in, u);
      double gone = 0;
      for (size_t v = 0; v + 1 < begins_[queue.out].size(); ++v) {
        const double from = begin(queue.out, v), to = end(queue.out, v), rows = static_cast<double>(rows_of(queue.out, v));
        gone += to <= now ? rows : from < now ? rows * (now - from) / (to - from) : 0;
      }
      most = std::max(most, static_cast<double>(begins_[queue.in][u + 1]) - gone);
    }
    return most;
  }

 private:
  static constexpr double kNever = -1e9;
  enum Kind { kBegin, kEnd, kStepBegin, kStepEnd };

  int64_t rows_of(size_t s, size_t u) const { return begins_[s][u + 1] - begins_[s][u]; }
  // Whose last row, or a later one, is the row before `rows`.
  size_t unit_to(size_t s, double rows) const {
    size_t u = 0;
    while (static_cast<double>(begins_[s][u + 1]) < rows) ++u;
    return u;
  }
  template <typename Find>
  double known(Kind kind, size_t who, int64_t unit, const Find& find) {
    const auto key = std::tuple(kind, who, unit);
    if (const auto at = known_.find(key); at != known_.end()) return at->second;
    if (circle_ || !open_.insert(key).second) {
      circle_ = true;
      return 0;
    }
    const double at = find();
    open_.erase(key);
    return known_[key] = at;
  }
  double passed(size_t s, double rows, bool soon, double least) {
    if (rows <= 0) return kNever;
    const size_t u = unit_to(s, rows);
    const double part = (rows - static_cast<double>(begins_[s][u])) / static_cast<double>(rows_of(s, u));
    if (part == 1 && !soon) return end(s, u);
    return begin(s, u) + part * (soon ? least : end(s, u) - begin(s, u));
  }
  double room(const RowQueue& queue, double rows) {
    if (net_.how.unlimited && queue.waits) return kNever;
    const size_t out = queue.out;
    const auto block = static_cast<double>(std::max(net_.blocks[out].first_block_rows, net_.blocks[out].block_rows));
    if (queue.sorts) return rows <= queue.rows ? kNever : end(out, unit_to(out, rows - queue.rows)) - queue.latency;
    const bool is_short = queue.rows < block;
    const double own = passed(out, rows - queue.rows, is_short, block * net_.row_seconds[out]);
    return is_short ? std::max(own, room_behind(out, rows - queue.rows)) : own;
  }
  double room_behind(size_t s, double rows) {
    double at = kNever;
    for (const RowQueue& queue : net_.queues)
      if (queue.in == s && !queue.sorts) at = std::max(at, room(queue, rows));
    return at;
  }
  static int64_t rows_at(const RowWindow& window, int64_t step, int64_t row) {
    const int64_t top = window.first_top + (step % window.steps + window.missing_steps) / window.steps_of_window * window.stride + row;
    return step / window.steps * window.map_rows + std::clamp(top, int64_t{0}, window.map_rows);
  }

  double begin(size_t s, size_t u) {
    return known(kBegin, s, static_cast<int64_t>(u), [&] {
      const int64_t above = begins_[s][u], below = begins_[s][u + 1];
      double at = u > 0 ? end(s, u - 1) : 0;
      if (net_.how.source == s)
        at = std::max(at, net_.how.source_period * static_cast<double>(above) / static_cast<double>(net_.blocks[s].rows));
      for (size_t g = 0; g < net_.stages.size(); ++g) {
        const RowStage& stage = net_.stages[g];
        if (stage.out == s) at = std::max(at, step_begin(g, static_cast<int64_t>(u)) + stage.first + stage.latency);
        if (stage.adds == s && u > 0) at = std::max(at, step_end(g, static_cast<int64_t>(u) - 1) - stage.first);
        for (const RowWindow& window : stage.reads) {
          if (window.stream != s) continue;
          int64_t step = 0;
          while (rows_at(window, step, 0) + window.banks < below) ++step;
          if (step > 0) at = std::max(at, step_end(g, step - 1));
        }
      }
      for (const RowQueue& queue : net_.queues) {
        if (queue.out == s)
          at = std::max(at,
                        queue.latency + (queue.sorts ? end(queue.in, unit_to(queue.in, static_cast<double>(below))) : begin(queue.in, u)));
        if (queue.in == s) at = std::max(at, room(queue, static_cast<double>(queue.sorts ? below : above)));
      }
      if (s == net_.errors && above % net_.blocks[s].rows == 0)
        at = std::max(
            at,
            end(net_.scores, unit_to(net_.scores, static_cast<double>((above / net_.blocks[s].rows + 1) * net_.blocks[net_.scores].rows))));
      return at;
    });
  }
  double end(size_t s, size_t u) {
    return known(kEnd, s, static_cast<int64_t>(u), [&] {
      double at = begin(s, u) + static_cast<double>(rows_of(s, u)) * net_.row_seconds[s];
      for (size_t g = 0; g < net_.stages.size(); ++g) {
        if (net_.stages[g].out == s) at = std::max(at, step_end(g, static_cast<int64_t>(u)) + net_.stages[g].latency);
        if (net_.stages[g].adds == s)
          at = std::max(at, step_begin(g, static_cast<int64_t>(u)) + net_.stages[g].compute - net_.stages[g].first);
      }
      for (const RowQueue& queue : net_.queues) {
        if (queue.sorts) continue;
        if (queue.out == s) at = std::max(at, end(queue.in, u) + queue.end_latency);
        if (queue.in == s) at = std::max(at, room(queue, static_cast<double>(begins_[s][u + 1])));
      }
      return at;
    });
  }
  double step_begin(size_t g, int64_t k) {
    return known(kStepBegin, g, k, [&] {
      double at = k > 0 ? step_end(g, k - 1) : 0;
      for (const RowWindow& window : net_.stages[g].reads)
        if (const int64_t rows = rows_at(window, k, window.window_rows); rows > 0)
          at = std::max(at, end(window.stream, unit_to(window.stream, static_cast<double>(rows))));
      return at;
    });
  }
  double step_end(size_t g, int64_t k) {
    return known(kStepEnd, g, k, [&] {
      const RowStage& stage = net_.stages[g];
      double at = step_begin(g, k) + stage.compute;
      if (stage.adds) at = std::max(at, end(*stage.adds, static_cast<size_t>(k)) + stage.first);
      if (!stage.out) return at;
      const size_t out = *stage.out;
      const bool soon = stage.ahead < 1;
      const double units = static_cast<double>(k + 1) - stage.ahead;
      double left = kNever;
      if (units > 0) {
        const size_t u = unit_at(units);
        const double part = units - static_cast<double>(u), least = std::max(stage.compute - stage.first, net_.row_seconds[out]);
        left = part == 1 && !soon ? end(out, u) : begin(out, u) + part * (soon ? least : end(out, u) - begin(out, u));
      }
      const auto unit = static_cast<size_t>(k);
      if (soon)
        left = std::max(
            left, room_behind(out, static_cast<double>(begins_[out][unit]) + (1 - stage.ahead) * static_cast<double>(rows_of(out, unit))));
      return std::max(at, left + stage.tail);
    });
  }
  // That so many units end in.
  static size_t unit_at(double units) {
    size_t u = 0;
    while (static_cast<double>(u) + 1 < units) ++u;
    return u;
  }

  const DrawnRows& net_;
  std::vector<std::vector<int64_t>> begins_;  // rows, by stream and unit
  std::map<std::tuple<Kind, size_t, int64_t>, double> known_;
  std::set<std::tuple<Kind, size_t, int64_t>> open_;
  bool circle_ = false;
};

// FP over some stages, the host, and the way back beside memories; rooms and seconds are eighths, which nothing rounds.
DrawnRows drawn_network(std::mt19937_64& random) {
  const auto drawn = [&random](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  const auto eighths = [&](int64_t least, int64_t most) { return static_cast<double>(drawn(8 * least, 8 * most)) / 8; };
  DrawnRows net;
  const int64_t of_pass = drawn(0, 1) == 0 ? 1 : drawn(2, 3), rows = 4 * drawn(1, 2);
  const bool batched = drawn(0, 4) == 0;  // a device that takes several samples at once makes what goes on
  std::vector<size_t> forward{net.stream({.rows = rows}, eighths(1, 4))};
  const auto read = [&](size_t stream, int64_t steps, int64_t window, int64_t banks) {
    return RowWindow{.stream = stream, .steps = steps, .map_rows = rows, .first_top = -drawn(0, 1), .window_rows = window, .banks = banks};
  };
  const auto passing = [&](size_t stream, int64_t steps) {
    RowWindow window = read(stream, steps, rows * of_pass, 3 * rows * of_pass);
    window.first_top = 0;
    window.map_rows *= of_pass;
    return window;
  };
  for (int64_t i = drawn(1, 3); i > 0; --i) {
    const size_t in = forward.back(), out = net.stream({.rows = rows}, eighths(1, 4));
    switch (drawn(0, 2)) {
      case 0:
        net.queues.push_back({.in = in, .out = out, .rows = eighths(0, 3) + 0.125, .latency = eighths(0, 2), .end_latency = eighths(0, 2)});
        break;
      default: {
        std::optional<size_t> partial;
        if (drawn(0, 2) == 0) partial = net.stream({.rows = rows}, eighths(1, 4));
        net.stages.push_back({.reads = {read(in, rows, drawn(1, 2), drawn(3, 4))},
                              .adds = partial,
                              .out = out,
                              .compute = eighths(3, 6),
                              .first = eighths(0, 3),
                              .latency = eighths(0, 2),
                              .ahead = eighths(0, 2)});
      }
    }
    forward.push_back(out);
  }
  net.scores = forward.back();
  if (batched) {
    net.scores = net.stream({.rows = rows}, 1);
    net.stages.push_back({.reads = {passing(forward.back(), rows * of_pass)},
                          .out = net.scores,
                          .compute = eighths(0, 2),
                          .ahead = 1,
                          .samples_of_pass = of_pass});
  }
  const RowBlocks in_blocks{.rows = rows, .first_block_rows = drawn(1, 2), .block_rows = 2};
  net.errors = net.stream({.rows = rows}, eighths(1, 4));
  const size_t made = net.stream(in_blocks, eighths(1, 4)), back = net.stream({.rows = rows}, eighths(1, 4));
  net.stages.push_back({.reads = {read(net.errors, in_blocks.units(), rows / 2, rows)},
                        .out = made,
                        .compute = eighths(1, 8),
                        .first = eighths(0, 1),
                        .ahead = eighths(0, 2),
                        .tail = eighths(0, 1)});
  net.queues.push_back({.in = made, .out = back, .rows = 4, .sorts = true, .latency = eighths(0, 2)});
  for (const size_t in : forward)
    if (drawn(0, 1) == 0)
      net.queues.push_back({.in = in,
                            .out = back,
                            .rows = eighths(drawn(0, 3) == 0 ? 1 : rows, 5 * of_pass * rows),
                            .waits = true,
                            .latency = eighths(0, 2)});
  if (of_pass > 1)
    net.stages.push_back({.reads = {passing(net.errors, drawn(1, 5))}, .compute = eighths(0, 9), .samples_of_pass = of_pass});
  net.how = {.samples = 2 * drawn(1, 3) * of_pass, .unlimited = drawn(0, 2) == 0};
  if (drawn(0, 1) == 0) {
    net.how.source = forward.front();
    net.how.source_period = eighths(1, 64);
  }
  return net;
}

TEST(RowWalk, TimesAreThoseOfAskingEachEvent) {
  std::mt19937_64 random(11);
  int64_t still = 0, passes = 0;
  for (int i = 0; i < 300; ++i) {
    const DrawnRows net = drawn_network(random);
    Recursion recursion(net);
    const std::optional<double> period = recursion.period();
    const RowTimes times = net.run();
    ASSERT_EQ(times.stands_still, !period) << i;
    passes += std::ranges::any_of(net.stages, [](const RowStage& stage) { return stage.samples_of_pass > 1; }) ? 1 : 0;
    still += times.stands_still ? 1 : 0;
    if (!period) continue;
    ASSERT_NEAR(times.period, *period, 1e-9) << i;
    for (size_t queue = 0; queue < net.queues.size(); ++queue)
      if (net.queues[queue].waits) {
        ASSERT_NEAR(times.peak_rows[queue], recursion.peak(net.queues[queue]), 1e-9) << i << ", queue " << queue;
      }
  }
  EXPECT_GT(still, 10);
  EXPECT_LT(still, 200);
  EXPECT_GT(passes, 100);
}

}  // namespace
}  // namespace millrace
