// Notes: what the ranks of a ring tell each other besides the streams.
//
//   NoteBoard notes(transport, [&](const Note& note, int64_t from) { ... });
//   notes.send(0, {.kind = NoteKind::kScore, .index = mini_batch, .value = loss});
//   notes.receive();                                       // hands over all that have come
//   transport.wait(std::array{notes.interest()});          // until another one comes
//
// A note to the own rank is handed over at once; one to every rank goes to all others. Borrows the transport. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "transport/streams/transport.h"

namespace millrace {

enum class NoteKind : uint32_t {
  kDecision,    // about mini-batch `index`; first: bits of a Decision
  kScore,       // of mini-batch `index`
  kEvaluation,  // likewise
  kStop,        // somebody was asked to stop
  kCheckpoint,  // or to make a checkpoint; index: RankSignals::shared_checkpoints, or 0
  kNorm,        // squared, of mini-batch `index`; first: whose
  kScale,       // value: of the gradients of mini-batch `index`
  kDiagnose,    // is anything of micro-batch `index` not finite?
  kDiagnosis,   // the layer, in `name`; first: its device
  kDone,        // nothing is left to do on the rank that sends this
  kFinish       // nor on any
};

struct Note {
  NoteKind kind = NoteKind::kDone;
  uint32_t zero = 0;
  int64_t index = 0;
  int64_t first = 0;
  double value = 0;
  int64_t correct = 0;
  int64_t samples = 0;
  std::array<char, 104> name{};  // ends in a zero

  void set_name(std::string_view text);
};

class NoteBoard {
 public:
  using Receiver = std::function<void(const Note& note, int64_t from)>;
  NoteBoard(Transport& transport, Receiver receiver) : transport_(transport), receiver_(std::move(receiver)) {}

  void send(int64_t to, const Note& note);
  void receive();
  Interest interest() const;

 private:
  Transport& transport_;
  Receiver receiver_;
};

}  // namespace millrace
