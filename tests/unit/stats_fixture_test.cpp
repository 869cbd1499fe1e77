#include "unit/stats_fixture.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/read_file.h"
#include "base/sha256.h"
#include "base/token_kind.h"
#include "stats/statistics_file.h"

namespace kvcal::stats_test {
namespace {

uint64_t hash_of(const Spot& s) {
  uint64_t h = 0x9E3779B97F4A7C15u;
  for (const int64_t n : {int64_t{s.cache}, static_cast<int64_t>(s.site), s.sequence, s.position, s.head, s.channel}) {
    h ^= static_cast<uint64_t>(n) + 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
    h ^= h >> 31;
  }
  return h;
}

Segment segment(int64_t sequence, int pass, int64_t prompt, int64_t first_position, int64_t n_tokens) {
  return {sequence, pass, prompt, 0, first_position, 0, n_tokens};
}

}  // namespace

float mixed_value(const Spot& spot) {
  const uint64_t h = hash_of(spot);
  const float sign = h & 1 ? -1.0f : 1.0f;
  switch (h >> 1 & 31) {
    case 0:
      return sign * 0.0f;
    case 1:
      return sign * std::ldexp(static_cast<float>(h >> 8 & 127), -133);
    case 2:
      return sign * 3.25f;  // equal magnitudes everywhere
    default:
      break;
  }
  const int exponent = static_cast<int>(h >> 8 & 0xFF) % 24 - 20;
  return sign * std::ldexp(1.0f + static_cast<float>(h >> 32 & 0xFFFF) / 65536.0f, exponent);
}

ModelSpec small_spec() {
  ModelSpec spec;
  spec.layers.resize(4);
  for (int c = 0; c < 2; ++c) {
    KvLayout l;
    l.cache = c;
    l.layer = 1 + 2 * c;
    l.name = "layers." + std::to_string(l.layer) + ".self_attn";
    l.n_heads = 4;
    l.n_kv_heads = 2;
    l.head_dim_k = 24;
    l.head_dim_v = 16;
    l.rotary_dim = 16;
    l.pair_bound = c == 0 ? PairBound::Neox : PairBound::Gptj;
    l.softmax_scale = 0.20412414523193154;
    l.rope_magnitude = 1.0;
    spec.caches.push_back(l);
  }
  return spec;
}

ModelSpec latent_spec() {
  ModelSpec spec = small_spec();
  spec.caches.erase(spec.caches.begin());
  KvLayout& l = spec.caches[0];
  l.cache = 0;
  l.layer = 2;
  l.name = "layers.2.self_attn";
  l.kind = "mla";
  l.n_kv_heads = 1;
  l.latent_dim = l.head_dim_v = 16;
  l.rotary_dim = 8;
  return spec;
}

ObservationPlan small_plan() {
  ObservationPlan plan = {2,
                          {"a", "b", "c"},
                          {segment(0, 1, 0, 0, 300), segment(1, 1, 1, 0, 5), segment(2, 1, 2, 0, 70),
                           segment(3, 2, 1, 0, 5), segment(3, 2, 2, 5, 70), segment(4, 2, 0, 0, 300)}};
  for (const size_t n : {300, 5, 70}) plan.kinds.emplace_back(n, token_kind(TokenRole::Text));
  for (size_t i = 0; i < 300; ++i)  // runs of 1, 2, 3, ... tokens
    plan.kinds[0][i] = token_kind(
        static_cast<size_t>(std::sqrt(8.0 * static_cast<double>(i) + 1)) % 4 ? TokenRole::User : TokenRole::Tool,
        i / 70);
  plan.kinds[2][69] = token_kind(TokenRole::Image);
  return plan;
}

std::vector<Batch> batches_of(const ObservationPlan& plan, const RunOptions& options) {
  std::vector<Segment> pieces;  // cut at multiples of the chunk
  for (const Segment& s : plan.segments)
    for (int64_t from = s.first_position, end = from + s.n_tokens; from < end;) {
      const int64_t to = std::min(end, (from / options.chunk + 1) * options.chunk);
      Segment piece = s;
      piece.prompt_offset += from - s.first_position;
      piece.first_position = from;
      piece.n_tokens = to - from;
      pieces.push_back(piece);
      from = to;
    }
  if (options.reversed) std::reverse(pieces.begin(), pieces.end());
  std::vector<Batch> batches;
  for (Segment piece : pieces) {
    if (batches.empty() || batches.back().n_tokens() + piece.n_tokens > options.chunk) batches.emplace_back();
    Batch& batch = batches.back();
    piece.row = batch.n_tokens();
    batch.segments.push_back(piece);
    batch.ids.resize(batch.ids.size() + static_cast<size_t>(piece.n_tokens));
  }
  return batches;
}

Storage tensor_of(const ModelSpec& spec, int cache, CacheSite site, const Batch& batch, const Values& values,
                  DType dtype) {
  const KvLayout& layout = spec.caches[static_cast<size_t>(cache)];
  const int64_t heads = heads_of(layout, site), width = width_of(layout, site);
  Storage storage({batch.n_tokens(), heads, width}, dtype);
  for (const Segment& s : batch.segments)
    for (int64_t t = 0; t < s.n_tokens; ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t c = 0; c < width; ++c) {
          const float x = values({cache, site, s.sequence, s.first_position + t, h, c});
          const int64_t at = ((s.row + t) * heads + h) * width + c;
          if (dtype == DType::F32)
            storage.tensor().as<float>()[at] = x;
          else
            storage.tensor().as<bf16>()[at] = to_bf16(x);
        }
  return storage;
}

Storage rows_of(const ModelSpec& spec, int cache, const Batch& batch, const Values& values, DType dtype) {
  const KvLayout& layout = spec.caches[static_cast<size_t>(cache)];
  Storage rows({batch.n_tokens(), 1, layout.head_dim_k}, dtype);
  int64_t from = 0;
  for (const CacheSite part : {CacheSite::Latent, CacheSite::Rope}) {
    const Storage tensor = tensor_of(spec, cache, part, batch, values, dtype);
    const auto width = static_cast<size_t>(width_of(layout, part)) * size_of(dtype);
    for (int64_t t = 0; t < batch.n_tokens(); ++t)
      std::memcpy(static_cast<std::byte*>(rows.tensor().rows(t, 1).data) + static_cast<size_t>(from) * size_of(dtype),
                  tensor.tensor().rows(t, 1).data, width);
    from += width_of(layout, part);
  }
  return rows;
}

void show(Observer& observer, const ModelSpec& spec, int cache, const Batch& batch, const Values& values, DType dtype) {
  const auto tensor = [&](CacheSite site) { return tensor_of(spec, cache, site, batch, values, dtype); };
  const Storage q = tensor(CacheSite::Query);
  if (spec.caches[static_cast<size_t>(cache)].is_mla()) {
    const Storage rows = rows_of(spec, cache, batch, values, dtype);
    EXPECT_EQ(observer.latent(cache, rows.tensor(), batch).data, rows.tensor().data);
    EXPECT_EQ(observer.query(cache, q.tensor(), batch).data, q.tensor().data);
    return;
  }
  const Storage k = tensor(CacheSite::Key), v = tensor(CacheSite::Value);
  EXPECT_EQ(observer.key(cache, k.tensor(), batch).data, k.tensor().data);
  EXPECT_EQ(observer.value(cache, v.tensor(), batch).data, v.tensor().data);
  EXPECT_EQ(observer.query(cache, q.tensor(), batch).data, q.tensor().data);
}

Statistics observe_run(const ModelSpec& spec, const ObservationPlan& plan, const Values& values,
                       const RunOptions& options) {
  ThreadPool pool(options.threads);
  Observer observer(spec, plan, pool);
  for (const KvLayout& layout : spec.caches) {
    for (const Batch& batch : batches_of(plan, options))
      show(observer, spec, layout.cache, batch, values, options.dtype);
    observer.layer_done(layout.layer);
  }
  return observer.take(small_record());
}

RunRecord small_record() {
  RunRecord run;
  ModelInfo& model = run.model.emplace();
  model.architecture = "TestForCausalLM";
  model.n_layers = 4;
  run.layers_without_kv = {{0, "gated_delta_net", std::nullopt}};
  CalibrationInfo& calibration = run.calibration.emplace();
  calibration.n_prompts = 3;
  calibration.further["share"] = 0.1;  // of a later version
  run.plan_sha256 = std::string(64, '7');
  return run;
}

ObservationPlan part_of(ObservationPlan plan, const std::vector<int64_t>& sequences) {
  std::erase_if(plan.segments, [&](const Segment& s) {
    return std::find(sequences.begin(), sequences.end(), s.sequence) == sequences.end();
  });
  return plan;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TemporaryPath::TemporaryPath()
    : path_(std::filesystem::path(testing::TempDir()) / ("stats_test_" + std::to_string(::getpid()) + ".kvstats")) {
  std::filesystem::remove(path_);
}

TemporaryPath::~TemporaryPath() { std::filesystem::remove(path_); }

std::string without_path(const std::string& message, const std::filesystem::path& path) {
  const std::string prefix = quoted(path.string()) + ": ";
  EXPECT_EQ(message.find(prefix), 0U) << message;
  return message.substr(std::min(prefix.size(), message.size()));
}

std::string sealed_again(std::string bytes) {
  constexpr size_t kDigits = 64;
  const std::string key = "\"kvcal_sha256\":\"";
  const size_t at = bytes.find(key) + key.size();
  bytes.replace(at, kDigits, kDigits, '0');
  return bytes.replace(at, kDigits, sha256_hex(bytes));
}

std::string file_bytes(const Statistics& statistics) {
  const std::filesystem::path path =
      std::filesystem::path(testing::TempDir()) / ("stats_bytes_" + std::to_string(::getpid()) + ".kvstats");
  write_statistics(path, statistics, Existing::Replace);
  std::string bytes = read_file(path, size_t{1} << 30);
  std::filesystem::remove(path);
  return bytes;
}

}  // namespace kvcal::stats_test
