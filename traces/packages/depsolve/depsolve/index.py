"""What versions exist and what they require."""

import json

from .versions import Requirement, Version


class Index:
    """Packages, their versions and the requirements of each version."""

    def __init__(self):
        self._packages = {}

    def add(self, name, version, requires=None):
        """Add one version; requires maps package names to requirement texts."""
        parsed = {other: Requirement(text) for other, text in (requires or {}).items()}
        self._packages.setdefault(name, {})[Version(version)] = parsed

    def versions(self, name):
        """All versions of a package, newest first."""
        return sorted(self._packages.get(name, ()), reverse=True)

    def requires(self, name, version):
        return self._packages[name][version]

    @classmethod
    def from_json(cls, text):
        """An index of {"name": {"1.0.0": {"other": ">=1"}}}."""
        index = cls()
        for name, versions in json.loads(text).items():
            for version, requires in versions.items():
                index.add(name, version, requires)
        return index
