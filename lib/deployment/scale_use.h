// Whether a server multiplies a checkpoint's KV scales into attention although its cache is not quantized, so that
// nothing was divided by them.
#pragma once

#include <optional>
#include <string>

#include "deployment/engine.h"
#include "deployment/trait.h"
#include "servers/gpu.h"
#include "servers/kv_declaration.h"

namespace kvcal {

struct ScaleReader {
  Engine server = Engine::Unknown;
  std::optional<EngineVersion> version;
  std::string backend;  // of attention, as the option or the log spells it; "": not known
  bool asked = false;   // the option names a type itself, in place of auto
  bool latent = false;  // MLA
  bool sparse = false;  // over an index of tokens
  const KvDeclaration* declared = nullptr;
  const Gpu* gpu = nullptr;
};

Trait scales_reach_plain_cache(const ScaleReader& reader);

/// SGLang's Triton backend divides rows of MLA by the scale of keys, whatever type they have, and multiplies by both.
Trait divides_latent_rows(const ScaleReader& reader);

/// Whether SGLang multiplies quantized rows of MLA that nothing was divided by; of backends that were looked at.
Trait misreads_latent_rows(const ScaleReader& reader);

}  // namespace kvcal
