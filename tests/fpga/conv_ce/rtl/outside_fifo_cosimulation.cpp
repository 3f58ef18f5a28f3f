// Compares the FIFO in the memory outside with a FIFO, over random samples, room, latencies and pauses, word by word.
//
//   cosimulation_outside_fifo_3_64 --geometries 25 --seed 7
//
// It holds the samples that it has room for while nothing leaves, touches no byte beside its places, moves every word once there and once
// back, and keeps pace with its port where nothing pauses. A memory that lacks its last place is a fault.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "fpga/common/arithmetic/divided_up.h"
#include "fpga/cosim/harness/outside_memory.h"
#include "tests/fpga/conv_ce/arithmetic/random_shapes.h"
#include "tests/fpga/conv_ce/rtl/clocked.h"
#include "tests/fpga/conv_ce/rtl/engine_bench.h"
#include "tests/fpga/conv_ce/rtl/flags.h"
#include MILLRACE_MODEL_HEADER

namespace millrace {
namespace {

constexpr int64_t kWidth = MILLRACE_WIDTH, kBeatBits = MILLRACE_BEAT_BITS, kSamples = MILLRACE_SAMPLES, kPlaceBytes = 8192;
constexpr int64_t kLanes = (kWidth + 15) / 16;  // elements of 16 bits, the last one's high bits zero
constexpr int64_t kBegin = 4096, kBehind = 4096;
constexpr int16_t kUntouched = 0x5a5a;

struct Case {
  int64_t words = 1, samples = 1, latency = 1;
  double in_pause = 0, out_pause = 0, memory_pause = 0;
  bool lacks_a_place = false;

  int64_t beats() const { return divided_up(words * kWidth, kBeatBits); }
  std::string text() const {
    return fmt::format("{} samples of {} words, latency {}, pauses {} {} {}", samples, words, latency, in_pause, out_pause, memory_pause);
  }
};

std::vector<int16_t> random_words(int64_t words, std::mt19937_64& random) {
  std::vector<int16_t> elements = random_elements(random, static_cast<size_t>(words * kLanes), 16);
  constexpr int64_t kLast = kWidth - 16 * (kLanes - 1);
  for (size_t i = static_cast<size_t>(kLanes) - 1; i < elements.size(); i += static_cast<size_t>(kLanes))
    elements[i] = static_cast<int16_t>(static_cast<uint16_t>(elements[i]) & ((uint32_t{1} << kLast) - 1));
  return elements;
}

class Bench {
 public:
  Bench(MILLRACE_MODEL& model, const Case& of, std::mt19937_64& random)
      : m_(model),
        case_(of),
        memory_(std::vector<int16_t>(static_cast<size_t>((kBegin + (kSamples - (of.lacks_a_place ? 1 : 0)) * kPlaceBytes + kBehind) / 2),
                                     kUntouched),
                kBeatBits / 16, of.latency, of.memory_pause, random),
        in_(random_words(of.words * of.samples, random)),
        source_(in_, kLanes, of.in_pause, random),
        sink_(kLanes, of.out_pause, random) {
    m_.address = kBegin;
    m_.words = static_cast<uint32_t>(of.words);
    m_.beats = static_cast<uint32_t>(of.beats());
    m_.room = static_cast<uint32_t>(of.beats() * kSamples);
    m_.samples = static_cast<uint32_t>(of.samples);
    m_.in_tvalid = m_.out_tready = m_.m_axi_arready = m_.m_axi_rvalid = m_.m_axi_bvalid = 0;
    m_.m_axi_awready = m_.m_axi_wready = 0;
    clear_model(m_);
  }

  void step(bool leaves) {
    source_.drive(m_.in_tvalid, m_.in_tdata);
    if (leaves)
      sink_.drive(m_.out_tready);
    else
      m_.out_tready = 0;
    memory_.drive_reads(m_);
    memory_.drive_writes(m_);
    settle(m_);
    if (m_.in_tvalid && m_.in_tready) ++taken_;
    source_.after(m_.in_tready);
    if (leaves) sink_.after(m_.out_tvalid, m_.out_tdata);
    memory_.after_reads(m_);
    memory_.after_writes(m_);
    edge(m_);
    memory_.tick();
  }

  std::string wrong() {
    const int64_t all = case_.words * case_.samples, room = case_.words * std::min(case_.samples, kSamples);
    const int64_t slow = 40 * (case_.latency + all * (1 + kWidth / kBeatBits) + 1000);
    for (int64_t cycle = 0; cycle < slow && taken_ < room; ++cycle) step(false);
    if (taken_ < room) return fmt::format("takes {} words of the {} it has room for", taken_, room);
    int64_t cycles = 0;
    for (; cycles < slow && static_cast<int64_t>(sink_.beat_count()) < all; ++cycles) step(true);
    if (case_.lacks_a_place) return (m_.fault & 1) != 0 ? "" : "no fault where the memory ends early";
    if (sink_.beats() != in_) return "words differ, or do not end";
    for (int64_t cycle = 0; cycle < 20 + 8 * case_.latency && m_.busy; ++cycle) step(true);
    if (m_.busy) return "busy when all is done";
    if (m_.fault != 0 || memory_.wrong()) return "a fault, or a burst across a page";
    const int64_t beats = case_.beats() * case_.samples;
    if (memory_.beats_written() != beats || memory_.beats_read() != beats)
      return fmt::format("{} beats written and {} read of {}", memory_.beats_written(), memory_.beats_read(), beats);
    return touched();
  }
  // Cycles of all words, none of which waits.
  int64_t run_freely() {
    int64_t cycles = 0;
    for (; cycles < 10'000'000 && static_cast<int64_t>(sink_.beat_count()) < case_.words * case_.samples; ++cycles) step(true);
    return cycles;
  }

 private:
  // Beside the places, and behind each sample's last beat.
  std::string touched() const {
    const std::vector<int16_t>& words = memory_.words();
    for (int64_t i = 0; i < std::ssize(words); ++i) {
      const int64_t byte = 2 * i - kBegin;
      const bool inside = byte >= 0 && byte < kSamples * kPlaceBytes && byte % kPlaceBytes < case_.beats() * kBeatBits / 8;
      if (!inside && words[static_cast<size_t>(i)] != kUntouched) return fmt::format("byte {} is written beside the places", byte);
    }
    return "";
  }
  MILLRACE_MODEL& m_;
  Case case_;
  OutsideMemory memory_;
  std::vector<int16_t> in_;
  StreamSource source_;
  StreamSink sink_;
  int64_t taken_ = 0;
};

int compare_many(int64_t geometries, uint64_t seed) {
  std::mt19937_64 random(seed);
  MILLRACE_MODEL model;
  const double some[] = {0, 0.3, 0.8};
  for (int64_t geometry = 0; geometry < geometries; ++geometry) {
    Case one{.words = drawn(random, 1, 8 * kPlaceBytes / kWidth),
             .samples = drawn(random, 1, 3 * kSamples + 1),
             .latency = drawn(random, 1, 120),
             .in_pause = some[random() % 3],
             .out_pause = some[random() % 3],
             .memory_pause = some[random() % 3]};
    if (geometry % 8 == 0) one.words = drawn(random, 1, 3);
    if (geometry + 1 == geometries) one = {.words = 8 * kPlaceBytes / kWidth, .samples = kSamples, .latency = 10, .lacks_a_place = true};
    if (const std::string wrong = Bench(model, one, random).wrong(); !wrong.empty()) {
      fmt::print("{}\n  {}\n", wrong, one.text());
      return 1;
    }
  }
  const Case even{.words = 8 * kPlaceBytes / kWidth, .samples = 3 * kSamples, .latency = 30};
  const int64_t cycles = Bench(model, even, random).run_freely();
  const int64_t beats = even.beats() * even.samples, port = beats + divided_up(beats, int64_t{16});
  const int64_t least = std::max(even.words * even.samples, port), most = least + least / 50 + 300;
  if (cycles < least || cycles > most) {
    fmt::print("{} cycles where nothing pauses, expected {} to {}\n", cycles, least, most);
    return 1;
  }
  fmt::print("FIFO outside, {} bits in beats of {}, {} places: {} runs word by word\n", kWidth, kBeatBits, kSamples, geometries);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  const millrace::Flags flags = millrace::flags_of(argc, argv);
  return millrace::compare_many(flags.geometries, flags.seed);
}
