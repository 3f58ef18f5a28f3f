// Adder, multiplier and functions of single precision under Verilator against this machine's float, bit by bit.
//
//   fp32_units_cosimulation --pairs 1000000 --seed 1      // random and special pairs; functions of each first one
//   ... --every 4099                                      // beside them every 4,099th of all floats, for the functions
//   ... --piece-bit 1                                     // the hardware's table of tangents is off by a bit of one piece
//
// Ends with 1 at the first difference, saying where. No number is compared as such: which one it is, is nobody's business.
#include <Vfp32_units.h>
#include <fmt/core.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "fpga/pe_chain/arithmetic/chain_sum.h"
#include "fpga/pe_chain/arithmetic/real_functions.h"

namespace millrace {
namespace {

constexpr size_t kAdd = 4, kMultiply = 3, kFunction = 20;

struct Pair {
  float a = 0, b = 0;
};

class Draws {
 public:
  explicit Draws(uint32_t seed) : random_(seed) {}
  // Some that are not normalised, as none between the units are, but such as come from outside.
  Pair pair() {
    switch (draw() % 8) {
      case 0: return {special(), special()};
      case 1: return {special(), any()};
      case 2: return {any(), any()};
      case 3: return near(any(), 0);  // what cancels
      case 4: return near(any(), draw() % 30);
      case 5: return smallest();
      default: return {usual(), usual()};
    }
  }

 private:
  uint32_t draw() { return static_cast<uint32_t>(random_()); }
  float of(uint32_t bits) const { return std::bit_cast<float>(bits); }
  float any() { return of(draw()); }
  float usual() { return of((draw() & 0x807fffffU) | ((100 + draw() % 40) << 23)); }
  Pair near(float a, uint32_t apart) {
    const uint32_t bits = std::bit_cast<uint32_t>(a);
    return {a, of((bits ^ 0x80000000U) - (apart << 23) + draw() % 5 - 2)};
  }
  // A product about the smallest normalised number.
  Pair smallest() {
    const uint32_t exponent = 1 + draw() % 126;
    return {of((exponent << 23) | (0x7fffffU - draw() % 3 * (draw() & 0x7fffffU))),
            of((draw() & 0x80000000U) | ((126 - exponent + draw() % 3) << 23) | (draw() % 2 == 0 ? 0x7fffffU : draw() & 0x7fffffU))};
  }
  float special() {
    constexpr uint32_t kBits[] = {0,          0x3f800000, 0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00800000,
                                  0x80800000, 0x007fffff, 0x80000001, 0x80000000, 0x7f7fffff, 0xff7fffff, 0x3f7fffff,
                                  0x3f000000, 0x34000000, 0x33800000, 0x41800000, 0xc1800000, 0x417fffff};
    return of(kBits[draw() % std::size(kBits)]);
  }
  std::mt19937 random_;
};

bool same(uint32_t made, float expected) {
  return std::isnan(expected) ? std::isnan(std::bit_cast<float>(made)) : made == std::bit_cast<uint32_t>(expected);
}

class Bench {
 public:
  // False at the first difference.
  bool give(const Pair& pair, bool functions) {
    model_.a = std::bit_cast<uint32_t>(pair.a);
    model_.b = std::bit_cast<uint32_t>(pair.b);
    model_.clock = 0;
    model_.eval();
    model_.clock = 1;
    model_.eval();
    given_.push_front({pair, functions});
    bool good = true;
    const auto check = [&](const char* what, size_t latency, uint32_t made, const auto& expected, bool counts) {
      if (given_.size() < latency) return;
      const auto& [of, with] = given_[latency - 1];
      if ((!counts || with) && !same(made, expected(of))) {
        fmt::print("{} of {:08x}, {:08x}: {:08x}, expected {:08x}\n", what, std::bit_cast<uint32_t>(of.a), std::bit_cast<uint32_t>(of.b),
                   made, std::bit_cast<uint32_t>(expected(of)));
        good = false;
      }
    };
    check(
        "sum", kAdd, model_.sum, [](const Pair& p) { return flushed(flushed(p.a) + flushed(p.b)); }, false);
    check(
        "product", kMultiply, model_.product, [](const Pair& p) { return flushed(flushed(p.a) * flushed(p.b)); }, false);
    check(
        "sigmoid", kFunction, model_.sigmoid, [](const Pair& p) { return sigmoid_by_pieces(p.a); }, true);
    check(
        "tangent", kFunction, model_.tangent, [](const Pair& p) { return tanh_by_pieces(p.a); }, true);
    if (given_.size() > kFunction) given_.pop_back();
    return good;
  }

 private:
  Vfp32_units model_;
  std::deque<std::pair<Pair, bool>> given_;
};

int main_of(int argc, char** argv) {
  std::map<std::string, int64_t> given;
  for (int i = 1; i + 1 < argc; i += 2) given[argv[i]] = std::atoll(argv[i + 1]);
  std::string tangents = tangent_pieces_text();
  if (given["--piece-bit"] > 0) tangents[25 * 70 + 7] = tangents[25 * 70 + 7] == '0' ? '1' : '0';
  std::ofstream{std::string(kSigmoidPiecesFile)} << sigmoid_pieces_text();
  std::ofstream{std::string(kTangentPiecesFile)} << tangents;
  Draws draws(static_cast<uint32_t>(given.count("--seed") > 0 ? given["--seed"] : 1));
  Bench bench;
  for (int64_t i = 0; i < given["--pairs"]; ++i)
    if (!bench.give(draws.pair(), true)) return 1;
  int64_t floats = 0;
  if (const int64_t every = given["--every"]; every > 0)
    for (int64_t bits = 0; bits <= 0xffffffff; bits += every, ++floats)
      if (!bench.give({flushed(std::bit_cast<float>(static_cast<uint32_t>(bits))), 0}, true)) return 1;
  fmt::print("{{\"units\": \"fp32\", \"pairs\": {}, \"floats\": {}}}\n", given["--pairs"], floats);
  return 0;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) { return millrace::main_of(argc, argv); }
