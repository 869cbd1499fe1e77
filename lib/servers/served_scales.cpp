#include "servers/served_scales.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/number_text.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;
using Owner = StoredScale::Owner;

/// Parameters of one attention module while tensors are loaded in name order.
struct Slots {
  std::optional<std::vector<float>> key, value;
  std::string note;
};

std::string dtype_of(const Json& config) {
  const Json* text = find_member(config, "text_config");
  for (const Json* object : {text && text->is_object() ? text : nullptr, &config})
    for (const char* key : {"dtype", "torch_dtype"})
      if (object)
        if (const Json* name = find_member(*object, key); name && name->is_string()) return name->get<std::string>();
  return "bfloat16";
}

float rounded_to_half(float x) {
  if (!std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 11, -24));
  const double rounded = std::nearbyint(static_cast<double>(x) / step) * step;
  return std::fabs(rounded) > 65504 ? std::copysign(INFINITY, x) : static_cast<float>(rounded);
}

char letter_of(Site site) { return site == Site::Value ? 'v' : site == Site::Query ? 'q' : 'k'; }

/// One server's rules of taking tensors and of what is left when all are taken.
class Loading {
 public:
  Loading(const StoredScales& stored, const ModelSpec& spec, const Json& config, ServedScales& out)
      : stored_(stored), spec_(spec), dtype_(dtype_of(config)), out_(out) {}

  void run() {
    std::vector<Slots> slots(spec_.caches.size());
    for (const StoredScale& s : stored_.tensors) {
      if (s.owner == Owner::Cache && !s.zero_point)
        take(s, slots[static_cast<size_t>(s.cache)]);
      else if (s.owner == Owner::NoLayer || s.owner == Owner::NoKv || s.owner == Owner::NoModule)
        pass_over(s);
    }
    for (const KvLayout& cache : spec_.caches) settle(cache, slots[static_cast<size_t>(cache.cache)]);
    if (!out_.stops.empty()) out_.layers.clear();
  }

 private:
  bool vllm() const { return out_.server.kind == ServerKind::Vllm; }
  bool per_head() const { return out_.support.carrier == KvCarrier::PerHead && vllm(); }

  std::vector<ServedScales::Stop>& stops_of(int layer) {
    return layer >= 0 && spec_.is_mtp(layer) ? out_.draft_stops : out_.stops;
  }

  void stop(const StoredScale& s, std::string reason) {
    stops_of(s.layer).push_back({s.tensor, s.file, std::move(reason)});
  }

  void pass_over(const StoredScale& s) {
    if (!stops(effect_of_orphan(out_.support))) return;
    stop(s, vllm() ? "There is no module or parameter named '" + s.attention + "'" : "KeyError: '" + s.tensor + "'");
  }

  static std::string stop_reason(Effect effect, const ServerSupport& support, const StoredScale& s) {
    if (effect == Effect::Crash) return "KeyError or AssertionError at " + s.tensor;
    return support.carrier == KvCarrier::None
               ? "There is no module or parameter named '" + s.tensor + "': no quantization_config makes one"
               : "There is no module or parameter for this name";
  }

  void take(const StoredScale& s, Slots& slots) {
    if (s.site == Site::Probability) return;
    const bool mtp = spec_.is_mtp(s.layer);
    const ServerSupport& support = mtp ? out_.mtp : out_.support;
    const Effect effect = effect_of(support, spelling_of(s.spelling), letter_of(s.site));
    if (stops(effect)) {
      if (mtp) slots.note = "stops where it drafts";
      return stop(s, stop_reason(effect, support, s));
    }
    if (s.site == Site::Query) return;
    if (!loads(effect) && effect != Effect::KeyOnly) {
      slots.note = std::string(name_of(effect));
      return;
    }
    if (const std::string wrong = shape_error(s); !wrong.empty()) return stop(s, wrong);
    std::vector<float> values = s.values;
    if (effect == Effect::Rounded || rounds_shared(effect))
      for (float& x : values) x = rounded_to_dtype(x, dtype_);
    (s.site == Site::Value ? slots.value : slots.key) = std::move(values);
    if (effect == Effect::KeyOnly) slots.note = "kv_scale reaches the key only";
  }

  bool rounds_shared(Effect effect) const {
    return effect == Effect::KeyOnly && out_.support.carrier != KvCarrier::CompressedTensors;
  }

  std::string shape_error(const StoredScale& s) const {
    const KvLayout& cache = spec_.caches[static_cast<size_t>(s.cache)];
    const int64_t n = s.shape.elements(), expected = per_head() ? cache.n_kv_heads : 1;
    if (n == expected && !s.values.empty()) return "";
    if (s.values.empty()) return "a scale of " + std::string(name_of(s.dtype)) + " " + str(s.shape);
    return per_head() ? "strategy attn_head wants " + std::to_string(expected) + " scales, this has " + str(s.shape)
                      : "Attempted to load weight (" + str(s.shape) + ") into parameter of one scale";
  }

  void settle(const KvLayout& cache, const Slots& slots) {
    ServedLayer l;
    l.layer = cache.layer;
    l.cache = cache.cache;
    l.module = module_name(stored_.tensor_prefix, cache);
    l.note = slots.note;
    const bool asserts = !vllm() || !(out_.support.carrier == KvCarrier::CompressedTensors || per_head());
    if (asserts)
      settle_asserting(slots, l);
    else
      settle_quiet(slots, l);
    if (cache.is_mla()) l.value.clear();
    out_.layers.push_back(std::move(l));
  }

  /// vLLM's method of compressed-tensors takes whatever there is.
  static void settle_quiet(const Slots& slots, ServedLayer& l) {
    l.key = slots.key.value_or(std::vector<float>{1});
    l.value = slots.value.value_or(std::vector<float>{1});
    l.key_loaded = slots.key.has_value();
    l.value_loaded = slots.value.has_value();
    if (l.note.empty() && l.key_loaded != l.value_loaded)
      l.note = std::string(l.key_loaded ? "v" : "k") + " has no scale and stays 1.0";
  }

  /// BaseKVCacheMethod of both: -1 stands for a scale that is not there.
  void settle_asserting(const Slots& slots, ServedLayer& l) {
    const float key = slots.key ? slots.key->at(0) : -1, value = slots.value ? slots.value->at(0) : -1;
    l.key = l.value = {1};
    if (key > 0 && value > 0) {
      l.key = {key};
      l.value = {value};
      l.key_loaded = l.value_loaded = true;
    } else if (vllm() ? key < 0 && value < 0 : key <= 0 && value <= 0) {
      if (slots.key && l.note.empty()) l.note = "scales of zero or less count as missing";
    } else if (key > 0) {
      l.key = l.value = {key};
      l.key_loaded = true;
      if (l.note.empty()) l.note = "v gets the scale of k";
    } else {
      stops_of(l.layer).push_back(
          {l.module, "", "AssertionError: k has " + text(slots.key) + ", v has " + text(slots.value)});
    }
  }

  static std::string text(const std::optional<std::vector<float>>& scale) {
    if (!scale) return "no scale";
    return "the scale " + float_text(scale->at(0));
  }

  const StoredScales& stored_;
  const ModelSpec& spec_;
  std::string dtype_;
  ServedScales& out_;
};

}  // namespace

ServedScales served_scales(const StoredScales& stored, const ModelSpec& spec, const Json& config,
                           const Server& server) {
  ServedScales out;
  out.server = server;
  out.known = is_verified(server);
  out.support = server_support(server, spec.architecture, carrier_of(stored.declaration, server.kind));
  out.mtp = mtp_support(server, spec.architecture, out.support.carrier);
  out.auto_is_fp8 = auto_is_fp8(stored.declaration, server.kind);
  if (!out.known) return out;
  if (const std::string error = declaration_error(stored.declaration, server.kind); !error.empty())
    out.stops.push_back({"", stored.declaration.source, error});
  else if (!out.support.served)
    out.stops.push_back({"", "config.json", out.support.why_not});
  Loading(stored, spec, config, out).run();
  if (!out.stops.empty() || unserved_cache(stored.declaration).empty()) return out;
  out.known = false;  // C29: what it holds of a cache that it does not make was not looked at
  out.layers.clear();
  return out;
}

float rounded_to_dtype(float x, std::string_view dtype) {
  if (dtype == "bfloat16") return round_to_bf16(x);
  return dtype == "float16" || dtype == "half" ? rounded_to_half(x) : x;
}

}  // namespace kvcal
