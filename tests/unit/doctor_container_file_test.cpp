// Dockerfiles by Docker's reference, and units of Quadlet by systemd's: what would be started, and how.
#include <gtest/gtest.h>

#include "doctor/container.h"
#include "doctor/diagnose.h"
#include "doctor/launches.h"
#include "harness/cost.h"

namespace kvcal {
namespace {

std::string image_of(const std::string& dockerfile) {
  return read_container_file(dockerfile + "\nCMD [\"X\"]\n").container.value("image", "");
}

/// Of a Dockerfile on vLLM's image: the model, and what its command says of the cache; "none" without a command.
std::string cache_of(const std::string& instructions) {
  const Launches launches = read_launches("FROM vllm/vllm-openai:v0.28.0\n" + instructions);
  if (launches.commands.empty()) return "none";
  const ServeCommand& command = launches.commands[0];
  const auto type = command.flags.find("kv-cache-dtype");
  return command.model + " " + (type == command.flags.end() ? "" : type->second);
}

TEST(ContainerFile, ExpandsWhatArgSays) {
  const auto tagged = [](const std::string& arguments, const std::string& tag) {
    return image_of(arguments + "\nFROM vllm/vllm-openai:" + tag).substr(17);
  };
  EXPECT_EQ(tagged("ARG TAG=v0.9.0\nARG TAG_CU=v0.12.0", "$TAG_CU"), "v0.12.0");
  EXPECT_EQ(tagged("ARG tag=v0.9.0", "${tag}-cu13"), "v0.9.0-cu13");
  EXPECT_EQ(tagged("ARG A_VER=0.12.0\nARG TAG=v$A_VER", "$TAG"), "v0.12.0");
  EXPECT_EQ(tagged("ARG TAG=v0.9.0\nARG TAG=v0.12.0", "$TAG"), "v0.12.0");
  EXPECT_EQ(tagged("ARG TAG", "${TAG:-v0.9.0}"), "v0.9.0");
  EXPECT_EQ(tagged("ARG TAG=", "${TAG:-v0.9.0}"), "v0.9.0");
  EXPECT_EQ(tagged("ARG TAG=", "v0.9.0${TAG-x}"), "v0.9.0");
  EXPECT_EQ(tagged("ARG V=v0.9.0\nARG CU=", "${TAG:-${V}}${CU:+-cu13}"), "v0.9.0${CU:+-cu13}");
  EXPECT_EQ(tagged("ARG CU=13", "v0.9.0${CU:+-cu$CU}"), "v0.9.0-cu13");
  EXPECT_EQ(tagged("ARG TAG=v0.9.0", "${TAG?not given}"), "v0.9.0");
}

TEST(ContainerFile, LeavesWhatIsNotKnownAsItIsWritten) {
  EXPECT_EQ(image_of("ARG TAG\nFROM vllm/vllm-openai:$TAG"), "vllm/vllm-openai:$TAG");
  EXPECT_EQ(image_of("ARG TAG=v0.9.0\nFROM vllm/vllm-openai:${TAG#v}"), "vllm/vllm-openai:${TAG#v}");
  EXPECT_EQ(image_of("ARG TAG=v0.9.0\nFROM vllm/vllm-openai:\\$TAG"), "vllm/vllm-openai:$TAG");
  EXPECT_EQ(image_of("ARG TAG=v0.9.0\nFROM vllm/vllm-openai:${TAG"), "vllm/vllm-openai:${TAG");
  // In a stage, it is of that stage alone.
  EXPECT_EQ(image_of("FROM a\nARG TAG=v0.9.0\nFROM vllm/vllm-openai:$TAG"), "vllm/vllm-openai:$TAG");
}

TEST(ContainerFile, ExpandsWhatAShellWould) {
  const std::string line = "CMD vllm serve X --kv-cache-dtype ";
  EXPECT_EQ(cache_of("ENV KV=fp8\n" + line + "$KV"), "X fp8");
  EXPECT_EQ(cache_of(line + "\"${KV}_e4m3\"\nENV KV=fp8"), "X fp8_e4m3") << "when it runs";
  EXPECT_EQ(cache_of(line + "${KV:-fp8}"), "X fp8");
  EXPECT_EQ(cache_of("ENV KV=fp8\n" + line + "'$KV'"), "X $KV");
  EXPECT_EQ(cache_of("ARG KV=fp8\n" + line + "$KV"), "X $KV") << "ARG is gone when it runs";
  EXPECT_EQ(cache_of("ARG KV=fp8\nENV KV=$KV\n" + line + "$KV"), "X fp8");
  EXPECT_EQ(cache_of("ENV KV=fp8\nARG KV=auto\nENV KIND=$KV\n" + line + "$KIND"), "X fp8") << "ENV goes first";
  EXPECT_EQ(cache_of("ENV KV fp8\nENV OPTIONS=\"--kv-cache-dtype $KV\"\nCMD vllm serve X $OPTIONS"), "X fp8");
  EXPECT_EQ(cache_of("ENV KV=fp8\nCMD [\"bash\", \"-c\", \"vllm serve X --kv-cache-dtype $KV\"]"), "X fp8");
  EXPECT_EQ(cache_of("ENV KV=fp8\nCMD [\"X\", \"--kv-cache-dtype\", \"$KV\"]"), "X $KV") << "no shell";
  EXPECT_EQ(cache_of("ENV O='{\"a\": \"b c\"}'\nCMD vllm serve X --hf-overrides \"$O\" --kv-cache-dtype fp8"), "X fp8");
}

TEST(ContainerFile, ReadsContinuedLines) {
  EXPECT_EQ(cache_of("CMD vllm serve X \\\n\n  # the cache\n  --kv-cache-dtype fp8"), "X fp8");
  EXPECT_EQ(cache_of("CMD vllm serve X\\\n  --kv-cache-dtype fp8"), "X fp8") << "the margin stays";
  EXPECT_EQ(cache_of("CMD vllm serve X --kv-cache-dtype fp8 \\"), "X fp8") << "the file's end";
  EXPECT_EQ(cache_of("CMD [\"X\", \\\n# the cache\n\n\"--kv-cache-dtype\", \"fp8\"]"), "X fp8");
}

TEST(ContainerFile, SkipsHereDocuments) {
  for (const char* begin :
       {"RUN <<EOF", "COPY <<\"EOF\" /a", "RUN cat <<-'EOF' > a", "RUN cat <<A <<EOF\nA", "run 3<<EOF"})
    EXPECT_EQ(cache_of(std::string("CMD [\"X\"]\n") + begin + "\nCMD [\"Y\"]\n# \\\n" +
                       (std::string(begin).find("<<-") != std::string::npos ? "\t" : "") + "EOF\n"),
              "X ")
        << begin;
  EXPECT_EQ(cache_of("RUN echo \"a <<EOF\" $((1<<2))\nCMD [\"X\"]\nEOF\n"), "X ");
  EXPECT_EQ(cache_of("RUN cat <<EOF\nCMD [\"X\"]\n"), "X ") << "one that does not end is none";
}

TEST(ContainerFile, StagesBeginAsOthers) {
  const std::string first = "FROM vllm/vllm-openai:v0.28.0 AS Base\nENV A=1 B=$A\nFROM busybox\nENV C=3\n";
  const Json last = read_container_file(first + "FROM base\nENV B=2\nCMD [\"X\"]\n").container;
  EXPECT_EQ(last.value("image", ""), "vllm/vllm-openai:v0.28.0");
  EXPECT_EQ(last["env"], Json({{"A", "1"}, {"B", "2"}}));
  const std::string named = "ARG FROM_STAGE=bAse\n" + first + "FROM ${FROM_STAGE}\nCMD [\"X\"]\n";
  EXPECT_EQ(read_container_file(named).container.value("image", ""), "vllm/vllm-openai:v0.28.0");
}

TEST(ContainerFile, ReadsUnitsAsSystemdDoes) {
  const Launches launches = read_launches(
      "[Container]\nImage = vllm/vllm-openai:v0.28.0 \nEnvironment = A=$B\nExec = --model X\\\n; the cache\n"
      "--kv-cache-dtype fp8\n\n[Service]\nExec=none\n");
  ASSERT_EQ(launches.commands.size(), 1u);
  EXPECT_EQ(launches.kind, "Quadlet unit");
  EXPECT_EQ(launches.commands[0].model, "X");
  EXPECT_EQ(launches.commands[0].environment.at("A"), "$B");
}

// 64 KiB: a stage costs what its own lines do, values that name the one before twice do not double without end.
TEST(ContainerFile, CostsWhatItsTextDoes) {
  std::string stages = "FROM vllm/vllm-openai:v0.28.0 AS a\nENV", doubling = "FROM a\nENV A=aaaa\n";
  for (int i = 0; i < 3000; ++i) stages += " A" + std::to_string(i) + "=";
  for (int i = 0; stages.size() < 65000; ++i) stages += "\nFROM a AS b" + std::to_string(i);
  while (doubling.size() < 65000) doubling += "ENV A=$A$A\n";
  std::string nested = "FROM a\nCMD ";
  while (nested.size() < 65000) nested += "${A:-";
  for (const std::string& text : {stages, doubling, nested}) {
    const Cost cost = cost_of([&] { read_container_file(text + "\nCMD [\"X\"]\n"); });
    EXPECT_TRUE(cost.ended);
    EXPECT_LT(cost.seconds, 2);
    EXPECT_LT(cost.kilobytes, 32 << 10);
  }
}

// What the program of an image is that others made is not known: a model in front of options is a server's.
TEST(ContainerFile, AModelBeforeOptionsIsForTheImagesServer) {
  const auto models = [](const std::string& image, const std::string& words) {
    std::string all;
    for (const ServeCommand& c :
         read_launches("services:\n  x:\n    image: " + image + "\n    command: [" + words + "]\n").commands)
      all += c.model + " " + c.flags.at("kv-cache-dtype");
    return all;
  };
  EXPECT_EQ(models("intel/llm-scaler-vllm:0.26.0-b2", "/models/X, --kv-cache-dtype, fp8_e4m3"), "/models/X fp8_e4m3");
  EXPECT_EQ(models("intel/llm-scaler-vllm:0.26.0-b2", "/app/start.sh, --kv-cache-dtype, fp8_e4m3"), "");
  EXPECT_EQ(models("nginx", "/models/X, --kv-cache-dtype, fp8_e4m3"), "");
}

TEST(ContainerFile, OfAManifestSaysWhichGpuItAsksFor) {
  Doctor doctor;
  doctor.add_command("pod.yaml",
                     "apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector: {nvidia.com/gpu.product: Tesla-T4}\n"
                     "  containers:\n  - {image: vllm/vllm-openai, args: [--model, X]}\n");
  const Diagnosis d = doctor.diagnose();
  ASSERT_TRUE(d.facts.gpu.has_value());
  EXPECT_EQ(d.facts.gpu->capability, 75);
}

}  // namespace
}  // namespace kvcal
