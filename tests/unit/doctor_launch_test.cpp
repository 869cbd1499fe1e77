// The forms in which people paste how their server starts, and what is taken from each.
#include <gtest/gtest.h>

#include "doctor/input_kind.h"
#include "doctor/launches.h"
#include "doctor_fixture.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

/// "vLLM 0.27.1 X: kv-cache-dtype=fp8 tp | NAME=value": server, version, model, options but the model's, environment;
/// or why there are no rules for it.
std::string shown(const ServeCommand& command) {
  if (!command.refusal.empty()) return command.refusal;
  std::string text(name_of(command.server));
  if (command.version) text += " " + str(*command.version);
  text += (command.model.empty() ? "" : " " + command.model) + ":";
  for (const auto& [name, value] : command.flags)
    if (name != "model" && name != "model-path") text += " " + name + (value.empty() ? "" : "=" + value);
  for (const auto& [name, value] : command.environment) text += " | " + name + "=" + value;
  return text;
}

std::string shown(std::string_view text) {
  std::string all;
  for (const ServeCommand& command : read_launches(text).commands) all += (all.empty() ? "" : "\n") + shown(command);
  return all;
}

const std::string kNoRules = ", only for vLLM, SGLang, llama.cpp and LMDeploy";

struct Form {
  const char* text;
  std::string expected;
};

TEST(Launch, inspected_containers) {
  EXPECT_EQ(
      shown(
          R"([{"Id": "8d", "Image": "sha256:1f", "Config": {"Image": "vllm/vllm-openai:v0.27.1", "Env": ["VLLM_USE_V1=1"],
                       "Entrypoint": ["vllm", "serve"], "Cmd": ["X", "--kv-cache-dtype", "fp8"]}},
                      {"Id": "8e", "Config": {"Image": "redis:7", "Cmd": ["redis-server"]}}])"),
      "vLLM 0.27.1 X: kv-cache-dtype=fp8 | VLLM_USE_V1=1");
}

TEST(Launch, manifests_in_json) {
  const auto pod = [](const std::string& argument) {
    return R"({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "vllm/vllm-openai:v0.28.0",
               "args": ["--model", "X", "--tensor-parallel-size", 2, "--chat-template", ")" +
           argument + "\"]}]}}";
  };
  EXPECT_EQ(shown(pod("\\ud83d\\ude00")), "vLLM 0.28.0 X: chat-template=\xf0\x9f\x98\x80 tensor-parallel-size=2");
  EXPECT_EQ(shown(pod("User: {{ m.content }}")),
            "vLLM 0.28.0 X: chat-template=User: {{ m.content }} tensor-parallel-size=2");
  EXPECT_EQ(kind_of_input(pod("{{ m.content }}"), true), InputKind::Command);
}

TEST(Launch, files_of_one_container) {
  const std::string command = "vLLM 0.28.0 X: kv-cache-dtype=fp8";
  const Form forms[] = {
      {"# ours\nFROM vllm/vllm-openai:v0.28.0\nENV VLLM_USE_V1=1 A=\"b c\"\nCMD [\"X\", \\\n  \"--kv-cache-dtype\", "
       "\"fp8\"]\n",
       command + " | A=b c | VLLM_USE_V1=1"},
      {"ARG TAG=v0.28.0\nFROM --platform=linux/amd64 vllm/vllm-openai:${TAG} AS base\nENV A b c\nFROM base\n"
       "RUN pip install x\nENTRYPOINT vllm serve X --kv-cache-dtype fp8\n",
       command + " | A=b c"},
      {"from lmsysorg/sglang:v0.5.23\ncmd [\"python3\", \"-m\", \"sglang.launch_server\", \"--model\", \"X\"]",
       "SGLang 0.5.23 X:"},
      {"[Unit]\nDescription=vLLM\n\n[Container]\nImage=docker.io/vllm/vllm-openai:v0.28.0\nEnvironment=HF_HOME=/hf "
       "\"A=b c\"\nExec=--model X \\\n  --kv-cache-dtype fp8\nVolume=/hf:/hf\n[Service]\nEnvironment=NOT=inside\n",
       command + " | A=b c | HF_HOME=/hf"},
  };
  for (const auto& [text, expected] : forms) {
    EXPECT_EQ(shown(text), expected) << text;
    EXPECT_EQ(kind_of_input(text, true), InputKind::Command) << text;
  }
  EXPECT_EQ(kind_of_input("FROM here on the log says nothing\n", true), InputKind::Log);
}

TEST(Launch, files_of_options) {
  EXPECT_EQ(shown("# --config\nmodel: X\nkv_cache_dtype: fp8\nenforce-eager: true\ntrust-remote-code: false\n"
                  "speculative-config:\n  method: mtp\n"),
            "unknown server X: enforce-eager kv-cache-dtype=fp8 speculative-config={\"method\":\"mtp\"}");
}

TEST(Launch, long_manifests) {
  std::string text = "apiVersion: v1\nkind: List\nitems:\n";
  for (int i = 0; i < 40000; ++i) text += "- kind: ConfigMap\n  data: {a: 1}\n";
  text += "- kind: Pod\n  spec:\n    containers:\n    - image: vllm/vllm-openai:v0.28.0\n      args: [--model, X]\n";
  EXPECT_EQ(shown(text), "vLLM 0.28.0 X:");
}

TEST(Launch, commands_of_containers) {
  const Form forms[] = {
      {"docker run --gpus all vllm/vllm-openai:v0.27.1 --model X --kv-cache-dtype fp8",
       "vLLM 0.27.1 X: kv-cache-dtype=fp8"},
      {"sudo docker run -d --rm -it --name v --gpus '\"device=0,1\"' -p 8000:8000 --ipc=host --shm-size 16g \\\n"
       "  -v ~/models:/models -e VLLM_ATTENTION_BACKEND=FLASHINFER -eHF_TOKEN=a \\\n"
       "  vllm/vllm-openai:latest X --kv_cache_dtype=fp8_e4m3 -tp 2",
       "vLLM X: kv-cache-dtype=fp8_e4m3 tp=2 | HF_TOKEN=a | VLLM_ATTENTION_BACKEND=FLASHINFER"},
      {"docker run --env=VLLM_USE_V1=1 vllm/vllm-openai:nightly --model X", "vLLM X: | VLLM_USE_V1=1"},
      {"docker run --entrypoint python3 vllm/vllm-openai:v0.6.4.post1 -m vllm.entrypoints.openai.api_server --model X",
       "vLLM 0.6.4 X:"},
      {"docker run --entrypoint bash vllm/vllm-openai:v0.28.0 -lc 'pip install x && vllm serve X --kv-cache-dtype fp8'",
       "vLLM 0.28.0 X: kv-cache-dtype=fp8"},
      {"docker run --gpus all lmsysorg/sglang:v0.5.9-cu126 python3 -m sglang.launch_server --model-path X "
       "--kv-cache-dtype fp8_e4m3",
       "SGLang 0.5.9 X: kv-cache-dtype=fp8_e4m3"},
      {"podman run --device nvidia.com/gpu=all docker.io/lmsysorg/sglang:latest sglang serve --model-path X",
       "SGLang X:"},
      {"nerdctl run --gpus all nvcr.io/nvidia/vllm:25.09-py3 vllm serve X --kv-cache-dtype fp8",
       "vLLM X: kv-cache-dtype=fp8"},
      {"docker run --device=/dev/kfd rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715 vllm serve X", "vLLM 0.9.1 X:"},
      {"docker run ghcr.io/someone/vllm-custom:v9 --model X", "vLLM X:"},
      {"apptainer exec --nv -e --bind /data docker://vllm/vllm-openai:v0.11.0 vllm serve X --kv-cache-dtype fp8",
       "vLLM 0.11.0 X: kv-cache-dtype=fp8"},
      {"singularity run --nv vllm-openai_v0.11.2.sif --model X", "vLLM 0.11.2 X:"},
      {"docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -m X.gguf -ctk q8_0",
       "llama.cpp X.gguf: ctk=q8_0 m=X.gguf"},
      {"docker run -d redis\ndocker run openmmlab/lmdeploy:v0.9.2-cu12 lmdeploy serve api_server X --quant-policy 8",
       "LMDeploy 0.9.2 X: quant-policy=8"},
      {"docker exec server vllm serve X", "vLLM X:"},
      {"docker run ubuntu sleep 1", ""},
      {"docker run ghcr.io/huggingface/text-generation-inference:3.3 --model-id X",
       "'ghcr.io/huggingface/text-generation-inference:3.3': this program has no rules for Text Generation Inference" +
           kNoRules},
      {"docker run nvcr.io/nvidia/tensorrt-llm/release:1.2.0 trtllm-serve X",
       "'trtllm-serve': this program has no rules for TensorRT-LLM's server" + kNoRules},
  };
  for (const Form& form : forms) EXPECT_EQ(shown(form.text), form.expected) << form.text;
}

TEST(Launch, other_commands) {
  const Form forms[] = {
      {"--model X --kv-cache-dtype fp8", "unknown server X: kv-cache-dtype=fp8"},
      {"  --model X \\\n  --kv-cache-dtype fp8 \n --enforce-eager",
       "unknown server X: enforce-eager kv-cache-dtype=fp8"},
      {"[\"--model\", \"X\", \"--kv-cache-dtype=fp8\"]", "unknown server X: kv-cache-dtype=fp8"},
      {"- vllm\n- serve\n- X\n- --kv-cache-dtype\n- fp8\n", "vLLM X: kv-cache-dtype=fp8"},
      {"python -m dynamo.vllm --model X --kv-cache-dtype fp8", "vLLM X: kv-cache-dtype=fp8"},
      {"python3 -m dynamo.sglang --model-path X", "SGLang X:"},
      {"vllm bench throughput --model X --kv-cache-dtype fp8", "vLLM X: kv-cache-dtype=fp8"},
      {"lm_eval --model vllm --model_args pretrained=X,kv_cache_dtype=fp8,enforce_eager=True --tasks gsm8k",
       "vLLM X: enforce-eager kv-cache-dtype=fp8"},
      {"VLLM_USE_V1=1 lm-eval run --model sglang --model_args pretrained=X", "SGLang X: | VLLM_USE_V1=1"},
      {"export VLLM_ATTENTION_BACKEND=TRITON_ATTN\nvllm serve X", "vLLM X: | VLLM_ATTENTION_BACKEND=TRITON_ATTN"},
      {"bash -c \"\n  vllm serve X --kv-cache-dtype fp8\"\nwait", "vLLM X: kv-cache-dtype=fp8"},
      {"A=1 bash -c \"exec vllm serve X --kv-cache-dtype fp8\" && echo \"done\"", "vLLM X: kv-cache-dtype=fp8 | A=1"},
      {"llm = LLM(model=\"X\", kv_cache_dtype='fp8',\n          enforce_eager=True, seed=None, dtype=dtype)",
       "vLLM X: enforce-eager kv-cache-dtype=fp8"},
      {"from vllm import LLM\nLLM('X', compilation_config={'a': (1, 2)}, tensor_parallel_size=2)",
       "vLLM X: compilation-config={'a': (1, 2)} tensor-parallel-size=2"},
      {"AsyncEngineArgs(model='X', kv_cache_dtype='fp8')", "vLLM X: kv-cache-dtype=fp8"},
      {"sgl.Engine(model_path=\"X\", kv_cache_dtype=\"fp8_e4m3\")", "SGLang X: kv-cache-dtype=fp8_e4m3"},
      {"LLM(model=name)", ""},
      {"for other LLM(s) too", ""},
      {"LLM(model=args.model, kv_cache_dtype='fp8')", "vLLM MODEL: kv-cache-dtype=fp8"},
      {"m = 'old'\nm = \"org/X\"\n# m = 'no'\nkv = 'fp8'\nllm = LLM(m, kv_cache_dtype=kv)",
       "vLLM org/X: kv-cache-dtype=fp8"},
      {"create_engine.Engine(model_path='X')", ""},
      {"from tensorrt_llm import LLM\nllm = LLM(model='X')",
       "'LLM(...)': this program has no rules for TensorRT-LLM" + kNoRules},
      {"trtllm-serve X --kv_cache_dtype fp8",
       "'trtllm-serve': this program has no rules for TensorRT-LLM's server" + kNoRules},
      {"python -m dynamo.trtllm --model X",
       "'dynamo.trtllm': this program has no rules for TensorRT-LLM behind Dynamo" + kNoRules},
      {"python -m lightllm.server.api_server --model_dir X",
       "'lightllm.server.api_server': this program has no rules for LightLLM's server" + kNoRules},
      {"lm_eval --model hf --model_args pretrained=X",
       "'lm_eval': this program has no rules for the model type 'hf' of lm_eval" + kNoRules},
      {"vllm bench serve --model X &\nvllm serve X --kv-cache-dtype fp8", "vLLM X: kv-cache-dtype=fp8"},
      {"vllm bench serve --model X", "'vllm bench serve' is a client: give the command that started the server"},
  };
  for (const Form& form : forms) EXPECT_EQ(shown(form.text), form.expected) << form.text;
}

TEST(Launch, containers_of_manifests) {
  const Form forms[] = {
      {R"(# compose
services:
  vllm:
    image: vllm/vllm-openai:v0.27.1
    command: >
      --model X
      --kv-cache-dtype fp8
    environment:
      - HF_TOKEN=${HF_TOKEN}
      - VLLM_ATTENTION_BACKEND=FLASHINFER
)",
       "vLLM 0.27.1 X: kv-cache-dtype=fp8 | HF_TOKEN=${HF_TOKEN} | VLLM_ATTENTION_BACKEND=FLASHINFER"},
      {R"(x-server: &server
  image: "lmsysorg/sglang:v0.5.9-cu126"
  environment: {SGLANG_X: "1"}
services:
  db: {image: redis}
  prefill:
    <<: *server
    command: [python3, -m, sglang.launch_server, --model-path, X, "--disaggregation-mode", prefill]
  decode:
    <<: *server
    entrypoint: python3 -m sglang.launch_server
    command:
      - --model-path=X   # the same
      - --kv-cache-dtype
      - fp8_e4m3
)",
       "SGLang 0.5.9 X: disaggregation-mode=prefill | SGLANG_X=1\n"
       "SGLang 0.5.9 X: kv-cache-dtype=fp8_e4m3 | SGLANG_X=1"},
      {R"(services:
  v:
    image: vllm/vllm-openai:v0.28.0
    entrypoint: ["/bin/bash", "-c"]
    command:
      - |
        set -e
        vllm serve X \
          --kv-cache-dtype fp8
)",
       "vLLM 0.28.0 X: kv-cache-dtype=fp8"},
      {R"(apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
      - name: vllm
        image: vllm/vllm-openai:v0.11.0
        command: ["/bin/sh", "-c"]
        args: [
          "vllm serve X --trust-remote-code --kv-cache-dtype fp8"
        ]
        env:
        - name: HF_TOKEN
          valueFrom: {secretKeyRef: {name: a, key: token}}
        - name: VLLM_USE_V1
          value: "1"
)",
       "vLLM 0.11.0 X: kv-cache-dtype=fp8 trust-remote-code | HF_TOKEN= | VLLM_USE_V1=1"},
      {R"(apiVersion: v1
kind: Service
metadata: {name: s}
---
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
spec:
  leaderWorkerTemplate:
    leaderTemplate:
      spec:
        containers:
          - image: lmsysorg/sglang:latest
            command:
              - python3
              - -m
              - sglang.launch_server
              - --model-path
              - X
              - --tp
              - "16"
)",
       "SGLang X: tp=16"},
      {R"(apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
spec:
  predictor:
    model:
      modelFormat:
        name: huggingface
      args: [--model_name=llama, --kv-cache-dtype=fp8]
      storageUri: hf://X
)",
       "vLLM hf://X: kv-cache-dtype=fp8 model-name=llama"},
      {R"({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "vllm/vllm-openai:v0.9.2", "args": ["--model", "X"]}]}})",
       "vLLM 0.9.2 X:"},
      {R"(# values
image:
  repository: vllm/vllm-openai
  tag: v0.10.1
{{- if .Values.x }}
args: ["--model", "X", "--kv-cache-dtype", "fp8"]
{{- end }}
)",
       "vLLM 0.10.1 X: kv-cache-dtype=fp8"},
      {R"(servingEngineSpec:
  modelSpec:
  - name: a
    repository: vllm/vllm-openai
    tag: "v0.10.1"
    modelURL: X
    vllmConfig:
      extraArgs: ["--kv-cache-dtype", "fp8"]
)",
       "vLLM 0.10.1 X: kv-cache-dtype=fp8"},
      {"services:\n  a:\n    image: nvcr.io/nvidia/tritonserver:25.09-py3\n",
       "'nvcr.io/nvidia/tritonserver:25.09-py3': this program has no rules for the Triton server" + kNoRules},
      {"services:\n  a:\n    image: nginx\n", ""},
  };
  for (const Form& form : forms) EXPECT_EQ(shown(form.text), form.expected) << form.text;
  EXPECT_EQ(name_of(kind_of_input(forms[0].text, true)), "command");
  EXPECT_EQ(read_launches(forms[0].text).kind, "compose file");
  EXPECT_EQ(read_launches(forms[3].text).kind, "Kubernetes manifest");
  EXPECT_EQ(read_launches(forms[8].text).kind, "chart's values");
}

TEST(Launch, kinds_of_files) {
  const std::pair<const char*, InputKind> files[] = {
      {"import sys\nfrom vllm import LLM\nllm = LLM(model='X')\n", InputKind::Command},
      {"from transformers import pipeline\nx = LLM(model='X')\n", InputKind::Log},
      {"#!/bin/sh\ndocker run vllm/vllm-openai --model X\n", InputKind::Command},
      {"--model X --kv-cache-dtype fp8\n", InputKind::Command},
      {"---- a rule\n", InputKind::Log},
      {"services: none\n", InputKind::Log},
      {"# vllm serve --config this\nmodel: X\nkv-cache-dtype: fp8\n", InputKind::Command},
      {"model: gpt\ntemperature: 1\n", InputKind::Log},
      {"kv-cache-dtype: fp8\nINFO: Application startup complete.\nall is well\n", InputKind::Log},
      {"[{\"Id\": \"a\", \"Config\": {\"Image\": \"vllm/vllm-openai:v0.27.1\", \"Cmd\": [\"X\"]}}]",
       InputKind::Command},
      {"[{\"Id\": \"a\"}]", InputKind::Log},
      {"services:\n  a:\n    image: vllm/vllm-openai\nINFO 11-28 INFO and a log\n", InputKind::Log},
      {"apiVersion: v1\nkind: Pod\n  spec: [\n", InputKind::Command},
      {"My server prints garbage.\nservices:\n  a:\n    image: vllm/vllm-openai\n", InputKind::Log},
      {"```\nservices:\n  a:\n    image: vllm/vllm-openai\n```\n", InputKind::Log},
      {"{\"object\": {\"apiVersion\": \"v1\", \"kind\": \"Pod\"}}\n{\"apiVersion\": \"v1\", \"kind\": 1}\n",
       InputKind::Log},
      {"{\"model_type\": \"llama\", \"kind\": 1}", InputKind::Config},
      {"a: b\nimage: c\n", InputKind::Log},
      {"server_args=ServerArgs(model_path='m', kv_cache_dtype='auto')\n", InputKind::Log},
      {"[2026-02-16 10:00:00] vllm serve m --kv-cache-dtype fp8\n", InputKind::Log},
      {"vllm serve m --kv-cache-dtype fp8\n[2026-02-16 10:00:30] ready\n", InputKind::Log},
      {"vllm serve m --kv-cache-dtype fp8\n(EngineCore pid=7) ready\n", InputKind::Log},
      {"vllm serve m\nUsing FP8 KV cache but no scaling factors provided. Defaulting to scaling factors of 1.0.\n",
       InputKind::Log},
      {"vllm serve m\nUsing KV cache dtype: torch.float8_e4m3fn\n", InputKind::Log},
      {"--model m --kv-cache-dtype fp8\n!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!\n",
       InputKind::Log},
      {"- serve\n- m\n- --kv-cache-dtype\n- fp8\n", InputKind::Command},
      {"['vllm', 'serve', 'm', '--kv-cache-dtype', 'fp8']\n", InputKind::Command},
      {"- vllm 0.15.0 is fine\n- 0.16.0 is not, with vllm serve m\n", InputKind::Log},
      {"vllm serve m \\\n  --kv-cache-dtype fp8 \\\n  --calculate-kv-scales &\nsleep 60\ncurl localhost:8000\n",
       InputKind::Command}};
  for (const auto& [text, kind] : files) EXPECT_EQ(name_of(kind_of_input(text, true)), name_of(kind)) << text;
}

TEST(Launch, is_found_in_logs_with_the_version_of_its_image) {
  const Diagnosis d = diagnose_log(
      "+ docker run --gpus all vllm/vllm-openai:v0.27.1 \\\n --model X --kv-cache-dtype fp8\nINFO started\n");
  EXPECT_EQ(d.facts.server, Engine::Vllm);
  ASSERT_TRUE(d.facts.version.has_value());
  EXPECT_EQ(str(*d.facts.version), "0.27.1");
  EXPECT_EQ(d.facts.flag_value("kv-cache-dtype"), "fp8");
  const Diagnosis described =
      diagnose_log("    Image:         lmsysorg/sglang:v0.5.9-cu126\nworks with vllm/vllm-openai:v0.1.2\n");
  ASSERT_TRUE(described.facts.version.has_value());
  EXPECT_EQ(str(*described.facts.version), "0.5.9");
}

TEST(Launch, is_found_in_blocks_of_a_report) {
  const Diagnosis d = diagnose_log(
      "Garbage since yesterday.\n```yaml\nservices:\n  a:\n    image: vllm/vllm-openai:v0.27.1\n    command:\n"
      "      - --model=X\n      - --max-model-len\n      - \"4096\"\n```\nand\n```\nservices: [\n```\n");
  ASSERT_TRUE(d.facts.command.has_value());
  EXPECT_EQ(d.facts.flag_value("max-model-len"), "4096");
  EXPECT_EQ(d.facts.command_from.line, 3u);
  EXPECT_EQ(str(*d.facts.version), "0.27.1");
  const Diagnosis python = diagnose_log("```python\nllm = LLM(\n    model='X',\n    kv_cache_dtype='fp8',\n)\n```\n");
  EXPECT_EQ(python.facts.flag_value("kv-cache-dtype"), "fp8");
}

std::string refused(const std::string& name, const std::string& text, const char* server = nullptr) {
  return message_of([&] {
    Doctor doctor;
    if (server) doctor.add_server(parse_engine(server));
    doctor.add_command(name, text);
  });
}

TEST(Launch, of_options_alone_the_server_is_what_is_said) {
  Doctor doctor;
  doctor.add_server(parse_engine("sglang@0.5.23"));
  doctor.add_command("--command", "--model-path X --kv-cache-dtype fp8_e4m3");
  const Diagnosis d = doctor.diagnose();
  EXPECT_EQ(d.facts.commands.at(0).first.server, Engine::Sglang);
  EXPECT_EQ(command_without(*d.facts.command, {}),
            "python -m sglang.launch_server --model-path X --kv-cache-dtype fp8_e4m3");
  EXPECT_EQ(refused("--command", "--model X"), "no error");
}

TEST(Launch, what_starts_no_server_says_what_it_is) {
  EXPECT_EQ(refused("f", "services:\n  a:\n    image: nginx\n"),
            "f: a compose file in which no container starts a server that is known: 'nginx'");
  EXPECT_EQ(refused("f", "trtllm-serve X").substr(0, 32), "f: 'trtllm-serve': this program ");
  EXPECT_EQ(refused("f", "apiVersion: v1\nkind: Pod\nspec:\n    a: 1\n  b: 2\n"),
            "f: line 5 is no YAML: did not find expected key");
}

}  // namespace
}  // namespace kvcal
