// Token ids travel as numbers of the network's input; back to an id, checked.
//
//   const int64_t token = token_of(value, vocabulary, {layer, sample, step});
//
// Fails with kMismatch, saying where, when the number is no whole one or not below the vocabulary.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.h"

namespace millrace {

struct TokenPlace {
  const std::string& layer;
  int64_t sample = 0;
  int64_t step = 0;
};

template <typename T>
int64_t token_of(T value, int64_t vocabulary, const TokenPlace& place) {
  if (!(value >= T{0}) || !(value < static_cast<T>(vocabulary)) || value != static_cast<T>(static_cast<int64_t>(value)))
    fail(ErrorCode::kMismatch, "layer \"{}\": token {} at step {} of sample {}; the vocabulary has ids 0 to {}", place.layer, value,
         place.step, place.sample, vocabulary - 1);
  return static_cast<int64_t>(value);
}

}  // namespace millrace
