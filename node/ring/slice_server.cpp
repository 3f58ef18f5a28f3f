#include "node/ring/slice_server.h"

#include <algorithm>
#include <cstring>

#include "core/base/index.h"
#include "core/device/unit_steps.h"
#include "core/plan/parts.h"
#include "core/plan/placement.h"
#include "core/plan/schedule.h"
#include "node/ring/slice_state.h"
#include "node/ring/wire_format.h"

namespace millrace {

bool columns_in_back(const Plan& plan, const Graph& graph, const ParameterHome& home) {
  const auto group = std::ranges::find(plan.groups, home.layer, &Group::layer);
  return home.tensor.starts_with("weight_h") && group != plan.groups.end() && shares_steps(plan, graph, *group);
}

SliceServer::SliceServer(const RingContext& context, const HomeRoute& route, Device& device)
    : context_(context),
      slice_(context.plan(), route.home, device),
      device_(device),
      parameters_(route.parameters.front()),
      gradients_(route.gradients.empty() ? -1 : route.gradients.back()),
      user_(schedule_spec(context.plan(), slice_.where().user, 0), context.first_mini_batch),
      passes_(schedule_spec(context.plan(), slice_.where().user, 0)),
      gradients_taken_(context.first_mini_batch * context.plan().micro_batches()) {}

bool SliceServer::find_pass() {
  while (!due_version_) {
    const Action* action = user_.next();
    if (action == nullptr) return false;
    if (passes_.takes_pass(*action)) {
      due_version_ = action->version;
      due_average_ = action->kind == ActionKind::kValidate;
      due_back_ = action->kind == ActionKind::kErrorBack;
    }
    user_.pop();
  }
  return true;
}

// The slice's part of the columns that the user has in E: of U those of its features, of a projection those of its cells.
std::vector<double> SliceServer::columns_in_back_of(int64_t version) const {
  const ParameterHome& home = slice_.where();
  const Graph& graph = context_.graph();
  const Node& node = graph.node(graph.index_of(home.layer));
  const auto& cell = std::get<Recurrent>(node.layer.operation);
  std::vector<double> full(to_size(std::ranges::find(node.parameters, home.tensor, &ParameterSpec::tensor)->elements()));
  for (const Rows& rows : rows_) {
    std::vector<double> values(to_size(rows.slice->where().count));
    rows.slice->read(version, values);
    rows.places.insert(values, rows.slice->where().offset, full);
  }
  const Placement placement(context_.plan(), graph);
  const Shard& user = item(context_.plan().shards, placement.shard_on(node.group, home.user));
  const bool projection = home.tensor.starts_with("weight_hr");
  const std::vector<double> columns = columns_of(std::span<const double>(full), projection ? cell.hidden : cell.features(),
                                                 projection ? user.units : features_of(cell, user.units));
  return {columns.begin() + home.offset, columns.begin() + home.offset + home.count};
}

bool SliceServer::has_pass() {
  const auto behind = [&](const Rows& rows) { return *due_version_ > rows.slice->newest(); };
  return find_pass() && *due_version_ <= slice_.newest() && !(due_back_ && std::ranges::any_of(rows_, behind));
}

bool SliceServer::send_pass() {
  Transport& transport = *context_.transport;
  if (!has_pass() || !transport.can_send(parameters_)) return false;
  const ElementType wire = item(context_.plan().flows, parameters_).wire;
  const size_t bytes = wire_bytes(wire, slice_.where().count);
  const std::span<std::byte> payload = transport.begin_send(parameters_).first(bytes);
  const HostNumbers numbers = buffer_.of(device_.compute_type(), slice_.where().count);
  if (due_back_ && !rows_.empty())
    numbers.assign(columns_in_back_of(*due_version_));
  else if (due_average_)
    slice_.read_average(*due_version_, numbers);
  else
    slice_.read(*due_version_, numbers);
  pack(wire, numbers, payload);
  transport.commit_send(parameters_, {passes_sent_++}, bytes);
  due_version_.reset();
  return true;
}

bool SliceServer::take_gradient() {
  Transport& transport = *context_.transport;
  if (gradients_ < 0 || slice_.complete() || !transport.has_message(gradients_)) return false;
  const ElementType wire = item(context_.plan().flows, gradients_).wire;
  const auto payload = transport.begin_receive(gradients_, {gradients_taken_}, wire_bytes(wire, slice_.where().count));
  const HostNumbers numbers = buffer_.of(device_.compute_type(), slice_.where().count);
  unpack(wire, payload, numbers);
  slice_.add_gradient(numbers);
  ++gradients_taken_;
  transport.release(gradients_);
  return true;
}

void SliceServer::give_columns_of(const HomeSlice& rows) {
  const ParameterHome& home = rows.where();
  rows_.push_back({&rows, ShardVector(context_.plan(), context_.graph(), home.user, home.layer, home.tensor)});
}

bool SliceServer::step() {
  const bool took = take_gradient();
  return send_pass() || took;
}

// Also what is here by now: credits may be found between two looks, and a wait for them ends at once.
void SliceServer::look(std::vector<Interest>& missing) {
  const bool expects = gradients_taken_ < context_.plan().micro_batches() * (user_.over() ? user_.decided() : user_.decided() + 1);
  if (gradients_ >= 0 && expects && !slice_.complete()) missing.push_back({Want::kMessage, gradients_, {gradients_taken_}});
  if (has_pass()) missing.push_back({Want::kCredit, parameters_, {passes_sent_}});
}

int64_t SliceServer::due() {
  const int64_t mini_batch = slice_.due();
  return mini_batch >= 0 && context_.decisions->knows(mini_batch) ? mini_batch : -1;
}

void SliceServer::update(const UpdateArguments& arguments) {
  const int64_t mini_batch = slice_.due();
  const Decision& decision = context_.decisions->on(mini_batch);
  SaveWriter writer(device_.compute_type());
  const auto save = [&](SaveKind kind) { save_slice_weights(slice_, context_.graph(), writer, kind); };
  if (decision.checkpoint && !drains(context_.plan().alignment)) save(SaveKind::kPrevious);
  slice_.update(arguments);
  if (!decision.checkpoint) return;
  save(SaveKind::kWeights);
  save_slice_optimizer(slice_, context_.plan(), context_.graph(), writer);
  context_.events->saved(mini_batch, slice_.where().home, writer.take());
}

bool Relay::step() {
  if (!transport_->has_message(from_) || !transport_->can_send(to_)) return false;
  const Message message = transport_->begin_receive(from_);
  const std::span<std::byte> payload = transport_->begin_send(to_);
  std::memcpy(payload.data(), message.payload.data(), message.payload.size());
  transport_->commit_send(to_, message.id, message.payload.size());
  transport_->release(from_);
  return true;
}

void Relay::look(std::vector<Interest>& missing) const {
  if (!transport_->has_message(from_))
    missing.push_back({Want::kMessage, from_});
  else
    missing.push_back({Want::kCredit, to_});
}

}  // namespace millrace
