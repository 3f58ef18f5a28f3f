// When rows pass the streams of generated hardware, by what they wait for: rows in, results that may leave, room for both.
//
//   RowTiming timing;
//   const size_t in = timing.stream({.rows = 12}, /*row_seconds=*/60), out = timing.stream({.rows = 12}, 12);
//   timing.stage({.reads = {{.stream = in, .steps = 12, .map_rows = 12, .window_rows = 1, .banks = 2}}, .out = out, .compute = 100});
//   const RowTimes times = timing.run({.samples = 24});
//   times.period;                                    // seconds of a sample in the steady state
//
// A stream carries the rows of maps, sample after sample, in units of a row or of a block of rows; every unit begins and ends once. A
// stage reads windows of rows out of line buffers and makes a unit of rows in every step. A queue stands between two streams and holds as
// many rows as it has room for. Streams that move together, as a fork or an adder makes them, are one (join). Each beginning and end is
// the latest of what it waits for, so times are exact for these rules, which are the RTL's but for single cycles within a row. Who waits
// for whom is row_events.h's, a run row_walk.h's. A pure computation; the same network gives the same times in whatever order it was put
// together. Internal to fpga/conv_ce.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace millrace {

// Of a sample: rows, which pass in blocks where whoever makes them makes several at once.
struct RowBlocks {
  int64_t rows = 1;
  int64_t first_block_rows = 1;
  int64_t block_rows = 1;

  int64_t units() const;
  int64_t unit_of(int64_t row) const;   // over all samples
  int64_t rows_to(int64_t unit) const;  // that have begun before it, over all samples
  bool operator==(const RowBlocks&) const = default;
};

// A line buffer and how a stage walks over it.
struct RowWindow {
  size_t stream = 0;
  int64_t steps = 1;  // of a sample, or of those that share a pass
  int64_t map_rows = 1;
  int64_t first_top = 0, stride = 1, window_rows = 1;
  int64_t banks = 2;  // rows that it holds
  // Steps in turn that take the same rows, the first steps of a sample fewer by so many.
  int64_t steps_of_window = 1, missing_steps = 0;
};

struct RowStage {
  std::vector<RowWindow> reads;
  std::optional<size_t> adds = {};  // partial sums, a unit per step
  std::optional<size_t> out = {};   // a unit per step
  double compute = 0;               // seconds of a step
  double first = 0;                 // until its first result
  double latency = 0;
  double ahead = 0;  // units that wait to leave while the next steps are computed
  double tail = 0;   // of a step, when room comes only then
  int64_t samples_of_pass = 1;
};

// From FP until errors are back, or between modules.
struct RowQueue {
  size_t in = 0, out = 0;
  double rows = 1;         // that it has room for
  bool sorts = false;      // rows leave once their block is in
  bool waits = false;      // is a memory of those that errors are waited for in
  double latency = 0;      // from the first beat in to the first one out
  double end_latency = 0;  // likewise of the last
};

struct RowRun {
  int64_t samples = 24;
  bool unlimited = false;             // memories that wait have room for all
  std::optional<size_t> source = {};  // takes a sample every so many seconds
  double source_period = 0;
};

struct RowTimes {
  bool stands_still = false;
  double period = 0;                 // seconds a sample, in the steady state
  std::vector<double> peak_rows;     // by queue: the most that were in it
  std::vector<double> samples_held;  // by queue: samples by which its room holds back what comes, on the way that sets the period
};

class RowTiming {
 public:
  size_t stream(const RowBlocks& blocks, double row_seconds);
  // Both move together from here on, at the slower one's pace.
  void join(size_t a, size_t b);
  void slow_down(size_t stream, double row_seconds);
  void stage(RowStage stage);
  size_t queue(const RowQueue& queue);
  // Errors of a sample follow its last score.
  void host(size_t scores, size_t errors);

  const RowBlocks& blocks_of(size_t stream) const { return streams_[same(stream)].blocks; }

  RowTimes run(const RowRun& how) const;

 private:
  friend class RowEvents;
  struct Stream {
    RowBlocks blocks;
    double row_seconds = 0;
  };
  size_t same(size_t stream) const;

  std::vector<Stream> streams_;
  std::vector<size_t> joined_;  // with an earlier one, or itself
  std::vector<RowStage> stages_;
  std::vector<RowQueue> queues_;
  std::vector<std::pair<size_t, size_t>> hosts_;
};

}  // namespace millrace
