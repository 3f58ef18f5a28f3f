// What the rest of the program asks about an operation without knowing which one it is.
//
//   if (traits_of(node.layer.operation).rows == Rows::kAll) ...        // a feature map ends here
//
// Every operation states all of it in its own file: a Stated member that is left out does not compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/operation/window.h"

namespace millrace {

// What kind of work it is.
enum class Role {
  kConvolution,    // weights that slide over a map
  kProduct,        // every input with every output
  kRecurrence,     // a cell that walks through time
  kLookUp,         // a table of rows
  kPooling,        // a window's largest or average
  kElementwise,    // each element by itself
  kNormalisation,  // elements against statistics of others
  kJoining,        // several inputs into one output
  kRearrangement,  // the same elements in another shape, or some of them
  kLoss,           // scores into errors
};
// Heads a group: its work is worth a place of its own on the ring.
constexpr bool computes(Role role) {
  return role == Role::kConvolution || role == Role::kProduct || role == Role::kRecurrence || role == Role::kLookUp;
}

// Which rows (time steps) of its input a row of the output reads.
enum class Rows {
  kOwn,      // the one in its place
  kWindow,   // those under a sliding window: Traits::row_window
  kEarlier,  // its own and all before it
  kEvery,    // all, for as many rows of output
  kAll,      // all, for one row of output: a feature map ends here
  kLast,     // the sample's last one, for one row of output
};

// Whether a sequence can be taken in chunks of time, each as soon as it is there.
enum class TimeChunks {
  kNone,
  kOfSequences,  // where its output is a sequence: rows of one column
  kAlways,
};

// A value that has to be given.
template <typename T>
class Stated {
 public:
  template <std::convertible_to<T> Given>
  constexpr Stated(Given value) : value_(value) {}
  constexpr operator T() const { return value_; }

 private:
  T value_;
};

struct Traits {
  Stated<std::string_view> name;  // "conv2d", "max_pool", "lstm": in documents, tables and messages
  Stated<Rows> rows;
  std::optional<SlidingWindow> row_window = {};  // with Rows::kWindow, and only with it
  Stated<TimeChunks> chunks;
  Stated<bool> keeps_channels;    // an output channel depends on the input channel in its place alone
  Stated<bool> hides_input;       // what comes before it cannot be told from its output, which its own errors need
  Stated<bool> fuses_activation;  // an activation right behind it runs with it
  Stated<bool> keeps_state;       // carries something from one mini-batch to the next
  Stated<bool> reads_tokens;      // its input are ids, which come from the network's input alone
  int64_t channel_groups = 1;     // inputs and outputs come in so many groups that do not mix
};

// The operations of a family, as its header lists them at its end; operation.h joins the families.
template <typename... T>
struct Operations {};
template <typename... A, typename... B>
Operations<A..., B...> operator+(Operations<A...>, Operations<B...>);

}  // namespace millrace
