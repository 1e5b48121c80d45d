"""Chat templates written for these tests, each with one habit that real templates have."""

from suffixspec.text import Tokenizer

DROPS_CALLS = """
{%- for m in messages -%}
<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

TRIMS = DROPS_CALLS.replace("{{ m['content'] }}", "{{ m['content'] | trim }}")

REFUSES_TOOL_ROLE = (
    "{%- for m in messages if m['role'] not in ['system', 'user', 'assistant'] -%}"
    "{{ raise_exception('unknown role ' + m['role']) }}{%- endfor -%}" + DROPS_CALLS
)

DROPS_TOOL_ROLE = DROPS_CALLS.replace("for m in messages", "for m in messages if m['role'] != 'tool'")

FORGETS_REASONING = """
{%- set ns = namespace(last=-1) -%}
{%- for m in messages if m['role'] == 'user' -%}{%- set ns.last = messages.index(m) -%}{%- endfor -%}
{%- for m in messages -%}
<|im_start|>{{ m['role'] }}
{% if m['reasoning_content'] and loop.index0 > ns.last -%}
<think>
{{ m['reasoning_content'] }}
</think>

{% endif -%}
{{ m['content'] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

OPENS_REASONING = DROPS_CALLS.replace(
    "{{ m['content'] }}", "{{ m['content'].split('</think>')[-1].lstrip('\\n') }}"
).replace("<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n")

STRICT = """
{%- for m in messages -%}
{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}{{ raise_exception('user and assistant only') }}
{%- endif -%}
{%- if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]
{%- else %} {{ m['content'] }} <|im_end|>{% endif -%}
{%- endfor -%}
"""

STRICT_TRIMS = STRICT.replace("{{ m['content'] }}", "{{ m['content'] | trim }}")

FIRST_SYSTEM = DROPS_CALLS.replace(
    "{%- for m in messages -%}",
    "{%- for m in messages -%}{%- if m['role'] == 'system' and not loop.first -%}{%- continue -%}{%- endif -%}",
)

VERBATIM_CALLS = """
{%- if tools -%}<|im_start|>tools
{{ tools | tojson }}<|im_end|>
{% endif -%}
{%- for m in messages -%}
{%- if m['role'] == 'tool' and m['tool_call_id'] | length != 9 -%}{{ raise_exception('id') }}{%- endif -%}
<|im_start|>{{ m['role'] }}{{ ' ' + m['tool_call_id'] if m['role'] == 'tool' else '' }}
{{ m['content'] }}
{%- for c in m['tool_calls'] %}
<call {{ c['id'] }}>{{ c['function']['name'] }} {{ c['function']['arguments'] }}</call>
{%- endfor -%}
<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

REWRITES_CALLS = VERBATIM_CALLS.replace(
    "{{ c['function']['arguments'] }}", "{{ c['function']['arguments'] | tojson }}"
)

NO_PROMPT = DROPS_CALLS.replace("{%- if add_generation_prompt -%}", "{%- if false -%}")

WANTS_PARTS = DROPS_CALLS.replace(
    "{{ m['content'] }}",
    "{%- for part in m['content'] if part['type'] == 'text' -%}{{ part['text'] }}{%- endfor -%}",
)

CLOSES_LATE = DROPS_CALLS.replace(
    "<|im_end|>", "{% if not (loop.last and m['role'] == 'assistant') %}<|im_end|>{% endif %}"
)

PLAIN = DROPS_CALLS.replace("<|im_start|>", "## ").replace("<|im_end|>", "")

COUNTS = "<|im_start|>{{ messages | length }} messages<|im_end|>\n" + DROPS_CALLS
"""Rewrites its first words in every prompt."""

LAST_USER_SYSTEM = """
{%- set talk = messages[1:] if messages and messages[0]['role'] == 'system' else messages -%}
{%- for m in talk -%}
<|im_start|>{{ m['role'] }}
{% if loop.last and talk is not sameas messages %}{{ messages[0]['content'] }}

{% endif %}{{ m['content'] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""
"""Moves the system text to the last message, so that every prompt rewrites an earlier one."""

ALL = {
    "drops calls": DROPS_CALLS,
    "trims": TRIMS,
    "refuses the tool role": REFUSES_TOOL_ROLE,
    "drops the tool role": DROPS_TOOL_ROLE,
    "forgets reasoning": FORGETS_REASONING,
    "opens reasoning": OPENS_REASONING,
    "strict": STRICT,
    "strict, trims": STRICT_TRIMS,
    "first system": FIRST_SYSTEM,
    "verbatim calls": VERBATIM_CALLS,
    "rewrites calls": REWRITES_CALLS,
    "no generation prompt": NO_PROMPT,
    "wants parts": WANTS_PARTS,
    "closes late": CLOSES_LATE,
    "plain": PLAIN,
    "counts": COUNTS,
    "last user system": LAST_USER_SYSTEM,
}


def with_template(tokenizer: Tokenizer, template: str | dict[str, str] | None, **more) -> Tokenizer:
    """The same vocabulary under another chat template."""
    special = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>"}
    return Tokenizer(tokenizer._backend, name="test", template=template, special=special, **more)
