// DeepseekV2ForCausalLM (V2, V2-Lite), DeepseekV3ForCausalLM (V3, R1, Kimi-K2), KimiK25ForConditionalGeneration (text
// part) and Glm4MoeLiteForCausalLM (GLM-4.7-Flash): latent attention, dense layers first, then mixtures of experts with
// a shared one (docs/model-notes.md, "Latent attention"). DeepseekV32ForCausalLM and GlmMoeDsaForCausalLM (GLM-5
// to 5.2) have an indexer beside it (indexer.h). Mistral4ForCausalLM: queries that grow with their position
// (query_growth.h), softmax scores whose groups count by the sum of their two best.
// DeepseekForCausalLM (DeepSeek-MoE), DeepseekOCRForCausalLM, DeepseekOCR2ForCausalLM and, where its config says so,
// DeepseekVLV2ForCausalLM (DeepSeek-VL2): the same decoder with ordinary attention.
//
// Where servers and the reference differ: the norms of the latents use rms_norm_eps; norm_topk_prob and moe_layer_freq
// count in V2 too. vLLM rounds the router's logits to bf16 unless moe_router_dtype, or the experts' form, asks for f32;
// here they are never rounded, as in the reference. The number of KV heads means nothing with latent attention,
// head_dim nowhere.
#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/decoders/moe_decoder.h"
#include "model/decoders/nextn.h"
#include "model/layers/decoder_block.h"
#include "model/layers/indexer.h"
#include "model/layers/latent_attention.h"
#include "model/layers/query_growth.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr const char* kChoiceBias = "gate.e_score_correction_bias";

/// What a class assumes where the config is silent.
struct Family {
  DecoderDefaults dims;
  LatentDims latent{};  // ranks and widths
  struct {
    int64_t n = 0, n_active = 0, ffn, n_shared = 0, first_layer = 0;
  } experts;
  struct {
    const char* scoring;
    const char* method = nullptr;  // null: the class has no topk_method
    bool renormalize = false;
    double scale = 1;
    int64_t n_groups = 1, k_groups = 1;
  } routing;
  IndexerDefaults indexer{};
  bool grows = false;  // queries, with their position
  RouterLogits logits = RouterLogits::F32;
  const char* wrapped_prefix = "language_model.model.";
  bool drafts = false;  // may have an MTP layer that is read
};

constexpr LatentDims kLatent = {.q_rank = 1536, .kv_rank = 512, .nope = 128, .rope = 64, .value = 128};
constexpr LatentDims kGlmLatent = {.q_rank = 768, .kv_rank = 512, .nope = 192, .rope = 64, .value = 256};
constexpr LatentDims kGlmDsaLatent = {.q_rank = 2048, .kv_rank = 512, .nope = 192, .rope = 64, .value = 256};
constexpr DecoderDefaults kGlmDims = {
    .vocab = 154880, .hidden = 2048, .ffn = 10240, .n_layers = 47, .n_heads = 20, .max_positions = 202752, .eps = 1e-5};

constexpr Family kV1 = {
    .dims = {.vocab = 102400, .hidden = 4096, .ffn = 11008, .n_layers = 30, .n_heads = 32, .max_positions = 2048},
    .experts = {.ffn = 1407},
    .routing = {.scoring = "softmax", .method = "greedy"}};
constexpr Family kV2 = {
    .dims = {.vocab = 102400, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048},
    .latent = kLatent,
    .experts = {.n = 64, .ffn = 1407, .n_shared = 2},
    .routing = {.scoring = "softmax", .method = "greedy"}};
constexpr Family kV3 = {
    .dims = {.vocab = 129280, .hidden = 7168, .ffn = 18432, .n_layers = 61, .n_heads = 128, .max_positions = 4096},
    .latent = kLatent,
    .experts = {.n = 256, .n_active = 8, .ffn = 2048, .n_shared = 1, .first_layer = 3},
    .routing =
        {.scoring = "sigmoid", .method = "noaux_tc", .renormalize = true, .scale = 2.5, .n_groups = 8, .k_groups = 4},
    .drafts = true};
constexpr Family kGlm = {.dims = kGlmDims,
                         .latent = kGlmLatent,
                         .experts = {.n = 64, .n_active = 4, .ffn = 1536, .n_shared = 1, .first_layer = 1},
                         .routing = {.scoring = "sigmoid", .method = "noaux_tc", .renormalize = true, .scale = 1.8},
                         .drafts = true};
constexpr Family kV32 = {
    .dims = {.vocab = 129280, .hidden = 7168, .ffn = 18432, .n_layers = 61, .n_heads = 128, .max_positions = 163840},
    .latent = kV3.latent,
    .experts = kV3.experts,
    .routing = kV3.routing,
    .indexer = {.n_heads = 64},
    .drafts = true};
constexpr Family kGlmDsa = {.dims = {.vocab = 154880,
                                     .hidden = 6144,
                                     .ffn = 12288,
                                     .n_layers = 78,
                                     .n_heads = 64,
                                     .max_positions = 202752,
                                     .eps = 1e-5},
                            .latent = kGlmDsaLatent,
                            .experts = {.n = 256, .n_active = 8, .ffn = 2048, .n_shared = 1, .first_layer = 3},
                            .routing = {.scoring = "sigmoid", .method = "noaux_tc", .renormalize = true, .scale = 2.5},
                            .indexer = {.n_heads = 32, .interleaved = true},
                            .drafts = true};
constexpr Family kMistral4 = {
    .dims = {.vocab = 131072, .hidden = 4096, .ffn = 12288, .n_layers = 36, .n_heads = 32, .max_positions = 1048576},
    .latent = {.q_rank = 1024, .kv_rank = 256, .nope = 64, .rope = 64, .value = 128},
    .experts = {.n = 128, .n_active = 4, .ffn = 2048, .n_shared = 1},
    .routing = {.scoring = "softmax", .renormalize = true},
    .grows = true,
    .logits = RouterLogits::Activations};

struct DeepseekConfig {
  DecoderDims dims;
  LatentDims latent;
  LatentRope rope;
  MoeDims moe{};
  MoeNames names;
  std::vector<bool> sparse;  // by layer
  std::optional<IndexerDims> indexer;
  QueryGrowth growth;
  MtpNames mtp;
};

/// The config without sizes of heads that published files fill with anything.
Json without(Json config, std::initializer_list<const char*> keys) {
  Json& text = find_member(config, "text_config") ? config["text_config"] : config;
  for (const char* key : keys) text.erase(key);
  return config;
}

int64_t number_of_experts(const Json& text, int64_t fallback) {
  for (const char* key : {"n_routed_experts", "num_local_experts", "num_experts"})
    if (text.contains(key)) return text[key].is_null() ? 0 : get_int(text, key);
  return fallback;
}

/// How the config spells its routing: scoring_func, topk_method, n_group, topk_group.
void read_routing(const Json& text, const Family& f, DeepseekConfig& c) {
  RoutingSpec& r = c.moe.routing;
  r.k = f.experts.n_active > 0 ? get_int_or(text, "num_experts_per_tok", f.experts.n_active)
                               : get_int(text, "num_experts_per_tok");
  const std::string scoring = get_string_or(text, "scoring_func", f.routing.scoring);
  if (scoring != "softmax" && scoring != "sigmoid")
    fail_unknown("scoring_func", scoring, std::vector<std::string>{"sigmoid", "softmax"});
  r.scoring = scoring == "sigmoid" ? Scoring::Sigmoid : Scoring::Softmax;
  r.renormalize = get_bool_or(text, "norm_topk_prob", f.routing.renormalize);
  r.least_sum = 1e-20f;
  r.scale = static_cast<float>(get_number_or(text, "routed_scaling_factor", f.routing.scale));
  r.n_groups = get_int_or(text, "n_group", f.routing.n_groups);
  r.k_groups = get_int_or(text, "topk_group", f.routing.k_groups);
  r.group_best = 2;
  if (!f.routing.method) return;
  const std::string method = get_string_or(text, "topk_method", f.routing.method);
  if (method == "noaux_tc") {
    c.names.choice_bias = kChoiceBias;
  } else if (method == "group_limited_greedy" || method == "greedy") {
    r.group_best = 1;
    if (method == "greedy" && r.n_groups != 1)
      fail("topk_method is 'greedy' with n_group " + std::to_string(r.n_groups) +
           ": servers and the reference route differently there, so it is not supported");
  } else {
    fail_unknown("topk_method", method, std::vector<std::string>{"greedy", "group_limited_greedy", "noaux_tc"});
  }
}

void read_experts(const Json& text, const Family& f, DeepseekConfig& c) {
  c.moe.hidden = c.dims.hidden;
  c.moe.n_experts = number_of_experts(text, f.experts.n);
  if (c.moe.n_experts == 0) return;
  c.moe.ffn = read_size(text, "moe_intermediate_size", f.experts.ffn);
  const bool no_shared = text.contains("n_shared_experts") && text["n_shared_experts"].is_null();
  const int64_t n_shared = no_shared ? 0 : get_int_or(text, "n_shared_experts", f.experts.n_shared);
  if (n_shared < 0 || n_shared > 1024) fail("n_shared_experts is " + std::to_string(n_shared) + ", expected 0 to 1024");
  c.moe.shared_ffn = n_shared * c.moe.ffn;
  read_routing(text, f, c);
  c.moe.logits = f.logits;
  check_moe_dims(c.moe);
}

void read_feed_forwards(const Json& text, const Family& f, DeepseekConfig& c) {
  if (get_bool_or(text, "mlp_bias", false)) fail("mlp_bias is not supported");
  read_experts(text, f, c);
  c.sparse = read_late_sparse_layers(text, c.dims.n_layers, c.moe.n_experts, f.experts.first_layer);
}

class Deepseek final : public DecoderModel {
 public:
  Deepseek(const Json& config, const Family& f) {
    const Json& text = text_config(config);
    c_.dims = read_decoder_dims(without(config, {"num_key_value_heads", "head_dim"}), f.dims);
    c_.latent = read_latent_dims(text, c_.dims, f.latent);
    c_.rope = read_latent_rope(text, c_.latent.rope);
    c_.indexer = read_indexer(text, c_.dims.n_layers, c_.latent.rope, f.indexer);
    if (f.grows) c_.growth = read_query_growth(text);
    if (c_.indexer && c_.latent.q_rank == 0) fail("q_lora_rank is null, but the indexer reads the latent of queries");
    read_feed_forwards(text, f, c_);
    spec_ = general_spec(config, c_.dims);
    if (c_.indexer) {
      spec_.indexed_beyond = c_.indexer->n_picked;
      spec_.n_pickers = 1;
      spec_.index_keys_in_fp8 = c_.indexer->head_dim <= 128;  // one scale; wider keys would have several
    }
    for (const bool sparse : c_.sparse) add_layer(sparse);
    if (f.drafts) c_.mtp = read_nextn(text, c_.dims.n_layers);
    spec_.mtp_names = c_.mtp.begin;
    if (find_member(config, "text_config")) spec_.default_prefix = f.wrapped_prefix;
    final_eps_ = c_.dims.eps;
  }

  void append_mtp_layer() override {
    c_.sparse.push_back(true);
    add_layer(true);
    finish_nextn_layer(spec_, c_.mtp);
  }
  std::unique_ptr<Block> load_mtp_layer(WeightLoader& loader, WeightBinder& weights, WeightBinder& w) const override {
    return std::make_unique<MtpBlock>(load_nextn_input(spec_, c_.mtp, c_.dims.eps, loader, weights, w),
                                      make_block(spec_.layers.back(), &spec_.caches.back(), loader, w));
  }

 private:
  void add_layer(bool sparse) {
    add_latent_layer(spec_, c_.latent, c_.rope, c_.dims.ffn);
    LayerSpec& layer = spec_.layers.back();
    if (c_.growth.beta > 0) layer.activations += c_.dims.n_heads * c_.latent.qk() + 4;
    if (sparse) count_moe_layer(layer, c_.moe, c_.dims.ffn);
    if (c_.indexer) add_indexer(layer);
  }

  void add_indexer(LayerSpec& layer) {
    const IndexerDims& d = *c_.indexer;
    if (const int picker = d.picker_of(layer.index); picker != layer.index) {
      layer.picker = picker;
      return;
    }
    layer.kept_row += d.head_dim;
    layer.index_row_bytes = d.head_dim + (d.head_dim + 127) / 128 * 4;  // E4M3, a float for each 128
    layer.activations += 2 * d.n_heads * d.head_dim + 3 * d.head_dim + d.n_heads;
  }

  std::unique_ptr<Block> make_block(const LayerSpec& layer, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    const int64_t n = c_.dims.hidden;
    const RmsNorms norm{loader, w, n, c_.dims.eps};
    DecoderBlockParts parts{.before_mixer = norm("input_layernorm"), .before_ffn = norm("post_attention_layernorm")};
    if (c_.sparse[static_cast<size_t>(layer.index)])
      parts.ffn = SparseMoe(c_.moe, load_moe(c_.moe, c_.names, loader, w.at("mlp.")));
    else
      parts.ffn = GluMlp(loader, w.at("mlp."), n, c_.dims.ffn);
    auto attention = std::make_unique<LatentAttention>(c_.latent, *cache, c_.rope.spec, loader, w.at("self_attn."));
    if (c_.indexer)
      attention->pick_keys(layer.picker >= 0 ? nullptr
                                             : std::make_unique<Indexer>(*c_.indexer, n, c_.latent.q_rank, c_.rope.spec,
                                                                         loader, w.at("self_attn.")));
    attention->grow_queries(c_.growth);
    parts.mixer = std::move(attention);
    return std::make_unique<DecoderBlock>(std::move(parts));
  }

  DeepseekConfig c_;
};

/// Whether layers cache keys and values: the widths of latent heads, `width` where the config is silent, are 0 then, as
/// vLLM asks; the published code and SGLang ask use_mla.
bool has_plain_heads(const Json& text, int64_t width) {
  const bool plain =
      get_int_or(text, "qk_nope_head_dim", width) == 0 && get_int_or(text, "qk_rope_head_dim", width) == 0;
  if (get_bool_or(text, "use_mla", !plain) == plain)
    fail(std::string("use_mla is ") + (plain ? "true" : "false") + ", but qk_nope_head_dim and qk_rope_head_dim are " +
         (plain ? "0" : "not 0") + ": servers differ in which of them counts, so it is not supported");
  return plain;
}

template <bool biased>
MoeParts load_experts(const MoeDims& dims, WeightLoader& loader, WeightBinder layer) {
  MoeNames names;
  if (biased) names.choice_bias = kChoiceBias;
  return load_moe(dims, names, loader, layer.at("mlp."));
}

std::unique_ptr<Model> make_plain(const Json& config, const Family& f, const char* prefix) {
  const Json& text = text_config(config);
  if (!has_plain_heads(text, 0))
    fail("qk_nope_head_dim and qk_rope_head_dim are not 0, but this class has no latent attention");
  if (get_bool_or(text, "attention_bias", false))
    fail("attention_bias is true: servers read no biases of ordinary attention in this class");
  DeepseekConfig c;
  c.dims = read_decoder_dims(without(config, {"head_dim"}), f.dims);
  read_feed_forwards(text, f, c);
  MoeDecoderConfig out;
  out.dims = c.dims;
  out.rope = read_rope(text, c.dims.head_dim, {});
  out.moe = c.moe;
  out.load = c.names.choice_bias ? load_experts<true> : load_experts<false>;
  out.sparse = c.sparse;
  out.windows.assign(c.sparse.size(), 0);
  out.default_prefix = prefix;
  return std::make_unique<MoeDecoder>(config, std::move(out));
}

}  // namespace

std::unique_ptr<Model> parse_deepseek(const Json& config) { return make_plain(config, kV1, "model."); }

std::unique_ptr<Model> parse_deepseek_ocr(const Json& config) {
  if (!find_member(config, "text_config")) fail("there is no language_config");
  return make_plain(config, kV2, "model.");
}

// Its text model with latent attention is to servers what it is alone.
std::unique_ptr<Model> parse_deepseek_vl2(const Json& config) {
  if (!find_member(config, "text_config")) fail("there is no language_config");
  constexpr const char* kPrefix = "language.model.";
  if (has_plain_heads(text_config(config), kV2.latent.nope)) return make_plain(config, kV2, kPrefix);
  Family wrapped = kV2;
  wrapped.wrapped_prefix = kPrefix;
  Json alone = config;
  alone["architectures"] = {"DeepseekV2ForCausalLM"};
  return std::make_unique<Deepseek>(alone, wrapped);
}

std::unique_ptr<Model> parse_deepseek_v2(const Json& config) { return std::make_unique<Deepseek>(config, kV2); }
std::unique_ptr<Model> parse_deepseek_v3(const Json& config) { return std::make_unique<Deepseek>(config, kV3); }
std::unique_ptr<Model> parse_deepseek_v32(const Json& config) { return std::make_unique<Deepseek>(config, kV32); }
std::unique_ptr<Model> parse_glm4_moe_lite(const Json& config) { return std::make_unique<Deepseek>(config, kGlm); }
std::unique_ptr<Model> parse_glm_moe_dsa(const Json& config) { return std::make_unique<Deepseek>(config, kGlmDsa); }

// The share of a head that turns stands beside the other keys of RoPE, which are those of the part that does.
std::unique_ptr<Model> parse_mistral4(const Json& given) {
  Json config = given;
  Json& text = find_member(config, "text_config") ? config["text_config"] : config;
  if (!find_member(text, "rope_parameters") && !find_member(text, "rope_scaling"))
    text["rope_parameters"] = {
        {"rope_type", "yarn"}, {"rope_theta", 10000.0}, {"factor", 128.0},   {"original_max_position_embeddings", 8192},
        {"mscale", 1.0},       {"mscale_all_dim", 1.0}, {"beta_fast", 32.0}, {"llama_4_scaling_beta", 0.1}};
  text.erase("partial_rotary_factor");
  for (const char* key : {"rope_parameters", "rope_scaling"})
    if (text.contains(key) && text[key].is_object()) text[key].erase("partial_rotary_factor");
  return std::make_unique<Deepseek>(config, kMistral4);
}

std::unique_ptr<Model> parse_kimi_k25(const Json& config) {
  if (!find_member(config, "text_config")) fail("text_config is missing");
  const std::string type = get_string(text_config(config), "model_type", "text_config.");
  if (type != "kimi_k2" && type != "deepseek_v3")
    fail_unknown("model_type of text_config", type, std::vector<std::string>{"deepseek_v3", "kimi_k2"});
  return parse_deepseek_v3(config);
}

}  // namespace kvcal
