// The clock of a Verilated model: inputs are set, outputs settle, then comes the edge.
//
//   clear_model(model);            // two cycles
//   source.drive(...);
//   settle(model);
//   source.after(...);
//   edge(model);
//
// For models with ports `clock` and `clear`, of which every module here has both.
#pragma once

namespace millrace {

template <typename Model>
void settle(Model& m) {
  m.clock = 0;
  m.eval();
}
template <typename Model>
void edge(Model& m) {
  m.clock = 1;
  m.eval();
}
template <typename Model>
void tick(Model& m) {
  settle(m);
  edge(m);
}
template <typename Model>
void clear_model(Model& m) {
  m.clear = 1;
  tick(m);
  tick(m);
  m.clear = 0;
}

}  // namespace millrace
