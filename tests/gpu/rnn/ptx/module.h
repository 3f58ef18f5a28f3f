// PTX as instructions to interpret: what nvcc made of the kernels, decoded once per entry.
//
//   for (const std::string& text : texts_in("shipped_lstm.cu.o")) {      // one per architecture, as nvcc left them in an object
//     const Module module(text);                                         // throws PtxError: an opcode or a form that is not known
//     const Entry& entry = *module.entries().front();  ... entry.demangled ...
//   }
//
// Every virtual register, constant and special register has a slot of 64 bits in a thread's register file. What an opcode does is
// in semantics.cpp, what memory and other threads have to do with it in grid.cpp. Objects of nvcc hold text only with -no-compress.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace millrace::rnn::ptx {

class PtxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Word = std::uint64_t;

enum class Kind : unsigned char {
  kAlu,
  kBranch,
  kReturn,
  kLoad,
  kStore,
  kBarrier,
  kShuffle,
  kMatrix,
  kFence,
  kTimer,
  kClusterArrive,
  kClusterWait,
  kOpenMailbox,
  kExpect,
  kAwait,
  kSend
};
enum class Space : unsigned char { kParameter, kGlobal, kShared, kLocal };
// Of an access: weak ones order nothing and may be seen late; of strong ones acquire and release order others.
enum class Order : unsigned char { kWeak, kConstant, kVolatile, kRelaxed, kAcquire, kRelease };

// What an instruction is to a step's chain.
enum class Part : unsigned char { kOther, kIntegerDivision, kExactDivision, kProduct };

struct Instruction {
  Kind kind = Kind::kAlu;
  bool guard_negated = false;
  Space space = Space::kGlobal;
  Order order = Order::kWeak;
  unsigned char bytes = 0;  // of one element of an access
  unsigned char count = 1;  // elements
  bool is_signed = false;   // elements are extended with their sign
  bool brain = false;       // a matrix product of bfloat16
  Part part = Part::kOther;
  int guard = -1;        // slot of a predicate; none
  int target = -1;       // of a branch
  int mode = 0;          // what a handler wants beyond its type
  long long offset = 0;  // of an address
  void (*run)(Word* r, const Instruction& i) = nullptr;
  std::array<int, 14> at{};  // slots: results first
  int line = 0;              // of the text, for messages
};

struct Parameter {
  int offset;
  int bytes;
};

struct Entry {
  std::string name, demangled;
  std::vector<Parameter> parameters;
  int parameter_bytes = 0;
  int static_shared = 0;  // where dynamic shared memory begins
  int local = 0;
  std::vector<Instruction> code;
  std::vector<Word> slots;  // a thread's register file as it starts: constants in place, all else what was never written
  int thread = -1, threads = -1, block = -1, blocks = -1, rank = -1;  // slots of special registers
  std::vector<std::string> lines;                                     // for messages, by Instruction::line
};

class Module {
 public:
  explicit Module(const std::string& text);
  const std::string& target() const { return target_; }  // "sm_90a"
  const std::vector<std::unique_ptr<Entry>>& entries() const { return entries_; }
  // The entry whose demangled name holds `part`, blanks apart, in which demanglers differ; none when there is no such entry.
  const Entry* entry(const std::string& part) const;
  // Opcodes met, with how often.
  const std::map<std::string, int>& opcodes() const { return opcodes_; }

 private:
  std::string target_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::map<std::string, int> opcodes_;
};

// The PTX texts in an object file; none when it holds none or only compressed ones.
std::vector<std::string> texts_in(const std::string& object);

// Fills in kind, types and handler for an opcode; false when it is unknown. For Module.
bool decode(const std::string& opcode, Instruction& instruction);

}  // namespace millrace::rnn::ptx
