// What a server keeps the state of recurrent layers in, and how many of a sequence. Of --mamba-ssm-cache-dtype,
// --mamba-cache-dtype (vLLM), --mamba-ssm-dtype (SGLang), config.json, and what the version makes of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "deployment/engine.h"
#include "model/model_spec.h"

namespace kvcal {

struct StateRequest {
  Engine server = Engine::Unknown;  // vLLM or SGLang; of others nothing is known
  std::optional<EngineVersion> version;
  std::string architecture;
  std::optional<LayerKind> kind;   // of the layers that keep it; none: not known
  std::string weights_type;        // by config.json: "bfloat16"; "": not known
  std::string computed;            // --dtype; "" or "auto": left to the server
  int capability = 0;              // of an NVIDIA GPU; 0: not known
  std::string declared;            // config.json's mamba_ssm_dtype, "" where it has none
  std::string declared_of_cache;   // its mamba_ssm_cache_dtype
  std::string asked;               // --mamba-ssm-cache-dtype or --mamba-ssm-dtype; "" or "auto": left to the server
  std::string asked_of_both;       // --mamba-cache-dtype: also of the convolution's window
  bool options_elsewhere = false;  // in a file that the command names and that was not given
  std::string variable;            // SGLANG_MAMBA_SSM_DTYPE
  std::string variable_of_conv;    // SGLANG_MAMBA_CONV_DTYPE
};

struct ServedState {
  std::string name = "";             // "float32"; "": not known
  std::string conv = "";             // of the window that a convolution looks back at
  std::string_view decided_by = "";  // "option", "environment", "config.json", "default"
  std::string_view ignored = "";     // an option that was given and has no effect here: "mamba-ssm-cache-dtype"
  std::string open = "";             // what would settle what is not known
};

/// What config.json says of it: `declared`, `declared_of_cache`, `weights_type`, `architecture`, and by that `kind`.
void take_config(const Json& config, StateRequest& request);

/// What the layers say: `kind`.
void take_layers(const ModelSpec& spec, StateRequest& request);

ServedState state_type(const StateRequest& request);

/// That the model computes in: "bfloat16"; "": not known.
std::string computed_type(const StateRequest& request);

/// Whether an option that names the state's type takes this one; unknown where that version was not read.
Trait takes_state_type(Engine server, const std::optional<EngineVersion>& version, std::string_view type);
/// Those that it takes: "auto, float32, float16".
std::string state_types(Engine server, const std::optional<EngineVersion>& version);

/// States that a running sequence holds at a time, with prefix caching as the server has it by default. SGLang needs
/// them free before it lets a sequence run.
struct StateSlots {
  int n = 1;
  std::string_view why = "";
};
StateSlots state_slots(Engine server, const std::optional<EngineVersion>& version, std::string_view architecture);

}  // namespace kvcal
