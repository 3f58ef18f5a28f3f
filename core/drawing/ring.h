// The ring, device by device: wheels over a race. Markup for a page.
//
//   std::vector<Wheel> wheels;
//   wheels.push_back({.name = "vc709-3", .lines = {"conv2_1", "to conv2_2"}, .parts = {{.amount = .4, .classes = "l2"}}, .race =
//   Race{...}}); page.raw_figure({.title = "The ring"}, ring_markup(wheels));
//
// A wheel's rim is its time: filled in the colours of what it works on, by share, and open where it idles. The race
// to the next wheel has a lane per direction, as wide as its load.
// In strips a device is a band of what it works on, a bar of how busy it is, and its link's load below.
// Up to kLargeWheels devices with names and numbers, up to kSmallWheels as small wheels, both wrapping into as many rows
// as the page needs; beyond, rows of a hundred devices as strips: every device is drawn, at any count.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/drawing/chart.h"

namespace millrace {

inline constexpr size_t kLargeWheels = 32;
inline constexpr size_t kSmallWheels = 160;
inline constexpr size_t kStripDevices = 100;  // in a row

struct Race {
  std::string forward = {}, backward = {};  // what to write at the lanes: "18.2"
  double forward_load = 0;                  // both relative to the ring's largest, 0 to 1
  double backward_load = 0;
  double forward_use = 0;  // of what the link can carry: decides the colour
  double backward_use = 0;
  bool emphasised = false;
  std::string tooltip = {};
};

struct Wheel {
  std::string name = {};
  std::vector<std::string> lines = {};  // below the name, in small print; two have room
  std::vector<BarPart> parts = {};      // shares of the rim; up to 1 together, the rest is idle
  bool emphasised = false;              // sets the pace
  std::string tooltip = {};
  std::optional<Race> race = {};  // to the next wheel; the last has none
};

std::string ring_markup(const std::vector<Wheel>& wheels);

// "calm", "busy" from three quarters, "full" from nine tenths of what there is.
std::string load_class(double use);

}  // namespace millrace
