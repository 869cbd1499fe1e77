// A tap that keeps everything it sees, by sequence, cache and site.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "model/kv_tap.h"

namespace kvcal {

enum class Site : uint8_t { Query, Key, Value, Latent };

/// Queries of the n-th layer that shares the cache.
inline Site query_of_reader(int n) { return static_cast<Site>(static_cast<int>(Site::Latent) + n); }

/// Rows of one site in position order, as stored bytes and as floats.
struct Recorded {
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [tokens, heads, head_dim]
  int64_t n_tokens = 0;
};

class RecordingTap final : public KvTap {
 public:
  using Key = std::tuple<int64_t, int, Site>;  // sequence, cache, site

  Tensor query(int cache, const Tensor& q, const Batch& b) override { return record(cache, Site::Query, q, b); }
  Tensor key(int cache, const Tensor& k, const Batch& b) override { return record(cache, Site::Key, k, b); }
  Tensor value(int cache, const Tensor& v, const Batch& b) override { return record(cache, Site::Value, v, b); }
  Tensor latent(int cache, const Tensor& x, const Batch& b) override { return record(cache, Site::Latent, x, b); }
  void layer_done(int layer) override { layers_done.push_back(layer); }

  std::map<Key, Recorded> seen;
  std::vector<int> layers_done;

 private:
  /// Layers that share a cache bring queries of their own: the first layer in order that has not come this far.
  Recorded& query_at(const SequenceSpan& s, int cache) {
    Recorded* r = &seen[{s.sequence, cache, Site::Query}];
    for (int reader = 1; r->n_tokens != s.span.first_position && r->n_tokens > 0; ++reader)
      r = &seen[{s.sequence, cache, query_of_reader(reader)}];
    return *r;
  }

  Tensor record(int cache, Site site, const Tensor& t, const Batch& batch) {
    const size_t row = t.bytes() / static_cast<size_t>(t.dim(0));
    const size_t n = static_cast<size_t>(t.elements() / t.dim(0));
    for (const SequenceSpan& s : batch.sequences) {
      Recorded& r = site == Site::Query ? query_at(s, cache) : seen[{s.sequence, cache, site}];
      if (r.n_tokens != s.span.first_position) throw std::logic_error("the tap missed or repeated tokens");
      const auto* from = static_cast<const std::byte*>(t.data) + static_cast<size_t>(s.span.row) * row;
      const size_t count = static_cast<size_t>(s.span.n_tokens);
      r.bytes.insert(r.bytes.end(), from, from + count * row);
      std::vector<float> values(count * n);
      convert_to_float(t.dtype, from, values.data(), values.size());
      r.values.insert(r.values.end(), values.begin(), values.end());
      r.n_tokens += s.span.n_tokens;
    }
    return t;
  }
};

}  // namespace kvcal
