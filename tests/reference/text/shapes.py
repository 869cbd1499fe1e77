"""More whole chat templates, written for this project with the constructs that public families use."""

import pathlib

# shapes/*.jinja: whole templates of the length of public ones.
MORE_SHAPES = {path.stem: path.read_text(encoding="utf-8")
               for path in sorted((pathlib.Path(__file__).parent / "shapes").glob("*.jinja"))} | {
    "llama31_tools": r"""{{- bos_token }}
{%- if custom_tools is defined %}{%- set tools = custom_tools %}{%- endif %}
{%- if not tools_in_user_message is defined %}{%- set tools_in_user_message = true %}{%- endif %}
{%- if not date_string is defined %}{%- if strftime_now is defined %}{%- set date_string = strftime_now("%d %b %Y") %}{%- else %}{%- set date_string = "26 Jul 2024" %}{%- endif %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}{{- "Environment: ipython\n" }}{%- endif %}
{%- if builtin_tools is defined %}{{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n"}}{%- endif %}
{{- "Today Date: " + date_string + "\n\n" }}{{- system_message }}{{- "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}{%- set first_user_message = messages[0]['content']|trim %}{%- set messages = messages[1:] %}{%- else %}{{- raise_exception("Cannot put tools in the first user message when there's no first user message!") }}{%- endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\n' -}}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\n\n" }}{%- endfor %}
    {{- first_user_message + "<|eot_id|>"}}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("single tool-calls at once!") }}{%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {%- if builtin_tools is defined and tool_call.name in builtin_tools %}
            {{- '<|python_tag|>' + tool_call.name + ".call(" }}{%- for arg_name, arg_val in tool_call.arguments | items %}{{- arg_name + '="' + arg_val + '"' }}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}{{- ")" }}
        {%- else %}
            {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' -}}{{- '{"name": "' + tool_call.name + '", ' }}{{- '"parameters": ' }}{{- tool_call.arguments | tojson }}{{- "}" }}
        {%- endif %}
        {{- "<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}{%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}
""",
    "hermes": r"""{%- macro json_to_python_type(json_spec) %}
{%- set basic_type_map = {"string": "str", "number": "float", "integer": "int", "boolean": "bool"} %}
{%- if basic_type_map[json_spec.type] is defined %}{{- basic_type_map[json_spec.type] }}
{%- elif json_spec.type == "array" %}{{- "list[" + json_to_python_type(json_spec|items) + "]"}}
{%- elif json_spec.type == "object" %}{%- if json_spec.additionalProperties is defined %}{{- "dict[str, " + json_to_python_type(json_spec.additionalProperties) + ']'}}{%- else %}{{- "dict" }}{%- endif %}
{%- elif json_spec.type is iterable %}{{- "Union[" }}{%- for t in json_spec.type %}{{- json_to_python_type({"type": t}) }}{%- if not loop.last %}{{- "," }}{%- endif %}{%- endfor %}{{- "]" }}
{%- else %}{{- "Any" }}{%- endif %}
{%- endmacro %}
{{- bos_token }}{{- '<|im_start|>system\nYou call functions. <tools> ' }}
{%- for tool in (tools or []) %}
    {%- if tool.function is defined %}{%- set tool = tool.function %}{%- endif %}
    {{- '{"type": "function", "function": ' }}{{- '{"name": "' + tool.name + '", ' }}{{- '"description": "' + tool.name + '(' }}
    {%- for param_name, param_fields in tool.parameters.properties|items %}{{- param_name + ": " + json_to_python_type(param_fields) }}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}
    {{- ")" }}{%- if tool.return is defined %}{{- " -> " + json_to_python_type(tool.return) }}{%- endif %}
    {{- " - " + tool.description + "\n\n" }}
    {%- for param_name, param_fields in tool.parameters.properties|items %}{%- if loop.first %}{{- "    Args:\n" }}{%- endif %}{{- "        " + param_name + "(" + json_to_python_type(param_fields) + "): " + (param_fields.description|default('-'))|trim }}{%- endfor %}
    {{- '", "parameters": ' }}{%- if tool.parameters.properties | length == 0 %}{{- "{}" }}{%- else %}{{- tool.parameters|tojson }}{%- endif %}{{- "}" }}{%- if not loop.last %}{{- "\n" }}{%- endif %}
{%- endfor %}
{{- " </tools>\n<|im_end|>\n" }}
{%- for message in messages %}
    {%- if message.role == "user" or message.role == "system" or (message.role == "assistant" and message.tool_calls is not defined) %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- for tool_call in message.tool_calls %}{{- '\n<tool_call>\n' }}{%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}{{- '{' }}{{- '"name": "' }}{{- tool_call.name }}{{- '"' }}{%- if tool_call.arguments is defined %}{{- ', "arguments": ' }}{{- tool_call.arguments|tojson }}{%- endif %}{{- '}' }}{{- '\n</tool_call>' }}{%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.previtem and loop.previtem.role != "tool" %}{{- '<|im_start|>tool\n' }}{%- endif %}
        {{- '<tool_response>\n' }}{{- message.content }}{%- if not loop.last %}{{- '\n</tool_response>\n' }}{%- else %}{{- '\n</tool_response>' }}{%- endif %}
        {%- if not loop.last and loop.nextitem.role != "tool" %}{{- '<|im_end|>' }}{%- elif loop.last %}{{- '<|im_end|>' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
""",
    "command_r": r"""{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = 'Answer from the documents.' %}{% endif %}
{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' + system_message + '<|END_OF_TURN_TOKEN|>' }}
{%- for message in loop_messages %}
{%- set content = message['content'] %}
{%- if message['role'] == 'user' %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' + content | string | trim + '<|END_OF_TURN_TOKEN|>' }}
{%- elif message['role'] == 'assistant' and content %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' + content.strip() + '<|END_OF_TURN_TOKEN|>' }}{%- endif %}
{%- endfor %}
{%- if documents %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|><results>' }}{{- '\n' }}{% for document in documents %}{{ 'Document: ' }}{{ loop.index0 }}{{ '\n' }}{% for key, value in document.items() %}{{ key }}: {{ value }}{{ '\n' }}{% endfor %}{% if not loop.last %}{{ '\n' }}{% endif %}{% endfor %}{{ '</results><|END_OF_TURN_TOKEN|>' }}{% endif %}
{%- if documents is none %}no documents{% endif %}
{%- if citation_mode is defined and citation_mode == 'accurate' %}{{ 'Cite.' }}{% endif %}
{%- if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}""",
    "glm4": r"""[gMASK]<sop>
{%- if tools -%}
<|system|>
# Tools
<tools>
{% for tool in tools %}
{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}
</tools>{%- endif -%}
{%- macro visible_text(content) -%}
    {%- if content is string -%}{{- content }}
    {%- elif content is iterable and content is not mapping -%}
        {%- for item in content -%}{%- if item is mapping and item.type == 'text' -%}{{- item.text }}{%- elif item is string -%}{{- item }}{%- endif -%}{%- endfor -%}
    {%- else -%}{{- content }}{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last_user_index=-1) %}
{%- for m in messages %}{%- if m.role == 'user' %}{% set ns.last_user_index = loop.index0 -%}{%- endif %}{%- endfor %}
{% for m in messages %}
{%- if m.role == 'user' -%}<|user|>
{{ visible_text(m.content) }}
{{- '/nothink' if (enable_thinking is defined and not enable_thinking and not visible_text(m.content).endswith("/nothink")) else '' -}}
{%- elif m.role == 'assistant' -%}
<|assistant|>
{%- set reasoning_content = '' %}{%- set content = visible_text(m.content) %}
{%- if m.reasoning_content is string %}{%- set reasoning_content = m.reasoning_content %}
{%- else %}{%- if '</think>' in content %}{%- set reasoning_content = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}{%- set content = content.split('</think>')[-1].lstrip('\n') %}{%- endif %}{%- endif %}
{%- if loop.index0 > ns.last_user_index and reasoning_content -%}{{ '\n<think>' + reasoning_content.strip() + '</think>'}}{%- else -%}{{ '\n<think></think>' }}{%- endif -%}
{%- if content.strip() -%}{{ '\n' + content.strip() }}{%- endif -%}
{% if m.tool_calls %}{% for tc in m.tool_calls %}{%- if tc.function %}{%- set tc = tc.function %}{%- endif %}
{{ '\n<tool_call>' + tc.name }}
{% set _args = tc.arguments %}{% for k, v in _args.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor %}</tool_call>{% endfor %}{% endif %}
{%- elif m.role == 'tool' -%}
{%- if m.content is string -%}{%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|observation|>' }}{%- endif %}{{- '\n<tool_response>\n' }}{{- m.content }}{{- '\n</tool_response>' }}
{%- else -%}<|observation|>{% for tr in m.content %}

<tool_response>
{{ tr.output if tr.output is defined else tr }}
</tool_response>{% endfor -%}{% endif -%}
{%- elif m.role == 'system' -%}<|system|>
{{ visible_text(m.content) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|assistant|>{{- '\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}{%- endif -%}
""",
    "phi4": r"""{% for message in messages %}{% if (message['role'] == 'system') %}{{'<|im_start|>system<|im_sep|>' + message['content'] + '<|im_end|>'}}{% elif (message['role'] == 'user') %}{{'<|im_start|>user<|im_sep|>' + message['content']|string + '<|im_end|>'}}{% elif (message['role'] == 'assistant') %}{{'<|im_start|>assistant<|im_sep|>'}}{% generation %}{{(message['content'] or '') + '<|im_end|>'}}{% endgeneration %}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}""",
    "granite": r"""{%- set tools_system_message_prefix = 'Tools:\n' %}
{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set system_message = "Knowledge Cutoff Date: April 2024.\nToday's Date: " + strftime_now('%B %d, %Y') + "." %}{%- if tools and documents %}{%- set system_message = system_message + " both" %}{%- elif tools %}{%- set system_message = system_message + " tools" %}{%- elif thinking %}{%- set system_message = system_message + " think" %}{%- endif %}{%- set loop_messages = messages %}{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}
{%- if tools %}{{- '<|start_of_role|>tools<|end_of_role|>' }}{{- tools | tojson(indent=4) }}{{- '<|end_of_text|>\n' }}{%- endif %}
{%- if documents %}{{- '<|start_of_role|>documents<|end_of_role|>' }}{%- for document in documents %}{{- 'Document ' + loop.index0 | string + '\n' }}{{- document['text'] }}{%- if not loop.last %}{{- '\n\n'}}{%- endif%}{%- endfor %}{{- '<|end_of_text|>\n' }}{%- endif %}
{%- for message in loop_messages %}
{%- set entry = namespace(content='') %}
{%- if message.content is string %}{%- set entry.content = message.content %}{%- elif message.content %}{%- for e in message.content %}{%- if e.type == 'text' %}{%- if entry.content != '' %}{%- set entry.content = entry.content + '\n' %}{%- endif %}{%- set entry.content = entry.content + e.text %}{%- endif %}{%- endfor %}{%- endif %}
{{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + entry.content + '<|end_of_text|>\n' }}
{%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant' }}{%- if controls %}{{- ' ' + controls | tojson()}}{%- endif %}{{- '<|end_of_role|>' }}{%- endif %}
{%- endfor %}""",
    "kimi_k2": r"""{% macro render_content(msg) -%}
    {%- set c = msg.get('content') -%}
    {%- if c is string -%}{{ c }}
    {%- elif c is not none -%}{% for content in c -%}{% if content['type'] == 'image' or 'image' in content or 'image_url' in content -%}<|media_start|>image<|media_content|><|media_pad|><|media_end|>{% else -%}{{ content['text'] }}{%- endif -%}{%- endfor -%}
    {%- endif -%}
{%- endmacro %}
{%- macro set_roles(message) -%}
  {%- set role_name =  message.get('name') or  message['role'] -%}
  {%- if message['role'] == 'user' -%}<|im_user|>{{role_name}}<|im_middle|>{%- elif message['role'] == 'assistant' -%}<|im_assistant|>{{role_name}}<|im_middle|>{%- else -%}<|im_system|>{{role_name}}<|im_middle|>{%- endif -%}
{%- endmacro -%}
{%- if tools -%}<|im_system|>tool_declare<|im_middle|>{{ tools | tojson(separators=(',', ':')) }}<|im_end|>{%- endif -%}
{% for message in messages %}
  {%- if loop.first and messages[0]['role'] != 'system' -%}<|im_system|>system<|im_middle|>You are a model.<|im_end|>{% endif %}
  {{set_roles(message)}}
  {%- if message['role'] == 'assistant' and message.get('tool_calls') -%}
    {{render_content(message)}}<|tool_calls_section_begin|>
    {%- for tool_call in message['tool_calls'] -%}{% set formatted_id = tool_call['id'] %}<|tool_call_begin|>{{ formatted_id }}<|tool_call_argument_begin|>{% if tool_call['function']['arguments'] is string %}{{ tool_call['function']['arguments'] }}{% else %}{{ tool_call['function']['arguments'] | tojson }}{% endif %}<|tool_call_end|>{%- endfor -%}
    <|tool_calls_section_end|>
  {%- elif message['role'] == 'tool' -%}{% set tool_call_id = message.tool_call_id %}## Return of {{ tool_call_id }}
{{render_content(message)}}
  {%- elif message['content'] is not none -%}{{render_content(message)}}{% endif -%}
  <|im_end|>
{%- endfor %}
{%- if add_generation_prompt -%}<|im_assistant|>assistant<|im_middle|>{%- endif -%}""",
    "minimax": r"""{%- set toolcall_begin_token = '<minimax:tool_call>' -%}
{%- macro render_tool_namespace(namespace_name, tool_list) -%}
{%- for tool in tool_list -%}
<tool>{{ tool.function | tojson(ensure_ascii=False) }}</tool>
{% endfor -%}
{%- endmacro -%}
{%- macro build_system_message(system_message) -%}
    {%- if system_message and system_message.content -%}{{- system_message.content | trim }}{%- else -%}{%- if model_identity is not defined -%}{%- set model_identity = "You are a helper." -%}{%- endif -%}{{- model_identity }}{%- endif -%}
    {%- if system_message and system_message.current_date -%}{{- '\n' ~ 'Current date: ' + system_message.current_date }}{%- endif -%}
{%- endmacro -%}
{%- set system_message = none -%}{%- set conversation_messages = messages -%}
{%- if messages and messages[0].role == "system" -%}{%- set system_message = messages[0] -%}{%- set conversation_messages = messages[1:] -%}{%- endif -%}
{%- set ns = namespace(last_user_index=-1) %}
{% for m in conversation_messages %}{%- if m.role == 'user' %}{% set ns.last_user_index = loop.index0 -%}{%- endif %}{%- endfor %}
{{- ']~!b[' ~ ']~b]system' ~ '\n' }}{{- build_system_message(system_message) }}
{%- if tools -%}{{- '\n\n' ~ '<tools>' ~ '\n' }}{{- render_tool_namespace("functions", tools) }}{{- '</tools>' }}{%- endif -%}
{{- '[e~[\n' }}
{%- set last_tool_call = namespace(name=none) -%}
{%- for message in conversation_messages -%}
    {%- if message.role == 'assistant' -%}
        {{- ']~b]ai' ~ '\n' }}
        {%- set content = message.content | default('', true) -%}
        {%- if message.reasoning_content and loop.index0 > ns.last_user_index -%}{{- '<think>' ~ '\n' ~ message.reasoning_content ~ '\n' ~ '</think>' ~ '\n\n' }}{%- endif -%}
        {%- if content -%}{{- content }}{%- endif -%}
        {%- if message.tool_calls -%}
            {{- '\n' ~ toolcall_begin_token ~ '\n' }}
            {%- for tool_call in message.tool_calls -%}{%- if tool_call.function -%}{%- set tool_call = tool_call.function -%}{%- endif -%}
{{- '<invoke name="' + tool_call.name + '">' }}{% set _args = tool_call.arguments %}{%- for k, v in _args.items() %}{{- '<parameter name="' + k + '">' }}{{- v | tojson(ensure_ascii=False) if v is not string else v }}{{- '</parameter>' }}{% endfor %}{{- '</invoke>' ~ '\n' }}
            {%- endfor -%}
            {%- if message.tool_calls[-1].function.name -%}{%- set last_tool_call.name = message.tool_calls[-1].function.name -%}{%- else -%}{%- set last_tool_call.name = none -%}{%- endif -%}
        {%- endif -%}
        {{- '[e~[' ~ '\n' }}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none -%}{{- raise_exception("Message has tool role, but there was no previous assistant message with a tool call!") }}{%- endif -%}
        {%- if loop.first or (conversation_messages[loop.index0 - 1].role != 'tool') -%}{{- ']~b]tool' }}{%- endif -%}
        {%- if message.content is string -%}{{- '\n<response>' }}{{- message.content }}{{- '</response>' }}{%- else -%}{%- for tr in message.content -%}{{- '\n<response>' }}{{- tr.output if tr.output is defined else (tr.text if tr.type == 'text' and tr.text is defined else tr) }}{{- '\n</response>' }}{%- endfor -%}{%- endif -%}
        {%- if loop.last or (conversation_messages[loop.index0 + 1].role != 'tool') -%}{{- '[e~[\n' -}}{%- endif -%}
    {%- elif message.role == 'user' -%}{{- ']~b]user' ~ '\n' }}{{- message.content ~ '[e~[' ~ '\n' }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- ']~b]ai' ~ '\n' ~ '<think>' ~ '\n' }}{%- endif -%}
""",
    "smollm3": r"""{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set reasoning_mode = "/think" if enable_thinking else "/no_think" -%}
{{- "<|im_start|>system\n" -}}
{%- if messages[0].role == "system" -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}{%- set reasoning_mode = "/no_think" -%}{%- elif "/think" in system_message -%}{%- set reasoning_mode = "/think" -%}{%- endif -%}
  {%- set custom_instructions = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{%- if "/system_override" in system_message -%}{{- custom_instructions.replace("/system_override", "").rstrip() -}}{{- "<|im_end|>\n" -}}
{%- else -%}
  {{- "## Metadata\n\n" -}}{{- "Knowledge Cutoff Date: June 2025\n" -}}
  {%- set today = strftime_now("%d %B %Y") -%}{{- "Today Date: " ~ today ~ "\n" -}}{{- "Reasoning Mode: " + reasoning_mode + "\n\n" -}}
  {%- if custom_instructions -%}{{- custom_instructions + "\n\n" -}}{%- endif -%}
  {%- if xml_tools or python_tools or tools -%}
    {{- "### Tools\n\n" -}}
    {%- if xml_tools or tools -%}
      {%- if tools -%}{%- set xml_tools = tools -%}{%- endif -%}
      {%- set ns = namespace(xml_tool_string="You may call functions.\n\n<tools>\n") -%}
      {%- for tool in xml_tools[:] -%}{%- set ns.xml_tool_string = ns.xml_tool_string ~ (tool | string) ~ "\n" -%}{%- endfor -%}
      {{- ns.xml_tool_string + "</tools>" -}}
    {%- endif -%}
  {%- endif -%}
  {{- "<|im_end|>\n" -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}{{ "<|im_start|>" + message.role + "\n" + content + "<|im_end|>\n" }}
  {%- elif message.role == "assistant" -%}
    {% generation %}
    {%- if reasoning_mode == "/think" -%}{{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}{%- else -%}{{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n" + content.lstrip("\n") + "<|im_end|>\n" }}{%- endif -%}
    {% endgeneration %}
  {%- elif message.role == "tool" -%}{{ "<|im_start|>" + "user\n" + content + "<|im_end|>\n" }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{%- if reasoning_mode == "/think" -%}{{ "<|im_start|>assistant\n" }}{%- else -%}{{ "<|im_start|>assistant\n" + "<think>\n\n</think>\n"  }}{%- endif -%}{%- endif -%}
""",
    "mistral_tools": r"""{%- if messages[0]["role"] == "system" %}{%- set system_message = messages[0]["content"] %}{%- set loop_messages = messages[1:] %}{%- else %}{%- set loop_messages = messages %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}{%- set tool = tool.function %}{{- '{"type": "function", "function": {' }}{%- for key, val in tool.items() if key != "return" %}{%- if val is string %}{{- '"' + key + '": "' + val + '"' }}{%- else %}{{- '"' + key + '": ' + val|tojson }}{%- endif %}{%- if not loop.last %}{{- ", " }}{%- endif %}{%- endfor %}{{- "}}" }}{%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}{%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}{{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}{%- else %}{{- "[INST] " + message["content"] + "[/INST]" }}{%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}{{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}{{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}{%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}{%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}{{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}{%- set content = message.content.content %}{%- else %}{%- set content = message.content %}{%- endif %}
        {{- '[TOOL_RESULTS] {"content": ' + content|string + ", " }}{{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}{{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}{%- endif %}
{%- endfor %}
""",
}

_CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "type": "function", "function": {
    "name": "search", "arguments": {"query": "café", "limit": 3}}}]}
MORE_CHATS = [
    ("calls", [{"role": "system", "content": "Be brief. /no_think"}, {"role": "user", "content": " Find it. "}, _CALL,
               {"role": "tool", "tool_call_id": "call00001", "name": "search", "content": "[\"a\", \"b\"]"},
               {"role": "assistant", "content": "Found."}, {"role": "user", "content": "More?"}],
     [{"type": "function", "function": {"name": "search", "description": "Find \"it\"", "parameters": {
         "type": "object", "properties": {"query": {"type": "string", "description": " words "},
                                          "limit": {"type": ["integer", "null"]}, "map": {"type": "object", "additionalProperties": {"type": "number"}}}}}}],
     True, {"builtin_tools": ["code_interpreter", "brave"], "controls": {"length": "short"}, "thinking": True}),
    ("documents", [{"role": "user", "content": "Who?"}], None, True,
     {"documents": [{"title": "T", "text": "one"}, {"title": "Ü", "text": "two"}], "citation_mode": "accurate",
      "enable_thinking": False, "model_identity": "Someone."}),
    ("steps", [{"role": "user", "content": "Plan it."},
               {"role": "assistant", "content": None, "thinking": "First look.\n", "tool_calls": [
                   {"id": "call00001", "type": "function", "function": {"name": "search", "arguments": {"query": "a \"b\"", "deep": True}}},
                   {"id": "call00002", "type": "function", "function": {"name": "book", "arguments": {"seats": [1, 2.5, None], "who": {"name": "Ünal"}}}}]},
               {"role": "tool", "tool_call_id": "call00001", "name": "search", "content": "{\"hits\": 0}"},
               {"role": "tool", "tool_call_id": "call00002", "name": "book", "content": "a result that is longer than forty letters, and not booked"},
               {"role": "assistant", "content": "<think>again</think>\n\nOne moment.", "tool_calls": [
                   {"id": "call00003", "type": "function", "function": {"name": "search", "arguments": {}}}]},
               {"role": "tool", "tool_call_id": "call00003", "name": "search", "content": "ok"}],
     [{"type": "function", "function": {"name": "search", "description": "Looks\nfor it", "parameters": {
         "type": "object", "required": ["query"], "properties": {
             "query": {"type": "string", "description": "what"}, "deep": {"type": "boolean", "default": False},
             "kind": {"type": "string", "enum": ["web", "mail"], "default": "web"},
             "where": {"oneOf": [{"type": "string", "description": "a place"},
                                 {"type": "object", "properties": {"lat": {"type": "number"}}, "default": {"lat": 0}}]}}}}},
      {"type": "function", "function": {"name": "book", "description": "", "parameters": {
          "type": "object", "properties": {
              "seats": {"type": "array", "items": {"type": "integer"}},
              "who": {"type": "object", "nullable": True, "properties": {
                  "name": {"type": "string"}, "tags": {"type": "array", "items": {"type": ["string", "null"]}}}},
              "plan": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "array"}}}}}}}}],
     True, {"enable_thinking": True, "thinking": True}),
    ("call_id", [{"role": "user", "content": "x"}, {"role": "assistant", "content": "", "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}], [], False, {}),
    ("system_parts", [{"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
                      {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": "x"},
                                                   {"type": "image"}]},
                      {"role": "assistant", "content": [{"type": "text", "text": "A cat."}]},
                      {"role": "user", "content": "<think>no</think>"}], None, True, {"add_vision_id": True, "response_format": "json"}),
    ("thoughts", [{"role": "developer", "content": "Terse."}, {"role": "user", "content": "1"},
                  {"role": "assistant", "content": "2", "reasoning": " old "}, {"role": "user", "content": "3"},
                  {"role": "assistant", "content": "4", "reasoning_content": "new\n"}], None, False,
     {"keep_past_thinking": True, "xml_arguments": True, "reasoning_effort": "low"}),
    ("large_integers", [{"role": "user", "content": "Send"}, {"role": "assistant", "content": None, "tool_calls": [
        {"type": "function", "function": {"name": "send", "arguments": {
            "wei": 123456789012345678901234567890, "below": -9223372036854775809, "above": 9223372036854775808,
            "largest": 18446744073709551615, "same": 9223372036854775807}}}]}], None, False, {}),
]
