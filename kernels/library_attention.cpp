#include "kernels/library_attention.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "kernels/cuda_backend.h"

namespace kvcal::cuda {
namespace {

constexpr int64_t kFewest = 64;           // tokens of a sequence below which the own kernel does it
constexpr int64_t kMostSequences = 64;    // of a call
constexpr int64_t kComparedRows = 4096;   // of a plan's first result
constexpr double kMostDifference = 1e-2;  // relative RMS; roundings of two correct results give 0.2 to 0.4 %
constexpr uintptr_t kAlignment = 16;

int64_t power_of_two_from(int64_t n) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(n, kFewest))));
}

bool aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % kAlignment == 0; }

/// Whether the keys of the span are rows of the batch.
bool begins(const AttentionSpan& s, const AttentionShape& shape) { return s.first_position == 0 && !shape.kept; }

/// Of a row it depends on its sequence alone who does it: a sequence that prefill has cut gives the bytes of a whole
/// one. Pieces begin where prefill cuts, unless a sequence looks ahead; spans that begin elsewhere are a row or few,
/// decoded.
bool is_for_library(const AttentionSpan& s) {
  const bool is_piece = s.first_position > 0 && s.first_position % kChunkAlignment == 0;
  return !s.looks_ahead && !s.picks && (is_piece || s.n_tokens >= kFewest);
}

/// How many spans from `first` on lie one behind the other and begin here.
size_t run_of(std::span<const AttentionSpan> spans, size_t first, const AttentionShape& shape) {
  size_t n = 1;
  while (first + n < spans.size()) {
    const AttentionSpan &last = spans[first + n - 1], &next = spans[first + n];
    if (!begins(next, shape) || !is_for_library(next) || next.row != last.row + last.n_tokens) break;
    ++n;
  }
  return n;
}

AttentionPlan plan_of(std::span<const AttentionSpan> spans, const AttentionShape& s) {
  int64_t queries = 0, keys = 0;
  for (const AttentionSpan& span : spans) {
    queries = std::max(queries, span.n_tokens);
    keys = std::max(keys, span.first_position + span.n_tokens);
  }
  return {static_cast<int64_t>(spans.size()),
          power_of_two_from(queries),
          power_of_two_from(keys),
          s.n_heads,
          s.n_kv_heads,
          s.key_dim,
          s.value_dim,
          s.window,
          s.scale,
          !begins(spans[0], s)};
}

/// Where in a group's tables what lies: two arrays of int32 counts, then four of n + 1 offsets.
size_t counts_size(int64_t n) { return static_cast<size_t>((n + 1) / 2); }
size_t offsets_at(int64_t n, size_t which) { return 2 * counts_size(n) + which * static_cast<size_t>(n + 1); }

}  // namespace

bool for_library(DType dtype, const AttentionShape& s) {
  const bool equal = s.key_dim == s.value_dim && s.key_dim <= 256, mla = s.key_dim == 192 && s.value_dim == 128;
  return dtype == DType::BF16 && s.key_dim % 8 == 0 && (equal || mla);
}

std::vector<AttentionGroup> attention_groups(std::span<const AttentionSpan> spans, const AttentionShape& shape) {
  std::vector<AttentionGroup> groups;
  const auto add = [&](size_t first, size_t n) { groups.push_back({plan_of(spans.subspan(first, n), shape), first}); };
  for (size_t i = 0; i < spans.size();) {
    if (!is_for_library(spans[i])) {
      ++i;
    } else if (!begins(spans[i], shape)) {
      add(i++, 1);
    } else {
      for (size_t left = run_of(spans, i, shape); left > 0;) {
        const size_t n = std::min<size_t>(std::bit_floor(left), kMostSequences);
        add(i, n);
        i += n;
        left -= n;
      }
    }
  }
  return groups;
}

AttentionTables attention_tables(std::span<const AttentionGroup> groups, std::span<const AttentionSpan> spans,
                                 const AttentionShape& s) {
  AttentionTables tables;
  for (const AttentionGroup& g : groups) {
    const int64_t n = g.plan.n_sequences;
    tables.begin.push_back(tables.values.size());
    tables.values.resize(tables.values.size() + offsets_at(n, 4));
    int64_t* at = tables.values.data() + tables.begin.back();
    auto* counts = reinterpret_cast<int32_t*>(at);
    const auto more_counts = static_cast<int64_t>(2 * counts_size(n));
    const int64_t widths[] = {s.n_heads * s.key_dim, s.n_kv_heads * s.key_dim, s.n_kv_heads * s.value_dim,
                              s.n_heads * s.value_dim};  // of q, k, v, y
    for (int64_t i = 0; i < n; ++i) {
      const AttentionSpan& span = spans[g.first + static_cast<size_t>(i)];
      counts[i] = static_cast<int32_t>(span.n_tokens);
      counts[more_counts + i] = static_cast<int32_t>(span.first_position + span.n_tokens);
      for (size_t which = 0; which < 4; ++which) {
        // Keys and values of a sequence that goes on begin at their own pointers.
        const bool kept = g.plan.continued && (which == 1 || which == 2);
        int64_t* offset = at + offsets_at(n, which) + i;
        offset[0] = (kept ? 0 : span.row) * widths[which];
        offset[1] = (kept ? counts[more_counts + i] : span.row + span.n_tokens) * widths[which];
      }
    }
  }
  return tables;
}

AttentionCall call_of(const AttentionPlan& plan, const int64_t* tables) {
  const int64_t n = plan.n_sequences;
  const auto offsets = [&](size_t which) { return tables + offsets_at(n, which); };
  AttentionCall call{};
  call.n_queries = reinterpret_cast<const int32_t*>(tables);
  call.n_keys = reinterpret_cast<const int32_t*>(tables + counts_size(n));
  call.q_offset = offsets(0);
  call.k_offset = offsets(1);
  call.v_offset = offsets(2);
  call.y_offset = offsets(3);
  return call;
}

std::string difference(const bf16* theirs, const bf16* ours, size_t n) {
  double error = 0.0, size = 0.0;
  for (size_t i = 0; i < n; ++i) {
    const double a = to_float(theirs[i]), b = to_float(ours[i]);
    if (std::isfinite(a) != std::isfinite(b))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + ", expected " + std::to_string(b);
    if (!std::isfinite(b)) continue;
    error += (a - b) * (a - b);
    size += b * b;
  }
  if (error <= kMostDifference * kMostDifference * size) return "";
  return "relative RMS difference " + std::to_string(std::sqrt(error / size)) + ", at most " +
         std::to_string(kMostDifference) + " is rounding";
}

// ---------------------------------------------------------------- the backend's part

/// Where there is no device to try a library on, its plans are tried where there is one: the first result of a plan is
/// compared with the own kernel's. That waits for the device, once a plan, and gives its memory back: the plan counts
/// no second result for each kind of call that a batch has.
bool CudaBackend::agrees(const AttentionGroup& group, std::span<const AttentionSpan> spans, const Tensor& q,
                         const Tensor& y, AttentionShape shape) {
  const DeviceArena::Position before = arena_.position();
  const Tensor own = activation(y.shape);
  shape.n_spans = group.plan.n_sequences;
  cuda::attention(q.dtype, data_of(q), own.data, device_copy(spans), shape, stream_.get());
  // The last rows of the group are those with a neighbour that is none of theirs.
  const AttentionSpan& last = spans.back();
  const int64_t end = last.row + last.n_tokens, n = std::min(kComparedRows, end - spans.front().row);
  const Storage theirs({n, y.dim(1)}, y.dtype), ours({n, y.dim(1)}, y.dtype);
  download(y.rows(end - n, n), theirs.tensor());
  download(own.rows(end - n, n), ours.tensor());
  arena_.release(before);
  const std::string how =
      difference(theirs.tensor().as<bf16>(), ours.tensor().as<bf16>(), static_cast<size_t>(theirs.tensor().elements()));
  if (!how.empty())
    notes_.push_back("attention: own kernels for " + str(group.plan) + ": the first result of " +
                     attention_->identity() + " is another: " + how);
  return how.empty();
}

/// The first call of a plan. What a library proposes may still fail when it runs: then the own kernels do it.
bool CudaBackend::passes_trial(const AttentionGroup& group, const AttentionCall& call,
                               std::span<const AttentionSpan> spans, const AttentionRows& rows,
                               const AttentionShape& shape) {
  try {
    if (!attention_->attend(group.plan, call, stream_.get())) return false;
  } catch (const Error& e) {
    static_cast<void>(cudaGetLastError());  // else the next launch of ours would be blamed
    notes_.push_back("attention: own kernels for " + str(group.plan) + ": the first call fails: " + e.what());
    return false;
  }
  return agrees(group, spans, rows.q, rows.y, shape);
}

std::vector<AttentionSpan> CudaBackend::attend_by_library(const AttentionRows& rows, std::vector<AttentionSpan> spans,
                                                          const AttentionShape& shape) {
  if (!attention_ || !for_library(rows.q.dtype, shape) || attention_->identity().empty()) return spans;
  const std::vector<AttentionGroup> groups = attention_groups(spans, shape);
  const AttentionTables tables = attention_tables(groups, spans, shape);
  const int64_t* on_device = groups.empty() ? nullptr : device_copy(tables.values);
  std::vector<bool> done(spans.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    const AttentionPlan& plan = groups[g].plan;
    const std::span<const AttentionSpan> its =
        std::span(spans).subspan(groups[g].first, static_cast<size_t>(plan.n_sequences));
    AttentionCall call = call_of(plan, on_device + tables.begin[g]);
    call.q = data_of(rows.q);
    call.k = plan.continued ? its[0].key : data_of(rows.k);
    call.v = plan.continued ? its[0].value : data_of(rows.v);
    call.y = rows.y.data;
    if (!aligned(call.q) || !aligned(call.k) || !aligned(call.v)) continue;
    const auto [known, is_new] = attention_plans_.try_emplace(plan, false);
    if (is_new)
      known->second = passes_trial(groups[g], call, its, rows, shape);
    else if (known->second)
      known->second = attention_->attend(plan, call, stream_.get());
    if (known->second) std::fill_n(done.begin() + static_cast<ptrdiff_t>(groups[g].first), its.size(), true);
  }
  std::vector<AttentionSpan> left;
  for (size_t i = 0; i < spans.size(); ++i)
    if (!done[i]) left.push_back(spans[i]);
  return left;
}

}  // namespace kvcal::cuda
