#include "fpga/catalogue/fpga_catalogue.h"

namespace millrace {

extern const char* const kFpgaCatalogue;  // made of the .textproto files when building

std::string_view fpga_catalogue_text() { return kFpgaCatalogue; }

}  // namespace millrace
