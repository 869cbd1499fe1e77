// Unsupported models, each with the reason why, which helps more than "unknown architecture".
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "model/model_spec.h"

namespace kvcal {

/// Throws for a config that names no architecture; says which one its model_type suggests, of the `known` ones.
[[noreturn]] void refuse_without_architecture(const Json& config, std::span<const std::string_view> known);

struct Refused {
  std::string reason;  // "" for none
  bool cached_as_usual = false;
  bool measured_elsewhere = false;  // its own code in transformers can measure it
};

/// Why a class that is none of the `known` ones is refused, by its name or for what the config says it is; no reason
/// where it is simply not known.
Refused reason_to_refuse(const Json& config, std::string_view name, std::span<const std::string_view> known);

/// Whether a class generates text, by its name.
bool says_it_generates(std::string_view name);

/// Throws for the architecture `name`, which is none of the `known` ones; says what its config tells, and what else can
/// measure it.
[[noreturn]] void refuse_architecture(const Json& config, std::string_view name,
                                      std::span<const std::string_view> known);

/// Refuses keys that change a model of any class, where what its family has read (`spec`) shows nothing of them.
void refuse_unread_keys(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
