// calibrate --resume: a run that stops at any layer goes on from there and ends in the same bytes, or says why it
// cannot.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <fstream>

#include "base/read_file.h"
#include "e2e/runs.h"
#include "stats/statistics_file.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

struct Stopped {};

std::vector<PromptTokens> some_prompts() { return prompts_of({1, 40, 300, 17}, 60); }

class Resume : public testing::TestWithParam<const char*> {
 protected:
  fs::path model() const { return source("tests/arch/golden") / GetParam(); }
  fs::path folder() const { return scratch_.path() / "out.json.kvcal-resume"; }
  fs::path slot(const char* name) const { return folder() / name; }

  RunOptions options() const {
    RunOptions o;
    o.chunk_tokens = 256;
    o.threads = 1;
    o.resume = folder();
    return o;
  }

  struct Result {
    std::string bytes;     // of the statistics file and of the artifact
    int first_layer = -1;  // that ran
    std::string said;
  };

  Result run(RunOptions o) const {
    Result result;
    const auto outer = o.on_step;
    o.on_step = [&](const RunStep& step) {
      if (result.first_layer < 0) result.first_layer = step.layer;
      if (outer) outer(step);
    };
    OpenedModel opened(model());
    Recorder listener(o.on_step);
    const Measurement measured = measure(opened, plan_of(opened, some_prompts(), o), o, listener);
    const fs::path file = scratch_.path() / "run.kvstats";
    write_statistics(file, measured.statistics, Existing::Replace);
    result.bytes = read_file(file, size_t{1} << 30);
    if (o.sequences.n_shards == 1) result.bytes += artifact_text(solved_artifact(measured.statistics));
    result.said = listener.text();
    if (measured.resume) measured.resume->remove();
    return result;
  }

  /// What the run gives that nothing interrupts.
  std::string whole() const {
    RunOptions o = options();
    o.resume.clear();
    return run(o).bytes;
  }

  /// Stops in this layer's first batch: layers 0 .. layer - 1 are done.
  void stop_at(int layer, RunOptions o) const {
    o.on_step = [layer](const RunStep& step) {
      if (step.layer == layer) throw Stopped();
    };
    EXPECT_THROW(run(o), Stopped);
  }
  void stop_at(int layer) const { stop_at(layer, options()); }

  /// Where a run goes on that stopped in this layer: at the owner of the rows that it or a later layer reads.
  int resumed_at(int layer) const {
    const OpenedModel opened(model());
    for (const KvLayout& c : opened.spec().caches)
      if (c.layer < layer && opened.spec().last_reader(c.cache) >= layer) return resumed_at(c.layer);
    return layer;
  }

  int n_layers() const { return static_cast<int>(OpenedModel(model()).spec().layers.size()); }
  /// Of two files that were written in the same tick of the clock too.
  fs::path newest() const {
    return layers_done(slot("a.kvresume")) > layers_done(slot("b.kvresume")) ? slot("a.kvresume") : slot("b.kvresume");
  }

  static int layers_done(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::string header(4096, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    const size_t at = header.find("layers_done");
    return at == std::string::npos ? -1 : std::stoi(header.substr(header.find_first_of("0123456789", at)));
  }

  Scratch scratch_;
};

TEST_P(Resume, EveryLayersEndGivesTheSameBytes) {
  const std::string expected = whole();
  for (int layer = 1; layer < n_layers(); ++layer) {
    stop_at(layer);
    const Result resumed = run(options());
    EXPECT_EQ(resumed.first_layer, resumed_at(layer));
    EXPECT_EQ(resumed.bytes == expected, true) << "stopped in layer " << layer;
    EXPECT_FALSE(fs::exists(folder()));
  }
}

TEST_P(Resume, AgainAndAgainWithOtherThreadsAndChunks) {
  const std::string expected = whole();
  for (int layer = 1; layer < n_layers(); ++layer) {
    RunOptions o = options();
    o.threads = 1 + layer % 3;
    o.chunk_tokens = layer % 2 ? 512 : 256;
    stop_at(layer, o);
  }
  const Result resumed = run(options());
  EXPECT_EQ(resumed.first_layer, resumed_at(n_layers() - 1));
  EXPECT_EQ(resumed.bytes == expected, true);
}

TEST_P(Resume, StoppedInTheFirstLayerBeginsAgain) {
  stop_at(0);
  EXPECT_EQ(run(options()).bytes == whole(), true);
}

TEST_P(Resume, AShardGoesOnAsItselfAndAsNoOther) {
  const auto shard = [&](int64_t i) {
    RunOptions o = options();
    o.sequences.shard = i;
    o.sequences.n_shards = 2;
    return o;
  };
  RunOptions uninterrupted = shard(1);
  uninterrupted.resume.clear();
  stop_at(1, shard(1));
  EXPECT_THROW(run(shard(0)), Error) << "half of another shard's run";
  EXPECT_THROW(run(options()), Error) << "half of a shard is not half of the whole";
  const Result resumed = run(shard(1));
  EXPECT_EQ(resumed.first_layer, 1);
  EXPECT_EQ(resumed.bytes == run(uninterrupted).bytes, true);
}

INSTANTIATE_TEST_SUITE_P(Models, Resume,
                         testing::Values("llama", "qwen3_5", "qwen3_next", "gemma4", "deepseek_v3", "kimi_linear"),
                         [](const auto& model) { return std::string(model.param); });

class Damaged : public Resume {};

TEST_P(Damaged, TheOtherFileServes) {
  const std::string expected = whole();
  const int last = n_layers() - 1;
  const auto truncate_newest = [&] { fs::resize_file(newest(), fs::file_size(newest()) / 2); };
  const auto flip_a_row = [&] {
    std::fstream file(newest(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-100, std::ios::end);
    const char byte = static_cast<char>(file.get());
    file.seekp(-100, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  };
  const auto replace_by_text = [&] { std::ofstream(newest()) << "hello"; };
  for (const std::function<void()>& damage : {std::function<void()>(truncate_newest), std::function<void()>(flip_a_row),
                                              std::function<void()>(replace_by_text)}) {
    stop_at(last);
    damage();
    const Result resumed = run(options());
    EXPECT_NE(resumed.said.find("ignoring a damaged file"), std::string::npos) << resumed.said;
    EXPECT_EQ(resumed.first_layer, last - 1);
    EXPECT_EQ(resumed.bytes == expected, true);
  }
}

TEST_P(Damaged, BothFilesBeginAgain) {
  stop_at(2);
  for (const char* name : {"a.kvresume", "b.kvresume"}) fs::resize_file(slot(name), 20);
  const Result resumed = run(options());
  EXPECT_EQ(resumed.first_layer, 0);
  EXPECT_EQ(resumed.bytes == whole(), true);
}

TEST_P(Damaged, ATemporaryOfAKilledRunGoes) {
  stop_at(2);
  std::ofstream(folder() / ".kvcal-0123456789abcdef.tmp") << "half";
  run(options());
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_P(Damaged, AnotherRunIsRefusedByName) {
  const auto refusal = [&](const std::function<void(RunOptions&)>& change) {
    RunOptions o = options();
    change(o);
    try {
      run(o);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  stop_at(2);
  EXPECT_NE(refusal([](auto& o) { o.sequences.passes = 3; }).find("calibration.plan_sha256 is"), std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.precision = Precision::F32; }).find("calibration.precision is '\"bf16\"' there"),
            std::string::npos);
  EXPECT_NE(refusal([](auto& o) { o.sources.prompts_sha256[0] = '1'; }).find("calibration.prompts_sha256"),
            std::string::npos);
  const std::string no_sanity = refusal([](auto& o) { o.sequences.sanity = false; });
  EXPECT_NE(no_sanity.find("sanity is"), std::string::npos) << no_sanity;
  EXPECT_NE(no_sanity.find("finish that run or remove"), std::string::npos) << no_sanity;
  EXPECT_EQ(run(options()).bytes == whole(), true) << "what was refused is still there";
}

// A limit on file sizes stands in for a full disk: the run ends well, and what was kept before stays.
TEST_P(Damaged, ADiskThatIsFullEndsNoRun) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const std::string expected = whole();
  RunOptions o = options();
  o.on_step = [&](const RunStep& step) {
    rlimit full = before;
    if (step.layer >= 1) full.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &full);
    if (step.layer == 3) throw Stopped();
  };
  Recorder listener(o.on_step);
  OpenedModel opened(model());
  EXPECT_THROW(measure(opened, plan_of(opened, some_prompts(), o), o, listener), Stopped);
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(listener.heard("can be resumed only from an earlier layer")) << listener.text();
  const Result resumed = run(options());
  EXPECT_EQ(resumed.first_layer, 1);
  EXPECT_EQ(resumed.bytes == expected, true);
}

INSTANTIATE_TEST_SUITE_P(Models, Damaged, testing::Values("qwen3_5"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace kvcal
