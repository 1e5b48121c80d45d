"""Tests of the plug-ins, each through the framework itself."""
