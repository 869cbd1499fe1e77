// What the checks of the op contract are made of: each requirement with its message.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/ops.h"

namespace kvcal {

/// Precedes every message with the op's name.
class OpCheck {
 public:
  OpCheck(const char* op, DType activation) : op_(op), activation_(activation) {}

  void require(bool ok, const std::string& message) const {
    if (!ok) fail(std::string(op_) + ": " + message);
  }

  void activation(const char* name, const Tensor& t) const {
    require(t.dtype == activation_,
            std::string(name) + " " + str(t) + " is not of the activation dtype " + std::string(name_of(activation_)));
    require(t.shape.rank() >= 1, std::string(name) + " " + str(t) + " has no rows");
  }

  void rank(const char* name, const Tensor& t, int rank) const {
    require(t.shape.rank() == rank, std::string(name) + " " + str(t) + " should have rank " + std::to_string(rank));
  }

  void same_shape(const char* a_name, const Tensor& a, const char* b_name, const Tensor& b) const {
    require(a.shape == b.shape,
            std::string(a_name) + " " + str(a) + " and " + b_name + " " + str(b) + " differ in shape");
  }

  /// y has the shape of x, or one column for each of its rows.
  void same_shape_or_column(const char* y_name, const Tensor& y, const char* x_name, const Tensor& x) const {
    bool column = y.shape.rank() == x.shape.rank() && y.dim(-1) == 1;
    for (int i = 0; column && i + 1 < x.shape.rank(); ++i) column = y.dim(i) == x.dim(i);
    require(column || y.shape == x.shape, std::string(y_name) + " " + str(y) + " has neither the shape of " + x_name +
                                              " " + str(x) + " nor one column for each of its rows");
  }

  /// v is a vector with one value for each column of x.
  void fits_columns(const char* v_name, const Tensor& v, const char* x_name, const Tensor& x) const {
    require(v.shape.rank() == 1 && v.dim(0) == x.dim(-1),
            std::string(v_name) + " " + str(v) + " does not fit rows of " + x_name + " " + str(x));
  }

  void f32(const char* name, const Tensor& t) const {
    require(t.dtype == DType::F32, std::string(name) + " " + str(t) + " should be F32");
  }

  void real(const char* name, const Tensor& t) const {
    const bool ok = t.dtype == DType::F32 || t.dtype == DType::BF16 || t.dtype == DType::F16 || t.dtype == DType::F64;
    require(ok, std::string(name) + " " + str(t) + " should be F32, BF16, F16 or F64");
  }

  void host(const char* name, const Tensor& t) const {
    require(t.device == Device::Host, std::string(name) + " " + str(t) + " should be in host memory");
  }

  void off_device(const char* name, const Tensor& t) const {
    require(t.device != Device::Cuda, std::string(name) + " " + str(t) + " should be in host memory, or as stored");
  }

  void linear(const HostLinear& w) const {
    rank("weight", w.weight, 2);
    real("weight", w.weight);
    off_device("weight", w.weight);
    require(w.weight.elements() > 0, "weight " + str(w.weight) + " is empty");
    if (!w.bias) return;
    real("bias", w.bias);
    host("bias", w.bias);
    require(w.bias.shape.rank() == 1 && w.bias.dim(0) == w.weight.dim(0),
            "bias " + str(w.bias) + " does not fit weight " + str(w.weight));
  }

  void input_of(const Tensor& x, const Linear& w, bool f32_result) const {
    activation("x", x);
    require(static_cast<bool>(w), "the weight is not loaded");
    require(w.f32_result == f32_result, "the weight was not loaded for this op");
    require(x.dim(-1) == w.in,
            "x " + str(x) + " does not fit weight " + str(Shape{w.out, w.in}) + " (output, input width)");
  }

  void gain(const Tensor& gain, const char* x_name, const Tensor& x) const {
    require(gain.dtype == DType::F32 || gain.dtype == DType::BF16, "gain " + str(gain) + " should be F32 or BF16");
    fits_columns("gain", gain, x_name, x);
  }

  /// q [tokens, n_heads, head_dim]
  void attention(const Tensor& q, const AttentionSpec& spec) const {
    require(spec.window >= 0, "window " + std::to_string(spec.window));
    require(spec.chunk >= 0, "chunk " + std::to_string(spec.chunk));
    require(spec.softcap >= 0.0f, "softcap " + std::to_string(spec.softcap));
    require(spec.probabilities.factor >= 0.0f, "factor " + std::to_string(spec.probabilities.factor));
    require(spec.chunk == 0 || spec.last_keys.empty(), "chunks together with last keys");
    if (spec.sinks) state("sinks", spec.sinks, {q.dim(1)}, DType::F32);
  }

  /// For n_kv_heads heads of keys, up to the last position of the spans.
  void picked(const AttentionSpec& spec, const Tensor& q, int64_t n_kv_heads, std::span<const Span> spans) const {
    const Tensor& picked = spec.picked;
    require(spec.picks.empty() || (picked && spec.picks.size() == spans.size()),
            "picks of " + std::to_string(spec.picks.size()) + " spans, expected " + std::to_string(spans.size()) +
                " beside what is picked");
    if (!picked) return;
    require(picked.dtype == DType::I64 && picked.shape.rank() == 3 && picked.dim(0) == q.dim(0) && picked.dim(1) > 0 &&
                n_kv_heads % picked.dim(1) == 0,
            "picked " + str(picked) + " does not fit q " + str(q) + " and " + std::to_string(n_kv_heads) +
                " heads of keys");
    for (const Span& s : spans)
      require(
          s.n_tokens == 0 || picked.dim(2) * kPickBits >= s.first_position + s.n_tokens,
          "picked " + str(picked) + " has no bits for position " + std::to_string(s.first_position + s.n_tokens - 1));
  }

  /// Of spans that cover the rows of q.
  void last_keys(const Tensor& q, std::span<const Span> spans, std::span<const int32_t> last) const {
    if (last.empty()) return;
    require(static_cast<int64_t>(last.size()) == q.dim(0), std::to_string(last.size()) + " last keys for q " + str(q));
    for (const Span& s : spans) {
      int64_t least = s.first_position;
      for (int64_t t = 0; t < s.n_tokens; ++t) {
        const int64_t at = last[static_cast<size_t>(s.row + t)];
        least = std::max(least, s.first_position + t);
        require(at >= least && at < s.first_position + s.n_tokens,
                "the last key of row " + std::to_string(s.row + t) + " is " + std::to_string(at) + ", expected " +
                    std::to_string(least) + " to " + std::to_string(s.first_position + s.n_tokens - 1) +
                    " (from its own position and that of the row before to the end of its span)");
        least = at;
      }
    }
  }

  /// x [tokens, heads, head_dim]
  void rope_table(const Tensor& table, const RopeSpec& spec, const char* x_name, const Tensor& x) const {
    activation("table", table);
    require(table.shape == Shape{x.dim(0), 2, spec.rotary_dim / 2} && spec.rotary_dim <= x.dim(2),
            "table " + str(table) + " with rotary dimension " + std::to_string(spec.rotary_dim) + " does not fit " +
                x_name + " " + str(x));
  }

  /// Each row of x belongs to exactly one span; a span that continues a sequence has its state. carried[i]: whether the
  /// state of spans[i] holds earlier tokens.
  void spans(const Tensor& x, std::span<const Span> spans, size_t n_states) const {
    require(spans.size() == n_states,
            std::to_string(spans.size()) + " spans, but " + std::to_string(n_states) + " states");
    std::vector<Span> sorted(spans.begin(), spans.end());
    std::sort(sorted.begin(), sorted.end(),
              [](const Span& a, const Span& b) { return a.row != b.row ? a.row < b.row : a.n_tokens < b.n_tokens; });
    int64_t next = 0;
    for (const Span& s : sorted) {
      require(s.row == next && s.n_tokens >= 0 && s.first_position >= 0,
              "a span of rows " + std::to_string(s.row) + " to " + std::to_string(s.row + s.n_tokens) +
                  " at position " + std::to_string(s.first_position) + ", expected one from row " +
                  std::to_string(next) + " (rows of " + str(x) + " must be covered once)");
      next += s.n_tokens;
    }
    require(next == x.dim(0), "the spans cover " + std::to_string(next) + " rows of " + str(x));
  }

  /// No sequence may be advanced twice in one call.
  template <class State>
  void distinct(std::span<State* const> states) const {
    std::vector<const State*> sorted(states.begin(), states.end());
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 1; i < sorted.size(); ++i)
      require(sorted[i] == nullptr || sorted[i] != sorted[i - 1], "two spans share one state");
  }

  /// All are stored alike; none is missing where that rounds.
  template <class State>
  void stored_alike(std::span<State* const> states) const {
    const StateFormat stored = format_of(states);
    require(stored.chunk >= 0, "a state is stored after every " + std::to_string(stored.chunk) + " tokens");
    for (const State* s : states)
      require((s ? s->stored : StateFormat{}) == stored, "states of one call are stored in different formats");
  }

  void fresh(bool has_state, const Span& span) const {
    require(has_state || span.first_position == 0, "a span starts at position " + std::to_string(span.first_position) +
                                                       ", but nothing was kept of what precedes");
  }

  /// A span that continues a sequence begins where what is kept of it ends.
  void follows(const KvRows& kept, const Span& span) const {
    require(kept.n_tokens == span.first_position, "a span starts at position " + std::to_string(span.first_position) +
                                                      ", but " + std::to_string(kept.n_tokens) +
                                                      " rows of its sequence are kept");
  }

  void state(const char* name, const Tensor& t, const Shape& shape, DType dtype) const {
    require(t.shape == shape && t.dtype == dtype,
            std::string(name) + " " + str(t) + " should be " + std::string(name_of(dtype)) + " " + str(shape));
  }

 private:
  const char* op_;
  DType activation_;
};

}  // namespace kvcal
