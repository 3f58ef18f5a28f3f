#include "core/base/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cwchar>
#include <mutex>

#include "core/base/index.h"

namespace millrace {
namespace {

// The characters of the person's locale, for as long as the process lives; null where that locale is not installed.
locale_t character_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "", nullptr);
  return locale;
}

bool set_and_not_empty(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

TerminalAbilities ask_terminal() {
  TerminalAbilities found;
  found.terminal = isatty(STDERR_FILENO) == 1;
  found.in_place = found.terminal && set_and_not_empty("TERM") && std::strcmp(std::getenv("TERM"), "dumb") != 0;
  found.colours = found.in_place && !set_and_not_empty("NO_COLOR");
  found.utf8 = character_locale() != nullptr && std::strcmp(nl_langinfo_l(CODESET, character_locale()), "UTF-8") == 0;
  return found;
}

constexpr int64_t kUnknownColumns = 80;

int64_t columns_of_environment() {
  const char* text = std::getenv("COLUMNS");
  if (text == nullptr) return 0;
  int64_t columns = 0;
  const char* end = text + std::strlen(text);
  const auto [stopped, error] = std::from_chars(text, end, columns);
  return error == std::errc() && stopped == end && columns > 0 ? columns : 0;
}

// One character of a text as the terminal shows it.
struct Shown {
  std::string_view text;
  int64_t bytes = 1;  // that it stands for
  int64_t columns = 1;
};

class Characters {
 public:
  explicit Characters(std::string_view text) : rest_(text), utf8_(terminal_abilities().utf8) {
    if (utf8_) before_ = uselocale(character_locale());
  }
  ~Characters() {
    if (utf8_) uselocale(before_);
  }
  Characters(const Characters&) = delete;
  Characters& operator=(const Characters&) = delete;

  bool next(Shown& shown) {
    if (rest_.empty()) return false;
    shown = read();
    rest_.remove_prefix(to_size(shown.bytes));
    return true;
  }

 private:
  Shown read() const {
    const auto first = static_cast<unsigned char>(rest_.front());
    if (first >= 0x20 && first < 0x7f) return {rest_.substr(0, 1)};
    if (!utf8_ || first < 0x80) return {"?"};
    wchar_t wide = 0;
    std::mbstate_t state{};
    const size_t bytes = std::mbrtowc(&wide, rest_.data(), rest_.size(), &state);
    if (bytes == 0 || bytes > rest_.size()) return {"?"};
    const int columns = wcwidth(wide);
    if (columns < 0) return {"?", static_cast<int64_t>(bytes)};
    return {rest_.substr(0, bytes), static_cast<int64_t>(bytes), columns};
  }

  std::string_view rest_;
  bool utf8_;
  locale_t before_ = nullptr;
};

struct StatusLine {
  std::recursive_mutex lock;
  std::string text;
  bool shown = false;
  int64_t above = 0;  // who writes other lines, one inside the other
};

// Never destroyed: the last lines of a process come late.
StatusLine& status() {
  static StatusLine& instance = *new StatusLine;
  return instance;
}

constexpr const char* kEraseLine = "\r\x1b[K";

void put(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

const TerminalAbilities& terminal_abilities() {
  static const TerminalAbilities found = ask_terminal();
  return found;
}

int64_t terminal_columns() {
  winsize size{};
  const int64_t told = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  const int64_t wanted = columns_of_environment();
  if (told > 0 && wanted > 0) return std::min(told, wanted);
  return told > 0 ? told : wanted > 0 ? wanted : kUnknownColumns;
}

int64_t status_columns() { return std::max<int64_t>(1, terminal_columns() - 1); }

int64_t columns_of(std::string_view text) {
  Characters characters(text);
  int64_t columns = 0;
  for (Shown shown; characters.next(shown);) columns += shown.columns;
  return columns;
}

std::string fit_columns(std::string_view text, int64_t columns) {
  const bool cut = columns_of(text) > columns;
  const std::string_view dots = terminal_abilities().utf8 ? "…" : "...";
  const int64_t dot_columns = terminal_abilities().utf8 ? 1 : 3;
  const bool with_dots = cut && columns > dot_columns;
  int64_t left = with_dots ? columns - dot_columns : columns;
  Characters characters(text);
  std::string fitted;
  for (Shown shown; characters.next(shown) && shown.columns <= left; left -= shown.columns) fitted += shown.text;
  if (with_dots) fitted += dots;
  return fitted;
}

void show_status(std::string line) {
  StatusLine& line_at_foot = status();
  const std::scoped_lock lock(line_at_foot.lock);
  line_at_foot.text = std::move(line);
  line_at_foot.shown = true;
  if (line_at_foot.above == 0) put(kEraseLine + line_at_foot.text);
}

void leave_status() noexcept {
  StatusLine& line_at_foot = status();
  const std::unique_lock lock(line_at_foot.lock, std::try_to_lock);
  if (!lock.owns_lock() || !line_at_foot.shown) return;
  line_at_foot.shown = false;
  put("\n");
}

AboveStatus::AboveStatus() {
  status().lock.lock();
  if (++status().above == 1 && status().shown) put(kEraseLine);
}

AboveStatus::~AboveStatus() {
  // The terminal may be narrower by now than it was when the line was made.
  if (--status().above == 0 && status().shown) put(fit_columns(status().text, status_columns()));
  status().lock.unlock();
}

}  // namespace millrace
