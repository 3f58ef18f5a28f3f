// Whether two sets of named tensors are bitwise equal, in 32 digits, and where they part when they are not.
//
//   if (weights_digest(a) != weights_digest(b)) fmt::print("{}\n", first_difference(a, b));
//
// The digest of a set is the digest of one line per tensor, in the order of their names: name, type, dimensions and the
// digest of its bytes. So the owners of the layers can digest their own tensors and send 32 digits instead of weights.
// Pure, thread safe. Detects damage and difference; no defence against forgery (core/base/files.h).
#pragma once

#include <map>
#include <string>

#include "core/train/safetensors.h"

namespace millrace {

// One tensor: type, dimensions and bytes.
std::string tensor_digest(const HostTensor& tensor);
// Of each tensor, by name.
std::map<std::string, std::string> tensor_digests(const TensorMap& tensors);

std::string weights_digest(const std::map<std::string, std::string>& digests_by_name);
std::string weights_digest(const TensorMap& tensors);

// `conv1.weight: element 17 is 0.25 and 0.2500001`; empty when all is bitwise equal.
std::string first_difference(const TensorMap& a, const TensorMap& b);

}  // namespace millrace
