// Models named as on the Hub ("org/name"), found where its tools have downloaded them. Nothing is downloaded.
#pragma once

#include <string>

namespace kvcal {

/// The checkpoint folder that is meant: the path as given, or for the id of a model that is no path the snapshot of it
/// in the local cache (HF_HUB_CACHE, HF_HOME). Throws Error with the command that downloads it where it is not there.
std::string model_folder(const std::string& given);

/// The same where a file may be given as well, which is left as it is.
std::string file_or_model(const std::string& given);

/// Whether model_folder() finds something that exists.
bool names_model(const std::string& given);

}  // namespace kvcal
