// What must not pass the observer: missing and doubled tokens, values that are not finite, readers of a shared cache
// that were not heard.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "stats/observer.h"
#include "stats/statistics_checks.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

class ObserverFaults : public testing::Test {
 protected:
  /// Runs cache 0 with the batches after `change`, finishes its layer, returns the message.
  std::string run(const std::function<void(std::vector<Batch>&)>& change, const Values& values = mixed_value) {
    std::vector<Batch> batches = batches_of(plan_, {.chunk = 64});
    change(batches);
    return message_of([&] {
      Observer observer(spec_, plan_, pool_);
      for (const Batch& batch : batches) show(observer, spec_, 0, batch, values);
      observer.layer_done(1);
    });
  }

  ModelSpec spec_ = small_spec();
  ObservationPlan plan_ = small_plan();
  ThreadPool pool_{2};
};

// Layer 2 reads the cache of layer 1.
class SharedCache : public testing::Test {
 protected:
  SharedCache() {
    for (int i = 0; i < 4; ++i) {
      LayerSpec layer;
      layer.index = i;
      layer.cache = i == 1 ? 0 : i == 3 ? 1 : -1;
      if (i == 2) layer.shares_cache = 0;
      spec_.layers.push_back(layer);
    }
  }

  void show_queries(Observer& observer, const std::vector<Batch>& batches) const {
    const Values doubled = [](const Spot& spot) { return 2 * mixed_value(spot); };
    for (const Batch& batch : batches) {
      const Storage q = tensor_of(spec_, 0, CacheSite::Query, batch, doubled, DType::BF16);
      observer.query(0, q.tensor(), batch);
    }
  }

  ModelSpec spec_ = small_spec();
  ObservationPlan plan_ = small_plan();
  std::vector<Batch> batches_ = batches_of(plan_, {.chunk = 64});
  ThreadPool pool_{2};
};

TEST_F(SharedCache, QueriesOfEveryReaderCountForItsOwner) {
  Observer observer(spec_, plan_, pool_);
  for (const Batch& batch : batches_) show(observer, spec_, 0, batch, mixed_value);
  observer.layer_done(1);
  show_queries(observer, batches_);
  observer.layer_done(2);
  for (const Batch& batch : batches_) show(observer, spec_, 1, batch, mixed_value);
  observer.layer_done(3);
  const Statistics together = observer.take(small_record());
  const CacheStatistics alone = observe_run(small_spec(), plan_, mixed_value).caches[0];
  const CacheStatistics& shared = together.caches[0];
  const uint64_t n = alone.at(CacheSite::Key).n_tokens;
  EXPECT_EQ(shared.at(CacheSite::Key).n_tokens, n);
  EXPECT_EQ(shared.at(CacheSite::Value).n_tokens, n);
  EXPECT_EQ(shared.at(CacheSite::Query).n_tokens, 2 * n);
  EXPECT_EQ(absmax_of(shared.at(CacheSite::Query)), 2 * absmax_of(alone.at(CacheSite::Query)));
  EXPECT_EQ(absmax_of(shared.at(CacheSite::Key)), absmax_of(alone.at(CacheSite::Key)));
  check_statistics(together);
}

TEST_F(SharedCache, AReaderThatMissesATokenIsNamed) {
  Observer observer(spec_, plan_, pool_);
  for (const Batch& batch : batches_) show(observer, spec_, 0, batch, mixed_value);
  observer.layer_done(1);
  batches_.erase(batches_.begin() + 1);
  show_queries(observer, batches_);
  const std::string message = message_of([&] { observer.layer_done(2); });
  EXPECT_NE(message.find("layer 1, query in layer 2: saw 686 tokens, expected 750"), std::string::npos) << message;
}

TEST_F(ObserverFaults, MissingBatch) {
  const std::string message = run([](auto& batches) { batches.erase(batches.begin() + 1); });
  EXPECT_EQ(message,
            "layer 1, key: saw 686 tokens, expected 750; token 64 of prompt 'a' (pass 1, position 64) never came; this "
            "is a bug of this program, please report it");
}

TEST_F(ObserverFaults, OneTokenMissing) {
  const std::string message = run([](auto& batches) {
    Batch& last = batches.back();
    --last.segments.back().n_tokens;
    last.ids.pop_back();
  });
  EXPECT_NE(message.find("saw 749 tokens, expected 750; token 299 of prompt 'a' (pass 2, position 299) never came"),
            std::string::npos)
      << message;
}

TEST_F(ObserverFaults, BatchTwice) {
  const std::string message = run([](auto& batches) { batches.push_back(batches[0]); });
  EXPECT_NE(
      message.find("saw 814 tokens, expected 750; token 0 of prompt 'a' (pass 1, position 0) came more than once"),
      std::string::npos)
      << message;
}

TEST_F(ObserverFaults, OneBatchTwiceInPlaceOfAnother) {
  const std::string message = run([](auto& batches) { batches[1] = batches[0]; });
  EXPECT_NE(message.find("saw 750 tokens, expected 750; token 64"), std::string::npos) << message;
  EXPECT_NE(message.find("came more than once"), std::string::npos) << message;
}

TEST_F(ObserverFaults, ASiteThatWasNotTapped) {
  Observer observer(spec_, plan_, pool_);
  for (const Batch& batch : batches_of(plan_, {})) {
    const Storage k = tensor_of(spec_, 0, CacheSite::Key, batch, mixed_value, DType::BF16);
    const Storage q = tensor_of(spec_, 0, CacheSite::Query, batch, mixed_value, DType::BF16);
    observer.key(0, k.tensor(), batch);
    observer.query(0, q.tensor(), batch);
  }
  const std::string message = message_of([&] { observer.layer_done(1); });
  EXPECT_NE(message.find("layer 1, value: saw 0 tokens, expected 750"), std::string::npos) << message;
}

TEST_F(ObserverFaults, TokensThatAreNotPlanned) {
  for (const auto& change : std::vector<std::function<void(Segment&)>>{
           [](Segment& s) { s.sequence = 17; }, [](Segment& s) { s.pass = 2; }, [](Segment& s) { s.prompt = 1; },
           [](Segment& s) { s.prompt_offset = 1; }, [](Segment& s) { s.first_position = 237; }}) {
    const std::string message = run([&](auto& batches) { change(batches[0].segments[0]); });
    EXPECT_NE(message.find("observing layer 1, key: "), std::string::npos) << message;
    EXPECT_NE(message.find("are not planned to be measured"), std::string::npos) << message;
  }
}

TEST_F(ObserverFaults, InfinityAndNaNNameTheFirstPlace) {
  const auto values = [](const Spot& s) {
    if (s.site == CacheSite::Value && s.sequence == 4 && s.position >= 70)
      return std::numeric_limits<float>::quiet_NaN();
    if (s.site == CacheSite::Value && s.sequence == 3 && s.position == 9 && s.head == 1 && s.channel == 3)
      return -3.4e38f;
    if (s.site == CacheSite::Value && s.sequence == 3 && s.position == 9 && s.head == 1 && s.channel == 5)
      return 3.4e38f;
    return mixed_value(s);
  };
  const char* expected =
      "layer 1, value, head 0: NaN in prompt 'a', token 70 (pass 2, position 70, channel 0); expected finite values: "
      "is the checkpoint damaged, or its format misread?";
  EXPECT_EQ(run([](auto&) {}, values), expected);
  EXPECT_EQ(run([](auto& batches) { std::reverse(batches.begin(), batches.end()); }, values), expected);
}

TEST_F(ObserverFaults, OverflowOfBf16IsInfinity) {
  const auto values = [](const Spot& s) {
    return s.site == CacheSite::Query && s.sequence == 3 && s.position == 9 && s.head == 2 && s.channel == 7 ? -3.4e38f
                                                                                                             : 1.0f;
  };
  EXPECT_EQ(run([](auto&) {}, values)
                .find("layer 1, query, head 2: infinity in prompt 'c', token 4 (pass 2, position 9, "
                      "channel 7)"),
            0U);
}

TEST_F(ObserverFaults, ShapesAndTypes) {
  Observer observer(spec_, plan_, pool_);
  const Batch batch = batches_of(plan_, {.chunk = 64})[0];
  const Storage v = tensor_of(spec_, 0, CacheSite::Value, batch, mixed_value, DType::BF16);
  EXPECT_EQ(message_of([&] { observer.key(0, v.tensor(), batch); }),
            "observing layer 1, key: got BF16 [64, 2, 16], expected [64, 2, 24]");
  const Storage f16({64, 2, 16}, DType::F16);
  EXPECT_EQ(message_of([&] { observer.value(0, f16.tensor(), batch); }),
            "observing layer 1, value: got F16 [64, 2, 16], expected BF16 or F32");
  EXPECT_EQ(message_of([&] { observer.value(2, v.tensor(), batch); }), "cache 2 does not exist; the model has 2");
  Batch shifted = batch;
  shifted.segments[0].row = 1;
  EXPECT_NE(message_of([&] { observer.value(0, v.tensor(), shifted); }), "");
  Tensor elsewhere = v.tensor();
  elsewhere.device = Device::Cuda;
  EXPECT_NE(message_of([&] { observer.value(0, elsewhere, batch); }).find("not on the host"), std::string::npos);
}

TEST_F(ObserverFaults, LayersOutOfOrder) {
  Observer observer(spec_, plan_, pool_);
  observer.layer_done(0);  // owns no cache
  for (const Batch& batch : batches_of(plan_, {})) show(observer, spec_, 0, batch, mixed_value);
  observer.layer_done(1);
  EXPECT_NE(
      message_of([&] { show(observer, spec_, 0, batches_of(plan_, {})[0], mixed_value); }).find("after the layer"),
      std::string::npos);
  EXPECT_EQ(message_of([&] { observer.take({}); }), "layer 3 was never finished");
}

TEST_F(ObserverFaults, PlansThatContradictThemselves) {
  const auto with = [&](const std::function<void(ObservationPlan&)>& change) {
    ObservationPlan plan = plan_;
    change(plan);
    return message_of([&] { Observer(spec_, plan, pool_); });
  };
  EXPECT_EQ(with([](auto&) {}), "");
  EXPECT_NE(with([](auto& p) { p.prompt_ids = {"b", "a", "c"}; }), "");
  EXPECT_NE(with([](auto& p) { p.prompt_ids = {"a", "b"}; }), "");
  EXPECT_NE(with([](auto& p) { p.n_passes = 1; }), "");
  EXPECT_NE(with([](auto& p) { p.segments.push_back(p.segments[0]); }), "");
  EXPECT_NE(with([](auto& p) { p.segments[5].n_tokens = 0; }), "");
}

}  // namespace
}  // namespace kvcal::stats_test
