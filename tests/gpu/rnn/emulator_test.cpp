// The emulator runs threads as a GPU would as far as kernels can tell: barriers, exchanges within warps, flags between
// blocks, and an end with an explanation where a GPU would hang.
#include "gpu/rnn/device/emulator.h"

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/rnn/device/vocabulary.h"
#include "tests/gpu/rnn/checks.h"

namespace millrace::rnn {
namespace {

using emulator::Launch;
using emulator::Schedule;

const std::vector<Launch> every_schedule(int blocks, int threads, std::size_t shared) {
  std::vector<Launch> launches;
  for (const Schedule schedule : {Schedule::kInTurn, Schedule::kBackwards, Schedule::kLastFirst})
    launches.push_back({.blocks = blocks, .threads = threads, .shared_bytes = shared, .schedule = schedule});
  for (unsigned seed = 1; seed <= 4; ++seed)
    launches.push_back({.blocks = blocks, .threads = threads, .shared_bytes = shared, .schedule = Schedule::kRandom, .seed = seed});
  return launches;
}

std::string name_of(const Launch& launch) {
  return "schedule " + std::to_string(static_cast<int>(launch.schedule)) + ", seed " + std::to_string(launch.seed);
}

// Each block reverses its part through shared memory, again and again: without the second barrier a fast thread would
// overwrite what a slow one has yet to read.
void reverse(std::vector<unsigned>& data, int times) {
  auto* const shared = reinterpret_cast<unsigned*>(device::shared_memory());
  const int threads = device::thread_count();
  unsigned& mine = data[static_cast<std::size_t>(device::block_index() * threads + device::thread_index())];
  for (int i = 0; i < times; ++i) {
    shared[device::thread_index()] = mine;
    device::block_barrier();
    mine = shared[threads - 1 - device::thread_index()];
    device::block_barrier();
  }
}

void barriers() {
  for (Launch launch : every_schedule(3, 96, 96 * sizeof(unsigned))) {
    std::vector<unsigned> data(3 * 96);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned>(i);
    emulator::run(launch, [&] { reverse(data, 5); });
    bool right = true;
    for (unsigned i = 0; i < data.size(); ++i) right = right && data[i] == i / 96 * 96 + 95 - i % 96;
    expect(right, "five reversals, " + name_of(launch));
  }
  // The same without each reversal's second barrier: some schedule must go wrong, or the schedules are no test.
  int wrong = 0;
  for (Launch launch : every_schedule(1, 96, 96 * sizeof(unsigned))) {
    launch.faulty_barrier_period = 2;
    launch.faulty_barrier = 1;
    std::vector<unsigned> data(96);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned>(i);
    emulator::run(launch, [&] { reverse(data, 5); });
    for (unsigned i = 0; i < data.size(); ++i) wrong += data[i] == 95 - i ? 0 : 1;
  }
  expect(wrong > 0, "a missing barrier changes the outcome of some schedule");
}

void exchanges() {
  for (const Launch& launch : every_schedule(2, 64, 0)) {
    std::vector<float> sums(128);
    emulator::run(launch, [&] {
      auto value = static_cast<float>(device::thread_index());
      for (int mask = 16; mask > 0; mask /= 2) value += device::shuffle_xor(value, mask);
      sums[static_cast<std::size_t>(device::block_index() * 64 + device::thread_index())] = value;
    });
    bool right = true;
    for (std::size_t i = 0; i < sums.size(); ++i) right = right && sums[i] == (i % 64 < 32 ? 496.0F : 1520.0F);
    expect(right, "sums over warps, " + name_of(launch));
  }
}

// A ring of blocks: each waits for the flag of the one before, then reads what it left behind.
void flags() {
  constexpr int kBlocks = 5;
  for (const Launch& launch : every_schedule(kBlocks, 32, 0)) {
    std::vector<unsigned> flag(kBlocks);
    std::vector<unsigned> data(kBlocks * 32);
    emulator::run(launch, [&] {
      const auto block = static_cast<std::size_t>(device::block_index());
      const auto lane = static_cast<std::size_t>(device::thread_index());
      if (block > 0)
        while (device::load_acquire(&flag[block - 1]) == 0) device::pause(1);
      data[block * 32 + lane] = block > 0 ? data[block * 32 - 1 - lane] + 1 : 1;
      device::block_barrier();
      if (lane == 0) device::store_release(&flag[block], 1);
    });
    bool right = true;
    for (std::size_t i = 0; i < data.size(); ++i) right = right && data[i] == i / 32 + 1;
    expect(right, "a chain of blocks, " + name_of(launch));
  }
}

std::string message_of(const Launch& launch, const std::function<void()>& kernel) {
  try {
    emulator::run(launch, kernel);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

void stuck() {
  const std::string half = message_of({.blocks = 2, .threads = 64}, [] {
    if (device::block_index() == 0 || device::thread_index() < 10) device::block_barrier();
  });
  // A thread that has ended counts for no barrier.
  expect(half.find("thread 0 of block 1 stands at a block barrier") != std::string::npos, "half a barrier: " + half);
  const std::string lanes = message_of({.blocks = 1, .threads = 32}, [] {
    if (device::thread_index() > 0) static_cast<void>(device::shuffle_xor(1.0F, 1));
  });
  expect(lanes.find("exchange that other lanes") != std::string::npos, "an exchange without lane 0: " + lanes);
  const std::string thrown = message_of({.blocks = 1, .threads = 32}, [] { throw std::runtime_error("out of a kernel"); });
  expect(thrown == "out of a kernel", "what a thread throws arrives: " + thrown);
  expect(message_of({.blocks = 1, .threads = 33}, [] {}).find("whole warps") != std::string::npos, "33 threads are refused");
}

// Every bit pattern of the short formats survives the way through float, and rounding goes to the nearest, ties to even.
template <class Scalar>
void formats(const char* name, int fraction_bits) {
  int lost = 0;
  for (unsigned bits = 0; bits < 0x10000U; ++bits) {
    const Scalar value{static_cast<unsigned short>(bits)};
    const float wide = to_float(value);
    const bool survives = std::isnan(wide) ? !is_unwritten(from_float<Scalar>(wide)) && std::isnan(to_float(from_float<Scalar>(wide)))
                                           : from_float<Scalar>(wide).bits == bits;
    lost += survives ? 0 : 1;
  }
  expect(lost == 0, std::string(name) + ": " + std::to_string(lost) + " values change on the way through float");
  const float step = std::ldexp(1.0F, -fraction_bits);
  expect(to_float(from_float<Scalar>(1 + step / 2)) == 1.0F, std::string(name) + ": a tie goes to the even neighbour below");
  expect(to_float(from_float<Scalar>(1 + 3 * step / 2)) == 1 + 2 * step, std::string(name) + ": and to the one above");
  expect(to_float(from_float<Scalar>(1 + step * 0.51F)) == 1 + step, std::string(name) + ": beyond the tie, up");
  expect(std::isinf(to_float(from_float<Scalar>(std::numeric_limits<float>::max()))), std::string(name) + ": too large is infinite");
  expect(is_unwritten(Scalar{0xFFFF}) && !is_unwritten(from_float<Scalar>(-std::nanf(""))), std::string(name) + ": the mark");
}

void functions() {
  double worst = 0;
  for (double x = -12; x <= 12; x += 0.0007) {
    const auto at = static_cast<float>(x);
    worst = std::fmax(worst, std::fabs(device::hyperbolic_tangent(at) - std::tanh(static_cast<double>(at))));
    worst = std::fmax(worst, std::fabs(device::sigmoid(at) - 1 / (1 + std::exp(-static_cast<double>(at)))));
  }
  expect(worst < 2e-7, "sigmoid and tanh off by " + std::to_string(worst));
  for (const float x : {90.0F, 1000.0F, std::numeric_limits<float>::infinity()}) {
    expect(device::sigmoid(x) == 1 && device::sigmoid(-x) == 0, "sigmoid of " + std::to_string(x));
    expect(device::hyperbolic_tangent(x) == 1 && device::hyperbolic_tangent(-x) == -1, "tanh of " + std::to_string(x));
  }
}

template <class Scalar>
void matrix_units() {
  std::vector<float> left(16 * 16);
  std::vector<float> right(16 * 8);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] = static_cast<float>(i * 37 % 19) - 9;
  for (std::size_t i = 0; i < right.size(); ++i) right[i] = static_cast<float>(i * 29 % 17) - 8;
  std::vector<float> got(16 * 8);
  emulator::run({.blocks = 1, .threads = 32, .schedule = Schedule::kRandom}, [&] {
    const int lane = device::lane_index();
    unsigned a[4] = {};
    unsigned b[2] = {};
    const auto pack = [](unsigned& word, int index, float value) {
      word |= static_cast<unsigned>(from_float<Scalar>(value).bits) << (16U * static_cast<unsigned>(index % 2));
    };
    for (int i = 0; i < 8; ++i) {
      const device::Place at = device::place_in_left(lane, i);
      pack(a[i / 2], i, left[static_cast<std::size_t>(at.row * 16 + at.column)]);
    }
    for (int i = 0; i < 4; ++i) {
      const device::Place at = device::place_in_right(lane, i);
      pack(b[i / 2], i, right[static_cast<std::size_t>(at.row * 8 + at.column)]);
    }
    float sums[4] = {1, 1, 1, 1};
    device::multiply_16x8x16(sums, a, b, Scalar{});
    for (int i = 0; i < 4; ++i) {
      const device::Place at = device::place_in_sums(lane, i);
      got[static_cast<std::size_t>(at.row * 8 + at.column)] = sums[i];
    }
  });
  bool right_sums = true;
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 8; ++n) {
      float sum = 1;
      for (std::size_t k = 0; k < 16; ++k) sum += left[m * 16 + k] * right[k * 8 + n];
      right_sums = right_sums && got[m * 8 + n] == sum;
    }
  expect(right_sums, "the matrix units' product");
}

}  // namespace
}  // namespace millrace::rnn

int main() {
  using namespace millrace::rnn;
  barriers();
  exchanges();
  flags();
  stuck();
  formats<Half>("half", 10);
  formats<BFloat16>("bfloat16", 7);
  functions();
  matrix_units<Half>();
  matrix_units<BFloat16>();
  return report("emulator");
}
