// What each device did when, for the Perfetto UI (ui.perfetto.dev) or chrome://tracing: one track per device and stream.
//
//   Trace trace;                                                   // one per rank
//   trace.span(/*device=*/2, "F3", begin, end);                    // on the device's track
//   trace.span(2, "wait", begin, end, "activation \"conv2\"");     // with a detail
//   const std::string all = trace_json({{.rank = 0, .events = trace.encoded()}, ...}, title);
//
// Times are MEASURED, by the machine's clock, and brought to the time of day: machines agree as well as they are set.
// Grows with the training: a limit keeps it bounded, and the file says how many events it left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

class Trace {
 public:
  using Time = std::chrono::nanoseconds;  // since the clock's own beginning

  explicit Trace(size_t limit = size_t{2} << 20) : limit_(limit) {}

  void span(int64_t device, std::string_view name, Time begin, Time end, std::string_view detail = {});
  // Something that lasts no time: a message left or arrived on a stream of the device.
  void mark(int64_t device, std::string_view stream, std::string_view name, Time at);

  // As text that trace_json() of any rank understands.
  std::string encoded() const;
  int64_t left_out() const { return left_out_; }

 private:
  struct Event {
    int64_t device;
    Time begin;
    Time end;  // before begin: a mark
    std::string name;
    std::string detail;
  };
  bool has_room();

  size_t limit_;
  int64_t left_out_ = 0;
  std::vector<Event> events_;
};

// The events of all ranks as one JSON document. `ranks[r]` is what rank r encoded.
std::string trace_json(const std::vector<std::string>& ranks, std::string_view title);

}  // namespace millrace
