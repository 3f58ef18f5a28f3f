#include "fpga/cost/layer_geometry.h"

#include <variant>

#include "fpga/conv_ce/convolution_geometry.h"
#include "fpga/recurrence/stationary_geometry.h"

namespace millrace {

ShardGeometry geometry_of(const Node& node, std::span<const Block> blocks, bool owner) {
  if (std::holds_alternative<Recurrent>(node.layer.operation)) return stationary_geometry(node, blocks, owner);
  return convolution_geometry(node, blocks, owner);
}

}  // namespace millrace
