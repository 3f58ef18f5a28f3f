// What a run reports about itself: one JSON object per line, in RUN_DIR/metrics.jsonl and, with --json, on standard
// output. The names below are a contract: scripts read them.
//
//   MetricsFile file("run/metrics.jsonl");
//   file.write({"step", {{"step", 120}, {"epoch", 1.5}, {"loss", 0.31}, {"learning_rate", 0.05}}});
//   // {"event":"step","step":120,"epoch":1.5,"loss":0.31,"learning_rate":0.05}
//
// | event        | written                                   | always has          |
// | "step"       | after an update, as often as asked for    | step, epoch, loss   |
// | "epoch"      | when an epoch's last sample is done       | step, epoch, loss   |
// | "evaluation" | after an evaluation                       | step, epoch, loss   |
// | "checkpoint" | when a checkpoint is complete             | step, path          |
// | "done"       | once, as the last line                    | step, reason        |
//
// | name              | type   | meaning, the same in every event                                                        |
// | event             | text   | what happened                                                                           |
// | step              | int    | updates done since the training began                                                   |
// | epoch             | number | epochs done since the training began; fractional in "step"                              |
// | loss              | number | mean per sample; of the updates since the last such event, or of the evaluation set     |
// | accuracy          | number | share of right answers, 0 to 1, over the same samples                                   |
// | bits_per_character | number | "evaluation" of text: what the network needs to tell a character from those before it   |
// | samples           | int    | how many samples those were                                                             |
// | learning_rate     | number | of the last update                                                                      |
// | gradient_norm     | number | of the last update, before clipping                                                     |
// | images_per_second | number | MEASURED by the wall clock since the last such event; sequences, where samples are that |
// | seconds           | number | MEASURED by the wall clock: what this event took; "done": the whole process             |
// | peak_memory_bytes | int    | MEASURED: the largest resident memory of this process so far                            |
// | data_wait_seconds | number | "done", MEASURED: how long the first device waited for samples                          |
// | path              | text   | the checkpoint's folder, relative to the run's                                          |
// | weights_digest    | text   | core/train/weights_digest.h: equal when the weights are bitwise equal                   |
// | reason            | text   | why the run ended: "epochs", "steps", "time limit", "signal", "early stop"              |
// | parameters        | int    | trained parameters of the model                                                         |
// All but the MEASURED ones are the same in every repetition of the same run. A number that is not finite is
// null. Doubles are written so that reading them back gives the same bits.
// Writing a record against this schema is a mistake of the program (check.h). Not thread safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace millrace {

struct MetricsValue {
  MetricsValue(double value) : content(value) {}
  MetricsValue(int64_t value) : content(value) {}
  MetricsValue(int value) : content(int64_t{value}) {}
  MetricsValue(std::string value) : content(std::move(value)) {}
  MetricsValue(const char* value) : content(std::string(value)) {}

  std::variant<double, int64_t, std::string> content;
};

struct MetricsRecord {
  std::string event;
  std::vector<std::pair<std::string, MetricsValue>> values;  // written in this order
};
// One line of JSON, without the line's end.
std::string json_line(const MetricsRecord& record);

class MetricsSink {
 public:
  virtual ~MetricsSink() = default;
  virtual void write(const MetricsRecord& record) = 0;
};

// Appends whole lines: what a reader, or a crash, finds is complete but for at most the last line. Each line reaches the
// operating system before write() returns; the disk when sync() does. A write that fails leaves no part of its line.
class MetricsFile : public MetricsSink {
 public:
  // A new file; fails with kIo when it cannot be made. What was there is replaced.
  explicit MetricsFile(const std::filesystem::path& path);
  // Continues the file of an earlier run from a checkpoint at `step`: lines beyond that step, a "done" and a line cut
  // short by a crash are dropped, for the resumed training writes them anew. A missing file starts empty; a line that
  // cannot be read is dropped with a warning. `evaluates_again`: the evaluation at that very step is written anew as well.
  static MetricsFile resumed(const std::filesystem::path& path, int64_t step, bool evaluates_again = false);

  ~MetricsFile() override;
  MetricsFile(MetricsFile&& other) noexcept;
  MetricsFile& operator=(MetricsFile&&) = delete;

  void write(const MetricsRecord& record) override;
  void sync();

 private:
  MetricsFile(std::filesystem::path path, const std::string& content);
  void remove_end(size_t bytes);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

// The same lines on an open stream, flushed one by one: `MetricsStream(stdout)` is --json. Borrows the stream.
class MetricsStream : public MetricsSink {
 public:
  explicit MetricsStream(std::FILE* stream) : stream_(stream) {}
  void write(const MetricsRecord& record) override;

 private:
  std::FILE* stream_;
};

}  // namespace millrace
