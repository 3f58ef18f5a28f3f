// Sigmoid and tangent of chained elements in floating point: quadratic pieces of [0, 16), held beyond.
//
//   sigmoid_by_pieces(0.5F);      // within 4e-7 of the exact one, as tanh_by_pieces
//
// 512 pieces each, of 1/32; coefficients come from the exact functions at three places of a piece, in double precision. The
// paper's own forms e^x / (e^x + 1) and (e^2x - 1) / (e^2x + 1) are no numbers above 88 and 44, and lose all digits of small tangents.
#pragma once

#include <string>
#include <string_view>

namespace millrace {

float sigmoid_by_pieces(float x);
float tanh_by_pieces(float x);

// The pieces as $readmemh reads them, a line each: the bits of constant, slope and bend.
inline constexpr std::string_view kSigmoidPiecesFile = "sigmoid_pieces.hex", kTangentPiecesFile = "tangent_pieces.hex";
std::string sigmoid_pieces_text();
std::string tangent_pieces_text();

}  // namespace millrace
