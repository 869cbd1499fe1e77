#include "planned_state.h"

#include "base/counted.h"
#include "base/error.h"
#include "base/number_text.h"
#include "base/size_text.h"
#include "deployment/cache_choices.h"
#include "progress.h"
#include "table.h"
#include "terminal.h"

namespace kvcal {
namespace {

std::optional<StateWidth> format_of(std::string_view type) {
  if (type == "float32") return StateWidth::F32;
  if (type == "bfloat16") return StateWidth::BF16;
  if (type == "float16") return StateWidth::F16;
  return std::nullopt;
}

StateWidth asked_format(const std::string& name) {
  std::vector<std::string> names;
  for (const StateWidth format : kStateWidths) {
    if (name == name_of(format)) return format;
    names.emplace_back(name_of(format));
  }
  fail_unknown("--state-dtype", name, names);
}

bool has_state(const ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& l) { return l.state_bytes > 0; });
}

// vLLM keeps a state for each token that is drafted, SGLang also one for the token that the drafts begin with.
void set_slots(const StateFlags& flags, const ModelSpec& spec, PlannedState& state) {
  const Engine server = state.server.server;
  const std::optional<EngineVersion>& version = state.server.version;
  const StateSlots slots = state_slots(server, version, spec.architecture);
  const int drafted = spec.n_mtp_layers == 0 ? 0 : server == Engine::Sglang ? 2 : 1;
  state.storage.slots = flags.slots.value_or(slots.n + drafted);
  state.slots_why = flags.slots ? "as given" : std::string(slots.why);
  if (!flags.slots && drafted > 0) state.slots_why += "; " + std::to_string(drafted) + " for one drafted token";
}

std::string origin(const PlannedState& state) {
  if (state.asked) return "as given";
  const std::string by(state.type.decided_by);
  return str(state.server.server, state.server.version) +
         (state.type.name.empty() ? " is not known to choose" : "'s type by " + by);
}

// With the state in another type, all else as planned.
Capacity with_state(const ModelSpec& spec, const Capacity& c, StateWidth format) {
  Deployment deployment = c.deployment;
  deployment.state.format = format;
  return capacity_of(spec, deployment, c.weights);
}

}  // namespace

PlannedState planned_state(const StateFlags& flags, const Json& config, const ModelSpec& spec,
                           const Deployment& deployment) {
  PlannedState state;
  state.server = deployment.server.value_or(NamedEngine{Engine::Vllm, newest_known(Engine::Vllm)});
  if (!has_state(spec)) {
    for (const auto& [given, option] :
         {std::pair{!flags.dtype.empty(), "--state-dtype"}, std::pair{flags.slots.has_value(), "--state-slots"}})
      if (given) fail(std::string(option) + ": the model has no recurrent layers");
    return state;
  }
  if (flags.slots && (*flags.slots < 1 || *flags.slots > 1000))
    fail("--state-slots is " + std::to_string(*flags.slots) + ", expected 1 to 1000");
  StateRequest request;
  take_config(config, request);
  take_layers(spec, request);
  request.server = state.server.server;
  request.version = state.server.version;
  request.capability = deployment.gpu.capability;
  state.type = state_type(request);
  state.asked = !flags.dtype.empty();
  state.storage.format = state.asked ? asked_format(flags.dtype) : format_of(state.type.name).value_or(StateWidth::F32);
  set_slots(flags, spec, state);
  return state;
}

void print_state(const PlannedState& state, const ModelSpec& spec, const Capacity& c) {
  if (!has_state(spec)) return;
  const StateWidth format = state.storage.format;
  const int64_t tp = c.deployment.tp;
  std::string kinds;
  for (const StateCost& cost : cost_of_state(spec, format, tp))
    kinds += (kinds.empty() ? "" : ", ") + std::to_string(cost.n_layers) + " x " + std::string(name_of(cost.kind)) +
             ": " + gib_text(cost.state_bytes) + " in " + title_of(format) + " + " + gib_text(cost.conv_bytes) +
             " of convolutions";
  write_line("state:       ", gib_text(slot_bytes(spec, format, tp)), " a slot (", kinds, "; ", origin(state), "), ",
             counted(state.storage.slots, "slot"), " a sequence (", state.slots_why, ")");
}

void print_state_types(const ModelSpec& spec, const Capacity& c, int64_t context) {
  if (!has_state(spec)) return;
  using enum Table::Align;
  Table table({{"state in"}, {"a slot", Right}, {"sequences with BF16", Right}, {"with FP8", Right}});
  for (const StateWidth format : kStateWidths) {
    const Capacity other = with_state(spec, c, format);
    table.add_row({title_of(format) + std::string(format == c.deployment.state.format ? " *" : ""),
                   grouped(slot_bytes(spec, format, c.deployment.tp)),
                   grouped(other.at(KvFormat::BF16).sequences(context)),
                   grouped(other.at(KvFormat::FP8).sequences(context))});
  }
  write_line();
  write_line("sequences of ", grouped(context), " tokens at a time, by the type of the state (* planned):");
  write_result(table.text());
}

Json state_json(const PlannedState& state, const ModelSpec& spec, const Capacity& c, int64_t context) {
  if (!has_state(spec)) return nullptr;
  Json kinds = Json::array(), types = Json::object();
  for (const StateCost& cost : cost_of_state(spec, state.storage.format, c.deployment.tp))
    kinds.push_back({{"kind", name_of(cost.kind)},
                     {"n_layers", cost.n_layers},
                     {"state_bytes", cost.state_bytes},
                     {"conv_bytes", cost.conv_bytes}});
  for (const StateWidth format : kStateWidths) {
    const Capacity other = with_state(spec, c, format);
    types[std::string(name_of(format))] = {
        {"slot_bytes", slot_bytes(spec, format, c.deployment.tp)},
        {"sequences",
         {{"bf16", other.at(KvFormat::BF16).sequences(context)}, {"fp8", other.at(KvFormat::FP8).sequences(context)}}}};
  }
  return {{"dtype", name_of(state.storage.format)},
          {"decided_by", state.asked ? "given" : state.type.decided_by},
          {"server", str(state.server.server, state.server.version)},
          {"slots", state.storage.slots},
          {"slots_why", state.slots_why},
          {"kinds", kinds},
          {"context", context},
          {"types", types}};
}

}  // namespace kvcal
