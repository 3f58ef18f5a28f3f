#include "node/ring/note_board.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/base/check.h"

namespace millrace {
namespace {

constexpr uint32_t kNotes = 1;  // the kind of all control messages of a ring

}  // namespace

void Note::set_name(std::string_view text) { std::copy_n(text.begin(), std::min(text.size(), name.size() - 1), name.begin()); }

void NoteBoard::send(int64_t to, const Note& note) {
  const int64_t own = transport_.rank();
  if (to == own) return receiver_(note, own);
  if (to == kEveryRank && transport_.ranks() == 1) return;
  transport_.send_control(to, kNotes, std::as_bytes(std::span(&note, 1)));
}

void NoteBoard::receive() {
  while (auto message = transport_.take_control(kNotes)) {
    Note note;
    MILLRACE_CHECK(message->payload.size() == sizeof(note), "a note of {} bytes", message->payload.size());
    std::memcpy(&note, message->payload.data(), sizeof(note));
    receiver_(note, message->source);
  }
}

Interest NoteBoard::interest() const { return {.want = Want::kControl, .control_kind = kNotes}; }

}  // namespace millrace
