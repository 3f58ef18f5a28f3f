#include "tests/gpu/rnn/ptx/module.h"

#include <cxxabi.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace millrace::rnn::ptx {
namespace {

constexpr Word kNeverWritten = 0xFFF7DEADFFB7DEADULL;  // a NaN in every format

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

std::string without_blanks(const std::string& text) {
  std::string out;
  for (const char c : text)
    if (c != ' ') out += c;
  return out;
}

bool starts_with(const std::string& text, const std::string& beginning) { return text.compare(0, beginning.size(), beginning) == 0; }

// Operands between commas that no brace or bracket holds together.
std::vector<std::string> operands_of(const std::string& text) {
  std::vector<std::string> operands;
  std::string one;
  int depth = 0;
  for (const char c : text) {
    depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      operands.push_back(trimmed(one));
      one.clear();
    } else {
      one += c;
    }
  }
  if (!trimmed(one).empty()) operands.push_back(trimmed(one));
  return operands;
}

int bytes_of_type(const std::string& type) {
  const std::size_t digits = type.find_first_of("0123456789");
  return digits == std::string::npos ? 0 : std::atoi(type.c_str() + digits) / 8;
}

class Reader {
 public:
  Reader(Entry& entry, const std::map<std::string, Word>& symbols, std::map<std::string, int>& opcodes)
      : entry_(entry), dynamic_(symbols), symbols_(symbols), opcodes_(opcodes) {}

  void take_parameter(const std::string& line) {
    std::istringstream words(line);
    std::string word, name;
    int align = 0, bytes = 0;
    while (words >> word) {
      if (word == ".align") {
        words >> align;
      } else if (word == ".ptr" || word == ".param") {
      } else if (word[0] == '.') {
        if (bytes == 0) bytes = bytes_of_type(word);
      } else {
        name = word;
      }
    }
    // .ptr .align is what a pointer points to.
    if (line.find(".ptr") != std::string::npos) align = 0;
    while (!name.empty() && (name.back() == ',' || name.back() == ')')) name.pop_back();
    const std::size_t bracket = name.find('[');
    if (bracket != std::string::npos) {
      bytes = std::atoi(name.c_str() + bracket + 1);
      name.resize(bracket);
    }
    if (align == 0) align = bytes;
    entry_.parameter_bytes = (entry_.parameter_bytes + align - 1) / align * align;
    symbols_[name] = static_cast<Word>(entry_.parameter_bytes);
    entry_.parameters.push_back({entry_.parameter_bytes, bytes});
    entry_.parameter_bytes += bytes;
  }

  // .shared and .local variables of the entry.
  void take_variable(const std::string& line) {
    const bool shared = line.find(".shared") != std::string::npos;
    int align = 1;
    const std::size_t at = line.find(".align");
    if (at != std::string::npos) align = std::atoi(line.c_str() + at + 6);
    const std::size_t bracket = line.find('[');
    const std::size_t name_at = line.find_last_of(" \t", bracket) + 1;
    int& used = shared ? entry_.static_shared : entry_.local;
    used = (used + align - 1) / align * align;
    symbols_[line.substr(name_at, bracket - name_at)] = static_cast<Word>(used);
    used += std::atoi(line.c_str() + bracket + 1);
  }

  // A register whose name does not begin as those of the compiler.
  void declare(const std::string& name) { slots_[name] = scratch(); }

  void take_label(const std::string& name) { labels_[name] = static_cast<int>(entry_.code.size()); }

  void take(std::string statement, int line) {
    Instruction instruction;
    instruction.line = line;
    if (statement[0] == '@') {
      const std::size_t space = statement.find_first_of(" \t");
      instruction.guard_negated = statement[1] == '!';
      instruction.guard = slot(statement.substr(instruction.guard_negated ? 2 : 1, space - (instruction.guard_negated ? 2 : 1)));
      statement = trimmed(statement.substr(space));
    }
    const std::size_t space = statement.find_first_of(" \t");
    std::string opcode = statement.substr(0, space);
    std::vector<std::string> operands = space == std::string::npos ? std::vector<std::string>() : operands_of(statement.substr(space));
    ++opcodes_[opcode];
    if (starts_with(opcode, "bra")) {
      instruction.kind = Kind::kBranch;
      jumps_.emplace_back(entry_.code.size(), operands.at(0));
      entry_.code.push_back(instruction);
      return;
    }
    if (operands.size() == 2 && operands[1] == "%globaltimer") opcode = "mov.%globaltimer";
    if (starts_with(opcode, "mov.b") && operands.size() == 2 && (operands[0][0] == '{' || operands[1][0] == '{'))
      opcode += operands[0][0] == '{' ? ".unpack" : ".pack";
    if (!decode(opcode, instruction)) throw PtxError("the opcode " + opcode + " is not known: \"" + statement + "\"");
    std::size_t next = 0;
    const auto add = [&](const std::string& name) {
      if (next == instruction.at.size()) throw PtxError("too many operands: \"" + statement + "\"");
      instruction.at[next++] = name == "_" ? scratch() : slot(name);
    };
    for (const std::string& operand : operands) {
      if (operand[0] == '[') {
        const std::string inner = trimmed(operand.substr(1, operand.size() - 2));
        const std::size_t plus = inner.find('+');
        add(inner.substr(0, plus));
        if (plus != std::string::npos) instruction.offset = std::atoll(inner.c_str() + plus + 1);
      } else if (operand[0] == '{') {
        for (const std::string& one : operands_of(operand.substr(1, operand.size() - 2))) add(one);
      } else if (const std::size_t bar = operand.find('|'); bar != std::string::npos) {
        add(operand.substr(0, bar));
        add(operand.substr(bar + 1));
      } else {
        add(operand);
        if (next == 1 && instruction.kind == Kind::kShuffle) add("_");  // whether the lane took part: not asked for
      }
    }
    entry_.code.push_back(instruction);
  }

  void finish() {
    for (const auto& [at, label] : jumps_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw PtxError("no label " + label);
      entry_.code[at].target = found->second;
    }
    if (uses_dynamic_ && entry_.static_shared > 0) throw PtxError("static beside dynamic shared memory is not known");
    Instruction end;
    end.kind = Kind::kReturn;
    entry_.code.push_back(end);
    entry_.static_shared = (entry_.static_shared + 15) / 16 * 16;
    for (int* special : {&entry_.thread, &entry_.threads, &entry_.block, &entry_.blocks, &entry_.rank})
      if (*special < 0) *special = scratch();
  }

 private:
  int new_slot(Word value) {
    entry_.slots.push_back(value);
    return static_cast<int>(entry_.slots.size()) - 1;
  }
  int scratch() { return new_slot(kNeverWritten); }

  int slot(const std::string& name) {
    const auto known = slots_.find(name);
    if (known != slots_.end()) return known->second;
    int made = -1;
    if (name[0] == '%') {
      made = scratch();
      if (name == "%tid.x")
        entry_.thread = made;
      else if (name == "%ntid.x")
        entry_.threads = made;
      else if (name == "%ctaid.x")
        entry_.block = made;
      else if (name == "%nctaid.x")
        entry_.blocks = made;
      else if (name == "%cluster_ctarank")
        entry_.rank = made;
      else if (name.find('.') != std::string::npos || starts_with(name, "%cluster"))
        throw PtxError("the special register " + name + " is not known");
    } else if (starts_with(name, "0f") || starts_with(name, "0d")) {
      made = new_slot(std::strtoull(name.c_str() + 2, nullptr, 16));
    } else if (name[0] == '-' || (name[0] >= '0' && name[0] <= '9')) {
      char* end = nullptr;
      const Word value = name[0] == '-' ? static_cast<Word>(std::strtoll(name.c_str(), &end, 0)) : std::strtoull(name.c_str(), &end, 0);
      if (*end != '\0' && *end != 'U') throw PtxError("no number: " + name);
      made = new_slot(value);
    } else {
      const auto symbol = symbols_.find(name);
      uses_dynamic_ = uses_dynamic_ || dynamic_.count(name) > 0;
      if (symbol == symbols_.end()) throw PtxError("no variable " + name);
      made = new_slot(symbol->second);
    }
    slots_[name] = made;
    return made;
  }

  Entry& entry_;
  std::map<std::string, Word> dynamic_;  // shared memory that a launch brings, where an entry without static one begins
  std::map<std::string, Word> symbols_;
  std::map<std::string, int>& opcodes_;
  bool uses_dynamic_ = false;
  std::map<std::string, int> slots_, labels_;
  std::vector<std::pair<std::size_t, std::string>> jumps_;
};

}  // namespace

Module::Module(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  std::map<std::string, Word> symbols;
  std::unique_ptr<Entry> entry;
  std::unique_ptr<Reader> reader;
  int depth = 0;
  int number = 0;
  while (std::getline(in, line)) {
    ++number;
    line = trimmed(line.substr(0, line.find("//")));
    if (line.empty()) continue;
    try {
      if (!entry) {
        if (starts_with(line, ".target")) target_ = trimmed(line.substr(7));
        // Dynamic shared memory is the only variable outside of entries: after static variables, of which such entries have none.
        if (line.find(".extern .shared") != std::string::npos) {
          const std::size_t name = line.find_last_of(" \t") + 1;
          symbols[line.substr(name, line.find('[') - name)] = 0;
        } else if (line.find(".entry") != std::string::npos) {
          entry = std::make_unique<Entry>();
          entry->name = trimmed(line.substr(line.find(".entry") + 6));
          entry->name.resize(entry->name.find_first_of("( \t"));
          entry->demangled = demangled(entry->name);
          reader = std::make_unique<Reader>(*entry, symbols, opcodes_);
        } else if (line.find(".func") != std::string::npos || starts_with(line, ".global") || starts_with(line, ".const")) {
          throw PtxError("functions and variables outside of entries are not known");
        }
        continue;
      }
      entry->lines.resize(static_cast<std::size_t>(number) + 1);
      entry->lines.back() = line;
      if (depth == 0 && starts_with(line, ".param")) {
        reader->take_parameter(line);
      } else if (depth > 0 && starts_with(line, "{ ") && line.back() == '}') {  // a scope in a line
        std::istringstream statements(line.substr(1, line.size() - 2));
        std::string statement;
        while (std::getline(statements, statement, ';')) {
          statement = trimmed(statement);
          if (starts_with(statement, ".reg"))
            reader->declare(statement.substr(statement.find_last_of(" \t") + 1));
          else if (!statement.empty())
            reader->take(statement, number);
        }
      } else if (line == "{") {
        ++depth;
      } else if (line == "}") {
        if (--depth > 0) continue;
        reader->finish();
        entries_.push_back(std::move(entry));
      } else if (depth == 0 || starts_with(line, ".reg") || starts_with(line, ".pragma")) {
        continue;
      } else if (starts_with(line, ".shared") || starts_with(line, ".local")) {
        reader->take_variable(line);
      } else if (line.back() == ':') {
        reader->take_label(line.substr(0, line.size() - 1));
      } else if (line.back() == ';') {
        line.pop_back();
        reader->take(trimmed(line), number);
      } else {
        throw PtxError("not understood: \"" + line + "\"");
      }
    } catch (const PtxError& error) {
      throw PtxError("line " + std::to_string(number) + " of PTX for " + target_ + ": " + error.what());
    }
  }
  if (entry) throw PtxError("the PTX for " + target_ + " ends within " + entry->name);
}

const Entry* Module::entry(const std::string& part) const {
  const std::string wanted = without_blanks(part);
  for (const auto& one : entries_)
    if (without_blanks(one->demangled).find(wanted) != std::string::npos) return one.get();
  return nullptr;
}

std::vector<std::string> texts_in(const std::string& object) {
  std::ifstream in(object, std::ios::binary);
  std::stringstream whole;
  whole << in.rdbuf();
  const std::string bytes = whole.str();
  std::vector<std::string> texts;
  const std::string mark = "\n.version ";
  for (std::size_t at = bytes.find(mark); at != std::string::npos; at = bytes.find(mark, at + 1)) {
    const std::size_t end = bytes.find('\0', at);
    std::string text = bytes.substr(at + 1, end - at - 1);
    if (text.find(".address_size") != std::string::npos) texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace millrace::rnn::ptx
