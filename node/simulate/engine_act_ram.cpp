// The rows that FP has taken in and PG has yet to let go of.
#include <algorithm>

#include "node/simulate/engine.h"

namespace millrace::simulation {

// A row may fill the place of one that is being emptied, but not overtake it.
bool Engine::room_in_act_ram(Station& s, int64_t& end) {
  if (s.act_ram < 0 || s.kind != StationKind::kForward) return true;
  const ActRam& ram = network_.act_rams[static_cast<size_t>(s.act_ram)];
  const int64_t used = s.cycle * ram.rows + network_.tables[static_cast<size_t>(ram.used_table)][static_cast<size_t>(s.unit)];
  if (used - ram.released <= ram.capacity_rows) return true;
  if (ram.gradient && used - ram.released - ram.emptying <= ram.capacity_rows) {
    end = std::max(end, ram.empty_end);
    return true;
  }
  block(s, Cause::kOutput, -1, true);
  return false;
}

// What is held now: rows in work as far as they are filled and not yet emptied.
void Engine::note_act_ram(ActRam& ram) {
  const auto part = [&](int64_t start, int64_t end) {
    return end > start ? std::clamp(static_cast<double>(now_ - start) / static_cast<double>(end - start), 0.0, 1.0) : 1.0;
  };
  const double held = static_cast<double>(ram.used - ram.released) -
                      static_cast<double>(ram.filling) * (1 - part(ram.fill_start, ram.fill_end)) -
                      static_cast<double>(ram.emptying) * part(ram.empty_start, ram.empty_end);
  ram.peak_rows = std::max(ram.peak_rows, held);
}

void Engine::begin_act_ram(Station& s, int64_t end) {
  if (s.act_ram < 0) return;
  ActRam& ram = network_.act_rams[static_cast<size_t>(s.act_ram)];
  note_act_ram(ram);
  if (s.kind == StationKind::kForward) {
    const int64_t used = s.cycle * ram.rows + network_.tables[static_cast<size_t>(ram.used_table)][static_cast<size_t>(s.unit)];
    ram.filling = std::max<int64_t>(0, used - ram.used);
    ram.fill_start = now_;
    ram.fill_end = end;
    ram.used += ram.filling;
  } else {
    const int64_t rows = s.cycle * ram.rows + network_.tables[static_cast<size_t>(ram.released_table)][static_cast<size_t>(s.unit)];
    ram.emptying = std::max<int64_t>(0, std::min(rows, ram.used) - ram.released);
    ram.empty_start = now_;
    ram.empty_end = end;
    offer_act_ram(ram);
  }
}

void Engine::end_act_ram(Station& s) {
  if (s.act_ram < 0) return;
  ActRam& ram = network_.act_rams[static_cast<size_t>(s.act_ram)];
  note_act_ram(ram);
  const bool gradient = s.kind == StationKind::kParameterGradient;
  if (!gradient) ram.filling = 0;
  // Where there is no PG, FP itself lets go.
  if (!gradient && ram.gradient) return;
  ram.emptying = 0;
  const int64_t cycle = s.finished_unit == s.units - 1 ? s.cycle - 1 : s.cycle;
  const int64_t rows = cycle * ram.rows + network_.tables[static_cast<size_t>(ram.released_table)][static_cast<size_t>(s.finished_unit)];
  const int64_t released = std::min(rows, ram.used);
  if (released <= ram.released) return;
  ram.released = released;
  offer_act_ram(ram);
}

void Engine::offer_act_ram(const ActRam& ram) {
  const Station& waiting = station(ram.forward_station);
  if (waiting.blocked && waiting.for_room) visit(ram.forward_station);
}

}  // namespace millrace::simulation
