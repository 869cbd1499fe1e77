// MTP layers against what tests/reference/make_mtp_goldens.py computes: Q, K, V per head, and whole tensors of one
// sequence; in f32 and in bf16. What must not matter: chunks and company.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "arch/backend.h"
#include "arch/golden.h"
#include "harness/compare.h"
#include "harness/tolerances.h"
#include "harness/whole_run.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

struct Site3 {
  const char* name;
  Site site;
};
constexpr Site3 kGqaSites[] = {{"key", Site::Key}, {"value", Site::Value}, {"query", Site::Query}};
constexpr Site3 kMlaSites[] = {{"latent", Site::Latent}, {"query", Site::Query}};

std::span<const Site3> sites_of(const KvLayout& c) {
  return c.is_mla() ? std::span<const Site3>(kMlaSites) : std::span<const Site3>(kGqaSites);
}

using Runs = std::vector<std::vector<int32_t>>;

class MtpTest : public ::testing::TestWithParam<std::string> {
 protected:
  MtpTest() {
    folder_ = fs::path(::testing::TempDir()) / (GetParam() + "_mtp_" + std::to_string(getpid()));
    write_mtp_checkpoint(GetParam(), folder_);
  }
  ~MtpTest() override { fs::remove_all(folder_); }

  std::map<RecordingTap::Key, Recorded> run(std::unique_ptr<Ops> ops, const Runs& ids, int64_t chunk_tokens) {
    LoadedModel m(folder_, std::move(ops));
    EXPECT_TRUE(has_mtp_layer(m.model->spec(), m.weights));
    m.model->add_mtp_layer();
    layout_ = m.model->spec().caches.back();
    const std::vector<PromptTokens> prompts = prompts_of(ids);
    const std::vector<Sequence> sequences = singles(prompts);
    RecordingTap tap;
    DownloadingTap shown(*m.ops, tap);
    Runner(*m.model, *m.ops, m.weights, chunk_tokens).run({{&sequences, &shown, Until::LastKv, nullptr}}, prompts);
    EXPECT_EQ(tap.layers_done.back(), layout_.layer);
    return std::move(tap.seen);
  }

  void check(const std::string& precision, Precision p, double absmax_bound, double rms_bound) {
    auto seen = run(backend(p), json_.at("sequences").get<Runs>(), 256);
    const int64_t full = json_.at("full_sequence");
    const SafetensorsFile file(golden_ / "golden.safetensors");
    for (const Site3& s : sites_of(layout_)) {
      EXPECT_TRUE(close(seen.at({full, layout_.cache, s.site}).values, golden_tensor(file, precision + "." + s.name),
                        rms_bound))
          << s.name;
      const Json& table = json_.at("absmax").at("f32").at(s.name);  // [sequence][head]
      for (size_t i = 0; i < table.size(); ++i) {
        const Recorded& r = seen.at({static_cast<int64_t>(i), layout_.cache, s.site});
        double expected = 0, actual = 0;
        for (const Json& head : table[i]) expected = std::max(expected, head.get<double>());
        for (const float x : r.values) actual = std::max(actual, static_cast<double>(std::fabs(x)));
        EXPECT_NEAR(actual, expected, absmax_bound * expected) << s.name << " of sequence " << i;
      }
    }
  }

  fs::path golden_ = fs::path(KVCAL_SOURCE_DIR) / "tests/arch/mtp" / GetParam();
  Json json_ = read_json_file(golden_ / "golden.json");
  fs::path folder_;
  KvLayout layout_;
};

TEST_P(MtpTest, f32_matches_the_reference) { check("f32", Precision::F32, tolerance::kF32Absmax, tolerance::kF32Rms); }

TEST_P(MtpTest, bf16_matches_the_reference) {
  check("bf16", Precision::BF16, tolerance::kBf16Absmax, tolerance::kBf16Rms);
}

// A cut sequence reads the first token of the next batch; one that ends with a batch's last row, or consists of one
// token, leaves nothing to read.
TEST_P(MtpTest, chunks_and_company_do_not_matter) {
  const auto model = parse_model(Checkpoint::open(folder_).config());
  const int64_t vocab = model->spec().vocab, chunk_tokens = 256;
  const auto tokens = [&](int64_t n) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * i * 7 + i * 13 + n) % (vocab - 8)));
    return ids;
  };
  const Runs all = {tokens(300), tokens(1), tokens(257), tokens(211), tokens(2)};
  const auto together = run(backend(Precision::BF16), all, chunk_tokens),
             whole = run(backend(Precision::BF16), all, 4096);
  for (size_t i = 0; i < all.size(); ++i)
    for (const Site3& s : sites_of(layout_)) {
      const RecordingTap::Key key = {static_cast<int64_t>(i), layout_.cache, s.site};
      if (all[i].size() == 1) {
        EXPECT_FALSE(together.contains(key));
        continue;
      }
      EXPECT_EQ(together.at(key).n_tokens, static_cast<int64_t>(all[i].size()) - 1);
      EXPECT_TRUE(together.at(key).bytes == whole.at(key).bytes) << s.name << " of sequence " << i;
    }
}

std::string case_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

INSTANTIATE_TEST_SUITE_P(Golden, MtpTest, ::testing::ValuesIn(cases_of("mtp")), case_name);

}  // namespace
}  // namespace kvcal
