// What the CUDA backend gives to a library of attention, in which calls, and that it keeps what the library cannot do
// or does wrongly.
#include "kernels/library_attention.h"

#include "harness/stand_in_attention.h"
#include "harness/uploading_ops.h"
#include "kernels/cuda_ops.h"
#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

using Fault = StandInLog::Fault;

struct Dims {
  int64_t n_heads = 2, n_kv_heads = 1, key_dim = 16, value_dim = 16, window = 0, chunk = 0;
};

/// Attention over the spans by a backend with this stand-in, and by one without a library.
class Both {
 public:
  explicit Both(Fault fault, Precision precision = Precision::BF16) : log{fault, {}} {
    with_ = make_cuda_ops({precision, 0, true}, std::make_unique<StandInAttention>(log));
    without_ = make_cuda_ops({precision, 0, true});
  }

  /// states: kept rows of spans that go on in a later call; null for the others.
  void expect_equal(const std::vector<Span>& spans, const Dims& d, std::vector<KvRows*> states = {},
                    std::vector<KvRows*> other_states = {}) {
    const int64_t tokens = spans.back().row + spans.back().n_tokens;
    const DType t = with_->activation_dtype();
    seed_ += 3;
    const Values q = random_values({tokens, d.n_heads, d.key_dim}, t, seed_),
                 k = random_values({tokens, d.n_kv_heads, d.key_dim}, t, seed_ + 1),
                 v = random_values({tokens, d.n_kv_heads, d.value_dim}, t, seed_ + 2);
    states.resize(spans.size());
    other_states.resize(spans.size());
    const auto run = [&](Ops& op, std::vector<KvRows*>& kept) {
      UploadingOps up(op);
      return read(up.attention(q, k, v, spans, kept, {0.15f, d.window, 0.0f, {}, d.chunk, last_keys}));
    };
    // Two results in bf16, each with probabilities rounded to bf16.
    expect_close("attention", run(*with_, states), run(*without_, other_states), {0x1p-7, 4e-3});
    with_->end_batch();
    without_->end_batch();
  }

  /// Of other queries over what the states of two earlier calls hold.
  void expect_equal_over(const std::vector<Span>& spans, const std::vector<const KvRows*>& kept,
                         const std::vector<const KvRows*>& other_kept) {
    const int64_t tokens = spans.back().row + spans.back().n_tokens;
    const Values q = random_values({tokens, 2, 16}, with_->activation_dtype(), 99);
    const auto run = [&](Ops& op, const std::vector<const KvRows*>& rows) {
      UploadingOps up(op);
      return read(up.attend_kept(q, spans, rows, {0.15f}));
    };
    expect_close("attend_kept", run(*with_, kept), run(*without_, other_kept), {0x1p-7, 4e-3});
  }

  std::vector<std::string> notes() const { return with_->notes(); }
  std::string isa() const { return with_->isa(); }

  StandInLog log;
  std::vector<int32_t> last_keys;  // of the next calls

 private:
  std::unique_ptr<Ops> with_, without_;
  uint32_t seed_ = 0;
};

std::vector<Span> one_after_the_other(const std::vector<int64_t>& lengths) {
  std::vector<Span> spans;
  for (const int64_t n : lengths) spans.push_back({spans.empty() ? 0 : spans.back().row + spans.back().n_tokens, n, 0});
  return spans;
}

TEST(LibraryAttention, TakesNeighboursInPowersOfTwoAndLeavesShortOnes) {
  Both both(Fault::None);
  both.expect_equal(one_after_the_other({70, 64, 130, 5, 200, 63}), {});
  ASSERT_EQ(both.log.plans.size(), 3U);
  const cuda::AttentionPlan pair{2, 128, 128, 2, 1, 16, 16, 0, 0.15f, false};
  EXPECT_EQ(both.log.plans[0], pair);
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(both.log.plans[i].n_sequences, 1);
    EXPECT_EQ(both.log.plans[i].most_keys, 256);
  }
  EXPECT_TRUE(both.notes().empty());
}

TEST(LibraryAttention, DoesNotJoinAcrossAGap) {
  Both both(Fault::None);
  const std::vector<Span> apart = {{0, 70, 0}, {70, 64, 0}};
  both.expect_equal(apart, {});
  EXPECT_EQ(both.log.plans.size(), 1U);
  std::vector<cuda::AttentionSpan> spans = {{0, 70, 0, nullptr, nullptr}, {71, 64, 0, nullptr, nullptr}};
  EXPECT_EQ(cuda::attention_groups(spans, {2, 70, 4, 2, 64, 64, 0, 1.0f}).size(), 2U);
  spans[1].row = 70;
  EXPECT_EQ(cuda::attention_groups(spans, {2, 70, 4, 2, 64, 64, 0, 1.0f}).size(), 1U);
}

// Pieces begin where prefill cuts: their rows are done as those of the whole sequence are, however few they are.
TEST(LibraryAttention, DoesEveryPieceOfACutSequence) {
  Both both(Fault::None);
  KvRows kept, other;
  both.expect_equal({{0, 256, 0}}, {}, {&kept}, {&other});
  both.log.plans.clear();
  both.expect_equal({{0, 1, 256}}, {}, {&kept}, {&other});
  EXPECT_EQ(both.log.plans.size(), 1U);
  both.log.plans.clear();
  both.expect_equal({{0, 1, 257}}, {}, {&kept}, {&other});
  EXPECT_TRUE(both.log.plans.empty()) << "a decoded token";
}

TEST(LibraryAttention, LeavesSequencesThatLookAhead) {
  Both both(Fault::None);
  both.expect_equal({{0, 70, 0, true}, {70, 80, 0}}, {});
  ASSERT_EQ(both.log.plans.size(), 1U) << "a piece without a picture of a sequence that has one";
  EXPECT_EQ(both.log.plans[0].n_sequences, 1);
  both.log.plans.clear();
  for (int32_t t = 0; t < 150; ++t) both.last_keys.push_back(t < 70 ? std::max(t, 9) : t - 70);
  both.expect_equal(one_after_the_other({70, 80}), {});
  ASSERT_EQ(both.log.plans.size(), 1U) << "whose last keys say so";
  EXPECT_EQ(both.log.plans[0].n_sequences, 1);
}

TEST(LibraryAttention, WindowsAndOtherHeadDims) {
  Both both(Fault::None);
  both.expect_equal(one_after_the_other({150, 90}), {2, 1, 16, 16, 33});
  both.expect_equal(one_after_the_other({80}), {2, 2, 192, 128, 0});
  both.expect_equal(one_after_the_other({66}), {3, 1, 256, 256, 0});
  EXPECT_EQ(both.log.plans.size(), 3U);
  EXPECT_TRUE(both.notes().empty());
}

TEST(LibraryAttention, IsNotOfferedWhatItCannotDo) {
  Both both(Fault::None);
  both.expect_equal(one_after_the_other({80}), {2, 2, 20, 20, 0});
  both.expect_equal(one_after_the_other({80}), {2, 2, 192, 64, 0});
  both.expect_equal(one_after_the_other({80}), {2, 2, 264, 264, 0});
  both.expect_equal(one_after_the_other({80}), {2, 1, 16, 16, 0, 70});
  Both f32(Fault::None, Precision::F32);
  f32.expect_equal(one_after_the_other({80}), {});
  EXPECT_TRUE(both.log.plans.empty());
  EXPECT_TRUE(f32.log.plans.empty());
  EXPECT_EQ(f32.isa(), "cuda_sm_90");
}

/// A sequence in two calls, the second beside another one.
void continue_sequence(Both& both, int64_t window) {
  KvRows kept, other_kept;
  both.expect_equal({{0, 128, 0}, {128, 70, 0}}, {2, 1, 16, 16, window}, {&kept, nullptr}, {&other_kept, nullptr});
  both.expect_equal({{0, 70, 0}, {70, 100, 128}}, {2, 1, 16, 16, window}, {nullptr, &kept}, {nullptr, &other_kept});
}

TEST(LibraryAttention, ContinuesASequence) {
  for (const int64_t window : {0, 50}) {
    Both both(Fault::None);
    continue_sequence(both, window);
    ASSERT_EQ(both.log.plans.size(), 3U);
    EXPECT_TRUE(both.log.plans[2].continued);
    EXPECT_EQ(both.log.plans[2].most_queries, 128);
    EXPECT_EQ(both.log.plans[2].most_keys, 256);
    EXPECT_TRUE(both.notes().empty());
  }
}

TEST(LibraryAttention, RowsThatAnotherLayerKeptAreNoneOfTheBatch) {
  Both both(Fault::None);
  KvRows kept[2], other[2];
  both.expect_equal({{0, 128, 0}, {128, 70, 0}}, {}, {&kept[0], &kept[1]}, {&other[0], &other[1]});
  both.log.plans.clear();
  both.expect_equal_over({{0, 128, 0}, {128, 70, 0}}, {&kept[0], &kept[1]}, {&other[0], &other[1]});
  both.expect_equal_over({{0, 64, 64}, {64, 70, 0}}, {&kept[0], &kept[1]}, {&other[0], &other[1]});
  ASSERT_EQ(both.log.plans.size(), 4U);
  for (const cuda::AttentionPlan& p : both.log.plans) EXPECT_TRUE(p.continued && p.n_sequences == 1);
  EXPECT_TRUE(both.notes().empty());
}

TEST(LibraryAttention, AWrongFirstResultEndsAPlan) {
  for (const Fault fault : {Fault::WindowTooWide, Fault::LeavesLastRow}) {
    Both both(fault);
    const Dims windowed{2, 1, 16, 16, 33};
    both.expect_equal(one_after_the_other({150, 90}), windowed);
    both.expect_equal(one_after_the_other({150, 91}), windowed);
    EXPECT_EQ(both.log.plans.size(), 1U);
    ASSERT_EQ(both.notes().size(), 1U);
    EXPECT_NE(both.notes()[0].find("own kernels for 2 sequences of at most 256 queries"), std::string::npos)
        << both.notes()[0];
  }
  Both both(Fault::DiagonalAtTheTop);
  continue_sequence(both, 0);
  ASSERT_EQ(both.notes().size(), 1U);
  EXPECT_NE(both.notes()[0].find("1 continued sequences"), std::string::npos) << both.notes()[0];
}

TEST(LibraryAttention, AFirstCallThatFailsEndsThePlanAndALaterOneTheRun) {
  Both both(Fault::Fails);
  both.expect_equal(one_after_the_other({150, 90}), {});
  both.expect_equal(one_after_the_other({150, 91}), {});
  EXPECT_EQ(both.log.plans.size(), 1U);
  ASSERT_EQ(both.notes().size(), 1U);
  EXPECT_NE(both.notes()[0].find("first call fails: the stand-in has a bad day"), std::string::npos) << both.notes()[0];

  Both later(Fault::None);
  later.expect_equal(one_after_the_other({150, 90}), {});
  later.log.fault = Fault::Fails;
  EXPECT_THROW(later.expect_equal(one_after_the_other({150, 91}), {}), Error);
  static_cast<void>(cudaGetLastError());
}

TEST(LibraryAttention, ARefusedPlanIsNotAskedForAgain) {
  Both both(Fault::Refuses);
  both.expect_equal(one_after_the_other({150, 90}), {});
  both.expect_equal(one_after_the_other({150, 90}), {});
  EXPECT_EQ(both.notes().size(), 1U);
}

TEST(LibraryAttention, IsPartOfWhatSaysWhoseBytesAResultHas) {
  EXPECT_EQ(Both(Fault::None).isa(), "cuda_sm_90-stand-in-1");
  EXPECT_EQ(Both(Fault::Missing).isa(), "cuda_sm_90");
}

}  // namespace
}  // namespace kvcal::test
