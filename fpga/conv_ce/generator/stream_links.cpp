#include "fpga/conv_ce/generator/stream_links.h"

#include <optional>
#include <utility>

#include "core/base/check.h"
#include "fpga/conv_ce/generator/device_ports.h"

namespace millrace {

namespace {

bool goes_forward(const std::string& port) { return port.find("error") == std::string::npos; }

// The streams between the devices of a ring. Between two boards they have names; a device that takes micro-batches reads whatever comes and
// makes whatever is wanted.
class RingLinks {
 public:
  RingLinks(const std::vector<PlacedDesign>& placed, const std::vector<StreamsOfPorts>& ports, RowTiming& timing)
      : placed_(placed), ports_(ports), timing_(timing), batched_(placed.size()) {}

  // The network's input.
  size_t add() {
    size_t source = 0;
    for (size_t i = 0; i < placed_.size(); ++i)
      if (is_board(i)) join_board(i);
    if (is_board(0)) {
      source = ports_.front().at("s_activation");
    } else {
      source = timing_.stream({}, 0);
      batched_.front().forward.in.push_back(source);
    }
    for (size_t i = 0; i + 1 < placed_.size(); ++i) {
      if (is_board(i) || is_board(i + 1)) continue;
      for (auto [from, to] :
           {std::pair(&batched_[i].forward, &batched_[i + 1].forward), std::pair(&batched_[i + 1].back, &batched_[i].back)}) {
        from->out.push_back(timing_.stream({}, 0));
        to->in.push_back(from->out.back());
      }
    }
    for (size_t i = 0; i < placed_.size(); ++i)
      if (!is_board(i)) take_micro_batches(placed_[i], batched_[i], /*last=*/i + 1 == placed_.size());
    return source;
  }

 private:
  struct Way {
    std::vector<size_t> in, out;
  };
  struct Batched {
    Way forward, back;
  };

  bool is_board(size_t i) const { return placed_[i].design != nullptr; }

  void join_board(size_t i) {
    const DeviceDesign& design = *placed_[i].design;
    for (const std::string& input : input_streams(design)) {
      const bool forward = goes_forward(input);
      if (forward ? i == 0 : i + 1 == placed_.size()) continue;
      const size_t other = forward ? i - 1 : i + 1;
      if (!is_board(other)) {
        (forward ? batched_[other].forward : batched_[other].back).out.push_back(ports_[i].at(input));
        continue;
      }
      const StreamsOfPorts& there = ports_[other];
      const bool raw = input == "s_error" && !design.shards.back().owner;
      const std::string name = forward || input.starts_with("s_passing") ? "m" + input.substr(1) : raw ? "m_raw_error" : "m_input_error";
      const auto found = there.find(name);
      MILLRACE_CHECK(found != there.end(), "device {} has no stream {}", placed_[other].design->index, name);
      timing_.join(ports_[i].at(input), found->second);
    }
    for (const std::string& output : output_streams(design)) {
      const bool forward = goes_forward(output);
      if (forward ? i + 1 == placed_.size() : i == 0) continue;
      const size_t other = forward ? i + 1 : i - 1;
      if (!is_board(other)) (forward ? batched_[other].forward : batched_[other].back).in.push_back(ports_[i].at(output));
    }
  }

  // Samples of a micro-batch that is over, on a stream of their own; then each of the streams out, once all of it is there.
  std::optional<size_t> pass(const Way& way, int64_t samples, double seconds) {
    if (way.in.empty()) return std::nullopt;
    const size_t over = timing_.stream({}, 0);
    const auto whole = [&](size_t stream, int64_t units) {
      const int64_t rows = samples * timing_.blocks_of(stream).rows;
      return RowWindow{.stream = stream, .steps = samples * units, .map_rows = rows, .stride = 0, .window_rows = rows, .banks = 2 * rows};
    };
    RowStage batch{.reads = {}, .out = over, .compute = seconds / static_cast<double>(samples), .ahead = 1, .samples_of_pass = samples};
    for (const size_t in : way.in) batch.reads.push_back(whole(in, 1));
    timing_.stage(std::move(batch));
    for (const size_t out : way.out)
      timing_.stage({.reads = {whole(over, timing_.blocks_of(out).units())}, .out = out, .ahead = 1, .samples_of_pass = samples});
    return over;
  }

  // Errors of the last device's are its own.
  void take_micro_batches(const PlacedDesign& device, Batched& ways, bool last) {
    const std::optional<size_t> scores = pass(ways.forward, device.micro_batch, device.micro_batch_seconds);
    if (last && scores) ways.back.in.push_back(*scores);
    pass(ways.back, device.micro_batch, device.micro_batch_seconds);
  }

  const std::vector<PlacedDesign>& placed_;
  const std::vector<StreamsOfPorts>& ports_;
  RowTiming& timing_;
  std::vector<Batched> batched_;
};

}  // namespace

size_t link_devices(const std::vector<PlacedDesign>& devices, const std::vector<StreamsOfPorts>& ports, RowTiming& timing) {
  return RingLinks(devices, ports, timing).add();
}

}  // namespace millrace
