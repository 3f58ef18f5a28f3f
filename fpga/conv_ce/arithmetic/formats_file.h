// Calibrated formats as a file: RUN_DIR/formats.txt, a line per layer, which a resumed run reads again.
//
//   write_atomically(run / "formats.txt", text_of(formats));
//   const LayerFormats formats = parse_formats(read_text(file), file);
//
//   conv1 activation 12 weight 14 sum 11 error 18 input_error 18
//
// Numbers are how many of sixteen bits lie behind the point, 0 to 30. Lines that begin with # are comments. What the engine cannot
// do is kMalformed, with the file, the line and what to write instead.
#pragma once

#include <string>
#include <string_view>

#include "fpga/conv_ce/arithmetic/engine_formats.h"

namespace millrace {

// How far a sum can be shifted into its format: it has 32 bits.
inline constexpr int kMostShift = 31;

std::string text_of(const LayerFormats& formats);
LayerFormats parse_formats(std::string_view text, std::string_view origin);

}  // namespace millrace
