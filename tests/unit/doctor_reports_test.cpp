// Reports as people write them: prose, a command, a line of the log and a conclusion. The doctor gives the audited
// answer, not the one that the writer came to.
#include <gtest/gtest.h>

#include <algorithm>

#include "doctor/input_kind.h"
#include "doctor_fixture.h"

namespace kvcal {
namespace {

std::string report(const std::string& name) {
  return read_file(std::string(KVCAL_SOURCE_DIR "/tests/unit/data/doctor/reports/") + name, 1 << 20);
}

std::string top(const Diagnosis& d) {
  return d.explanations.empty() ? "none" : std::string(name_of(d.explanations.front().cause));
}

bool found(const std::vector<Sign>& signs, const std::string& id) {
  return std::any_of(signs.begin(), signs.end(), [&](const Sign& s) { return s.entry->id == id; });
}

bool explained_by(const Diagnosis& d, Cause cause) {
  return std::any_of(d.explanations.begin(), d.explanations.end(),
                     [&](const Explanation& e) { return e.cause == cause; });
}

TEST(Reports, RepeatedPhrasesOfAHybridAreRuntimeScales) {
  const Diagnosis d = diagnose_log(report("repeated_phrases.txt"));
  EXPECT_EQ(top(d), "runtime-scales-of-hybrid") << diagnosis_text(d).text();
  EXPECT_TRUE(found(d.findings, "F03"));
  EXPECT_TRUE(found(d.findings, "F05")) << "--kv-cache-scales-path exists nowhere";
  EXPECT_TRUE(found(d.notes, "LG8")) << "q_scale=1.0 says nothing about the cache";
  EXPECT_FALSE(explained_by(d, Cause::ScalesMissing)) << "the report's own answer";
}

TEST(Reports, WrongDigitsOfAHybridAreRuntimeScales) {
  const Diagnosis d = diagnose_log(report("wrong_digits.txt"));
  EXPECT_EQ(top(d), "runtime-scales-of-hybrid") << diagnosis_text(d).text();
  ASSERT_TRUE(d.facts.version.has_value());
  EXPECT_EQ(str(*d.facts.version), "0.17.1");
}

TEST(Reports, NoiseInTheSecondTurnIsLatentAttentionAndNotMissingScales) {
  const Diagnosis d = diagnose_log(report("second_turn.txt"));
  EXPECT_EQ(top(d), "latent-attention") << diagnosis_text(d).text();
  EXPECT_TRUE(found(d.findings, "B16"));
  EXPECT_TRUE(found(d.findings, "C07")) << "20 heads";
  EXPECT_TRUE(found(d.notes, "LG1")) << "the line that the report takes for the cause";
  EXPECT_FALSE(explained_by(d, Cause::ScalesMissing));
  EXPECT_NE(d.explanations.size(), 0u);
  EXPECT_NE(likelihood_of(d.explanations.front()), Likelihood::Certain) << "open, never explained";
}

TEST(Reports, ExclamationMarksAreFrozenScalesAndNanOfUnprovedOrigin) {
  const Diagnosis d = diagnose_log(report("exclamation_marks.txt"));
  EXPECT_EQ(top(d), "runtime-scales-frozen") << diagnosis_text(d).text();
  EXPECT_TRUE(found(d.findings, "E15"));
  EXPECT_TRUE(explained_by(d, Cause::NanLogits)) << "NaN keeps an explanation of its own";
  EXPECT_NE(likelihood_of(d.explanations.front()), Likelihood::Certain);
}

TEST(Reports, OneLetterOfBlocksIsNotTheCache) {
  const std::string text = report("one_letter.txt");
  const std::string begin = "# Returns: \"";
  const size_t at = text.find(begin);
  ASSERT_NE(at, std::string::npos);
  const std::string answer = text.substr(at + begin.size(), text.find('"', at + begin.size()) - at - begin.size());
  const auto diagnosed = [&](const std::filesystem::path& config) {
    Doctor doctor;
    doctor.add_log("issue", reading(text));
    doctor.add_output("answer", answer);
    if (!config.empty()) doctor.add_checkpoint(config);
    return doctor.diagnose();
  };
  EXPECT_EQ(top(diagnosed("")), "none") << "auto may be FP8: config.json tells";
  const std::filesystem::path config = std::filesystem::path(testing::TempDir()) / "one_letter" / "config.json";
  std::filesystem::create_directories(config.parent_path());
  write_text(config, R"({"architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_attention_heads": 8,
    "num_key_value_heads": 2, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}})");
  const Diagnosis d = diagnosed(config);
  EXPECT_EQ(top(d), "not-the-cache") << diagnosis_text(d).text();
  EXPECT_TRUE(found(d.findings, "E16"));
  EXPECT_TRUE(found(d.notes, "W01"));
  EXPECT_TRUE(found(d.notes, "LG18")) << "harmless alone";
  EXPECT_TRUE(found(d.notes, "LG20")) << "speed only";
  EXPECT_FALSE(explained_by(d, Cause::ScalesMissing));
}

// Marks at the ends of lines are lost where people paste, or belong to another shell.
TEST(Reports, CommandsLoseTheirMarks) {
  for (const char* text : {"vllm serve m\n  --kv-cache-dtype fp8\n  --calculate-kv-scales\n",
                           "vllm serve m \\ \n  --kv-cache-dtype fp8 \\\n  --calculate-kv-scales\n",
                           "vllm serve m ^\r\n  --kv-cache-dtype fp8 ^\r\n  --calculate-kv-scales\r\n",
                           "vllm serve m `\n  --kv-cache-dtype fp8 `\n  --calculate-kv-scales\n",
                           "> vllm serve m \\\n>   --kv-cache-dtype fp8\\\n>   --calculate-kv-scales\n",
                           "args:\n  - serve\n  - m\n  - --kv-cache-dtype\n  - fp8\n  - --calculate-kv-scales\n",
                           "vllm serve m \u2014kv-cache-dtype fp8 \u2014calculate-kv-scales\n",
                           "- serve\n- m\n- --kv-cache-dtype\n- fp8\n- --calculate-kv-scales\n",
                           "vllm serve m --kv-cache-dtype fp8 --calculate-kv-scales\u300d\u3067\u3059\n"}) {
    Doctor doctor;
    ASSERT_EQ(kind_of_input(text, true), InputKind::Command) << text;
    doctor.add_command("cmd.txt", text);
    const Facts facts = doctor.diagnose().facts;
    EXPECT_EQ(facts.flag_value("kv-cache-dtype"), "fp8") << text;
    EXPECT_NE(facts.flag("calculate-kv-scales"), nullptr) << text;
    EXPECT_EQ(facts.model_path, "m") << text;
  }
  const Facts quoted = diagnose_log("It fails:\n> vllm serve m \\\n> --kv-cache-dtype fp8\nwith garbage\n").facts;
  EXPECT_EQ(quoted.flag_value("kv-cache-dtype"), "fp8");
  const Facts inline_code = diagnose_log("I run `vllm serve m --kv-cache-dtype fp8`\nand see garbage\n").facts;
  EXPECT_EQ(inline_code.flag_value("kv-cache-dtype"), "fp8");
}

struct Said {
  const char* text;
  const char* server;
  int capability;
};

std::string server_of(const Facts& f) {
  return f.version ? std::string(f.is(Engine::Vllm) ? "vllm " : "sglang ") + str(*f.version) : "";
}

// The forms of issues, what vllm collect-env and nvidia-smi print, and lists of packages.
TEST(Reports, FormsNameServerAndGpu) {
  for (const Said& said :
       {Said{"vLLM Version                 : 0.15.0\n", "vllm 0.15.0", 0},
        Said{"vllm version 0.7.1\n", "vllm 0.7.1", 0},
        Said{"vllm                              0.15.0\n", "vllm 0.15.0", 0},
        Said{"vllm    0.15.0    pypi_0    pypi\n", "vllm 0.15.0", 0},
        Said{"vllm 0.15.0 works, 0.16.0 does not\n", "", 0}, Said{"vllm 0.85 of the memory\n", "", 0},
        Said{"I think vllm 0.15.0 was fine\n", "", 0},
        Said{"docker image `lmsysorg/sglang:v0.5.8`\n", "sglang 0.5.8", 0},
        Said{"fails with sglang v0.5.13\n", "sglang 0.5.13", 0},
        Said{"GPU models and configuration :\nGPU 0: NVIDIA H100 80GB HBM3\nGPU 1: NVIDIA H100 80GB HBM3\n", "", 90},
        Said{"GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1234)\n", "", 80},
        Said{"GPU 0,1,2,3: NVIDIA L40S\nGPU 0,1,2,3 Compute Capability: 8.9\n", "", 89},
        Said{"|   0  NVIDIA H100 80GB HBM3          On  |   00000000:18:00.0 Off |     0 |\n", "", 90},
        Said{"GPU 0-7: NVIDIA B200 (x8)\n", "", 100},
        Said{"| GPU | 2 x RTX 3090 |\n| vLLM | 0.26.0 |\n", "vllm 0.26.0", 86},
        Said{"vllm serve m\n\nGPU models and configuration :\nGPU 0: NVIDIA H100 80GB HBM3\n", "", 90},
        Said{"- GPU: NVIDIA GeForce RTX 3080 (SM86)\n", "", 86}, Said{"**GPU**: 8x AMD Instinct MI300X\n", "", 0},
        Said{"On this GPU: H100 is fine\n", "", 0}}) {
    const Facts facts = diagnose_log(said.text).facts;
    EXPECT_EQ(server_of(facts), said.server) << said.text;
    EXPECT_EQ(facts.gpu ? facts.gpu->capability : 0, said.capability) << said.text;
  }
  EXPECT_EQ(diagnose_log("- **GPU**: 8x NVIDIA H200\n").facts.gpu->capability, 90);
  EXPECT_EQ(diagnose_log("* GPU: 8x AMD Instinct MI300X (gfx942)\n").facts.gpu->gfx, "gfx942");
}

TEST(Doctor, SaysInJsonWhatToCompareFirst) {
  const auto compared = [](const std::string& answer) {
    Doctor doctor;
    doctor.add_output("answer", answer);
    return diagnosis_json(doctor.diagnose())["compare_first"].dump().substr(0, 30);
  };
  EXPECT_EQ(compared("Paris lies on the Seine."), "null");
  EXPECT_EQ(
      compared("I look again. I look again. I look again. I look again. I look again. I look again. I look again. "),
      "\"a cache that is not quantized");
}

}  // namespace
}  // namespace kvcal
