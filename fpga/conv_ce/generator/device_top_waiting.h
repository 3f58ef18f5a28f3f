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
  std::string_view name, width, style, depth;  // `name` behind the unit's prefix; `style` a whole line
  std::string_view rows;                       // of a sample
  std::string_view in, in_data, out, out_data;
};
inline constexpr WaitingText kActRamText{.kind = RoomPlace::Kind::kActRam,
                                         .name = "act_ram",
                                         .width = "$IN_LANES$ * 16",
                                         .style = "$ACT_RAM_STYLE$",
                                         .depth = "$ACT_RAM_BEATS$",
                                         .rows = "$HEIGHT$",
                                         .in = "$p$keep",
                                         .in_data = "$p$lanes_data",
                                         .out = "$p$kept",
                                         .out_data = "$p$kept_data"};
inline constexpr WaitingText kSumRamText{.kind = RoomPlace::Kind::kNorm,
                                         .name = "sum_ram",
                                         .width = "BEAT",
                                         .style = "$NORM_STYLE$",
                                         .depth = "$MASK_BEATS$",
                                         .rows = "$P$OUT_HEIGHT",
                                         .in = "$p$keeps_sum",
                                         .in_data = "$p$sum_data",
                                         .out = "$p$x",
                                         .out_data = "$p$x_data"};
inline constexpr WaitingText kNormRamText{.kind = RoomPlace::Kind::kNorm,
                                          .name = "norm_ram",
                                          .width = "BEAT",
                                          .style = "$NORM_STYLE$",
                                          .depth = "$MASK_BEATS$",
                                          .rows = "$P$OUT_HEIGHT",
                                          .in = "$p$keeps_x",
                                          .in_data = "$p$value_data",
                                          .out = "$p$norm_x",
                                          .out_data = "$p$norm_x_data"};
inline constexpr WaitingText kSmoothRamText{.kind = RoomPlace::Kind::kNorm,
                                            .name = "smooth_ram",
                                            .width = "BEAT",
                                            .style = "$NORM_STYLE$",
                                            .depth = "$MASK_BEATS$",
                                            .rows = "$P$OUT_HEIGHT",
                                            .in = "$p$keeps_y",
                                            .in_data = "$p$smoothed_data",
                                            .out = "$p$y",
                                            .out_data = "$p$y_data"};
inline constexpr WaitingText kWinnerRamText{.kind = RoomPlace::Kind::kWinners,
                                            .name = "winner_ram",
                                            .width = "$LANES$ * $WINNER_BITS$",
                                            .style = "$WINNER_STYLE$",
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
