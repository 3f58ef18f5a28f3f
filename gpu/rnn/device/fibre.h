// Threads of execution that hand over to each other explicitly, on one thread of the operating system. Internal to gpu/rnn.
//
//   Fibre fibre;
//   fibre.start(64 * 1024, [&] { work(); fibre.leave(); more(); });
//   while (!fibre.finished()) fibre.enter();     // runs until leave() or the end
//
// leave() is called inside the fibre that runs. Sanitizers are told of every switch; a switch orders nothing in
// ThreadSanitizer's eyes, so what orders two fibres must say so itself. A fibre owns its stack; one
// that is destroyed before its end leaves the objects on it as they are. What escapes from the function is rethrown by enter().
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace millrace::rnn::emulator {

class Fibre {
 public:
  Fibre();
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  void start(std::size_t stack_bytes, std::function<void()> function);
  void enter();
  void leave();
  bool finished() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

// What earlier threads did before told(mark) is seen by those that come after heard(mark), for ThreadSanitizer alone.
void told(void* mark);
void heard(void* mark);

// While one lives, what its fibre does is none of ThreadSanitizer's business: bookkeeping that fibres share by taking turns.
class Unjudged {
 public:
  Unjudged();
  ~Unjudged();
  Unjudged(const Unjudged&) = delete;
  Unjudged& operator=(const Unjudged&) = delete;
};

}  // namespace millrace::rnn::emulator
