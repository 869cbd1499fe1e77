// The recurrent state of a plan: how the server keeps it, and what other types would do.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "capacity/advice.h"
#include "deployment/state_type.h"

namespace kvcal {

struct StateFlags {
  std::string dtype;             // "bf16"; "": as the server does by itself
  std::optional<int64_t> slots;  // states that a sequence holds
};

struct PlannedState {
  NamedEngine server;
  ServedState type;  // as the server does by itself
  StateStorage storage;
  std::string slots_why;  // "its own and the last checkpoint of prefix caching"; "as given"
  bool asked = false;     // the type is the option's
};

/// Throws Error for an option that does not fit, and for any of a model without recurrent layers.
/// Without a server that of vLLM's newest version.
PlannedState planned_state(const StateFlags& flags, const Json& config, const ModelSpec& spec,
                           const Deployment& deployment);

/// Of a model with recurrent layers; else nothing.
void print_state(const PlannedState& state, const ModelSpec& spec, const Capacity& capacity);
/// What it would cost in each type.
void print_state_types(const ModelSpec& spec, const Capacity& capacity, int64_t context);
Json state_json(const PlannedState& state, const ModelSpec& spec, const Capacity& capacity, int64_t context);

}  // namespace kvcal
