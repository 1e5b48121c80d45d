"""The target model: a Hugging Face causal LM with a KV cache that can be cut, and one forward over a draft tree.

The only package that knows transformers. Import it inside functions: it imports torch.
"""
