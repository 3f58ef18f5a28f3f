#include "node/simulate/act_rows.h"

#include <algorithm>

namespace millrace::simulation {
namespace {

// What is held now: rows in work as far as they are filled and not yet emptied.
void note_held_rows(const Network& network, ActRam& ram, int64_t now) {
  if (!network.finds_peaks) return;
  const auto part = [&](int64_t start, int64_t end) {
    return end > start ? std::clamp(static_cast<double>(now - start) / static_cast<double>(end - start), 0.0, 1.0) : 1.0;
  };
  const double held = static_cast<double>(ram.used - ram.released) -
                      static_cast<double>(ram.filling) * (1 - part(ram.fill_start, ram.fill_end)) -
                      static_cast<double>(ram.emptying) * part(ram.empty_start, ram.empty_end);
  ram.peak_rows = std::max(ram.peak_rows, held);
}

}  // namespace

// A row may fill the place of one that is being emptied, but not overtake it.
bool has_room(const Network& network, const Station& s, int64_t& end) {
  if (s.act_ram < 0 || s.kind != StationKind::kForward) return true;
  const ActRam& ram = network.act_ram_of(s);
  const int64_t used = network.act_rows_needed(s);
  if (used - ram.released <= ram.capacity_rows) return true;
  if (ram.gradient && used - ram.released - ram.emptying <= ram.capacity_rows) {
    end = std::max(end, ram.empty_end);
    return true;
  }
  return false;
}

bool begin_rows(Network& network, const Station& s, int64_t now, int64_t end) {
  if (s.act_ram < 0) return false;
  ActRam& ram = network.act_ram_of(s);
  note_held_rows(network, ram, now);
  if (s.kind == StationKind::kForward) {
    const int64_t used = network.act_rows_needed(s);
    ram.filling = std::max<int64_t>(0, used - ram.used);
    ram.fill_start = now;
    ram.fill_end = end;
    ram.used += ram.filling;
  } else {
    const int64_t rows = s.cycle * ram.rows + network.rows(ram.released_table, s.unit);
    ram.emptying = std::max<int64_t>(0, rows - ram.released);
    ram.empty_start = now;
    ram.empty_end = end;
    return true;
  }
  return false;
}

bool end_rows(Network& network, const Station& s, int64_t now) {
  if (s.act_ram < 0) return false;
  ActRam& ram = network.act_ram_of(s);
  note_held_rows(network, ram, now);
  const bool gradient = s.kind == StationKind::kParameterGradient;
  if (!gradient) ram.filling = 0;
  // Where there is no PG, FP itself lets go.
  if (!gradient && ram.gradient) return false;
  ram.emptying = 0;
  const int64_t cycle = s.finished_unit == s.units - 1 ? s.cycle - 1 : s.cycle;
  const int64_t rows = cycle * ram.rows + network.rows(ram.released_table, s.finished_unit);
  // Also of rows that strides step over, which are never held.
  if (rows <= ram.released) return false;
  ram.released = rows;
  return true;
}

}  // namespace millrace::simulation
