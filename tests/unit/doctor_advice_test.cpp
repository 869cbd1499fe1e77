// What doctor advises, against what the program does: no export that it refuses.
#include <gtest/gtest.h>

#include "doctor/entry.h"
#include "doctor_fixture.h"
#include "servers/server_table.h"

namespace kvcal {
namespace {

std::vector<const Entry*> entries_with_export() {
  std::vector<const Entry*> found;
  const auto add = [&](const Entry& entry) {
    if (general_fix(entry).find("kvcal export") != std::string::npos) found.push_back(&entry);
  };
  for (const auto lines : {vllm_lines(), vllm_load_lines(), sglang_lines(), other_lines()})
    for (const LogLine& line : lines) add(line.entry);
  for (const auto rules : rule_tables())
    for (const CombinationRule& rule : rules) add(rule.entry);
  return found;
}

/// Of a finding of another server, or of a target that the table of servers is not about.
bool is_of_another(std::string_view fix, ServerKind server) {
  const bool either = fix.find("(or sglang)") != std::string_view::npos;
  const bool names_other = fix.find(server == ServerKind::Vllm ? "--to sglang" : "--to vllm") != std::string_view::npos;
  const bool names_none = fix.find("--to tgi") != std::string_view::npos ||
                          fix.find("--to vllm-ascend") != std::string_view::npos ||
                          fix.find("--also-for") != std::string_view::npos;
  return names_none || (names_other && !either);
}

Facts facts_of(std::string_view architecture, ServerKind server) {
  Facts facts;
  facts.server = server == ServerKind::Vllm ? Engine::Vllm : Engine::Sglang;
  facts.model.architecture = architecture;
  CheckpointFacts checkpoint;
  checkpoint.path = "model";
  facts.checkpoint = std::make_shared<const CheckpointFacts>(std::move(checkpoint));
  facts.flags.emplace("kv-cache-dtype", Flag{server == ServerKind::Vllm ? "fp8" : "fp8_e4m3", {}});
  resolve(facts);
  return facts;
}

TEST(DoctorAdvice, NamesNoExportThatIsRefused) {
  for (const ClassLine& line : class_lines())
    for (const ServerKind server : {ServerKind::Vllm, ServerKind::Sglang}) {
      const ServerSupport support =
          server_support(verified_server(server), line.architecture, KvCarrier::CompressedTensors);
      const Facts facts = facts_of(line.architecture, server);
      for (const Entry* entry : entries_with_export()) {
        if (is_of_another(general_fix(*entry), server)) continue;
        const std::string fix = fix_text(*entry, facts);
        const bool to_json = support.json && fix.find("--to sglang-json") != std::string::npos;
        EXPECT_EQ(fix.find("kvcal export") != std::string::npos, support.loads || to_json)
            << entry->id << " of " << line.architecture << " in " << str(support.server) << ": " << fix;
        EXPECT_FALSE(fix.empty()) << entry->id << " of " << line.architecture;
        if (!support.loads && !support.plugin.empty() && !to_json) {
          EXPECT_NE(fix.find(support.plugin), std::string::npos) << entry->id << ": " << fix;
        }
      }
    }
}

TEST(DoctorAdvice, NamesTheTargetThatTakesTheClass) {
  const auto fix_of = [](std::string_view architecture, Engine server) {
    Facts facts = facts_of(architecture, ServerKind::Vllm);
    facts.server = server;
    return fix_text({.fix = kExport}, facts);
  };
  EXPECT_NE(fix_of("LlamaForCausalLM", Engine::Unknown).find("--to vllm (or sglang)"), std::string::npos);
  EXPECT_TRUE(fix_of("Qwen3ForCausalLM", Engine::Unknown).ends_with("--to vllm"));
  EXPECT_TRUE(fix_of("LlamaForCausalLM", Engine::Sglang).ends_with("--to sglang"));
  EXPECT_EQ(fix_of("Qwen3ForCausalLM", Engine::Sglang).find("kvcal export"), std::string::npos);
}

TEST(DoctorAdvice, KnowsAModelWithMlaByItsName) {
  Doctor doctor;
  doctor.add_command("command", "vllm serve deepseek-ai/DeepSeek-V3.1 --kv-cache-dtype fp8");
  const Diagnosis d = doctor.diagnose();
  EXPECT_EQ(fix_text({.fix = kCalibrate}, d.facts).find("kvcal export"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
