#include <vector>

#include "core/base/index.h"
#include "fpga/conv_ce/rtl/cycle_model.h"

namespace millrace {

namespace {

constexpr int64_t kCyclesOfABlock = 21;  // one to see that it is missing, two a round

}  // namespace

int64_t dropout_cycles(const BeatOrder& order) {
  const int64_t plane = order.height * order.width;
  std::vector<int64_t> held(to_size(order.lanes), -1);
  int64_t last = -1, blocks = 0;
  for (int64_t row = 0; row < order.height; ++row)
    for (int64_t group = 0; group < order.groups(); ++group)
      for (int64_t column = 0; column < order.width; ++column)
        for (int64_t lane = 0; lane < order.lanes; ++lane) {
          const int64_t block = ((group * order.lanes + lane) * plane + row * order.width + column) / 4;
          int64_t& mine = item(held, lane);
          if (block != last && block != mine) {
            ++blocks;
            last = block;
          }
          mine = block;
        }
  return order.beats() * (order.lanes + 1) + blocks * kCyclesOfABlock;
}

}  // namespace millrace
