// Trained parameters where they are stored: each home holds its slice in every version still in use, the gradient
// summed so far and the optimizer's state; users see the vector of their shard, put together from its homes. Internal to core/reference.
//
//   ParameterStore store(context);
//   store.set("conv1", "weight", full);
//   store.add_gradient(node, "weight", user, gradient);
//   store.update(user, mini_batch);                             // version mini_batch + 1 out of mini_batch
//   const Values vector = store.vector_of(node, "weight", user, version);
//
// Borrows the context. Used by the interpreter only.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/device/kernel_spec.h"
#include "core/reference/interpreter_context.h"

namespace millrace::interpreting {

class ParameterStore {
 public:
  explicit ParameterStore(const Context& context) : context_(context), stored_(context.plan.homes.size()) {}

  // Version 0, from the full canonical tensor; forgets gradient and optimizer state.
  void set(std::string_view layer, std::string_view tensor, std::span<const double> full);
  // The newest version, as a full canonical tensor of `elements`.
  Values full(int64_t node, std::string_view tensor, int64_t elements) const;
  // The user's vector (core/documents/plan.h, ParameterHome) in one version, or the newest.
  Values vector_of(int64_t node, std::string_view tensor, int64_t user, std::optional<int64_t> version) const;

  // Of the steps of a recurrent layer, whole, whoever has the parts.
  Values of_steps(int64_t node, std::string_view tensor, int64_t version) const;
  void add_gradient_of_steps(int64_t node, std::string_view tensor, const Values& gradient);

  void add_gradient(int64_t node, std::string_view tensor, int64_t user, const Values& gradient);
  // The parameters `user` uses get their next version, at their homes.
  void update(int64_t user, int64_t mini_batch);

 private:
  struct StoredSlice {
    std::map<int64_t, Values> versions;
    Values gradient;
    std::vector<Values> slots;
  };

  bool divided(int64_t node, std::string_view tensor) const;
  std::vector<int64_t> users_of(int64_t node, std::string_view tensor) const;
  std::vector<Block> blocks_of(int64_t node, std::string_view tensor, int64_t user) const;
  int64_t stored_newest(int64_t node, std::string_view tensor, int64_t user) const;
  bool shared(int64_t node, std::string_view tensor) const;
  Values rows_of(int64_t node, std::string_view tensor, int64_t user, std::span<const double> full) const;
  template <typename Visit>
  void for_each_row_of(int64_t node, std::string_view tensor, int64_t user, Visit visit) const;
  ParameterSlice weight_slice(int64_t node, const Block& block) const;
  Values user_vector(int64_t node, std::string_view tensor, int64_t user, std::span<const double> full) const;
  template <typename Visit>
  void for_each_home(int64_t node, std::string_view tensor, int64_t user, Visit visit) const;
  void step(StoredSlice& stored, Values& next, int64_t mini_batch) const;

  const Context& context_;
  std::vector<StoredSlice> stored_;  // by home
};

}  // namespace millrace::interpreting
