// Statistics of made-up keys, values and queries, for tests of what is solved from them. Counts as an observer does,
// but written plainly: one value at a time into maps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "stats/run_record.h"
#include "stats/statistics_checks.h"
#include "tensor/dtype.h"

namespace kvcal {

/// Two KV heads of 16 channels, four query heads, the first eight channels rotated.
inline KvLayout small_layout(int layer = 3) {
  KvLayout layout;
  layout.layer = layer;
  layout.name = "layers." + std::to_string(layer) + ".self_attn";
  layout.n_heads = 4;
  layout.n_kv_heads = 2;
  layout.head_dim_k = layout.head_dim_v = 16;
  layout.rotary_dim = 8;
  layout.pair_bound = PairBound::Neox;
  layout.softmax_scale = 0.25;
  return layout;
}

/// x of one element: pass, prompt, token, head, channel are in `where`.
using Signal = std::function<float(const Provenance& where)>;

struct SyntheticRun {
  KvLayout layout = small_layout();
  int n_prompts = 8, n_passes = 2, tokens_per_prompt = 40;
  Signal key, value, query, latent, rope;
};

/// Normal numbers of the given standard deviation, the same on every machine.
inline Signal gaussian(double sigma, unsigned seed) {
  return [sigma, engine = std::mt19937(seed)](const Provenance&) mutable {
    const auto uniform = [&] { return (static_cast<double>(engine()) + 0.5) / 4294967296.0; };
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return static_cast<float>(sigma * radius * std::cos(6.283185307179586 * uniform()));
  };
}

class SiteCounter {
 public:
  SiteCounter(const SyntheticRun& run, CacheSite which) : run_(run), which_(which) {
    const auto heads = static_cast<size_t>(heads_of(run.layout, which));
    const auto width = static_cast<size_t>(width_of(run.layout, which));
    site_.heads.resize(heads);
    codes_.resize(heads);
    site_.channels.resize(heads * width);
    octaves_.resize(heads * width);
    site_.pair_norm.resize(heads * static_cast<size_t>(pairs_of(run.layout, which)));
    site_.prompt_absmax.resize(static_cast<size_t>(run.n_passes * run.n_prompts));
  }

  /// `position`: in the sequence; `row` has [heads, width].
  void add(Provenance where, const std::vector<float>& row) {
    ++site_.n_tokens;
    size_t bucket = 0;
    while ((int64_t{1} << bucket) <= where.position) ++bucket;
    if (site_.position_absmax.size() <= bucket) site_.position_absmax.resize(bucket + 1);
    const auto width = static_cast<size_t>(width_of(run_.layout, which_));
    for (size_t head = 0; head < site_.heads.size(); ++head) {
      uint16_t largest = 0;
      for (size_t channel = 0; channel < width; ++channel) {
        where.head = static_cast<int64_t>(head);
        where.channel = static_cast<int64_t>(channel);
        largest = std::max(largest, add_value(where, row[head * width + channel]));
      }
      ++token_octaves_[{head, static_cast<uint8_t>(largest >> 7)}];
      auto& position = site_.position_absmax[bucket];
      position = std::max(position, largest);
      auto& prompt = site_.prompt_absmax[static_cast<size_t>((where.pass - 1) * run_.n_prompts + where.prompt)];
      prompt = std::max(prompt, largest);
      add_pairs(head, &row[head * width]);
    }
  }

  SiteStatistics take() {
    for (size_t head = 0; head < site_.heads.size(); ++head)
      site_.heads[head].histogram.counts.assign(codes_[head].begin(), codes_[head].end());
    for (const auto& [key, count] : token_octaves_)
      site_.heads[key.first].token_octaves.emplace_back(key.second, count);
    for (size_t c = 0; c < octaves_.size(); ++c)
      for (const auto& [octave, moments] : octaves_[c]) site_.channels[c].octaves.push_back(moments);
    return site_;
  }

 private:
  uint16_t add_value(const Provenance& where, float x) {
    const uint16_t bits = to_bf16(x).bits;
    const auto code = static_cast<uint16_t>(bits & 0x7FFF);
    count_code(where, code);
    const auto index = static_cast<size_t>(where.head * width_of(run_.layout, which_) + where.channel);
    const auto octave = static_cast<uint8_t>(code >> 7);
    const int64_t m = (code & 127) + (octave > 0 ? 128 : 0);
    if (which_ == CacheSite::Query && m == 0) return code;
    OctaveMoments& moments = octaves_[index][octave];  // octave 0 counts zeros too
    moments.octave = octave;
    moments.sum_m2 += m * m;
    if (which_ == CacheSite::Query) return code;
    moments.count += 1;
    moments.sum_m += m;
    moments.signed_sum_m += (bits & 0x8000) != 0 ? -m : m;
    site_.channels[index].absmax = std::max(site_.channels[index].absmax, code);
    return code;
  }

  void count_code(const Provenance& where, uint16_t code) {
    HeadStatistics& head = site_.heads[static_cast<size_t>(where.head)];
    if (code == 0)
      ++head.histogram.zeros;
    else
      ++codes_[static_cast<size_t>(where.head)][code];
    if (code <= head.absmax && head.where.pass > 0) return;  // zeros have a place too
    head.absmax = code;
    head.where = where;
  }

  void add_pairs(size_t head, const float* channels) {
    const auto n_pairs = static_cast<size_t>(pairs_of(run_.layout, which_));
    for (size_t pair = 0; pair < n_pairs; ++pair) {
      const auto [i, j] = pair_channels(run_.layout, static_cast<int64_t>(pair));
      const double a = round_to_bf16(channels[i]), b = round_to_bf16(channels[j]);
      double& norm = site_.pair_norm[head * n_pairs + pair];
      norm = std::max(norm, std::sqrt(a * a + b * b));
    }
  }

  const SyntheticRun& run_;
  CacheSite which_;
  SiteStatistics site_;
  std::vector<std::map<uint16_t, uint64_t>> codes_;
  std::vector<std::map<uint8_t, OctaveMoments>> octaves_;
  std::map<std::pair<size_t, uint8_t>, uint64_t> token_octaves_;
};

inline CacheStatistics synthetic_cache(const SyntheticRun& run) {
  CacheStatistics cache;
  cache.layout = run.layout;
  const Signal* signals[] = {&run.key, &run.value, &run.query, &run.latent, &run.rope};
  for (const CacheSite which : sites_of(run.layout)) {
    SiteCounter counter(run, which);
    std::vector<float> row(static_cast<size_t>(heads_of(run.layout, which) * width_of(run.layout, which)));
    for (int64_t pass = 1; pass <= run.n_passes; ++pass)
      for (int64_t prompt = 0; prompt < run.n_prompts; ++prompt)
        for (int64_t token = 0; token < run.tokens_per_prompt; ++token) {
          Provenance where = {pass, prompt, token, pass == 1 ? token : prompt * run.tokens_per_prompt + token, 0, 0};
          for (size_t i = 0; i < row.size(); ++i) {
            where.head = static_cast<int64_t>(i) / width_of(run.layout, which);
            where.channel = static_cast<int64_t>(i) % width_of(run.layout, which);
            row[i] = (*signals[static_cast<size_t>(which)])(where);
          }
          counter.add(where, row);
        }
    cache.at(which) = counter.take();
  }
  return cache;
}

inline RunRecord synthetic_record(const SyntheticRun& run) {
  RunRecord record;
  ModelInfo& model = record.model.emplace();
  model.architecture = "Qwen3_5ForCausalLM";
  model.model_type = "qwen3_5_text";
  model.n_layers = 8;
  model.n_kv_layers = 1;
  model.max_positions = 4096;
  model.tensor_prefix = "model.language_model.";
  model.config_sha256 = std::string(64, 'a');
  model.weights_fingerprint = std::string(64, 'b');
  record.layers_without_kv.emplace();
  for (int layer = 0; layer < 8; ++layer)
    if (layer != run.layout.layer) record.layers_without_kv->push_back({layer, "gated_delta_net", std::nullopt});
  const int64_t longest = int64_t{run.n_prompts} * run.tokens_per_prompt;
  CalibrationInfo& calibration = record.calibration.emplace();
  calibration.prompts_sha256 = std::string(64, 'c');
  calibration.plan_sha256 = std::string(64, 'd');
  calibration.n_prompts = run.n_prompts;
  calibration.n_tokens = run.n_passes * longest;
  calibration.longest = longest;
  calibration.max_length = 2048;
  calibration.passes = run.n_passes;
  calibration.precision = "bf16";
  calibration.isa = "avx512";
  calibration.tool_version = "kvcal 0.1.0";
  record.plan_sha256 = std::string(64, 'd');
  record.n_passes = run.n_passes;
  for (int prompt = 0; prompt < run.n_prompts; ++prompt)
    record.prompt_ids.push_back("prompt-" + std::to_string(100 + prompt));
  return record;
}

/// The fixture obeys the rules that real statistics obey, or the test that uses it fails here.
inline Statistics synthetic_statistics(const SyntheticRun& run) {
  Statistics statistics = {synthetic_record(run), {synthetic_cache(run)}, {}};
  check_statistics(statistics);
  return statistics;
}

/// An MLA layer: four query heads, rows of 16 latent and 8 rope channels, the latter thirty times larger.
inline SyntheticRun latent_run() {
  SyntheticRun run;
  run.layout.kind = "mla";
  run.layout.n_kv_heads = 1;
  run.layout.head_dim_k = 24;
  run.layout.head_dim_v = run.layout.latent_dim = 16;
  run.layout.pair_bound = PairBound::Gptj;
  run.latent = gaussian(0.125, 1);
  run.rope = gaussian(4, 2);
  run.query = gaussian(0.5, 3);
  return run;
}

/// A layer whose numbers are unremarkable: absmax about 4, ordinary noise.
inline SyntheticRun ordinary_run() {
  SyntheticRun run;
  run.key = gaussian(1, 1);
  run.value = gaussian(1, 2);
  run.query = gaussian(1, 3);
  return run;
}

/// A model of as many layers, each of which has the numbers of this run's.
inline Statistics synthetic_layers(int n_layers, const SyntheticRun& run = ordinary_run()) {
  Statistics statistics = synthetic_statistics(run);
  statistics.run.model->n_layers = statistics.run.model->n_kv_layers = n_layers;
  statistics.run.layers_without_kv->clear();
  const CacheStatistics one = statistics.caches[0];
  statistics.caches.clear();
  for (int layer = 0; layer < n_layers; ++layer) {
    statistics.caches.push_back(one);
    statistics.caches.back().layout.layer = statistics.caches.back().layout.cache = layer;
    statistics.caches.back().layout.name = "layers." + std::to_string(layer) + ".self_attn";
  }
  return statistics;
}

}  // namespace kvcal
