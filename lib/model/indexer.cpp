#include "model/indexer.h"

#include <algorithm>

#include "model/config_reading.h"

namespace kvcal {
namespace {

constexpr int64_t kDefaultPicked = 2048, kDefaultHeads = 64, kDefaultWidth = 128, kDefaultOffset = 2;

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

}  // namespace

std::optional<IndexerDims> read_indexer(const Json& text, int64_t n_layers, int64_t n_heads) {
  if (!find_member(text, "index_topk") && n_heads == 0) {
    if (find_member(text, "index_n_heads")) fail("index_n_heads without index_topk: how many keys are picked?");
    return std::nullopt;
  }
  IndexerDims d;
  d.n_picked = read_size(text, "index_topk", kDefaultPicked);
  d.n_heads = read_size(text, "index_n_heads", n_heads == 0 ? kDefaultHeads : n_heads);
  d.head_dim = read_size(text, "index_head_dim", kDefaultWidth);
  d.has_own = read_own_layers(text, n_layers);
  read_layer_types(text, n_layers, {"indexed_attention", "deepseek_sparse_attention"});
  if (!get_bool_or(text, "rope_interleave", true))
    fail("rope_interleave is false; with an indexer, pairs of the rotated part lie side by side");
  return d;
}

int64_t indexer_parameters(const IndexerDims& d, int64_t hidden, int64_t q_rank) {
  return d.n_heads * d.head_dim * q_rank + d.head_dim * hidden + 2 * d.head_dim + d.n_heads * hidden;
}

void pass_over_indexer(const WeightBinder& w) {
  for (const char* name : {"wq_b.weight", "wk.weight", "k_norm.weight", "k_norm.bias", "weights_proj.weight"})
    w.at("indexer.").claim(name);
}

void check_all_attended(const ModelSpec& spec, int64_t n_tokens, const std::string& what, const std::string& way_out) {
  if (spec.indexed_beyond == 0 || n_tokens <= spec.indexed_beyond) return;
  fail(what + " has " + std::to_string(n_tokens) + " tokens; in sequences of more than " +
       std::to_string(spec.indexed_beyond) + " this model's indexer picks keys, which is not supported: " + way_out);
}

}  // namespace kvcal
