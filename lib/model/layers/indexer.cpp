#include "model/layers/indexer.h"

#include <algorithm>

#include "model/config_reading.h"
#include "model/layers/mixer.h"

namespace kvcal {
namespace {

constexpr int64_t kDefaultPicked = 2048, kDefaultHeads = 64, kDefaultWidth = 128, kDefaultOffset = 2;
constexpr float kNormEps = 1e-6f;  // in every server

// "FSSF" or a list of words: F, full: a layer with an indexer of its own.
std::vector<bool> layers_of(const Json& words, const char* key, int64_t n_layers) {
  const bool letters = words.is_string();
  const std::string text = letters ? words.get<std::string>() : "";
  const size_t n = letters ? text.size() : words.is_array() ? words.size() : 0;
  if (static_cast<int64_t>(n) != n_layers)
    fail(std::string(key) + " has " + std::to_string(n) + " entries, expected " + std::to_string(n_layers) +
         " (num_hidden_layers)");
  const std::vector<std::string> known =
      letters ? std::vector<std::string>{"F", "S"} : std::vector<std::string>{"full", "shared"};
  std::vector<bool> own;
  for (size_t i = 0; i < n; ++i) {
    const std::string word = letters                ? text.substr(i, 1)
                             : words[i].is_string() ? words[i].get<std::string>()
                                                    : words[i].dump();
    if (std::find(known.begin(), known.end(), word) == known.end())
      fail_unknown("word in " + std::string(key), word, known);
    own.push_back(word == known[0]);
  }
  if (!own.front()) fail(std::string(key) + " begins with a layer that shares, but there is none before it");
  return own;
}

std::vector<bool> read_own_layers(const Json& text, int64_t n_layers) {
  for (const char* key : {"indexer_types", "index_topk_pattern"})
    if (const Json* words = find_member(text, key)) return layers_of(*words, key, n_layers);
  const int64_t every = read_size(text, "index_topk_freq", 1);
  const int64_t offset = read_size(text, "index_skip_topk_offset", kDefaultOffset);
  std::vector<bool> own;
  for (int64_t i = 0; i < n_layers; ++i) own.push_back(std::max<int64_t>(i - offset + 1, 0) % every == 0);
  return own;
}

RopeSpec with_pairs(RopeSpec rope, bool interleaved) {
  rope.interleaved = interleaved;
  return rope;
}

}  // namespace

int IndexerDims::picker_of(int layer) const {
  if (layer >= static_cast<int>(has_own.size())) return layer;
  while (!has_own[static_cast<size_t>(layer)]) --layer;
  return layer;
}

std::optional<IndexerDims> read_indexer(const Json& text, int64_t n_layers, int64_t rope,
                                        const IndexerDefaults& defaults) {
  if (!find_member(text, "index_topk") && defaults.n_heads == 0) {
    if (find_member(text, "index_n_heads")) fail("index_n_heads without index_topk: how many keys are picked?");
    return std::nullopt;
  }
  IndexerDims d;
  d.n_picked = read_size(text, "index_topk", kDefaultPicked);
  d.n_heads = read_size(text, "index_n_heads", defaults.n_heads == 0 ? kDefaultHeads : defaults.n_heads);
  d.head_dim = read_size(text, "index_head_dim", kDefaultWidth);
  if (d.head_dim < rope)
    fail("index_head_dim is " + std::to_string(d.head_dim) + ", expected at least the " + std::to_string(rope) +
         " channels that RoPE rotates (qk_rope_head_dim)");
  check_product("an indexer", {d.n_heads, d.head_dim, get_int_or(text, "hidden_size", 1)});
  check_product("an indexer", {d.n_heads, d.head_dim, get_int_or(text, "q_lora_rank", 1)});
  d.has_own = read_own_layers(text, n_layers);
  d.interleaved = get_bool_or(text, "indexer_rope_interleave", defaults.interleaved);
  read_layer_types(text, n_layers, {"indexed_attention", "deepseek_sparse_attention"});
  if (!get_bool_or(text, "rope_interleave", true))
    fail("rope_interleave is false; with an indexer, pairs of the rotated part lie side by side");
  return d;
}

bool needs_choice(const PickSpec& spec, const Batch& batch) {
  return std::ranges::any_of(batch.sequences,
                             [&](const SequenceSpan& s) { return s.sequence_tokens > spec.n_picked * spec.block; });
}

KeyChoice choose_keys(Ops& op, const IndexRows& rows, const PickSpec& spec, const Batch& batch, LayerStates& states,
                      KvTap& tap) {
  const Tensor stored = tap.index_key(rows.keys, batch);
  const std::vector<KvRows*> keys = states.index_rows(batch);
  op.keep_rows(stored, {}, batch.spans, keys);
  const std::vector<const KvRows*> kept(keys.begin(), keys.end());
  KeyChoice choice{op.pick_keys(rows.queries, rows.weights, stored, batch.spans, kept, spec), {}};
  for (const SequenceSpan& s : batch.sequences) choice.picks.push_back(s.sequence_tokens > spec.n_picked * spec.block);
  states.keep_choice(batch, choice);
  return choice;
}

Indexer::Indexer(const IndexerDims& d, int64_t hidden, int64_t q_rank, const RopeSpec& rope, WeightLoader& loader,
                 WeightBinder attention)
    : spec_{d.n_picked}, n_heads_(d.n_heads), head_dim_(d.head_dim), rope_(with_pairs(rope, d.interleaved)) {
  WeightBinder w = attention.at("indexer.");
  q_ = load_projection(loader, w, "wq_b", d.n_heads * d.head_dim, q_rank);
  k_ = load_projection(loader, w, "wk", d.head_dim, hidden);
  k_norm_ = load_layer_norm(loader, w, "k_norm", d.head_dim, kNormEps, Bias::Present);
  weights_ = load_projection(loader, w, "weights_proj", d.n_heads, hidden);
}

// Scores are compared with each other only, so the factors that servers give them, all positive, are left out.
KeyChoice Indexer::choose(Ops& op, const Tensor& h, const Tensor& latent, const Batch& batch, LayerStates& states,
                          KvTap& tap) const {
  if (!needs_choice(spec_, batch)) return {};
  const int64_t n = batch.n_tokens();
  const Tensor turns = rope_.rotary_dim > 0 ? op.rope_table(batch.positions, n, rope_) : Tensor{};
  const auto turned = [&](const Tensor& x) { return turns ? op.rope(x, turns, rope_) : x; };
  const Tensor queries = turned(op.linear(latent, q_).reshaped({n, n_heads_, head_dim_}));
  const Tensor keys = turned(k_norm_.forward(op, op.linear(h, k_)).reshaped({n, 1, head_dim_}));
  return choose_keys(op, {queries, op.linear(h, weights_), keys}, spec_, batch, states, tap);
}

}  // namespace kvcal
