// Stands in for the library of attention where there is no GPU: does what its interface promises in the plainest way,
// and checks what it is given. Can be told to refuse, or to be wrong.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "kernels/attention_library.h"
#include "tensor/dtype.h"

namespace kvcal::test {

/// What a stand-in does, and what it was asked for; shared with the test.
struct StandInLog {
  enum class Fault : uint8_t { None, Refuses, Fails, Missing, WindowTooWide, DiagonalAtTheTop, LeavesLastRow } fault;
  std::vector<cuda::AttentionPlan> plans;  // of every call that was made
};

class StandInAttention final : public cuda::AttentionLibrary {
 public:
  using Fault = StandInLog::Fault;
  explicit StandInAttention(StandInLog& log) : log_(log) {}

  std::string identity() override { return log_.fault == Fault::Missing ? "" : "stand-in-1"; }

  bool attend(const cuda::AttentionPlan& p, const cuda::AttentionCall& c, cudaStream_t stream) override {
    if (log_.fault == Fault::Refuses) {
      notes_.push_back("refused: " + str(p));
      return false;
    }
    log_.plans.push_back(p);
    if (log_.fault == Fault::Fails) {
      emulator::leave_error(cudaErrorInvalidConfiguration);
      fail("the stand-in has a bad day");
    }
    emulator::enqueue(stream, [=, this] { attend_now(p, c); });
    return true;
  }

  const std::vector<std::string>& notes() const override { return notes_; }

 private:
  void attend_now(const cuda::AttentionPlan& p, const cuda::AttentionCall& c) const {
    for (int64_t i = 0; i < p.n_sequences; ++i) {
      const int64_t queries = c.n_queries[i], keys = c.n_keys[i];
      EXPECT_GT(queries, 0);
      EXPECT_LE(queries, p.most_queries);
      EXPECT_LE(keys, p.most_keys);
      EXPECT_TRUE(p.continued ? keys >= queries : keys == queries);
      expect_extent("q", c.q_offset + i, queries * p.n_heads * p.key_dim);
      expect_extent("k", c.k_offset + i, keys * p.n_kv_heads * p.key_dim);
      expect_extent("v", c.v_offset + i, keys * p.n_kv_heads * p.value_dim);
      expect_extent("y", c.y_offset + i, queries * p.n_heads * p.value_dim);
      sequence(p, static_cast<const bf16*>(c.q) + c.q_offset[i], static_cast<const bf16*>(c.k) + c.k_offset[i],
               static_cast<const bf16*>(c.v) + c.v_offset[i], static_cast<bf16*>(c.y) + c.y_offset[i], queries, keys);
    }
  }

  static void expect_extent(const char* what, const int64_t* offset, int64_t n) {
    EXPECT_EQ(offset[1] - offset[0], n) << what;
    EXPECT_EQ(offset[0] % 8, 0) << what << " is not aligned";
  }

  void sequence(const cuda::AttentionPlan& p, const bf16* q, const bf16* k, const bf16* v, bf16* y, int64_t queries,
                int64_t keys) const {
    const int64_t rows = log_.fault == Fault::LeavesLastRow ? queries - 1 : queries;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t h = 0; h < p.n_heads; ++h) head(p, q, k, v, y, i, h, keys - queries);
  }

  void head(const cuda::AttentionPlan& p, const bf16* q, const bf16* k, const bf16* v, bf16* y, int64_t i, int64_t h,
            int64_t earlier) const {
    const int64_t last = i + (p.continued && log_.fault != Fault::DiagonalAtTheTop ? earlier : 0);
    const int64_t window = p.window > 0 && log_.fault == Fault::WindowTooWide ? p.window + 1 : p.window;
    const int64_t first = window > 0 ? std::max<int64_t>(0, last - window + 1) : 0;
    const int64_t g = h / (p.n_heads / p.n_kv_heads);
    std::vector<double> weights;
    double total = 0.0, top = -INFINITY;
    for (int64_t j = first; j <= last; ++j) {
      double dot = 0.0;
      for (int64_t d = 0; d < p.key_dim; ++d)
        dot += double{to_float(q[(i * p.n_heads + h) * p.key_dim + d])} *
               to_float(k[(j * p.n_kv_heads + g) * p.key_dim + d]);
      weights.push_back(dot * p.scale);
      top = std::max(top, weights.back());
    }
    for (double& w : weights) total += w = std::exp(w - top);
    for (int64_t d = 0; d < p.value_dim; ++d) {
      double sum = 0.0;
      for (int64_t j = first; j <= last; ++j)
        sum += weights[static_cast<size_t>(j - first)] * to_float(v[(j * p.n_kv_heads + g) * p.value_dim + d]);
      y[(i * p.n_heads + h) * p.value_dim + d] = to_bf16(static_cast<float>(sum / total));
    }
  }

  StandInLog& log_;
  std::vector<std::string> notes_;
};

}  // namespace kvcal::test
