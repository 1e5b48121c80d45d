"""Hidden check of toolbox__depsolve-1."""

import itertools
import random
import time
import unittest

from depsolve import Index, Requirement, ResolutionError, resolve


def make(table):
    index = Index()
    for key, requires in table.items():
        name, version = key.split()
        index.add(name, version, requires)
    return index


def solvable(table, facts):
    """Brute force: whether some choice fulfils the requirements named in facts."""
    names = sorted({key.split()[0] for key in table})
    versions = [[None] + [key.split()[1] for key in table if key.split()[0] == name] for name in names]
    for choice in itertools.product(*versions):
        chosen = {name: version for name, version in zip(names, choice) if version}
        held = [(f"{n} {v}", other, text) for n, v in chosen.items() for other, text in table[f"{n} {v}"].items()]
        held += [fact for fact in facts if fact[0] == "root"]
        held = [fact for fact in held if fact in facts]
        if all(o in chosen and Requirement(t).allows(_version(chosen[o])) for _, o, t in held):
            return True
    return False


def exactly_solvable(table, facts):
    """Brute force with pre-releases: no leftovers, and only those that a requirement names."""
    names = sorted({key.split()[0] for key in table})
    versions = [[None] + [key.split()[1] for key in table if key.split()[0] == name] for name in names]
    for choice in itertools.product(*versions):
        chosen = {name: version for name, version in zip(names, choice) if version}
        held = [fact for fact in facts if fact[0] == "root" or chosen.get(fact[0].split()[0]) == fact[0].split()[-1]]
        if not all(o in chosen and Requirement(t).allows(_version(chosen[o])) for _, o, t in held):
            continue
        named = {o for _, o, t in held if Requirement(t).names_prerelease()}
        if any("-" in version and name not in named for name, version in chosen.items()):
            continue
        reached, stack = set(), [o for s, o, _ in held if s == "root"]
        while stack:
            name = stack.pop()
            if name not in reached:
                reached.add(name)
                stack += [o for s, o, _ in held if s.split()[0] == name]
        if reached == set(chosen):
            return True
    return False


def _version(text):
    from depsolve import Version

    return Version(text)


class Check(unittest.TestCase):
    def test_example(self):
        index = make(
            {
                "app 2.0.0": {"lib": ">=2"},
                "app 1.0.0": {"lib": ">=1"},
                "plug 1.0.0": {"lib": "<2"},
                "lib 2.0.0": {},
                "lib 1.0.0": {},
            }
        )
        expected = {"app": "1.0.0", "lib": "1.0.0", "plug": "1.0.0"}
        self.assertEqual(resolve(index, {"app": "*", "plug": "*"}), expected)

    def test_no_leftovers(self):
        index = make(
            {
                "a 2.0.0": {"old": "*", "b": "*"},
                "a 1.0.0": {"b": "*"},
                "b 1.0.0": {"a": "<2"},
                "old 1.0.0": {},
            }
        )
        self.assertEqual(resolve(index, {"a": "*"}), {"a": "1.0.0", "b": "1.0.0"})

    def test_circles(self):
        index = make({"a 1.0.0": {"b": "*", "a": ">=1"}, "b 1.0.0": {"a": "*"}, "a 2.0.0": {"a": "<2"}})
        self.assertEqual(resolve(index, {"a": "*"}), {"a": "1.0.0", "b": "1.0.0"})

    def test_missing(self):
        with self.assertRaises(ResolutionError) as caught:
            resolve(make({"a 1.0.0": {"ghost": "*"}, "z 1.0.0": {}}), {"z": "*", "a": "*"})
        self.assertEqual(caught.exception.conflict, ["a 1.0.0 requires ghost *", "root requires a *"])
        self.assertNotIn("z", str(caught.exception).replace("ghost", ""))

    def test_far_conflict(self):
        index = Index()
        count = 60
        for number in range(count):
            for minor in range(30):
                requires = {}
                if number + 1 < count:
                    requires[f"p{number + 1:02}"] = "*"
                if number == 0:
                    requires["last"] = f"=={minor}.0.0"
                if number == count - 1:
                    requires["last"] = "==0.0.0"
                index.add(f"p{number:02}", f"1.{minor}.0", requires)
        for minor in range(30):
            index.add("last", f"{minor}.0.0")
        begin = time.perf_counter()
        wide = {f"p{number:02}": "*" for number in range(count)}
        for requires in ({"p00": "*"}, wide):
            result = resolve(index, requires)
            self.assertEqual(result["p00"], "1.0.0")
            self.assertEqual(result["p01"], "1.29.0")
            self.assertEqual(result["last"], "0.0.0")
        self.assertLess(time.perf_counter() - begin, 8)

    def test_minimal_conflict(self):
        index = make(
            {
                "app 2.0.0": {"lib": ">=2", "x": "*"},
                "app 1.0.0": {"lib": ">=2"},
                "plug 1.0.0": {"lib": "<2", "x": "*"},
                "lib 2.0.0": {},
                "lib 1.0.0": {},
                "x 1.0.0": {},
            }
        )
        with self.assertRaises(ResolutionError) as caught:
            resolve(index, {"x": "*", "app": "*", "plug": "*"})
        expected = [
            "app 1.0.0 requires lib >=2",
            "app 2.0.0 requires lib >=2",
            "plug 1.0.0 requires lib <2",
            "root requires app *",
            "root requires plug *",
        ]
        self.assertEqual(caught.exception.conflict, expected)

    def test_random(self):
        """Against brute force, conflicts' minimality included."""
        for seed in range(150):
            rng = random.Random(seed)
            names = "abcd"
            table = {}
            for name in names:
                for version in range(1, rng.randint(2, 4)):
                    others = rng.sample(names, rng.randint(0, 2))
                    bound = rng.choice([">=", "<=", "==", "<"])
                    table[f"{name} {version}.0.0"] = {o: f"{bound}{rng.randint(1, 3)}.0.0" for o in others}
            requires = {name: "*" for name in rng.sample(names, 2)}
            facts = {("root", name, text) for name, text in requires.items()}
            facts |= {(key, other, text) for key, needs in table.items() for other, text in needs.items()}
            with self.subTest(seed=seed):
                try:
                    result = resolve(make(table), requires)
                except ResolutionError as error:
                    self.assertFalse(solvable(table, facts), "a solution exists")
                    texts = {f"{s} requires {o} {t}": (s, o, t) for s, o, t in facts}
                    core = {texts[line] for line in error.conflict}
                    self.assertFalse(solvable(table, core), "the conflict can be solved")
                    for fact in core:
                        self.assertTrue(solvable(table, core - {fact}), f"{fact} is not needed")
                    continue
                for name, version in result.items():
                    for other, text in table[f"{name} {version}"].items():
                        self.assertTrue(Requirement(text).allows(_version(result[other])))
                reached, stack = set(), list(requires)
                while stack:
                    name = stack.pop()
                    if name not in reached:
                        reached.add(name)
                        stack.extend(table[f"{name} {result[name]}"])
                self.assertEqual(reached, set(result))

    def test_prereleases(self):
        """Conflicts are minimal, too, where a requirement allows something by naming a pre-release."""
        for seed in [*range(180, 200), *range(770, 780)]:
            rng = random.Random(seed)
            table = {}
            for name in "abcd":
                for number in range(1, rng.randint(2, 4)):
                    version = f"{number}.0.0" + ("-rc1" if rng.random() < 0.15 else "")
                    needs = rng.sample("abcd", rng.randint(0, 2))
                    bounds = [f"{rng.choice(['>=', '<=', '==', '<'])}{rng.randint(1, 3)}.0.0" for _ in needs]
                    bounds = [bound + ("-rc1" if rng.random() < 0.15 else "") for bound in bounds]
                    table[f"{name} {version}"] = dict(zip(needs, bounds))
            requires = {name: "*" for name in rng.sample("abcd", 2)}
            facts = {("root", name, text) for name, text in requires.items()}
            facts |= {(key, other, text) for key, needs in table.items() for other, text in needs.items()}
            with self.subTest(seed=seed):
                try:
                    resolve(make(table), requires)
                except ResolutionError as error:
                    self.assertFalse(exactly_solvable(table, facts), "a solution exists")
                    texts = {f"{s} requires {o} {t}": (s, o, t) for s, o, t in facts}
                    core = {texts[line] for line in error.conflict}
                    self.assertFalse(exactly_solvable(table, core), "the conflict can be solved")
                    for fact in core:
                        self.assertTrue(exactly_solvable(table, core - {fact}), f"{fact} is not needed")
                else:
                    self.assertTrue(exactly_solvable(table, facts), "there is no solution")


if __name__ == "__main__":
    unittest.main()
