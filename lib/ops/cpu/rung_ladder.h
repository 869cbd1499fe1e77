// Roundings of a block of 64 keys or values at the rungs of a ladder, and which of them agree.
//
// Most do: in E4M3 a block whose values are neither clipped nor subnormal is rounded alike at all rungs. What agrees is
// decided from the block alone, not from the rows that meet it, so that a row's figures depend on its own sequence
// only.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/attention_products.h"
#include "ops/cpu/math.h"
#include "ops/ops.h"

namespace kvcal::cpu {

inline F32x8 magnitude(F32x8 x) { return std::bit_cast<F32x8>(std::bit_cast<U32x8>(x) & 0x7FFFFFFFu); }

/// scale · E4M3(x / scale), saturating; the scale is a power of two.
inline F32x8 through_e4m3(F32x8 x, float scale, float inverse) {
  constexpr float kMax = 448.0f, kSteps = 0x1.8p14f;  // whose last bit is 2^-9, the subnormals' step
  const F32x8 y = x * inverse, size = magnitude(y);
  const U32x8 bits = std::bit_cast<U32x8>(size);
  const F32x8 normal = std::bit_cast<F32x8>((bits + 0x7FFFFu + ((bits >> 20) & 1u)) & ~0xFFFFFu);
  F32x8 r = size < 0x1p-6f ? (size + kSteps) - kSteps : normal;
  r = r > kMax ? splat(kMax) : r;
  const U32x8 sign = std::bit_cast<U32x8>(y) & 0x80000000u;
  return std::bit_cast<F32x8>(std::bit_cast<U32x8>(r) | sign) * scale;
}

/// The same of -127 .. 127.
inline F32x8 through_int8(F32x8 x, float scale, float inverse) {
  constexpr float kMax = 127.0f, kWhole = 0x1.8p23f;
  F32x8 y = x * inverse;
  y = y > kMax ? splat(kMax) : y;
  y = y < -kMax ? splat(-kMax) : y;
  return ((y + kWhole) - kWhole) * scale;
}

/// n values, a multiple of 8.
inline void round_values(const float* from, float* to, int64_t n, int rung, SampleFormat format) {
  const float scale = scale_of_rung(rung), inverse = 1.0f / scale;
  if (format == SampleFormat::E4m3)
    for (int64_t c = 0; c < n; c += kLanes) store8(to + c, through_e4m3(load8(from + c), scale, inverse));
  else
    for (int64_t c = 0; c < n; c += kLanes) store8(to + c, through_int8(load8(from + c), scale, inverse));
}

/// 64 rows of one head, widened; rows beyond `n` and columns beyond `width` are zeros.
struct Rows64 {
  float* data;  // [kKeys, stride]
  int64_t stride, width, n;
  float* row(int64_t j) const { return data + j * stride; }
};

inline float absmax_of(const Rows64& x) {
  F32x8 top{};
  for (int64_t j = 0; j < x.n; ++j)
    for (int64_t c = 0; c < x.width; c += kLanes) top = larger(magnitude(load8(x.row(j) + c)), top);
  return largest(top);
}

inline void round_rows(const Rows64& x, int rung, SampleFormat format, const Rows64& to) {
  const int64_t n = (x.width + kLanes - 1) / kLanes * kLanes;
  for (int64_t j = 0; j < kKeys; ++j) round_values(x.row(j), to.row(j), n, rung, format);
}

/// Whether two roundings of a block may stand for each other: in each channel and each token at most one value in 16
/// differs by more than 1/32 of itself (the largest rounding error is 1/16), and none of those by more than 1/64 of the
/// largest value of its channel and of its token. So small tokens and small channels count as much as large ones.
class Agreement {
 public:
  explicit Agreement(int64_t width) : channel_(static_cast<size_t>(row_stride(width))), counts_(channel_.size()) {}

  /// Once for a block; x stays.
  void measure(const Rows64& x) {
    x_ = &x;
    std::fill(channel_.begin(), channel_.end(), 0.0f);
    for (int64_t j = 0; j < x.n; ++j) {
      F32x8 top{};
      for (int64_t c = 0; c < x.width; c += kLanes) {
        const F32x8 size = magnitude(load8(x.row(j) + c));
        top = larger(size, top);
        store8(channel_.data() + c, larger(size, load8(channel_.data() + c)));
      }
      token_[j] = largest(top);
    }
  }

  /// Whether E4M3 at a rung above the lowest that clips nothing can be seen to agree with that one, without rounding:
  /// what is normal at both is rounded alike, and what is not moves by less than 2^-9 of the scale.
  bool surely(int rung) {
    const float scale = scale_of_rung(rung);
    const F32x8 normal = splat(scale * 0x1p-6f), least = splat(scale * 0x1p-3f);
    std::fill(counts_.begin(), counts_.end(), 0.0f);
    for (int64_t c = 0; c < x_->width; ++c)
      if (channel_[static_cast<size_t>(c)] < least[0]) return false;
    for (int64_t j = 0; j < x_->n; ++j) {
      if (token_[j] < least[0]) return false;
      F32x8 n{};
      for (int64_t c = 0; c < x_->width; c += kLanes) {
        const F32x8 small = magnitude(load8(x_->row(j) + c)) < normal ? splat(1.0f) : F32x8{};
        n += small;
        store8(counts_.data() + c, load8(counts_.data() + c) + small);
      }
      // Zeros beyond the width count as well, which errs on the safe side.
      if (sum(n) > kMostDiffering * static_cast<float>(x_->width)) return false;
    }
    return few_in_each_channel();
  }

  /// Of two roundings of the block.
  bool agrees(const Rows64& a, const Rows64& b) {
    const Rows64& x = *x_;
    std::fill(counts_.begin(), counts_.end(), 0.0f);
    constexpr float kOwn = 0x1p-5f, kShare = 0x1p-6f;
    for (int64_t j = 0; j < x.n; ++j) {
      F32x8 n{}, large{};
      const F32x8 token = splat(token_[j] * kShare);
      for (int64_t c = 0; c < x.width; c += kLanes) {
        const F32x8 change = magnitude(load8(a.row(j) + c) - load8(b.row(j) + c));
        const F32x8 channel = load8(channel_.data() + c) * kShare, least = channel < token ? channel : token;
        const F32x8 differs = change > magnitude(load8(x.row(j) + c)) * kOwn ? splat(1.0f) : F32x8{};
        n += differs;
        large += change > least ? differs : F32x8{};
        store8(counts_.data() + c, load8(counts_.data() + c) + differs);
      }
      if (sum(large) > 0 || sum(n) > kMostDiffering * static_cast<float>(x.width)) return false;
    }
    return few_in_each_channel();
  }

 private:
  static constexpr float kMostDiffering = 1.0f / 16;

  bool few_in_each_channel() const {
    const float most = kMostDiffering * static_cast<float>(x_->n);
    return std::all_of(counts_.begin(), counts_.begin() + x_->width, [&](float count) { return count <= most; });
  }

  const Rows64* x_ = nullptr;
  std::vector<float> channel_, counts_;
  float token_[kKeys] = {};
};

/// The roundings of a block that differ, and which of them stands for each rung.
class Ladder {
 public:
  Ladder(int64_t width, int64_t stride, std::vector<int> rungs, const SampleRequest& request, Arena& scratch)
      : rungs_(std::move(rungs)),
        share_(request.shares_rungs),
        format_(request.format),
        agreement_(width),
        of_rung_(rungs_.size()) {
    const size_t most = rungs_.size() + 1;
    for (size_t i = 0; i < most; ++i) {
      float* data = scratch.allocate({kKeys * stride}, DType::F32).as<float>();
      std::fill_n(data, kKeys * stride, 0.0f);
      buffers_.push_back({data, stride, width, kKeys});
    }
  }

  void round(const Rows64& x) {
    n_used_ = 0;
    int surely = kMostRung + 1;  // rungs above the base and below this one agree with it
    if (share_) {
      agreement_.measure(x);
      add(x, lowest_rung(absmax_of(x), format_));
      surely = first_unsure();
    }
    for (size_t i = 0; i < rungs_.size(); ++i) {
      if (share_ && rungs_[i] >= base_ && rungs_[i] < surely) {
        of_rung_[i] = 0;
        continue;
      }
      const size_t slot = n_used_;
      add(x, rungs_[i]);
      const bool shared = share_ && agreement_.agrees(buffers_[slot], buffers_[0]);
      if (shared) --n_used_;
      of_rung_[i] = shared ? 0 : slot;
    }
    needed_.assign(n_used_, false);
    for (const size_t slot : of_rung_) needed_[slot] = true;
  }

  const std::vector<int>& rungs() const { return rungs_; }
  size_t n_different() const { return n_used_; }
  bool needed(size_t i) const { return needed_[i]; }
  const Rows64& different(size_t i) const { return buffers_[i]; }
  size_t of_rung(size_t i) const { return of_rung_[i]; }

 private:
  /// Base and all rungs above it and below this one surely agree: what is normal at a rung is so at those below it.
  int first_unsure() {
    if (format_ == SampleFormat::E4m3 && base_ < kMostRung)  // else the base may clip
      for (size_t i = rungs_.size(); i-- > 0 && rungs_[i] > base_;)
        if (agreement_.surely(rungs_[i])) return rungs_[i] + 1;
    return base_ + 1;
  }

  void add(const Rows64& x, int rung) {
    if (n_used_ == 0) base_ = rung;
    round_rows(x, rung, format_, buffers_[n_used_++]);
  }

  std::vector<int> rungs_;
  bool share_;
  SampleFormat format_;
  Agreement agreement_;
  std::vector<Rows64> buffers_;
  std::vector<size_t> of_rung_;
  std::vector<bool> needed_;
  size_t n_used_ = 0;
  int base_ = 0;
};

/// Which rungs of a ladder have rounded every block alike so far: a class of them has the same sums, kept once.
class AlikeSoFar {
 public:
  explicit AlikeSoFar(size_t n_rungs) : class_(n_rungs, 0) {}

  /// With the next block. copy(from, to): sums of the class `to`, which is new, begin as those of `from`.
  template <class Copy>
  void refine(const Ladder& ladder, Copy copy) {
    std::vector<size_t> before = class_;
    for (size_t rung = 0; rung < class_.size(); ++rung) {
      size_t same = 0;  // the first rung of this class that was rounded alike now
      while (before[same] != before[rung] || ladder.of_rung(same) != ladder.of_rung(rung)) ++same;
      if (same < rung) {
        class_[rung] = class_[same];
      } else if (first_[before[rung]] != rung) {
        class_[rung] = first_.size();
        first_.push_back(rung);
        copy(before[rung], class_[rung]);
      }
    }
  }

  size_t size() const { return first_.size(); }
  size_t of(size_t rung) const { return class_[rung]; }
  size_t rung(size_t of_class) const { return first_[of_class]; }  // its first

 private:
  std::vector<size_t> class_, first_{0};
};

}  // namespace kvcal::cpu
