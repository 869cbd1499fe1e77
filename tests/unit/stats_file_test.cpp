#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "base/read_file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"
#include "stats/statistics_file.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

namespace fs = std::filesystem;

const Statistics& sample() {
  static const Statistics s = observe_run(small_spec(), small_plan(), mixed_value);
  return s;
}

void put(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// ------------------------------------------------------------------ round trip

TEST(StatisticsFile, RoundTripKeepsEveryByte) {
  const TemporaryPath path;
  write_statistics(path, sample(), Existing::Refuse);
  const std::string bytes = read_file(path, 1 << 30);
  const Statistics read = read_statistics(path);
  EXPECT_TRUE(file_bytes(read) == bytes);
  EXPECT_EQ(read.run.prompt_ids, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(read.run.n_passes, 2);
  EXPECT_EQ(read.run.model, small_record().model);
  EXPECT_EQ(read.run.calibration, small_record().calibration);
  EXPECT_FALSE(read.run.sanity);
  EXPECT_EQ(read.run.plan_sha256, small_record().plan_sha256);
  const KvLayout& layout = read.caches.at(1).layout;
  EXPECT_EQ(layout.name, "layers.3.self_attn");
  EXPECT_EQ(layout.pair_bound, PairBound::Gptj);
  EXPECT_EQ(layout.softmax_scale, 0.20412414523193154);
  for (size_t c = 0; c < 2; ++c)
    for (const CacheSite kind : sites_of(layout)) {
      const SiteStatistics &a = sample().caches[c].at(kind), &b = read.caches[c].at(kind);
      EXPECT_EQ(a.n_tokens, b.n_tokens);
      EXPECT_EQ(a.pair_norm, b.pair_norm);
      EXPECT_EQ(a.position_absmax, b.position_absmax);
      EXPECT_EQ(a.prompt_absmax, b.prompt_absmax);
      ASSERT_EQ(a.heads.size(), b.heads.size());
      for (size_t h = 0; h < a.heads.size(); ++h) {
        EXPECT_EQ(a.heads[h].histogram.counts, b.heads[h].histogram.counts);
        EXPECT_EQ(a.heads[h].histogram.zeros, b.heads[h].histogram.zeros);
        EXPECT_EQ(a.heads[h].absmax, b.heads[h].absmax);
        EXPECT_EQ(a.heads[h].where, b.heads[h].where);
        EXPECT_EQ(a.heads[h].token_octaves, b.heads[h].token_octaves);
      }
      ASSERT_EQ(a.channels.size(), b.channels.size());
      for (size_t i = 0; i < a.channels.size(); ++i) {
        EXPECT_EQ(a.channels[i].absmax, b.channels[i].absmax);
        ASSERT_EQ(a.channels[i].octaves.size(), b.channels[i].octaves.size());
        for (size_t o = 0; o < a.channels[i].octaves.size(); ++o) {
          const OctaveMoments &x = a.channels[i].octaves[o], &y = b.channels[i].octaves[o];
          EXPECT_EQ(std::tuple(x.octave, x.count, x.sum_m, x.sum_m2, x.signed_sum_m),
                    std::tuple(y.octave, y.count, y.sum_m, y.sum_m2, y.signed_sum_m));
        }
      }
    }
}

TEST(StatisticsFile, TellsWhichLayersHaveLearntSinks) {
  Statistics with = sample();
  with.caches[1].layout.learned_sinks = true;
  const TemporaryPath path;
  write_statistics(path, with, Existing::Refuse);
  const Statistics read = read_statistics(path);
  EXPECT_FALSE(read.caches[0].layout.learned_sinks);
  EXPECT_TRUE(read.caches[1].layout.learned_sinks);
}

TEST(StatisticsFile, TellsWhichOutputsAreNormed) {
  Statistics with = sample();
  with.caches[1].layout.normed_output = true;
  const TemporaryPath path;
  write_statistics(path, with, Existing::Refuse);
  const Statistics read = read_statistics(path);
  EXPECT_FALSE(read.caches[0].layout.normed_output);
  EXPECT_TRUE(read.caches[1].layout.normed_output);
}

TEST(StatisticsFile, TellsWhichLogitsAreCapped) {
  Statistics with = sample();
  with.caches[1].layout.capped_logits = true;
  const TemporaryPath path;
  write_statistics(path, with, Existing::Refuse);
  const Statistics read = read_statistics(path);
  EXPECT_FALSE(read.caches[0].layout.capped_logits);
  EXPECT_TRUE(read.caches[1].layout.capped_logits);
}

TEST(StatisticsFile, TensorsAreNamedAndSorted) {
  const TemporaryPath path;
  write_statistics(path, sample(), Existing::Refuse);
  const SafetensorsFile file(path);
  std::vector<std::string> names;
  uint64_t offset = 0;
  for (const TensorInfo& info : file.tensors()) {
    EXPECT_GE(info.offset, offset);  // sorted by name, hence by offset too
    offset = info.offset;
    if (info.name.starts_with("c1.key.") || !info.name.starts_with("c")) names.push_back(info.name);
  }
  const std::vector<std::string> expected = {"c1.key.absmax",
                                             "c1.key.channel_absmax",
                                             "c1.key.channel_count",
                                             "c1.key.channel_octave",
                                             "c1.key.channel_offsets",
                                             "c1.key.channel_signed_sum_m",
                                             "c1.key.channel_sum_m",
                                             "c1.key.channel_sum_m2",
                                             "c1.key.head_offsets",
                                             "c1.key.hist_count",
                                             "c1.key.hist_index",
                                             "c1.key.inf",
                                             "c1.key.kind_absmax",
                                             "c1.key.kind_tokens",
                                             "c1.key.n_tokens",
                                             "c1.key.nan",
                                             "c1.key.over",
                                             "c1.key.pair_norm",
                                             "c1.key.position_absmax",
                                             "c1.key.prompt_absmax",
                                             "c1.key.row_formats",
                                             "c1.key.row_formats_int4",
                                             "c1.key.sampled",
                                             "c1.key.token_octaves",
                                             "c1.key.under",
                                             "c1.key.where",
                                             "c1.key.zero",
                                             "prompt_ids",
                                             "prompt_offsets"};
  EXPECT_EQ(names, expected);
  EXPECT_EQ(file.find("c0.query.channel_count"), nullptr);
  const TensorInfo* where = file.find("c0.query.where");
  ASSERT_NE(where, nullptr);
  EXPECT_EQ(str(*where), "I64 [4, 6]");
}

TEST(StatisticsFile, MoreThanTenCachesAndEmptyOnes) {
  ModelSpec spec = small_spec();
  KvLayout layout = spec.caches[0];
  layout.rotary_dim = 0;
  layout.n_heads = 2;
  spec.caches.clear();
  spec.layers.resize(12);
  for (int c = 0; c < 12; ++c) {
    layout.cache = layout.layer = c;
    layout.head_dim_v = c == 4 ? 0 : 16;  // a cache without values
    spec.caches.push_back(layout);
  }
  ObservationPlan plan = part_of(small_plan(), {1});
  plan.n_passes = 1;
  ThreadPool pool(1);
  Observer observer(spec, plan, pool);
  for (int c = 0; c < 12; ++c) {
    const Batch batch = batches_of(plan, {})[0];
    const Storage k = tensor_of(spec, c, CacheSite::Key, batch, mixed_value, DType::BF16);
    const Storage v = tensor_of(spec, c, CacheSite::Value, batch, mixed_value, DType::BF16);
    const Storage q = tensor_of(spec, c, CacheSite::Query, batch, mixed_value, DType::BF16);
    observer.key(c, k.tensor(), batch);
    if (c != 4) observer.value(c, v.tensor(), batch);
    observer.query(c, q.tensor(), batch);
    observer.layer_done(c);
  }
  const TemporaryPath path;
  const Statistics statistics = observer.take(small_record());
  write_statistics(path, statistics, Existing::Refuse);
  EXPECT_TRUE(file_bytes(read_statistics(path)) == read_file(path, 1 << 30));
  EXPECT_TRUE(read_statistics(path).caches[4].at(CacheSite::Value).heads.empty());
}

TEST(StatisticsFile, RefusesToReplaceAndToWriteNonsense) {
  const TemporaryPath path;
  write_statistics(path, sample(), Existing::Refuse);
  EXPECT_NE(message_of([&] { write_statistics(path, sample(), Existing::Refuse); }), "");
  Statistics wrong = sample();
  ++wrong.caches[0].at(CacheSite::Key).heads[0].histogram.zeros;
  EXPECT_NE(message_of([&] { write_statistics(path, wrong, Existing::Replace); }).find("cache 0, key: head 0: "),
            std::string::npos);
  EXPECT_EQ(read_statistics(path).caches.size(), 2U);
  wrong = sample();
  wrong.run.model->architecture = "\xff";
  EXPECT_NE(message_of([&] { write_statistics(path, wrong, Existing::Replace); }).find("not UTF-8"), std::string::npos);
}

// ------------------------------------------------------------------ files of others

TEST(StatisticsFile, OtherFilesAreNamed) {
  const TemporaryPath path;
  EXPECT_NE(message_of([&] { read_statistics(path); }), "");  // does not exist
  put(path, "");
  EXPECT_NE(message_of([&] { read_statistics(path); }).find("too short"), std::string::npos);
  SafetensorsWriter writer(path, Existing::Replace);
  writer.declare("model.norm.weight", DType::U8, {1});
  writer.write("model.norm.weight", std::as_bytes(std::span("x", 1)));
  writer.commit();
  EXPECT_TRUE(message_of([&] {
                read_statistics(path);
              }).ends_with("' is a part of a checkpoint, expected statistics (calibrate --stats)"));
}

TEST(StatisticsFile, EveryTruncationIsRefused) {
  const std::string bytes = file_bytes(sample());
  const TemporaryPath path;
  for (size_t n = 0; n < bytes.size(); n += n < 64 ? 1 : 997) {
    put(path, bytes.substr(0, n));
    EXPECT_NE(message_of([&] { read_statistics(path); }), "") << n;
  }
}

// A bit of every region of the header, and of the data.
TEST(StatisticsFile, EveryFlippedBitIsRefused) {
  const std::string bytes = file_bytes(sample());
  const TemporaryPath path;
  size_t header = 8;
  for (size_t i = 0; i < 8; ++i) header += size_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  const auto flipped = [&](size_t at, int bit) {
    std::string broken = bytes;
    broken[at] ^= static_cast<char>(1 << bit);
    put(path, broken);
    const std::string message = message_of([&] { read_statistics(path); });
    EXPECT_NE(message, "") << "byte " << at << ", bit " << bit;
    return without_path(message, path);
  };
  for (size_t at = 0; at < header; at += at < 64 ? 1 : 11) flipped(at, static_cast<int>(at % 8));
  for (size_t at = header; at < bytes.size(); at += 1999)
    EXPECT_TRUE(flipped(at, static_cast<int>(at % 8)).starts_with("is damaged: the SHA-256 of its content is ")) << at;
}

TEST(StatisticsFile, IsSealedByItsOwnBytes) {
  const std::string bytes = file_bytes(sample());
  EXPECT_NE(bytes.find("\"kvcal_sha256\":\""), std::string::npos);
  EXPECT_EQ(sealed_again(bytes), bytes);
}

// Whatever is flipped: an error or statistics that hold together, never anything else.
TEST(StatisticsFile, FlippedBitsAreRefusedOrHarmless) {
  const std::string bytes = file_bytes(sample());
  const TemporaryPath path;
  std::mt19937_64 random(7);
  int n_refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string broken = bytes;
    const size_t range = i % 2 == 0 ? 8192 : bytes.size();  // half of them in the header
    for (uint64_t n = 1 + random() % 3; n > 0; --n)
      broken[random() % std::min(range, bytes.size())] ^= static_cast<char>(1 << random() % 8);
    put(path, broken);
    const std::string message = message_of([&] { write_statistics(path, read_statistics(path), Existing::Replace); });
    n_refused += message.empty() ? 0 : 1;
  }
  EXPECT_GT(n_refused, 300);
}

}  // namespace
}  // namespace kvcal::stats_test
