// installed_server.py, which says what vLLM and SGLang are installed for the Python that runs it.
#pragma once

#include <string_view>

namespace kvcal {

std::string_view installed_script();

}  // namespace kvcal
