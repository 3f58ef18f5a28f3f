// The shipped catalogue of GPUs, read once for the tests of this folder.
#pragma once

#include "core/documents/catalogue.h"
#include "gpu/catalogue/gpu_catalogue.h"

namespace millrace {

inline const Catalogue& gpus() {
  static const Catalogue catalogue = parse_catalogue(gpu_catalogue_text(), "gpu/catalogue");
  return catalogue;
}

}  // namespace millrace
