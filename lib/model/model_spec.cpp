#include "model/model_spec.h"

namespace kvcal {

std::string_view name_of(LayerKind kind) {
  switch (kind) {
    case LayerKind::Attention:
      return "attention";
    case LayerKind::GatedDeltaNet:
      return "gated_delta_net";
  }
  return "";
}

std::string_view inspect_name_of(LayerKind kind) {
  return kind == LayerKind::GatedDeltaNet ? "linear_attention" : name_of(kind);
}

std::string_view name_of(PairBound bound) {
  switch (bound) {
    case PairBound::None:
      return "none";
    case PairBound::Neox:
      return "neox";
    case PairBound::Gptj:
      return "gptj";
  }
  return "";
}

int64_t kv_bytes_per_token(const ModelSpec& spec, int element_bytes) {
  int64_t bytes = 0;
  for (const KvLayout& c : spec.caches) bytes += c.n_kv_heads * (c.head_dim_k + c.head_dim_v) * element_bytes;
  return bytes;
}

}  // namespace kvcal
