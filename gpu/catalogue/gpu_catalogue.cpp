#include "gpu/catalogue/gpu_catalogue.h"

namespace millrace {

extern const char* const kGpuCatalogue;  // made of the .textproto files when building

std::string_view gpu_catalogue_text() { return kGpuCatalogue; }

}  // namespace millrace
