// Mixture of experts: a router, experts of one shape, and perhaps a shared expert that every token goes through. What
// families do differently (routing, names, who is stored how) is data here; a family with another way to store its
// weights loads MoeParts itself (docs/model-notes.md, "Choosing experts").
#pragma once

#include "model/layers/decoder_parts.h"

namespace kvcal {

/// What a router's logits are rounded to before they are scores: activations, or nothing (F32), or nothing where the
/// router itself is stored in F32. As the reference framework's class has it; where servers differ, the family says so.
enum class RouterLogits : uint8_t { Activations, AsStored, F32 };

struct MoeDims {
  int64_t hidden, n_experts, ffn;
  int64_t shared_ffn = 0;    // of all shared experts together; 0 = none
  bool shared_gate = false;  // the shared expert's output is multiplied by the sigmoid of a projection
  RoutingSpec routing{};     // without its bias, which every layer has for itself
  RouterLogits logits = RouterLogits::Activations;
  Activation act = Activation::Silu;
  bool gated = true;   // experts are gated; else down( act(up x) )
  int64_t latent = 0;  // width of a projection that routed experts work on, projected back; 0 = on the input itself

  int64_t expert_width() const { return latent ? latent : hidden; }
};

/// What a layer's mixture is made of.
struct MoeParts {
  Linear router;                      // [n_experts, hidden]
  Owned choice_bias{};                // F32 [n_experts], RoutingSpec::bias; or absent
  std::vector<GluWeights> experts;    // [ffn, expert_width] x2, [expert_width, ffn]
  Linear to_latent{}, from_latent{};  // [latent, hidden], [hidden, latent], or absent
  GluWeights shared{};                // or absent
  Linear shared_gate{};               // [1, hidden], or absent
};

/// Where a family keeps them, below its module. Experts are read one by one ("experts.0.gate_proj.weight"), with gate
/// and up in one ("experts.0.gate_up_proj.weight" [2·ffn, hidden]), in three stacks ("gate_proj.weight" and
/// "up_proj.weight" [E, ffn, hidden], "down_proj.weight" [E, hidden, ffn]), or all in one: gate_up [E, 2·ffn, hidden],
/// rows gate then up, and fused_down [E, hidden, ffn]; transposed, [E, hidden, 2·ffn] and [E, ffn, hidden], where the
/// family has it so. A shape that fits one form only decides itself.
struct MoeNames {
  const char* router = "gate";
  const char* choice_bias = nullptr;
  const char* experts = "experts.";
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
  const char* gate_up = "experts.gate_up_proj";
  const char* fused_down = "experts.down_proj";
  bool transposed = false;
  const char *to_latent = "fc1_latent_proj", *from_latent = "fc2_latent_proj";
  const char* shared = "shared_experts.";
  const char* shared_gate = "shared_expert_gate";
};

/// A 3-D tensor of all experts by its name and its shape when it is not transposed, [E, out, in].
struct FusedName {
  const char* name;
  Shape plain;
};

/// Such a tensor, as it is or transposed, [E, in, out].
class FusedWeight {
 public:
  FusedWeight(const WeightBinder& w, const FusedName& stored, bool transposed);

  /// [out, in] of one expert; lives until the next call.
  Tensor expert(int64_t e);
  HostLinear linear(int64_t e) { return {expert(e), {}, input_}; }

 private:
  bool transposed_;
  Tensor all_;
  InputRounding input_;  // of every expert
  Storage turned_;
};

/// Both of a layer. The stored shape tells whether they are transposed, of a square one that of the other; `transposed`
/// where both are square.
struct FusedWeights {
  FusedWeight gate_up, down;
};
FusedWeights load_fused_weights(const WeightBinder& w, const FusedName& gate_up, const FusedName& down,
                                bool transposed);

/// `w` is positioned at the module: "mlp.", "block_sparse_moe.", ...
MoeParts load_moe(const MoeDims& dims, const MoeNames& names, WeightLoader& loader, WeightBinder w);

/// Where the tokens x [tokens, hidden] go.
Routing route(Ops& op, const Tensor& x, const Linear& router, const RoutingSpec& spec);

/// "block_sparse_moe." or "mlp.": where a layer has its router. The reference framework has renamed the former.
std::string moe_module(const WeightBinder& layer, const MoeNames& names);

class SparseMoe {
 public:
  SparseMoe(const MoeDims& dims, MoeParts parts);

  Tensor forward(Ops& op, const Tensor& x) const;  // [tokens, hidden] -> [tokens, hidden]

 private:
  RoutingSpec routing_;
  MoeParts parts_;
};

/// Of a batch's rows, those that one expert gets on average.
double expert_share(const MoeDims& dims);

/// Turns a layer that was counted with a dense SwiGLU of `dense_ffn` into one with a mixture instead.
void count_moe_layer(LayerSpec& layer, const MoeDims& dims, int64_t dense_ffn);

/// A family's class defaults.
struct MoeDefaults {
  int64_t n_experts, n_active, ffn, shared_ffn = 0;
  bool renormalize = true;
};

/// Softmax routing as Qwen's classes have it: num_experts (or num_local_experts), num_experts_per_tok,
/// moe_intermediate_size, shared_expert_intermediate_size where the default is not 0 (with its gate), norm_topk_prob.
/// No experts at all is a dense model.
MoeDims read_qwen_moe_dims(const Json& text, int64_t hidden, const MoeDefaults& defaults);

/// A family's defaults, where the number of shared experts is given, and the keys that it has for what they say; 0: the
/// config must say.
struct BiasedMoeDefaults {
  int64_t n_experts, n_active, ffn, n_shared;
  bool renormalize = true;
  double scale = 1;
  const char* experts_key = "n_routed_experts";
  const char* shared_key = "n_shared_experts";
  const char* scale_key = "routed_scaling_factor";
};

/// Routing as DeepSeek-V3 has it: sigmoid scores, a bias in the choice alone, groups by n_group and topk_group,
/// norm_topk_prob, a factor; logits in F32; shared experts as one of their width together.
MoeDims read_biased_moe_dims(const Json& text, int64_t hidden, const BiasedMoeDefaults& defaults);

/// Refuses sizes out of range and more active experts than there are. `active` is the config's key for their number.
void check_moe_dims(const MoeDims& dims, const char* active = "num_experts_per_tok");

/// Per layer, by Qwen's rule: every decoder_sparse_step-th layer has experts, mlp_only_layers never.
std::vector<bool> read_sparse_layers(const Json& text, int64_t n_layers, int64_t n_experts);

/// Per layer, by DeepSeek's rule: as mlp_layer_types says ("dense", "sparse"), else every moe_layer_freq-th of those
/// from first_k_dense_replace (default `first`) on.
std::vector<bool> read_late_sparse_layers(const Json& text, int64_t n_layers, int64_t n_experts, int64_t first);

}  // namespace kvcal
