#include "doctor/container.h"

#include <algorithm>
#include <array>

#include "base/word_list.h"
#include "doctor/launch_names.h"
#include "doctor/shell_words.h"

namespace kvcal {
namespace {

constexpr std::array<std::string_view, 10> kRuns = {
    "docker run ",    "docker container run ", "docker create ",   "podman run ",       "nerdctl run ",
    "apptainer run ", "apptainer exec ",       "singularity run ", "singularity exec ", "apptainer instance run "};

// Options without a value; of the others it is the next word.
constexpr std::string_view kSwitches =
    "--rm --init --privileged --read-only --detach --interactive --tty --publish-all --quiet "
    "--oom-kill-disable --no-healthcheck --replace --nv --rocm --nvccli --contain --containall --cleanenv "
    "--no-home --fakeroot --writable --writable-tmpfs --compat --no-hosts --sig-proxy --disable-content-trust "
    "--userns --no-eval";

/// "-it", and what Apptainer has: -e and -c take a value of Docker alone.
bool is_switch(std::string_view word, bool is_apptainer) {
  if (word.starts_with("--")) return has_word(kSwitches, word);
  return word.find_first_not_of(is_apptainer ? "cCefuwiq" : "ditPq", 1) == word.npos;
}

struct Option {
  std::string_view name, value;
};

void take_option(const Option& option, Container& container) {
  if (option.name == "-e" || option.name == "--env") take_assignment(std::string(option.value), container.environment);
  if (option.name == "--entrypoint") container.entrypoint = read_words(option.value);
}

/// The option at words[i], which moves to its last word.
Option read_option(const std::vector<std::string>& words, size_t& i, bool is_apptainer) {
  const std::string_view word = words[i];
  const bool is_long = word.starts_with("--");
  if (const size_t equals = word.find('='); is_long && equals != word.npos)
    return {word.substr(0, equals), word.substr(equals + 1)};
  if (is_switch(word, is_apptainer)) return {word, ""};
  if (!is_long && word.size() > 2) return {word.substr(0, 2), word.substr(2)};
  if (i + 1 == words.size()) return {word, ""};
  return {word, words[++i]};
}

/// "/models/Qwen3-8B", "org/name" in front of options: what an image's own program is given.
bool is_model_with_options(const std::vector<std::string>& words) {
  const bool named = words.size() > 1 && words[0].find('/') != std::string::npos && words[1].starts_with("--");
  return named && !words[0].ends_with(".sh") && !words[0].ends_with(".py") &&
         words[0].find("bin/") == std::string::npos;
}

}  // namespace

size_t find_container_run(std::string_view text) {
  size_t first = text.npos;
  for (const std::string_view run : kRuns) first = std::min(first, text.find(run));
  return first;
}

Container read_container_run(std::string_view text, size_t at) {
  Container container;
  container.written = text.substr(at);
  const std::vector<std::string> words = read_words(text.substr(at));
  const bool is_apptainer = words[0] == "apptainer" || words[0] == "singularity";
  size_t i = 1;
  while (i < words.size() && words[i] != "run" && words[i] != "exec" && words[i] != "create") ++i;
  for (++i; i < words.size() && words[i].starts_with("-"); ++i)
    take_option(read_option(words, i, is_apptainer), container);
  if (i < words.size()) container.image = words[i++];
  if (i < words.size()) container.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
  return container;
}

std::optional<ServeCommand> command_of(const Container& container) {
  std::vector<std::string> words = container.entrypoint;
  words.insert(words.end(), container.arguments.begin(), container.arguments.end());
  const std::string script = script_of(words), own = (script.empty() ? shell_quoted(words) : script) + " ";
  const std::optional<ServerImage> image = known_image(container.image);
  std::optional<ServeCommand> command = find_program(own);
  const bool options_alone = words.empty() || words.front().starts_with("-") || is_model_with_options(words);
  if (!command && image) {
    std::string program(image->program);
    if (program.empty() && options_alone && !words.empty()) program = program_of(image->server);
    if (!image->uncovered.empty()) {
      command = ServeCommand();
      command->words = words;
      command->refusal = refusal_of(container.image, image->uncovered);
    } else if (!program.empty() && container.entrypoint.empty()) {
      command = find_program(program + " " + own);
    }
  }
  if (!command) return std::nullopt;
  command->environment.insert(container.environment.begin(), container.environment.end());
  command->image = container.image;
  command->written = container.written;
  if (image && image->server == command->server) command->version = image->version;
  return command;
}

}  // namespace kvcal
