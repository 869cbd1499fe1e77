// What a check must see, and what a fold must survive.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "checkpoint/fold_mark.h"
#include "checkpoint/safetensors_writer.h"
#include "fold/runs.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

/// A plan for a golden, and what the check says of a folder that changes `tensors` instead of the plan's.
class Wrong : public ::testing::Test {
 protected:
  explicit Wrong(const std::string& golden = "llama", Balance balance = Balance::Head)
      : original_(Golden(golden).folder) {
    const FoldRequest request = request_for(Golden(golden).folder, scratch_, balance);
    plan_ = plan_fold(original_, read_statistics(request.statistics), request.options);
  }

  std::string said_of(const std::vector<TensorFold>& tensors, std::vector<FoldedSite> sites) {
    const FolderChange change{original_.checkpoint.folder(), scratch_ / "out", tensors, "",
                              Subnormals::KeepExact,         Weights::Copy};
    return message_of([&] {
      write_folder_change(change, [&](const fs::path& written) {
        const OpenedModel folded(written);
        CalibrationListener silent;
        prove_fold(
            original_, folded, sites, [](Precision p) { return backend(p); }, silent);
      });
    });
  }
  std::string said_of(const std::vector<TensorFold>& tensors) { return said_of(tensors, plan_.sites); }

  TensorFold& tensor(const std::string& part) {
    return *std::ranges::find_if(plan_.tensors, [&](const TensorFold& t) { return t.name.find(part) != t.name.npos; });
  }

  ScratchFolder scratch_;
  OpenedModel original_;
  FoldPlan plan_;
};

TEST_F(Wrong, NothingIsSaidOfTheRightOne) {
  EXPECT_EQ(said_of(plan_.tensors), "no error");
  EXPECT_TRUE(fs::exists(scratch_ / "out"));
}

TEST_F(Wrong, EveryTensorThatIsLeftOutIsMissed) {
  for (const TensorFold& left_out : plan_.tensors) {
    std::vector<TensorFold> others;
    std::ranges::copy_if(plan_.tensors, std::back_inserter(others),
                         [&](const TensorFold& t) { return t.name != left_out.name; });
    const std::string said = said_of(others);
    EXPECT_TRUE(said.find("logits in bf16 differ") != said.npos ||
                said.find("does not hold what it should") != said.npos)
        << left_out.name << ": " << said;
    EXPECT_FALSE(fs::exists(scratch_ / "out"));
    EXPECT_FALSE(fs::exists(scratch_ / "out.kvcal-partial"));
  }
}

// Rows of two key heads and of their queries: each weight is consistent with none but itself.
TEST_F(Wrong, HeadsThatChangedPlacesAreSeen) {
  std::vector<int>& exponents = tensor("layers.0.self_attn.v_proj").exponents;
  std::ranges::fill(std::span(exponents).first(exponents.size() / 2), exponents.front() + 1);
  EXPECT_NE(said_of(plan_.tensors).find("layer 0, value"), std::string::npos);
}

// Both sides of a site changed alike: the model computes the same, and the cache is not where the record says.
TEST_F(Wrong, AFoldThatTheRecordDoesNotTellIsSeen) {
  std::vector<FoldedSite> sites = plan_.sites;
  for (int& e : sites[1].exponents) ++e;
  EXPECT_NE(said_of(plan_.tensors, sites).find("layer 0, value, row 0"), std::string::npos);
}

class WrongPairs : public Wrong {
 protected:
  WrongPairs() : Wrong("llama", Balance::Channel) {}
};

// One channel of a rotary pair without the other.
TEST_F(WrongPairs, AreSeen) {
  tensor("layers.0.self_attn.k_proj").exponents[0] += 1;
  tensor("layers.0.self_attn.q_proj").exponents[0] -= 1;
  EXPECT_NE(said_of(plan_.tensors).find("layer 0, key"), std::string::npos);
}

// ---------------------------------------------------------------------------------------------- interruption

/// The golden in two shards, with an index.
fs::path in_two_shards(const Golden& golden, const ScratchFolder& scratch) {
  const fs::path folder = scratch / "sharded";
  fs::create_directory(folder);
  fs::copy_file(golden.folder / "config.json", folder / "config.json");
  const SafetensorsFile whole(golden.folder / "model.safetensors");
  Json map = Json::object();
  for (const int part : {1, 2}) {
    const std::string name = "model-0000" + std::to_string(part) + "-of-00002.safetensors";
    SafetensorsWriter writer(folder / name, Existing::Refuse);
    std::vector<const TensorInfo*> held;
    for (size_t i = 0; i < whole.tensors().size(); ++i)
      if (i % 2 == static_cast<size_t>(part) % 2) held.push_back(&whole.tensors()[i]);
    for (const TensorInfo* info : held) {
      writer.declare(info->name, info->dtype, info->shape);
      map[info->name] = name;
    }
    for (const TensorInfo* info : held) writer.write(info->name, whole.tensor(*info));
    writer.commit();
  }
  write_file_atomically(folder / "model.safetensors.index.json", Json{{"weight_map", map}}.dump(), Existing::Refuse);
  return folder;
}

TEST(Interrupted, GoesOnWithTheShardsThatAreDone) {
  const ScratchFolder scratch;
  const FoldRequest request = request_for(in_two_shards(Golden("qwen3"), scratch), scratch, Balance::Head);
  const OpenedModel model(request.model);
  const FoldPlan plan = plan_fold(model, read_statistics(request.statistics), request.options);
  const FolderChange change{request.model, request.out, plan.tensors, "", Subnormals::Refuse, Weights::Copy};
  const pid_t child = ::fork();
  if (child == 0) {
    write_folder_change(change, [](const fs::path&) { ::_exit(7); });
    ::_exit(8);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(WEXITSTATUS(status), 7);
  EXPECT_FALSE(fs::exists(request.out));
  const fs::path partial = request.out.string() + ".kvcal-partial";
  ASSERT_TRUE(fs::exists(partial / "model-00001-of-00002.safetensors"));
  fs::remove(partial / "model-00002-of-00002.safetensors");

  FolderChange another = change;
  another.tensors[0].exponents[0] += 1;
  EXPECT_NE(message_of([&] {
              write_folder_change(another, [](const fs::path&) {});
            }).find("is from another fold that was interrupted"),
            std::string::npos);

  struct Ear final : CalibrationListener {
    void hear(Notice, const std::string& text) override { heard += text + "\n"; }
    void sweep_begins(const SweepOutline& outline) override { expected = outline.work; }
    void step(const RunStep&, int64_t work_done) override { done = work_done; }
    void sweep_ends() override { ended = true; }
    std::string heard;
    int64_t expected = 0, done = -1;  // tokens times layers
    bool ended = false;
  } ear;
  const FoldResult result = fold(
      request, [](Precision p) { return backend(p); }, ear);
  EXPECT_EQ(ear.heard, "rewriting 'model-00002-of-00002.safetensors', 2 of 2\nrunning both models to compare them\n");
  EXPECT_EQ(ear.done, ear.expected);
  EXPECT_TRUE(ear.ended);
  EXPECT_EQ(result.written.n_resumed, 1U);
  EXPECT_EQ(result.written.shards.size(), 2U);
  EXPECT_FALSE(fs::exists(partial));
  ASSERT_TRUE(result.check);
}

// ---------------------------------------------------------------------------------------------- what is not cured

// One channel of values 2^13 above the others: at any place they share, one end of the range is left.
TEST(Outlier, OfOneChannelIsLeftToScalesUnlessChannelsAreBalanced) {
  const ScratchFolder scratch;
  const fs::path golden = Golden("llama").folder, model = scratch / "outlier";
  const std::string a = "model.layers.0.self_attn.";
  std::vector<int> row(24, 0), columns(48, 0);
  row[0] = 13;
  for (const size_t head : {0, 1}) columns[head * 12] = -13;
  write_folder_change({golden,
                       model,
                       {{a + "o_proj.weight", Axis::Columns, columns}, {a + "v_proj.weight", Axis::Rows, row}},
                       "",
                       Subnormals::Refuse,
                       Weights::Copy},
                      [](const fs::path&) {});
  FoldRequest request = request_for(model, scratch, Balance::Head);
  request.plan_only = true;
  const FoldedSite by_head = folded(request).record.plan.sites[1];
  EXPECT_TRUE(by_head.is_folded());
  EXPECT_TRUE(by_head.left_to_scales);
  EXPECT_NE(by_head.why.find("few channels are far above"), std::string::npos);
  request.options.balance = Balance::Channel;
  const FoldedSite by_channel = folded(request).record.plan.sites[1];
  EXPECT_FALSE(by_channel.left_to_scales);
  EXPECT_EQ(by_channel.why, "");
}

// ---------------------------------------------------------------------------------------------- refusals

TEST(Refused, FoldedTwice) {
  const ScratchFolder scratch;
  FoldRequest request = request_for(Golden("llama").folder, scratch, Balance::Head);
  folded(request);
  request.model = request.out;
  request.out = scratch / "twice";
  EXPECT_NE(message_of([&] { folded(request); }).find("it is folded already"), std::string::npos);
}

TEST(Refused, ATargetThatExists) {
  const ScratchFolder scratch;
  const FoldRequest request = request_for(Golden("llama").folder, scratch, Balance::Head);
  fs::create_directory(request.out);
  write_file_atomically(request.out / "notes.txt", "mine", Existing::Refuse);
  const std::string message = message_of([&] { folded(request); });
  EXPECT_NE(message.find("exists; choose a new folder"), std::string::npos) << message;
}

TEST(Refused, TakingBackWeightsThatWereChangedSince) {
  const ScratchFolder scratch;
  const FoldRequest request = request_for(Golden("llama").folder, scratch, Balance::Head);
  folded(request);
  std::fstream file(request.out / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-2, std::ios::end);
  file.write("\x80\x3f", 2);  // 1.0
  file.close();
  const std::string message = message_of([&] { unfolded(request.out, scratch / "again"); });
  EXPECT_NE(message.find("not those of the model that was folded"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(scratch / "again"));
}

TEST(Refused, WeightsBelowTheFolder) {
  const ScratchFolder scratch;
  const fs::path folder = in_two_shards(Golden("qwen3"), scratch);
  fs::create_directory(folder / "w");
  const std::string name = "model-00002-of-00002.safetensors";
  fs::rename(folder / name, folder / "w" / name);
  std::string index = bytes_of(folder / "model.safetensors.index.json");
  for (size_t at = 0; (at = index.find(name, at)) != index.npos; at += name.size() + 2) index.insert(at, "w/");
  write_file_atomically(folder / "model.safetensors.index.json", index, Existing::Replace);
  const FoldRequest request = request_for(folder, scratch, Balance::Head);
  EXPECT_NE(message_of([&] { folded(request); }).find("below the model's, which is not folded"), std::string::npos);
  EXPECT_FALSE(fs::exists(request.out));
}

TEST(Refused, StatisticsOfAnotherModel) {
  const ScratchFolder scratch;
  FoldRequest request = request_for(Golden("llama").folder, scratch, Balance::Head);
  request.model = Golden("qwen3").folder;
  EXPECT_NE(message_of([&] { folded(request); }).find("the statistics are from another model"), std::string::npos);
  EXPECT_FALSE(fs::exists(request.out));
}

TEST(Refused, WhatIsFineStaysAsItIs) {
  const ScratchFolder scratch;
  FoldRequest request = request_for(Golden("qwen3").folder, scratch, Balance::Head);
  request.options.force = false;
  const FoldResult result = folded(request);
  EXPECT_FALSE(result.folds());
  EXPECT_FALSE(fs::exists(request.out));
  for (const FoldedSite& site : result.record.plan.sites) EXPECT_EQ(site.why, "scale 1.0 is as good as any");
}

}  // namespace
}  // namespace kvcal
