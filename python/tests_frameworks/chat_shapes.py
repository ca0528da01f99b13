"""Chat templates of the published shapes, written anew by their behaviour, and chats to try them on."""

# ruff: noqa: E501

from __future__ import annotations

import random
from typing import Any

_MACRO_OF_TOOLS = """
{%- macro of(schema) -%}
  {%- if schema.type == "array" %}list[{{ of(schema["items"]) }}]{% elif schema.type == "string" %}str
  {%- elif schema.type == "integer" %}int{% else %}{{ schema.type }}{% endif -%}
{%- endmacro -%}
"""

#: By name: the template, the special tokens that it knows, and the roles that it has besides user and assistant.
SHAPES: dict[str, tuple[str, dict[str, str], set[str]]] = {
    "chatml": (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' "
        "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
        {"eos_token": "<|im_end|>"},
        {"system"},
    ),
    "chatml, learned": (
        "{%- for message in messages %}\n"
        "    {{- '<|im_start|>' + message.role + '\n' }}\n"
        "    {%- if message.role == 'assistant' %}\n"
        "        {%- generation %}\n"
        "            {{- message.content + '<|im_end|>' }}\n"
        "        {%- endgeneration %}\n"
        "    {%- else %}\n"
        "        {{- message.content + '<|im_end|>' }}\n"
        "    {%- endif %}\n"
        "    {{- '\n' }}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}",
        {},
        {"system"},
    ),
    "llama 2": (
        "{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}"
        "{% else %}{% set rest = messages %}{% set system = false %}{% endif %}"
        "{% for message in rest %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Roles must alternate') }}{% endif %}"
        "{% if loop.index0 == 0 and system != false %}"
        "{% set content = '<<SYS>>\n' + system + '\n<</SYS>>\n\n' + message['content'] %}"
        "{% else %}{% set content = message['content'] %}{% endif %}"
        "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
        {"bos_token": "<s>", "eos_token": "</s>"},
        {"system"},
    ),
    "llama 3": (
        "{% set loop_messages = messages %}{% for message in loop_messages %}"
        "{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + "
        "'<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}"
        "{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
        {"system"},
    ),
    "llama 3.1": (
        "{{- bos_token }}\n"
        "{%- if not date_string is defined %}\n"
        "    {%- if strftime_now is defined %}\n"
        '        {%- set date_string = strftime_now("%d %b %Y") %}\n'
        "    {%- else %}\n"
        '        {%- set date_string = "26 Jul 2024" %}\n'
        "    {%- endif %}\n"
        "{%- endif %}\n"
        "{%- if messages[0]['role'] == 'system' %}\n"
        "    {%- set system_message = messages[0]['content']|trim %}\n"
        "    {%- set messages = messages[1:] %}\n"
        "{%- else %}\n"
        '    {%- set system_message = "" %}\n'
        "{%- endif %}\n"
        '{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}\n'
        '{{- "Today Date: " + date_string + "\\n\\n" }}\n'
        "{%- if tools is not none %}\n"
        "    {%- for t in tools %}\n"
        "        {{- t | tojson(indent=4) }}\n"
        '        {{- "\\n\\n" }}\n'
        "    {%- endfor %}\n"
        "{%- endif %}\n"
        '{{- system_message + "<|eot_id|>" }}\n'
        "{%- for message in messages %}\n"
        "    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}\n"
        "        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' "
        "+ message['content'] | trim + '<|eot_id|>' }}\n"
        "    {%- elif 'tool_calls' in message %}\n"
        "        {%- if not message.tool_calls|length == 1 %}{{- raise_exception('one call at once') }}{%- endif %}\n"
        "        {%- set tool_call = message.tool_calls[0].function %}\n"
        "        {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
        '        {{- \'{"name": "\' + tool_call.name + \'", "parameters": \' }}\n'
        "        {{- tool_call.arguments | tojson }}\n"
        '        {{- "}" + "<|eot_id|>" }}\n'
        '    {%- elif message.role == "tool" or message.role == "ipython" %}\n'
        '        {{- "<|start_header_id|>ipython<|end_header_id|>\\n\\n" }}\n'
        "        {%- if message.content is mapping or message.content is iterable and message.content is not string %}\n"
        "            {{- message.content | tojson }}\n"
        "        {%- else %}\n"
        "            {{- message.content }}\n"
        "        {%- endif %}\n"
        '        {{- "<|eot_id|>" }}\n'
        "    {%- endif %}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n"
        "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
        "{%- endif %}\n",
        {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"},
        {"system", "tool"},
    ),
    "mistral": (
        "{{ bos_token }}{% for message in messages %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('must alternate') }}{% endif %}"
        "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% endif %}{% endfor %}",
        {"bos_token": "<s>", "eos_token": "</s>"},
        set(),
    ),
    "mistral nemo": (
        '{%- if messages[0]["role"] == "system" %}\n'
        '    {%- set system_message = messages[0]["content"] %}\n'
        "    {%- set loop_messages = messages[1:] %}\n"
        "{%- else %}\n"
        "    {%- set loop_messages = messages %}\n"
        "{%- endif %}\n"
        "{%- if not tools is defined %}{%- set tools = none %}{%- endif %}\n"
        '{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}\n'
        "{{- bos_token }}\n"
        "{%- for message in loop_messages %}\n"
        '    {%- if message["role"] == "user" %}\n'
        "        {%- if tools is not none and (message == user_messages[-1]) %}\n"
        '            {{- "[AVAILABLE_TOOLS][" }}\n'
        "            {%- for tool in tools %}\n"
        "                {%- set tool = tool.function %}\n"
        '                {{- \'{"type": "function", "function": {\' }}\n'
        '                {%- for key, val in tool.items() if key != "return" %}\n'
        "                    {%- if val is string %}\n"
        "                        {{- '\"' + key + '\": \"' + val + '\"' }}\n"
        "                    {%- else %}\n"
        "                        {{- '\"' + key + '\": ' + val|tojson }}\n"
        "                    {%- endif %}\n"
        '                    {%- if not loop.last %}{{- ", " }}{%- endif %}\n'
        "                {%- endfor %}\n"
        '                {{- "}}" }}\n'
        '                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}\n'
        "            {%- endfor %}\n"
        '            {{- "[/AVAILABLE_TOOLS]" }}\n'
        "        {%- endif %}\n"
        "        {%- if loop.last and system_message is defined %}\n"
        '            {{- "[INST]" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}\n'
        "        {%- else %}\n"
        '            {{- "[INST]" + message["content"] + "[/INST]" }}\n'
        "        {%- endif %}\n"
        '    {%- elif message["role"] == "assistant" and message.tool_calls is defined %}\n'
        '        {{- "[TOOL_CALLS][" }}\n'
        "        {%- for call in message.tool_calls %}\n"
        "            {%- set out = call.function|tojson %}\n"
        "            {{- out[:-1] }}\n"
        "            {{- ', \"id\": \"' + call.id + '\"}' }}\n"
        '            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}\n'
        "        {%- endfor %}\n"
        '    {%- elif message["role"] == "assistant" %}\n'
        '        {{- message["content"] + eos_token}}\n'
        '    {%- elif message["role"] == "tool" %}\n'
        "        {{- '[TOOL_RESULTS]{\"content\": ' + message.content|string + '}[/TOOL_RESULTS]' }}\n"
        "    {%- endif %}\n"
        "{%- endfor %}\n",
        {"bos_token": "<s>", "eos_token": "</s>"},
        {"system", "tool"},
    ),
    "gemma": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}"
        "{% else %}{% set role = message['role'] %}{% endif %}"
        "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
        {"bos_token": "<bos>", "eos_token": "<eos>"},
        set(),
    ),
    "gemma 3": (
        "{{ bos_token }}\n"
        "{%- if messages[0]['role'] == 'system' -%}\n"
        "    {%- if messages[0]['content'] is string -%}\n"
        "        {%- set first_user_prefix = messages[0]['content'] + '\n\n' -%}\n"
        "    {%- else -%}\n"
        "        {%- set first_user_prefix = messages[0]['content'][0]['text'] + '\n\n' -%}\n"
        "    {%- endif -%}\n"
        "    {%- set loop_messages = messages[1:] -%}\n"
        "{%- else -%}\n"
        '    {%- set first_user_prefix = "" -%}\n'
        "    {%- set loop_messages = messages -%}\n"
        "{%- endif -%}\n"
        "{%- for message in loop_messages -%}\n"
        "    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}\n"
        "    {{ '<start_of_turn>' + role + '\n' + (first_user_prefix if loop.first else \"\") }}\n"
        "    {%- if message['content'] is string -%}\n"
        "        {{ message['content'] | trim }}\n"
        "    {%- elif message['content'] is iterable -%}\n"
        "        {%- for item in message['content'] -%}\n"
        "            {%- if item['type'] == 'image' -%}{{ '<start_of_image>' }}\n"
        "            {%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}\n"
        "        {%- endfor -%}\n"
        "    {%- else -%}{{ raise_exception('Invalid content type') }}{%- endif -%}\n"
        "    {{ '<end_of_turn>\n' }}\n"
        "{%- endfor -%}\n"
        "{%- if add_generation_prompt -%}{{'<start_of_turn>model\n'}}{%- endif -%}\n",
        {"bos_token": "<bos>", "eos_token": "<eos>"},
        {"system"},
    ),
    "phi 3": (
        "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + "
        "'<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
        {"eos_token": "<|endoftext|>"},
        {"system"},
    ),
    "phi 4": (
        "{% for message in messages %}{{ '<|im_start|>' ~ message.role ~ '<|im_sep|>' ~ message.content ~ '<|im_end|>' }}"
        "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}",
        {},
        {"system"},
    ),
    "zephyr": (
        "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
        "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
        "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
        "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}",
        {"eos_token": "</s>"},
        {"system"},
    ),
    "qwen 2.5": (
        "{%- if tools %}\n"
        "    {{- '<|im_start|>system\\n' }}\n"
        "    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}"
        "{%- else %}{{- 'You are helpful.' }}{%- endif %}\n"
        '    {{- "\\n\\n# Tools\\n<tools>" }}\n'
        "    {%- for tool in tools %}\n"
        '        {{- "\\n" }}\n'
        "        {{- tool | tojson }}\n"
        "    {%- endfor %}\n"
        '    {{- "\\n</tools><|im_end|>\\n" }}\n'
        "{%- else %}\n"
        "    {%- if messages[0]['role'] == 'system' %}\n"
        "        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\n"
        "    {%- else %}\n"
        "        {{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}\n"
        "    {%- endif %}\n"
        "{%- endif %}\n"
        "{%- for message in messages %}\n"
        '    {%- if (message.role == "user") or (message.role == "system" and not loop.first) '
        'or (message.role == "assistant" and not message.tool_calls) %}\n'
        "        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}\n"
        '    {%- elif message.role == "assistant" %}\n'
        "        {{- '<|im_start|>' + message.role }}\n"
        "        {%- if message.content %}{{- '\\n' + message.content }}{%- endif %}\n"
        "        {%- for tool_call in message.tool_calls %}\n"
        "            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}\n"
        '            {{- \'\\n<tool_call>\\n{"name": "\' }}\n'
        "            {{- tool_call.name }}\n"
        '            {{- \'", "arguments": \' }}\n'
        "            {{- tool_call.arguments | tojson }}\n"
        "            {{- '}\\n</tool_call>' }}\n"
        "        {%- endfor %}\n"
        "        {{- '<|im_end|>\\n' }}\n"
        '    {%- elif message.role == "tool" %}\n'
        '        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}\n'
        "            {{- '<|im_start|>user' }}\n"
        "        {%- endif %}\n"
        "        {{- '\\n<tool_response>\\n' }}{{- message.content }}{{- '\\n</tool_response>' }}\n"
        '        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}\n'
        "            {{- '<|im_end|>\\n' }}\n"
        "        {%- endif %}\n"
        "    {%- endif %}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}\n",
        {"eos_token": "<|im_end|>"},
        {"system", "tool"},
    ),
    "qwen 3": (
        "{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}\n"
        "{%- for message in messages[::-1] %}\n"
        "    {%- set index = (messages|length - 1) - loop.index0 %}\n"
        '    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and '
        "not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}\n"
        "        {%- set ns.multi_step_tool = false %}\n"
        "        {%- set ns.last_query_index = index %}\n"
        "    {%- endif %}\n"
        "{%- endfor %}\n"
        "{%- for message in messages %}\n"
        "    {%- if message.content is string %}{%- set content = message.content %}"
        "{%- else %}{%- set content = '' %}{%- endif %}\n"
        '    {%- if (message.role == "user") or (message.role == "system") %}\n'
        "        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}\n"
        '    {%- elif message.role == "assistant" %}\n'
        "        {%- set reasoning_content = '' %}\n"
        "        {%- if message.reasoning_content is string %}\n"
        "            {%- set reasoning_content = message.reasoning_content %}\n"
        "        {%- elif '</think>' in content %}\n"
        "            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1]"
        ".lstrip('\\n') %}\n"
        "            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}\n"
        "        {%- endif %}\n"
        "        {%- if loop.index0 > ns.last_query_index and (loop.last or reasoning_content) %}\n"
        "            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') "
        "+ '\\n</think>\\n\\n' + content.lstrip('\\n') }}\n"
        "        {%- else %}\n"
        "            {{- '<|im_start|>' + message.role + '\\n' + content }}\n"
        "        {%- endif %}\n"
        "        {{- '<|im_end|>\\n' }}\n"
        '    {%- elif message.role == "tool" %}\n'
        "        {{- '<|im_start|>user\\n<tool_response>\\n' + content + '\\n</tool_response><|im_end|>\\n' }}\n"
        "    {%- endif %}\n"
        "{%- endfor %}\n"
        "{%- if add_generation_prompt %}\n"
        "    {{- '<|im_start|>assistant\\n' }}\n"
        "    {%- if enable_thinking is defined and enable_thinking is false %}\n"
        "        {{- '<think>\\n\\n</think>\\n\\n' }}\n"
        "    {%- endif %}\n"
        "{%- endif %}",
        {"eos_token": "<|im_end|>"},
        {"system", "tool", "reasoning"},
    ),
    "deepseek 3": (
        "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
        "{% set ns = namespace(is_first=false, is_tool=false, system_prompt='', is_first_sp=true) %}"
        "{%- for message in messages %}{%- if message['role'] == 'system' %}{%- if ns.is_first_sp %}"
        "{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}"
        "{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}"
        "{%- endfor %}{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}"
        "{%- if message['role'] == 'user' %}{%- set ns.is_tool = false -%}{{'<|User|>' + message['content']}}"
        "{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}"
        "{{'<|Assistant|>' + message['content'] + '<|end_of_sentence|>'}}{%- endif %}{%- endfor -%}"
        "{% if add_generation_prompt and not ns.is_tool %}{{'<|Assistant|>'}}{% endif %}",
        {"bos_token": "<|begin_of_sentence|>", "eos_token": "<|end_of_sentence|>"},
        {"system"},
    ),
    "vicuna": (
        "{% if messages[0]['role'] == 'system' %}{{ messages[0]['content'] ~ ' ' }}{% set rest = messages[1:] %}"
        "{% else %}{{ 'A chat between a curious user and an assistant. ' }}{% set rest = messages %}{% endif %}"
        "{% for m in rest %}{{ {'user': 'USER: ', 'assistant': ' ASSISTANT: '}[m.role] ~ m.content }}"
        "{{- eos_token if m.role == 'assistant' }}{% endfor %}{% if add_generation_prompt %} ASSISTANT: {% endif %}",
        {"eos_token": "</s>"},
        {"system"},
    ),
    "alpaca": (
        "{# instruction and response #}\n"
        "{% for message in messages %}\n"
        "{%- if message.role == 'system' -%}\n{{ message.content | trim }}\n\n\n"
        "{% elif message.role == 'user' -%}\n### Instruction:\n{{ message.content | trim }}\n\n\n"
        "{% elif message.role == 'assistant' -%}\n### Response:\n{{ message.content | trim }}{{ eos_token }}\n\n"
        "{% endif %}\n{% endfor %}\n{% if add_generation_prompt -%}\n### Response:\n\n{% endif %}",
        {"eos_token": "</s>"},
        {"system"},
    ),
    "command r": (
        "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
        "{% set system_message = messages[0]['content'] %}{% elif false == true %}{% set loop_messages = messages %}"
        "{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
        "{% if system_message != false %}{{ '<|START|><|SYSTEM|>' + system_message + '<|END|>' }}{% endif %}"
        "{% for message in loop_messages %}{% set content = message['content'] %}{% if message['role'] == 'user' %}"
        "{{ '<|START|><|USER|>' + content.strip() + '<|END|>' }}{% elif message['role'] == 'assistant' %}"
        "{{ '<|START|><|CHATBOT|>'  + content.strip() + '<|END|>' }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|START|><|CHATBOT|>' }}{% endif %}",
        {"bos_token": "<BOS>", "eos_token": "<|END|>"},
        {"system"},
    ),
    "hermes, with tools": (
        _MACRO_OF_TOOLS + "{{ bos_token }}{% if tools %}{{ '<tools>' }}{% for tool in tools %}"
        "{%- set tool = tool.function if tool.function is defined else tool %}"
        "{{ tool.name ~ '(' }}{% for name, schema in tool.parameters.properties|items %}{{ name ~ ': ' ~ of(schema) }}"
        "{{ ', ' if not loop.last }}{% endfor %}{{ ') ' ~ tool.description|default('-') }}"
        "{{ '\n' if not loop.last }}{% endfor %}{{ '</tools>' }}{% endif %}"
        "{% for message in messages %}{{ '<|im_start|>' ~ message.role|upper ~ '\n' }}"
        "{% for call in message.tool_calls or [] %}{{ call.function|tojson(sort_keys=true) }}{% endfor %}"
        "{{ (message.content or '')|replace('\\r', '') ~ '<|im_end|>\n' }}{% endfor %}",
        {"bos_token": "<s>"},
        {"system", "tool"},
    ),
    "granite": (
        "{%- for message in messages %}\n"
        "{%- if loop.first and message['role'] != 'system' %}"
        "{{- '<|role|>system<|/role|>Knowledge Cutoff: April 2024.<|end|>\\n' }}{% endif %}\n"
        "{%- if message.role in ['user', 'system', 'assistant'] %}\n"
        "{{- '<|role|>%s<|/role|>%s<|end|>\\n' | format(message.role, message.content) }}\n"
        "{%- else %}{% continue %}{%- endif %}\n"
        "{%- if loop.last and add_generation_prompt %}{{- '<|role|>assistant<|/role|>' }}{%- endif %}\n"
        "{%- endfor %}",
        {},
        {"system", "tool"},
    ),
    "smol, learned": (
        "{%- set reasoning = 'on' if enable_thinking else 'off' -%}\n"
        "{{ '<|im_start|>system\\nThinking: ' ~ reasoning ~ '<|im_end|>\\n' }}\n"
        "{%- for message in messages -%}\n"
        "  {%- if message.role == 'assistant' -%}\n"
        "    {{ '<|im_start|>assistant\\n' }}\n"
        "    {%- generation -%}{{ message.content ~ '<|im_end|>' }}\n"
        "    {% endgeneration %}\n"
        "  {%- else -%}\n"
        "    {{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}\n"
        "  {%- endif -%}\n"
        "{%- endfor -%}\n"
        "{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}",
        {},
        {"system"},
    ),
}

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Tells the weather <today> & 'tomorrow' — é",
            "parameters": {
                "type": "object",
                "properties": {
                    "place": {"type": "string", "description": "A place"},
                    "days": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["place"],
            },
        },
    },
    {
        "type": "function",
        "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}},
    },
]

_WORDS = [
    "yes",
    "no",
    "über",
    "漢字",
    "👍",
    "a b",
    "1,234.5",
    "it's",
    '"q"',
    "<b>",
    "x\ny",
    "\\n",
    "{{ x }}",
    "  ",
    "Zürich",
]


def text(rng: random.Random) -> str:
    """Returns words with spaces at odd places."""
    made = " ".join(rng.choices(_WORDS, k=rng.randrange(1, 9)))
    return rng.choice(["", "", " ", "\n"]) + made + rng.choice(["", "", " ", "\n\n"])


def chat(rng: random.Random, kinds: set[str]) -> list[dict[str, Any]]:
    """Returns a chat of the roles that a template has."""
    messages: list[dict[str, Any]] = []
    if "system" in kinds and rng.random() < 0.5:
        messages.append({"role": "system", "content": text(rng)})
    for _ in range(rng.randrange(1, 5)):
        messages.append({"role": "user", "content": text(rng)})
        if "tool" in kinds and rng.random() < 0.3:
            arguments = {"place": text(rng), "days": [1, -2], "hot": True, "t": rng.choice([1.5, 1e20, 0.1]), "u": None}
            call = {"id": "call12345", "type": "function", "function": {"name": "weather", "arguments": arguments}}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "content": text(rng), "tool_call_id": "call12345"})
        answer = {"role": "assistant", "content": text(rng), "name": None}
        if "reasoning" in kinds and rng.random() < 0.5:
            answer["reasoning_content" if rng.random() < 0.5 else "thinking"] = text(rng)
        messages.append(answer)
    return messages
