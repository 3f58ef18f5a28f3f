#include "fpga/pe_chain/arithmetic/real_functions.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "core/base/index.h"
#include "fpga/pe_chain/arithmetic/chain_sum.h"

namespace millrace {

namespace {

constexpr int kPieces = 512;
constexpr double kReach = 16, kPiece = kReach / kPieces;

struct Piece {
  float constant = 0, slope = 0, bend = 0;  // of what lies behind the piece's begin, in pieces
};

template <typename Function>
std::array<Piece, kPieces> pieces_of(const Function& exact) {
  std::array<Piece, kPieces> pieces;
  for (int i = 0; i < kPieces; ++i) {
    // Through the exact function at three places: Chebyshev's, but the first piece passes through the origin.
    const std::array<double, 3> at = i == 0 ? std::array{0.0, 0.4641016, 0.9282032} : std::array{0.0669873, 0.5, 0.9330127};
    std::array<double, 3> y{};
    for (size_t k = 0; k < 3; ++k) y[k] = exact((i + at[k]) * kPiece);
    const double first = (y[1] - y[0]) / (at[1] - at[0]), bend = ((y[2] - y[1]) / (at[2] - at[1]) - first) / (at[2] - at[0]);
    const double slope = first - bend * (at[0] + at[1]), constant = y[0] - at[0] * (slope + bend * at[0]);
    fast_item(pieces, i) = {static_cast<float>(constant), static_cast<float>(slope), static_cast<float>(bend)};
  }
  return pieces;
}

float of_pieces(const std::array<Piece, kPieces>& pieces, float size) {
  const float place = flushed(size) * static_cast<float>(1 / kPiece);
  if (!(place < kPieces)) return 1;
  const auto index = static_cast<size_t>(place);
  const float within = place - static_cast<float>(index);
  const Piece& piece = pieces[index];
  const float inner = piece.slope + flushed(within * piece.bend);
  return piece.constant + flushed(within * inner);
}

const std::array<Piece, kPieces>& sigmoid_pieces() {
  static const auto pieces = pieces_of([](double z) { return 1 / (1 + std::exp(-z)); });
  return pieces;
}
const std::array<Piece, kPieces>& tangent_pieces() {
  static const auto pieces = pieces_of([](double z) { return std::tanh(z); });
  return pieces;
}

std::string text_of(const std::array<Piece, kPieces>& pieces) {
  std::string text;
  for (const Piece& piece : pieces)
    text += fmt::format("{:08x}{:08x}{:08x}\n", std::bit_cast<uint32_t>(piece.constant), std::bit_cast<uint32_t>(piece.slope),
                        std::bit_cast<uint32_t>(piece.bend));
  return text;
}

}  // namespace

float sigmoid_by_pieces(float x) {
  if (std::isnan(x)) return x;
  const float y = of_pieces(sigmoid_pieces(), std::fabs(x));
  return x < 0 ? 1 - y : y;
}

float tanh_by_pieces(float x) {
  if (std::isnan(x)) return x;
  const float y = of_pieces(tangent_pieces(), std::fabs(x));
  return x < 0 && y > 0 ? -y : y;
}

std::string sigmoid_pieces_text() { return text_of(sigmoid_pieces()); }
std::string tangent_pieces_text() { return text_of(tangent_pieces()); }

}  // namespace millrace
