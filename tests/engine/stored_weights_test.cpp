// Checkpoints with quantized weights on a device: the bytes of a run are those that it has with weights which the
// processor decodes, and what goes to the device is what the files hold.
#include "engine/planned_run.h"
#include "unit/checkpoint_folder.h"

namespace kvcal::test {
namespace {

/// Of the tensors of the layers that a run loads.
uint64_t stored_bytes(const std::string& name) {
  const Checkpoint checkpoint = Checkpoint::open(Golden(name).folder);
  const auto model = parse_model(checkpoint.config());
  const ModelWeights weights = locate_weights(checkpoint, model->spec());
  uint64_t bytes = 0;
  for (int layer = 0; layer <= model->spec().last_counted_layer(); ++layer)
    bytes += weights.text.at("layers." + std::to_string(layer) + ".").bytes();
  return bytes;
}

struct StoredCase {
  const char* name;
  double most;  // bytes copied, of those that the layers have in the files
};

class RunStored : public testing::TestWithParam<StoredCase> {};

TEST_P(RunStored, HasTheBytesOfDecodedWeights) {
  const auto [name, most] = GetParam();
  Asked decoded;
  decoded.reader = false;
  const Ran reference = run(name, decoded);
  ASSERT_FALSE(reference.seen.empty());
  for (const Timing timing : {Timing::Late, Timing::Random}) {
    Asked asked;
    asked.timing = timing;
    asked.readers = timing == Timing::Random ? 5 : 1;
    asked.slot_bytes = uint64_t{1} << (timing == Timing::Random ? 20 : 15);  // experts at once, or row by row
    const Ran ran = run(name, asked);
    EXPECT_TRUE(ran.seen == reference.seen) << "timing " << static_cast<int>(timing);
    // Whatever were decoded on the way would go there with two bytes an element.
    const auto stored = static_cast<double>(stored_bytes(name));
    EXPECT_LE(static_cast<double>(ran.bytes_copied), most * stored) << "of " << stored;
    EXPECT_LE(ran.memory.persistent_peak, ran.plan.reserve().persistent);
  }
}

/// The golden's files with every scale no number.
void write_damaged(const std::string& name, const TempFolder& to) {
  const std::filesystem::path from = Golden(name).folder;
  std::filesystem::copy_file(from / "config.json", to / "config.json");
  const SafetensorsFile file(from / "model.safetensors");
  SafetensorsWriter writer(to / "model.safetensors", Existing::Replace);
  for (const TensorInfo& t : file.tensors()) writer.declare(t.name, t.dtype, t.shape);
  for (const TensorInfo& t : file.tensors()) {
    const Tensor stored = file.tensor(t);
    const auto* const data = static_cast<const std::byte*>(stored.data);
    std::vector<std::byte> bytes(data, data + stored.bytes());
    if (t.name.find("_scale") != std::string::npos) std::fill(bytes.begin(), bytes.end(), std::byte{0xFF});
    writer.write(t.name, bytes);
  }
  writer.commit();
}

// Who decodes looks at the scales: the thread that asks for the weights never does, those that read them do.
TEST_P(RunStored, NothingIsDecodedByWhoAsksForIt) {
  const TempFolder folder;
  write_damaged(GetParam().name, folder);
  LoadedModel m(folder.path(), emulated_cuda_ops(Precision::BF16));
  WeightBinder text = m.weights.text.as_stored();
  int damaged = 0;
  for (int layer = 0; layer <= m.model->spec().last_counted_layer(); ++layer) {
    m.ops->reader()->collect(text.files());
    const auto block = m.model->load_block(layer, *m.ops, text);
    const std::string message = message_of([&] { m.ops->reader()->finish(); });
    damaged += message.find("expected a finite number") != std::string::npos;
  }
  EXPECT_GT(damaged, 0);
}

INSTANTIATE_TEST_SUITE_P(Of, RunStored,
                         testing::Values(StoredCase{"deepseek_v3_fp8", 1.2}, StoredCase{"deepseek_v3_nvfp4", 1.2},
                                         StoredCase{"gpt_oss_mxfp4", 1.1}, StoredCase{"glm4_moe_fp8", 1.1},
                                         StoredCase{"qwen3_moe_fp8", 1.1}, StoredCase{"minimax_m2_fp8", 1.1}),
                         [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace kvcal::test
