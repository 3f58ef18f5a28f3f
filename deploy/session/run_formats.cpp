#include "deploy/session/run_formats.h"

#include <algorithm>
#include <filesystem>

#include "core/base/error.h"
#include "core/base/files.h"
#include "fpga/conv_ce/arithmetic/formats_file.h"
#include "fpga/emulated/emulated_fpga.h"

namespace millrace {

std::string formats_file_of(const std::string& weights) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path folder = weights.empty() ? fs::path() : fs::weakly_canonical(weights, error);
  if (folder.parent_path().filename() == "checkpoints") folder = folder.parent_path();
  if (folder.filename() == "checkpoints") folder = folder.parent_path();
  return !folder.empty() && fs::exists(folder / "formats.txt", error) ? (folder / "formats.txt").string() : "";
}

LayerFormats formats_from(const std::string& file, const Model& model) {
  LayerFormats formats = parse_formats(read_text(file), file);
  for (const auto& [layer, own] : formats)
    if (std::ranges::none_of(model.layers, [&layer = layer](const Layer& known) { return known.name == layer; }))
      fail(ErrorCode::kMismatch, "{}: model \"{}\" has no layer \"{}\"; these are the formats of another model", file, model.name, layer);
  return formats;
}

std::unique_ptr<Device> with_formats(std::unique_ptr<Device> device, const LayerFormats& formats) {
  auto* fpga = dynamic_cast<EmulatedFpga*>(device.get());
  if (fpga != nullptr && fpga->compute_type() == ElementType::kFixed16 && !formats.empty()) fpga->use_formats(formats);
  return device;
}

}  // namespace millrace
