"""The resolver."""

from .versions import Requirement


class ResolutionError(Exception):
    """No choice of versions holds."""


def candidates(index, name, requirements):
    """The versions of a package that all its requirements allow, newest first."""
    wanted = [requirement for _, requirement in requirements]
    allow_pre = any(requirement.names_prerelease() for requirement in wanted)
    return [
        version
        for version in index.versions(name)
        if (allow_pre or version.pre is None) and all(requirement.allows(version) for requirement in wanted)
    ]


def resolve(index, requires):
    """Pick a version of every required package.

    Args:
        index: the Index to pick from.
        requires: package names with requirement texts, as a user writes them.

    Returns:
        A dictionary of package name to version text, sorted by name.
    """
    demands = {}
    queue = []
    for name, text in requires.items():
        demands.setdefault(name, []).append(("root", Requirement(text)))
        queue.append(name)
    chosen = {}
    while queue:
        name = queue.pop(0)
        options = candidates(index, name, demands[name])
        if not options:
            reasons = ", ".join(f"{source} requires {name} {req}" for source, req in demands[name])
            raise ResolutionError(f"no version of {name} fits: {reasons}")
        if chosen.get(name) == options[0]:
            continue
        chosen[name] = options[0]
        for other, requirement in index.requires(name, options[0]).items():
            demands.setdefault(other, []).append((f"{name} {options[0]}", requirement))
            queue.append(other)
    return {name: str(version) for name, version in sorted(chosen.items())}
