// Where a server applies a checkpoint's KV scales: they belong where the cache is written and where it is read. On a
// cache that is not quantized nothing is divided by them, and some backends multiply by them all the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deployment/cache_type.h"
#include "deployment/engine.h"
#include "servers/gpu.h"
#include "servers/kv_declaration.h"

namespace kvcal {

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

}  // namespace kvcal
