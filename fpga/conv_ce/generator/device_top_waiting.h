// What waits for errors, in a device's top level: a deep_fifo on the chip, or an outside_fifo with a port of its own.
//
//   values["ACT_RAM"] = waiting_memory(design, {RoomPlace::Kind::kActRam, 0}, kActRamText, values);
//   ports += outside_ports(design);
//
// Text alone; ports and connections of a memory outside are those of the streamers (stream_templates.h). Internal to device_top.cpp.
#pragma once

#include <string>
#include <string_view>

#include "fpga/common/generator/text_template.h"
#include "fpga/conv_ce/generator/device_design.h"

namespace millrace {

// Templates: names and expressions of one memory.
struct WaitingText {
  RoomPlace::Kind kind;
  std::string_view name, width, ultra, depth;  // `name` behind the unit's prefix; `ultra` a whole line
  std::string_view rows;                       // of a sample
  std::string_view in, in_data, out, out_data;
};
inline constexpr WaitingText kActRamText{.kind = RoomPlace::Kind::kActRam,
                                         .name = "act_ram",
                                         .width = "$IN_LANES$ * 16",
                                         .ultra = "$ACT_RAM_ULTRA$",
                                         .depth = "$ACT_RAM_BEATS$",
                                         .rows = "$HEIGHT$",
                                         .in = "$p$keep",
                                         .in_data = "$p$lanes_data",
                                         .out = "$p$kept",
                                         .out_data = "$p$kept_data"};
// Of a value for every sum: what a norm or an activation keeps.
constexpr WaitingText of_every_sum(std::string_view name, std::string_view in, std::string_view in_data, std::string_view out,
                                   std::string_view out_data) {
  return {RoomPlace::Kind::kNorm, name, "BEAT", "$NORM_ULTRA$", "$MASK_BEATS$", "$P$OUT_HEIGHT", in, in_data, out, out_data};
}
inline constexpr WaitingText kSumRamText = of_every_sum("sum_ram", "$p$keeps_sum", "$p$sum_data", "$p$x", "$p$x_data"),
                             kNormRamText = of_every_sum("norm_ram", "$p$keeps_x", "$p$value_data", "$p$norm_x", "$p$norm_x_data"),
                             kSmoothRamText = of_every_sum("smooth_ram", "$p$keeps_y", "$p$smoothed_data", "$p$y", "$p$y_data");
inline constexpr WaitingText kWinnerRamText{.kind = RoomPlace::Kind::kWinners,
                                            .name = "winner_ram",
                                            .width = "$LANES$ * $WINNER_BITS$",
                                            .ultra = "$WINNER_ULTRA$",
                                            .depth = "$KEPT_BEATS$",
                                            .rows = "($POOLED_HEIGHT$)",
                                            .in = "$p$remember",
                                            .in_data = "$WINNERS_IN$",
                                            .out = "$p$winners",
                                            .out_data = "$WINNERS_OUT$"};

// Of the design's unit of this number, filled with `values`.
std::string waiting_memory(const DeviceDesign& design, size_t unit, const WaitingText& text, const TemplateValues& values);

std::string outside_ports(const DeviceDesign& design);
// "shard_0_act_ram_busy || ..", and the faults of each; empty where all is on the chip.
std::string outside_busy(const DeviceDesign& design);
std::string outside_faults(const DeviceDesign& design);

}  // namespace millrace
