#include "core/reference/interpreter_parameters.h"

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index.h"
#include "core/plan/schedule.h"

namespace millrace::interpreting {

void ParameterStore::set(std::string_view layer, std::string_view tensor, std::span<const double> full) {
  const Plan& plan = context_.plan;
  const int64_t node = context_.graph.index_of(layer);
  for (size_t h = 0; h < plan.homes.size(); ++h) {
    const ParameterHome& home = plan.homes[h];
    if (home.layer != layer || home.tensor != tensor) continue;
    const Values vector = user_vector(node, tensor, home.user, full);
    StoredSlice& stored = stored_[h];
    stored.versions[0].assign(vector.begin() + home.offset, vector.begin() + home.offset + home.count);
    stored.gradient.assign(to_size(home.count), 0.0);
    stored.slots.assign(to_size(plan.optimizer.slots()), Values(to_size(home.count), 0.0));
  }
}

Values ParameterStore::full(int64_t node, std::string_view tensor, int64_t elements) const {
  Values full(to_size(elements));
  for (const int64_t user : users_of(node, tensor)) {
    if (shared(node, tensor)) {
      const int64_t newest = stored_newest(node, tensor, user);
      return of_steps(node, tensor, newest);
    }
    const Values vector = vector_of(node, tensor, user, std::nullopt);
    if (!divided(node, tensor)) return vector;
    int64_t offset = 0;
    for (const Block& block : blocks_of(node, tensor, user)) {
      const ParameterSlice slice = weight_slice(node, block);
      insert_slice(slice, std::span(vector).subspan(to_size(offset), to_size(slice.elements)), full);
      offset += slice.elements;
    }
  }
  return full;
}

bool ParameterStore::divided(int64_t node, std::string_view tensor) const {
  if (context_.divided_by_kind(node)) return tensor.starts_with("weight_ih");
  return tensor == "weight" && context_.graph.node(node).divides;
}

// Of a recurrent layer divided by kind: what lies in the tensor's direction, counted from its first row.
std::vector<Block> ParameterStore::blocks_of(int64_t node, std::string_view tensor, int64_t user) const {
  const std::vector<Block>& blocks = context_.shard_of(node, user).blocks;
  if (!context_.divided_by_kind(node)) return blocks;
  const ChannelRange rows = context_.sums_of(node, tensor.ends_with("_reverse") ? 1 : 0);
  std::vector<Block> here;
  for (const Block& block : blocks) {
    const ChannelRange outputs = intersection(block.outputs, rows);
    if (!outputs.empty()) here.push_back({block.inputs, {outputs.begin - rows.begin, outputs.end - rows.begin}});
  }
  return here;
}

std::vector<int64_t> ParameterStore::users_of(int64_t node, std::string_view tensor) const {
  if (!divided(node, tensor)) return {context_.placement.owner_of(node)};
  std::vector<int64_t> users;
  for (const int64_t s : context_.placement.group_of(node).shards) users.push_back(item(context_.plan.shards, s).device);
  return users;
}

ParameterSlice ParameterStore::weight_slice(int64_t node, const Block& block) const {
  ParameterSlice slice;
  slice.node = node;
  slice.tensor = "weight";
  slice.dimensions = context_.graph.node(node).parameters[0].dimensions;
  slice.block = block;
  slice.divided = true;
  slice.elements =
      context_.divided_by_kind(node) ? block.inputs.size() * block.outputs.size() : weight_elements(context_.graph, node, block);
  return slice;
}

// The parameter vector of one user, cut out of the full tensor.
Values ParameterStore::user_vector(int64_t node, std::string_view tensor, int64_t user, std::span<const double> full) const {
  if (shared(node, tensor)) return rows_of(node, tensor, user, full);
  if (!divided(node, tensor)) return {full.begin(), full.end()};
  Values vector;
  for (const Block& block : blocks_of(node, tensor, user)) {
    const ParameterSlice slice = weight_slice(node, block);
    Values part(to_size(slice.elements));
    extract_slice(slice, full, part);
    vector.insert(vector.end(), part.begin(), part.end());
  }
  return vector;
}

template <typename Visit>
void ParameterStore::for_each_home(int64_t node, std::string_view tensor, int64_t user, Visit visit) const {
  const std::vector<ParameterHome>& homes = context_.plan.homes;
  for (size_t h = 0; h < homes.size(); ++h)
    if (homes[h].user == user && homes[h].tensor == tensor && homes[h].layer == context_.graph.name_of(node)) visit(h);
}

Values ParameterStore::vector_of(int64_t node, std::string_view tensor, int64_t user, std::optional<int64_t> version) const {
  Values vector;
  for_each_home(node, tensor, user, [&](size_t h) {
    const auto& versions = stored_[h].versions;
    MILLRACE_CHECK(!versions.empty(), "{}.{} was never set", context_.graph.name_of(node), tensor);
    const auto found = version ? versions.find(*version) : std::prev(versions.end());
    MILLRACE_CHECK(found != versions.end(), "{}.{} has no version {}", context_.graph.name_of(node), tensor, version.value_or(-1));
    const size_t offset = to_size(context_.plan.homes[h].offset);
    vector.resize(std::max(vector.size(), offset + found->second.size()));
    std::copy(found->second.begin(), found->second.end(), vector.begin() + static_cast<ptrdiff_t>(offset));
  });
  return vector;
}

bool ParameterStore::shared(int64_t node, std::string_view tensor) const {
  return context_.steps_devices(node).size() > 1 && !tensor.starts_with("weight_ih");
}

Values ParameterStore::rows_of(int64_t node, std::string_view tensor, int64_t user, std::span<const double> full) const {
  Values rows;
  for_each_row_of(node, tensor, user, [&](int64_t i) { rows.push_back(item(full, i)); });
  return rows;
}

// Of a projection rows are features, in the proportion of the cells; of all else cells, gate by gate.
template <typename Visit>
void ParameterStore::for_each_row_of(int64_t node, std::string_view tensor, int64_t user, Visit visit) const {
  const auto& cell = std::get<Recurrent>(context_.graph.node(node).layer.operation);
  const ChannelRange units = context_.shard_of(node, user).units;
  const int64_t features = cell.projection > 0 ? cell.projection : cell.hidden;
  if (tensor.starts_with("weight_hr")) {
    for (int64_t i = units.begin * features; i < units.end * features; ++i) visit(i);
    return;
  }
  const int64_t width = tensor.starts_with("weight") ? features : 1;
  for (int64_t gate = 0; gate < gates_of(cell.cell); ++gate)
    for (int64_t i = units.begin * width; i < units.end * width; ++i) visit(gate * cell.hidden * width + i);
}

Values ParameterStore::of_steps(int64_t node, std::string_view tensor, int64_t version) const {
  if (!shared(node, tensor)) return vector_of(node, tensor, context_.placement.owner_of(node), version);
  Values full;
  for (const ParameterSpec& parameter : context_.graph.node(node).parameters)
    if (parameter.tensor == tensor) full.resize(to_size(parameter.elements()));
  for (const int64_t user : context_.steps_devices(node)) {
    const Values rows = vector_of(node, tensor, user, version);
    size_t next = 0;
    for_each_row_of(node, tensor, user, [&](int64_t i) { item(full, i) = rows[next++]; });
  }
  return full;
}

void ParameterStore::add_gradient_of_steps(int64_t node, std::string_view tensor, const Values& gradient) {
  if (!shared(node, tensor)) return add_gradient(node, tensor, context_.placement.owner_of(node), gradient);
  for (const int64_t user : context_.steps_devices(node)) add_gradient(node, tensor, user, rows_of(node, tensor, user, gradient));
}

int64_t ParameterStore::stored_newest(int64_t node, std::string_view tensor, int64_t user) const {
  int64_t newest = 0;
  for_each_home(node, tensor, user, [&](size_t h) { newest = stored_[h].versions.rbegin()->first; });
  return newest;
}

void ParameterStore::add_gradient(int64_t node, std::string_view tensor, int64_t user, const Values& gradient) {
  for_each_home(node, tensor, user, [&](size_t h) {
    const ParameterHome& home = context_.plan.homes[h];
    for (int64_t i = 0; i < home.count; ++i) {
      double& sum = item(stored_[h].gradient, i);
      sum = context_.round(sum + item(gradient, home.offset + i));
    }
  });
}

void ParameterStore::update(int64_t user, int64_t mini_batch) {
  const Plan& plan = context_.plan;
  for (size_t h = 0; h < plan.homes.size(); ++h) {
    const ParameterHome& home = plan.homes[h];
    if (home.user != user) continue;
    StoredSlice& stored = stored_[h];
    Values next = stored.versions.at(mini_batch);
    if (context_.graph.node(context_.graph.index_of(home.layer)).trained) step(stored, next, mini_batch);
    stored.versions[mini_batch + 1] = std::move(next);
    const int64_t oldest = mini_batch + 1 - versions_held(schedule_spec(plan, user, 1));
    stored.versions.erase(stored.versions.begin(), stored.versions.lower_bound(oldest));
    std::fill(stored.gradient.begin(), stored.gradient.end(), 0.0);
  }
}

void ParameterStore::step(StoredSlice& stored, Values& next, int64_t mini_batch) const {
  const Shape flat{static_cast<int64_t>(next.size()), 1, 1};
  const TensorPointer parameter = context_.tensor_of(flat, 1, next);
  const TensorPointer gradient = context_.tensor_of(flat, 1, stored.gradient);
  std::vector<TensorPointer> slots;
  for (const Values& slot : stored.slots) slots.push_back(context_.tensor_of(flat, 1, slot));
  UpdateArguments arguments;
  arguments.optimizer = context_.plan.optimizer;
  arguments.learning_rate = context_.options.learning_rate(mini_batch);
  arguments.step = mini_batch + 1;
  context_.device->update(arguments, *parameter, *gradient, pointers<Tensor>(slots));
  next = context_.values_of(*parameter);
  for (size_t i = 0; i < slots.size(); ++i) stored.slots[i] = context_.values_of(*slots[i]);
}

}  // namespace millrace::interpreting
