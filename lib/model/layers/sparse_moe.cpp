#include "model/layers/sparse_moe.h"

#include <algorithm>
#include <optional>

#include "model/layers/weight_rows.h"

namespace kvcal {
namespace {

using Experts = std::vector<GluWeights>;

GluWeights load_expert(const MoeDims& d, WeightLoader& loader, const HostLinear& gate_up, const HostLinear& down) {
  return loader.load_glu(gate_up.rows(0, d.ffn), gate_up.rows(d.ffn, d.ffn), down, d.act);
}

Experts load_fused_experts(const MoeDims& d, const MoeNames& names, WeightLoader& loader, WeightBinder& w) {
  auto [gate_up, down] =
      load_fused_weights(w, {names.gate_up, {d.n_experts, 2 * d.ffn, d.expert_width()}},
                         {names.fused_down, {d.n_experts, d.expert_width(), d.ffn}}, names.transposed);
  Experts experts;
  for (int64_t e = 0; e < d.n_experts; ++e)
    experts.push_back(load_expert(d, loader, gate_up.linear(e), down.linear(e)));
  return experts;
}

Experts load_stacked_experts(const MoeDims& d, const MoeNames& names, WeightLoader& loader, WeightBinder& w) {
  const auto stack = [&](const char* name, int64_t out, int64_t in) {
    return FusedWeight(w, {(std::string(name) + ".weight").c_str(), {d.n_experts, out, in}}, false);
  };
  FusedWeight gate = stack(names.gate, d.ffn, d.expert_width()), up = stack(names.up, d.ffn, d.expert_width()),
              down = stack(names.down, d.expert_width(), d.ffn);
  Experts experts;
  for (int64_t e = 0; e < d.n_experts; ++e)
    experts.push_back(loader.load_glu(gate.linear(e), up.linear(e), down.linear(e), d.act));
  return experts;
}

Experts load_single_experts(const MoeDims& d, const MoeNames& names, WeightLoader& loader, WeightBinder& w) {
  Experts experts;
  const int64_t width = d.expert_width();
  for (WeightBinder& one : w.modules(names.experts, d.n_experts)) {
    const HostLinear down = projection(one, names.down, width, d.ffn);
    if (!d.gated) {
      experts.push_back(loader.load_mlp(projection(one, names.up, d.ffn, width), down, d.act));
    } else if (one.has("gate_up_proj.weight")) {
      experts.push_back(load_expert(d, loader, projection(one, "gate_up_proj", 2 * d.ffn, width), down));
    } else {
      experts.push_back(loader.load_glu(projection(one, names.gate, d.ffn, width),
                                        projection(one, names.up, d.ffn, width), down, d.act));
    }
  }
  return experts;
}

/// As vLLM's kernels of experts: of static scales the largest serves all.
void share_inputs(std::vector<GluWeights>& experts) {
  if (experts.empty()) return;
  InputRounding up = experts[0].up.input, down = experts[0].down.input;
  for (const GluWeights& e : experts) {
    up = common(up, e.up.input);
    down = common(down, e.down.input);
  }
  for (GluWeights& e : experts) {
    for (Linear* first : {&e.gate, &e.up, &e.gate_up})
      if (alike(first->input, up)) first->input = up;
    if (alike(e.down.input, down)) e.down.input = down;
  }
}

GluWeights load_shared_expert(const MoeDims& d, WeightLoader& loader, WeightBinder w) {
  if (d.gated) return load_glu(loader, w, {d.hidden, d.shared_ffn, Bias::None, d.act});
  return loader.load_mlp(projection(w, "up_proj", d.shared_ffn, d.hidden),
                         projection(w, "down_proj", d.hidden, d.shared_ffn), d.act);
}

Linear load_router(const MoeDims& d, const MoeNames& names, WeightLoader& loader, WeightBinder& w) {
  const HostLinear router = projection(w, names.router, d.n_experts, d.hidden);
  const bool in_f32 =
      d.logits == RouterLogits::F32 || (d.logits == RouterLogits::AsStored && router.weight.dtype == DType::F32);
  return in_f32 ? loader.load_linear_f32(router.weight, router.bias, router.input)
                : loader.load_linear(router.weight, router.bias, router.input);
}

Shape turned(const Shape& plain) { return {plain[0], plain[2], plain[1]}; }

/// Whether experts lie as [in, out], where the tensor tells. Packed ones are laid in several ways, which their format
/// knows: it gives the plain one.
std::optional<bool> is_transposed(const WeightBinder& w, const FusedName& stored) {
  const TensorInfo* found = w.info(stored.name);
  if (!found || found->dtype == DType::U8) return false;
  if (stored.plain == turned(stored.plain)) return std::nullopt;
  if (found->shape == stored.plain) return false;
  if (found->shape == turned(stored.plain)) return true;
  return std::nullopt;
}

}  // namespace

MoeParts load_moe(const MoeDims& d, const MoeNames& names, WeightLoader& loader, WeightBinder w) {
  MoeParts parts;
  parts.router = load_router(d, names, loader, w);
  if (names.choice_bias) parts.choice_bias = loader.load_f32(w.uncounted(names.choice_bias, {d.n_experts}));
  const bool fused = w.has(names.gate_up) || w.has(names.fused_down);
  const bool stacked = w.has(std::string(names.gate) + ".weight");
  parts.experts = fused     ? load_fused_experts(d, names, loader, w)
                  : stacked ? load_stacked_experts(d, names, loader, w)
                            : load_single_experts(d, names, loader, w);
  share_inputs(parts.experts);
  if (d.latent > 0) {
    parts.to_latent = load_projection(loader, w, names.to_latent, d.latent, d.hidden);
    parts.from_latent = load_projection(loader, w, names.from_latent, d.hidden, d.latent);
  }
  if (d.shared_ffn > 0) parts.shared = load_shared_expert(d, loader, w.at(names.shared));
  if (d.shared_gate) parts.shared_gate = load_projection(loader, w, names.shared_gate, 1, d.hidden);
  return parts;
}

FusedWeight::FusedWeight(const WeightBinder& w, const FusedName& stored, bool transposed)
    : transposed_(transposed),
      all_(w(stored.name, transposed ? turned(stored.plain) : stored.plain)),
      input_(w.inputs_of(stored.name)) {}

FusedWeights load_fused_weights(const WeightBinder& w, const FusedName& gate_up, const FusedName& down,
                                bool transposed) {
  const std::optional<bool> up = is_transposed(w, gate_up), back = is_transposed(w, down);
  return {FusedWeight(w, gate_up, up.value_or(back.value_or(transposed))),
          FusedWeight(w, down, back.value_or(up.value_or(transposed)))};
}

Tensor FusedWeight::expert(int64_t e) {
  const Tensor one = all_.rows(e, 1).reshaped({all_.dim(1), all_.dim(2)});
  if (!transposed_) return one;
  turned_ = transposed(one);
  return turned_.tensor();
}

Routing route(Ops& op, const Tensor& x, const Linear& router, const RoutingSpec& spec) {
  return op.route(router.f32_result ? op.linear_f32(x, router) : op.linear(x, router), spec);
}

std::string moe_module(const WeightBinder& layer, const MoeNames& names) {
  const std::string module = "block_sparse_moe.";
  return layer.has(module + names.router + ".weight") ? module : "mlp.";
}

SparseMoe::SparseMoe(const MoeDims& dims, MoeParts parts) : routing_(dims.routing), parts_(std::move(parts)) {
  routing_.bias = parts_.choice_bias;
}

Tensor SparseMoe::forward(Ops& op, const Tensor& x) const {
  const Routing routing = route(op, x, parts_.router, routing_);
  Tensor routed = op.experts(parts_.to_latent ? op.linear(x, parts_.to_latent) : x, routing, parts_.experts);
  if (parts_.from_latent) routed = op.linear(routed, parts_.from_latent);
  if (!parts_.shared.up) return routed;
  Tensor shared = op.glu_mlp(x, parts_.shared);
  if (parts_.shared_gate) shared = op.sigmoid_mul(shared, op.linear(x, parts_.shared_gate));
  return op.add(routed, shared);
}

double expert_share(const MoeDims& d) {
  return d.n_experts > 0 ? static_cast<double>(d.routing.k) / static_cast<double>(d.n_experts) : 1.0;
}

void count_moe_layer(LayerSpec& layer, const MoeDims& d, int64_t dense_ffn) {
  layer.expert_share = expert_share(d);
  // For each choice of a token its index and weight, its row in and (F32) out, gate and up (twice where the
  // backend has them as one weight), their product; the sum in F32; the shared expert.
  layer.activations +=
      d.routing.k * (3 * d.expert_width() + 4 * d.ffn + 16) + 3 * d.hidden + 2 * d.latent - 3 * dense_ffn;
  const bool f32_logits = d.logits != RouterLogits::Activations;
  layer.activations += f32_logits ? 2 * d.n_experts + 2 * d.hidden : d.n_experts;  // with the input in F32
  if (f32_logits) layer.copies += d.n_experts * d.hidden;                          // the router in F32
  if (d.shared_ffn > 0) layer.activations += 3 * d.shared_ffn + 3 * d.hidden;
}

void check_moe_dims(const MoeDims& d, const char* active) {
  if (d.n_experts < 0 || d.n_experts > 65536)
    fail("the number of experts is " + std::to_string(d.n_experts) + ", expected one from 0 to 65536");
  if (d.shared_ffn < 0 || d.shared_ffn >= int64_t{1} << 31)
    fail("the width of the shared expert, " + std::to_string(d.shared_ffn) + ", is out of range");
  constexpr double kMostWeights = 1e15;  // of a layer; sums of what follows from it stay far from overflow
  if (static_cast<double>(d.n_experts) * static_cast<double>(d.hidden) * static_cast<double>(d.ffn) > kMostWeights)
    fail(std::to_string(d.n_experts) + " experts of " + std::to_string(d.hidden) + " x " + std::to_string(d.ffn) +
         " weights are too large");
  const RoutingSpec& r = d.routing;
  if (d.n_experts > 0 && (r.k < 1 || r.k > d.n_experts))
    fail(std::string(active) + " " + std::to_string(r.k) + " does not fit num_experts " + std::to_string(d.n_experts));
  const int64_t groups = r.n_groups, in_group = groups > 0 ? d.n_experts / groups : 0;
  if (groups == 1 && r.k_groups == 1) return;
  if (groups < 1 || d.n_experts % groups != 0 || r.k_groups < 1 || r.k_groups > groups || in_group < r.group_best ||
      r.k > in_group * r.k_groups)
    fail("n_group " + std::to_string(groups) + " and topk_group " + std::to_string(r.k_groups) + " do not fit " +
         std::to_string(d.n_experts) + " experts, " + std::to_string(r.k) + " of them active");
}

MoeDims read_qwen_moe_dims(const Json& text, int64_t hidden, const MoeDefaults& defaults) {
  MoeDims d{};
  d.hidden = hidden;
  d.n_experts = get_int_or(text, "num_experts", get_int_or(text, "num_local_experts", defaults.n_experts));
  d.ffn = read_size(text, "moe_intermediate_size", defaults.ffn);
  if (defaults.shared_ffn > 0) d.shared_ffn = get_int_or(text, "shared_expert_intermediate_size", defaults.shared_ffn);
  d.shared_gate = d.shared_ffn > 0;
  d.routing.k = get_int_or(text, "num_experts_per_tok", defaults.n_active);
  d.routing.renormalize = get_bool_or(text, "norm_topk_prob", defaults.renormalize);
  check_moe_dims(d);
  return d;
}

MoeDims read_biased_moe_dims(const Json& text, int64_t hidden, const BiasedMoeDefaults& defaults) {
  const auto required = [&](const char* key, int64_t fallback) {
    return fallback == 0 ? get_int(text, key) : get_int_or(text, key, fallback);
  };
  constexpr int64_t kMostShared = 1024;
  MoeDims d{};
  d.hidden = hidden;
  const char* other = "num_local_experts";
  d.n_experts = find_member(text, other) ? get_int(text, other) : required(defaults.experts_key, defaults.n_experts);
  d.ffn = read_size(text, "moe_intermediate_size", defaults.ffn);
  const int64_t shared = required(defaults.shared_key, defaults.n_shared);
  if (shared < 0 || shared > kMostShared)
    fail(std::string(defaults.shared_key) + " is " + std::to_string(shared) + ", expected 0 to 1024");
  d.shared_ffn = d.ffn * shared;
  RoutingSpec& r = d.routing;
  r.k = required("num_experts_per_tok", defaults.n_active);
  r.scoring = Scoring::Sigmoid;
  r.renormalize = get_bool_or(text, "norm_topk_prob", defaults.renormalize);
  r.scale = static_cast<float>(get_number_or(text, defaults.scale_key, defaults.scale));
  r.n_groups = get_int_or(text, "n_group", 1);
  r.k_groups = get_int_or(text, "topk_group", 1);
  d.logits = RouterLogits::F32;
  check_moe_dims(d);
  return d;
}

std::vector<bool> read_sparse_layers(const Json& text, int64_t n_layers, int64_t n_experts) {
  const int64_t step = read_size(text, "decoder_sparse_step", 1);
  std::vector<bool> sparse;
  for (int64_t i = 0; i < n_layers; ++i) sparse.push_back(n_experts > 0 && (i + 1) % step == 0);
  if (const Json* dense = find_member(text, "mlp_only_layers")) {
    if (!dense->is_array()) fail("mlp_only_layers is not a list");
    for (const Json& i : *dense) {
      if (!i.is_number_integer() || i.get<int64_t>() < 0 || i.get<int64_t>() >= n_layers)
        fail("mlp_only_layers holds " + quoted(i.dump()) + ", expected layer numbers below " +
             std::to_string(n_layers));
      sparse[i.get<size_t>()] = false;
    }
  }
  return sparse;
}

std::vector<bool> read_late_sparse_layers(const Json& text, int64_t n_layers, int64_t n_experts, int64_t first) {
  first = get_int_or(text, "first_k_dense_replace", first);
  const int64_t step = read_size(text, "moe_layer_freq", 1);
  std::vector<bool> sparse;
  for (int64_t i = 0; i < n_layers; ++i) sparse.push_back(n_experts > 0 && i >= first && i % step == 0);
  const Json* words = find_member(text, "mlp_layer_types");
  if (!words) return sparse;
  if (!words->is_array() || words->size() != sparse.size())
    fail("mlp_layer_types has " + std::to_string(words->is_array() ? words->size() : 0) + " entries, expected " +
         std::to_string(sparse.size()) + " (num_hidden_layers)");
  for (size_t i = 0; i < sparse.size(); ++i) {
    const std::string word = (*words)[i].is_string() ? (*words)[i].get<std::string>() : (*words)[i].dump();
    if (word != "dense" && word != "sparse")
      fail_unknown("word in mlp_layer_types", word, std::vector<std::string>{"dense", "sparse"});
    sparse[i] = word == "sparse";
  }
  if (n_experts == 0 && std::ranges::count(sparse, true) > 0)
    fail("mlp_layer_types has sparse layers, but there are no experts");
  return sparse;
}

}  // namespace kvcal
