// What the terminal behind standard error can show, and the one line at its foot that is redrawn in place. Nobody else asks
// for isatty, NO_COLOR, TERM, COLUMNS or the locale.
//
//   show_status(fit_columns(fmt::format("training {}", bar), status_columns()));   // replaces what the line showed
//   {
//     AboveStatus above;                                                           // the line is off the terminal...
//     fmt::print(stderr, "info epoch 1.00\n");
//   }                                                                              // ...and drawn again below
//   leave_status();                                                                // stays where it is, the cursor goes on
//
// In place: standard error is a terminal, and TERM is set to something other than "dumb". Colours: in place, and NO_COLOR is unset
// or empty. UTF-8: what the codeset of the locale says; a locale that is not installed counts as ASCII. All asked once.
// Width: asked anew each time, so that no signal of a changed size is needed; the smaller of what the terminal says and of COLUMNS,
// 80 where neither knows. A terminal that is made narrower folds the line it shows, of which a part then stays behind.
// Thread safe. Messages of the last gasp, after which the process ends, need leave_status() alone, which waits for nobody.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

struct TerminalAbilities {
  bool terminal = false;  // standard error is one
  bool in_place = false;  // the cursor moves, lines are erased
  bool colours = false;
  bool utf8 = false;
};
const TerminalAbilities& terminal_abilities();

// Columns of the terminal; the status line takes one less, as a full line leaves the cursor in no line that all terminals agree on.
int64_t terminal_columns();
int64_t status_columns();

// Columns that a text takes, and the text cut to so many, with three dots (one character in UTF-8) where something is missing. Bytes
// that the terminal cannot show, or that would move its cursor, are question marks.
int64_t columns_of(std::string_view text);
std::string fit_columns(std::string_view text, int64_t columns);

void show_status(std::string line);
void leave_status() noexcept;

// Keeps the status line off the terminal while other lines are written.
class AboveStatus {
 public:
  AboveStatus();
  ~AboveStatus();
  AboveStatus(const AboveStatus&) = delete;
  AboveStatus& operator=(const AboveStatus&) = delete;
};

}  // namespace millrace
