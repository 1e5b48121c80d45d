"""LiteLLM with the provider ``suffixspec/…``, recorded by a callback that works with every provider.

python examples/litellm_loop.py [MODEL]
"""

import sys

import litellm

from suffixspec.integrations.litellm import RecorderCallback, register


def main() -> None:
    """Two turns."""
    register()
    litellm.callbacks = [RecorderCallback("litellm-calls.jsonl")]
    model = f"suffixspec/{sys.argv[1] if len(sys.argv) > 1 else 'local'}"
    messages = []
    for request in ("Count from one to ten in words.", "Again, please."):
        messages.append({"role": "user", "content": request})
        answer = litellm.completion(model=model, messages=messages, max_tokens=60, temperature=0)
        messages.append(answer.choices[0].message.model_dump())
        cached = answer.usage.prompt_tokens_details.cached_tokens
        sys.stdout.write(
            f"{messages[-1]['content']}\n--- {cached} of {answer.usage.prompt_tokens} tokens cached\n"
        )


if __name__ == "__main__":
    main()
