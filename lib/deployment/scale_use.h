// Whether a server multiplies a checkpoint's KV scales into attention although its cache is not quantized, so that
// nothing was divided by them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "deployment/engine.h"
#include "deployment/trait.h"
#include "servers/gpu.h"
#include "servers/kv_declaration.h"

namespace kvcal {

struct ScaleReader {
  Engine server = Engine::Unknown;
  std::optional<EngineVersion> version;
  std::string_view backend;  // of attention, as the option or the log spells it; "": not known
  bool asked = false;        // the option names a type itself, in place of auto
  bool latent = false;       // MLA
  const KvDeclaration* declared = nullptr;
  const Gpu* gpu = nullptr;
};

Trait scales_reach_plain_cache(const ScaleReader& reader);

}  // namespace kvcal
