"""Plug-ins for agent frameworks. Each module needs its framework; nothing is imported before it is used.

- ``mini_swe_agent``: ``mini --model-class suffixspec.integrations.mini_swe_agent.Model``
- ``smolagents``: ``TransformersModel`` with drafts
- ``litellm``: a provider ``suffixspec/…``, and a callback that records any model's calls
- ``llm``: models for Simon Willison's ``llm``, found by themselves
- ``local``: the server within this process, which they talk to
- ``recording``: the recording proxy within this process, for any framework that takes a base URL
"""
