// What a server's KV cache holds: from what was asked for, what the checkpoint declares, what the server printed, and
// what its version makes of them. "auto" alone says nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "deployment/engine.h"
#include "servers/gpu.h"
#include "servers/kv_declaration.h"

namespace kvcal {

struct CacheRequest {
  Engine server = Engine::Unknown;
  std::optional<EngineVersion> version;
  bool options_known = false;               // the command, or the options that a log prints
  bool options_elsewhere = false;           // in a file that the command names and that was not given
  std::string asked;                        // the option's value; "" or "auto": left to the server
  std::string logged;                       // the type that a log line names
  std::string logged_too;                   // another one, of which only one is quantized
  bool logged_quantized = false;            // a log line that a quantized cache alone prints, without its type
  const KvDeclaration* declared = nullptr;  // null: no config.json was given
  bool own_default = false;                 // a model for which servers choose a type of their own
  Trait latent = Trait::Unknown;            // MLA
  bool sparse_latent = false;               // MLA over an index of tokens
  std::string backend;                      // of attention; "": not known
  int capability = 0;                       // of an NVIDIA GPU; 0: not known
};

struct CacheType {
  /// "fp8_e4m3", "nvfp4", "bfloat16"; "f16/q8_0" of keys and values; "auto": the model's own type; "": not known.
  std::string name = "";
  Trait quantized = Trait::Unknown;
  Trait one_scale = Trait::Unknown;  // E4M3 with one scale for all tokens
  std::string_view decided_by = "";  // "option", "log", "checkpoint", "default"; "" where it is not known
  std::string open = "";             // what would settle what is not known of it
  bool contradicted = false;         // options and log cannot be of one run

  std::string shown() const {
    if (name == "auto") return "the model's own type";
    return name.find('/') == std::string::npos ? name : name + " for keys/values";
  }
};

CacheType cache_type(const CacheRequest& request);

/// "fp8", "int8_per_token_head", "q8_0"; not "auto", "bfloat16", "torch.float16".
bool is_quantized_type(std::string_view type);

/// Values of 8 bits in E4M3 or E5M2, however they are scaled: not "mxfp8", whose scales are of blocks.
bool holds_fp8(std::string_view type);

/// What a sentence calls a cache of this type: "FP8", "NVFP4", "mxfp8"; "quantized" where the type is not known.
std::string format_of(const CacheType& type);

struct ScaleReader {
  Engine server = Engine::Unknown;
  std::optional<EngineVersion> version;
  std::string backend;   // of attention, as the option or the log spells it; "": not known
  bool asked = false;    // the option names a type itself, in place of auto
  bool latent = false;   // MLA
  bool sparse = false;   // over an index of tokens
  int64_t head_dim = 0;  // 0: not known
  const KvDeclaration* declared = nullptr;
  const Gpu* gpu = nullptr;
};

enum class ScaleUse : uint8_t { Unknown, Nowhere, Both, ReadAlone, WrittenAlone };

/// Of scales that reach the layers. Not known of a cache of which it is not known whether it is quantized.
ScaleUse scale_use(const ScaleReader& reader, const CacheType& cache);

struct ControlRequest {
  CacheRequest cache;
  CacheType in_effect;
  Trait scales_felt = Trait::Unknown;  // whether the checkpoint's scales reach a cache that is not quantized
  std::string model_type;              // of the weights: "bfloat16"; "": not known
};

/// The options, or what else to change; of a cache that is not quantized already, what to look at in its place.
std::string control_text(const ControlRequest& request);

}  // namespace kvcal
