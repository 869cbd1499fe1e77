#include "deployment/control.h"

#include "deployment/cache_choices.h"

namespace kvcal {
namespace {

/// "with this one auto is NVFP4, and "; "" where auto may well be the model's own type.
std::string auto_too(CacheRequest r) {
  r.asked.clear();
  r.logged.clear();
  const CacheType left = cache_type(r);
  if (left.quantized != Trait::Yes) return "";
  return "with this one auto is " + format_of(left) + ", and ";
}

/// What the option asks for, or does not get, is not to outlive the declaration.
std::string without_option(const CacheRequest& r, bool taken, const std::string& own) {
  if (r.asked.empty() || (taken && !is_quantized_type(r.asked))) return "";
  return r.own_default && taken ? "and " + own + " as its --kv-cache-dtype; " : "and without --kv-cache-dtype; ";
}

}  // namespace

std::string control_text(const ControlRequest& r) {
  const std::string own = r.model_type.empty() ? "bfloat16" : r.model_type;
  if (r.in_effect.quantized == Trait::No && r.scales_felt == Trait::No)
    return "another --attention-backend (the cache is not quantized already)";
  if (r.cache.server == Engine::LlamaCpp) return "--cache-type-k f16 --cache-type-v f16";
  if (r.cache.server == Engine::LmDeploy) return "--quant-policy 0";
  if (r.cache.declared == nullptr && r.cache.options_known && r.cache.asked.empty())
    return "the checkpoint without KV scales, if its config.json declares a cache (--kv-cache-dtype auto is in effect)";
  if (r.cache.declared == nullptr)
    return "a cache that is not quantized (--kv-cache-dtype auto; where config.json declares one, with the checkpoint "
           "without KV scales)";
  if (!r.cache.declared->declares_cache() && r.scales_felt != Trait::Yes)
    return r.cache.own_default ? "--kv-cache-dtype " + own : "--kv-cache-dtype auto";
  CacheRequest plain = r.cache;
  plain.asked = own;
  plain.logged.clear();
  // Where scales may be multiplied in all the same, another type is no comparison.
  const bool obeyed = cache_type(plain).quantized == Trait::No;
  const bool taken = has_cache_type(r.cache.server, r.cache.version, own) != Trait::No;
  if (r.scales_felt == Trait::No && obeyed && taken) return "--kv-cache-dtype " + own;
  return "the checkpoint without KV scales (" + without_option(r.cache, taken, own) + auto_too(r.cache) +
         std::string(!taken   ? "this version has no --kv-cache-dtype " + own + ")"
                     : obeyed ? "other types may apply its scales all the same)"
                              : "other types may not be obeyed)");
}

}  // namespace kvcal
