"""Which branch a prompt continues, and which leaves."""

import random

import numpy as np
import pytest

from suffixspec.engine.branch import Branch
from suffixspec.engine.branches import Branches
from suffixspec.engine.errors import OutOfMemoryError


class FakeCache:
    """A cache of ten bytes a slot."""

    def __init__(self, capacity: int = 100) -> None:
        self.length = 0
        self.capacity = capacity

    @property
    def nbytes(self) -> int:
        """Ten a slot."""
        return 10 * self.capacity

    def truncate(self, length: int) -> None:
        """Cut back."""
        self.length = length

    def copy(self, other: "FakeCache", length: int) -> None:
        """Take over."""
        assert length <= other.length
        self.length = length

    def keep(self, slots) -> None:
        """Commit."""
        self.length += len(slots)


def branch(*tokens: int, owner: str = "me", capacity: int = 100) -> Branch:
    made = Branch(FakeCache(capacity), owner)
    made.keep(range(len(tokens)), list(tokens))
    return made


def ids(*tokens: int):
    return np.array(tokens, np.int32)


def pool(*branches: Branch, **more) -> Branches:
    made = Branches(**{"budget_bytes": 10**9} | more)
    for one in branches:
        made.use(one)
    return made


def never() -> Branch:
    raise AssertionError("a new branch was made")


def test_a_prompt_continues_the_branch_with_the_longest_common_prefix():
    """Of several branches the one that has most in common is taken, and cut back to that."""
    a, b = branch(1, 2, 3, 4), branch(1, 2, 3, 9, 9)
    branches = pool(a, b)
    assert branches.take("me", ids(1, 2, 3, 9, 5, 6), never) is b
    assert b.token_ids.tolist() == [1, 2, 3, 9]
    assert a.token_ids.tolist() == [1, 2, 3, 4]
    branches.check()


def test_the_last_token_of_a_prompt_never_keeps_its_kv():
    """A prompt that is wholly there leaves one token for the first step's forward."""
    a = branch(1, 2, 3, 4)
    assert pool(a).take("me", ids(1, 2, 3), never) is a
    assert a.token_ids.tolist() == [1, 2]


def test_a_side_request_does_not_destroy_a_long_branch():
    """A prompt that has little in common with a long branch gets one of its own, with a copy of that little."""
    long = branch(*range(300))
    fresh = branch()
    branches = pool(long)
    assert branches.take("me", ids(*range(50), 999), lambda: fresh) is fresh
    assert fresh.token_ids.tolist() == list(range(50))
    assert long.token_ids.tolist() == list(range(300))
    assert len(branches) == 2
    assert branches.take("me", ids(*range(300), 301), never) is long


def test_the_last_token_of_a_side_request_is_not_copied():
    """A prompt that a long branch begins with leaves one token for the first step's forward."""
    fresh = branch()
    assert pool(branch(*range(300))).take("me", ids(*range(50)), lambda: fresh) is fresh
    assert fresh.token_ids.tolist() == list(range(49))


def test_what_is_copied_from_does_not_leave_for_the_copy():
    """Making room for a side request evicts other branches, though used more recently; later this one too."""
    main, other = branch(*range(300)), branch(7, owner="you")
    branches = pool(main, other, budget_bytes=2500)
    made = branch()

    def new() -> Branch:
        branches.make_room(1000, made)
        return made

    assert branches.take("me", ids(*range(50), 999), new) is made
    assert (branches.of("me"), branches.of("you")) == ([main, made], [])
    branches.make_room(1000, made)
    assert branches.of("me") == [made]
    branches.check()


@pytest.mark.parametrize("limit", ["budget", "branches", "memory"])
def test_where_a_side_request_can_have_no_branch_the_main_one_is_cut_back(limit):
    """No room for both, one branch allowed, no memory: the prefix is kept, and nobody leaves for what cannot be."""
    main, other = branch(*range(300), capacity=300), branch(7, owner="you")
    limits = {"budget": {"budget_bytes": 4500}, "branches": {"per_owner": 1}, "memory": {}}
    branches = pool(main, other, **limits[limit])

    def new() -> Branch:
        if limit == "memory":
            raise OutOfMemoryError("no memory")
        assert limit == "budget", "a new branch was made"
        branches.make_room(2000, branch())
        raise AssertionError("there was room")

    assert branches.take("me", ids(*range(50), 999), new) is main
    assert main.token_ids.tolist() == list(range(50))
    assert branches.of("you") == [other]
    branches.make_room(branches.budget_bytes - 3000, main)
    assert branches.of("you") == []
    branches.check()


def test_what_is_being_decoded_stays_so_while_it_is_copied():
    """A pinned branch is pinned after a copy of it was made, and one that was not is not."""
    for pinned in (True, False):
        main, fresh = branch(*range(300)), branch()
        branches = pool(main)
        if pinned:
            branches.pin(main)
        branches.take("me", ids(*range(50), 999), lambda fresh=fresh: fresh)
        assert branches.evict_others(fresh) == (0 if pinned else 1)


def test_of_an_owners_branches_the_one_that_is_copied_from_does_not_leave():
    """With as many branches as allowed, the least recently used of the others is dropped."""
    made = [branch(*range(1000 * i, 1000 * i + 200)) for i in range(2)]
    branches = pool(*made, per_owner=2)
    fresh = branch()
    branches.take("me", ids(*range(50), 999), lambda: fresh)
    assert branches.of("me") == [made[0], fresh]
    assert len(fresh) == 50


def test_a_branch_of_which_most_is_kept_is_cut_back():
    """Where more is kept than lost, the branch is cut back."""
    long = branch(*range(300))
    assert pool(long).take("me", ids(*range(200), 999), never) is long
    assert len(long) == 200


def test_a_branch_belongs_to_its_owner():
    """Another owner's branch is never continued."""
    fresh = branch(owner="you")
    branches = pool(branch(1, 2, 3))
    assert branches.take("you", ids(1, 2, 3, 4), lambda: fresh) is fresh


def test_an_owner_has_at_most_so_many_branches():
    """One more branch drops the owner's least recently used one, and nobody else's."""
    other = branch(7, owner="you")
    branches = pool(other, per_owner=2)
    made = [branch(*range(1000 * i, 1000 * i + 200)) for i in range(3)]
    for i, one in enumerate(made):
        branches.take("me", ids(1000 * i, 1), lambda one=one: one)
    assert branches.of("me") == made[1:]
    assert branches.of("you") == [other]
    branches.check()


def test_the_least_recently_used_branches_leave_first():
    """Making room evicts in the order of use, and as few as needed."""
    made = [branch(i, owner=str(i)) for i in range(4)]
    branches = pool(*made, budget_bytes=4000)
    branches.use(made[0])
    branches.make_room(1500, made[3])
    assert [one.owner for one in made if one in branches.of(one.owner)] == ["0", "3"]
    assert branches.evicted == 2
    branches.check()


def test_a_branch_being_decoded_stays():
    """A pinned branch and the one that grows are never evicted; what does not fit is an error that says so."""
    a, b, c = branch(1, owner="a"), branch(2, owner="b"), branch(3, owner="c")
    branches = pool(a, b, c, budget_bytes=3000)
    branches.pin(a)
    with pytest.raises(OutOfMemoryError, match=r"at most 3,000 bytes of KV .* got 3,500.*raise kv_bytes"):
        branches.make_room(1500, c)
    assert branches.of("a") == [a]
    assert branches.of("b") == [b], "nobody leaves for what cannot be"
    branches.make_room(1000, c)
    assert branches.of("a") == [a]
    assert branches.of("b") == []
    branches.unpin(a)
    branches.make_room(1500, c)
    assert branches.of("a") == []


def test_random_use_keeps_the_books():
    """Whatever is taken, pinned and evicted: the budget holds and the lists agree."""
    rng = random.Random(5)
    branches = Branches(budget_bytes=5000, per_owner=3)
    for _ in range(400):
        owner = rng.choice("abc")
        prompt = [rng.choice((0, 100, 200)) + i for i in range(rng.randint(1, 150))]

        def new(owner=owner) -> Branch:
            branches.make_room(1000, made := branch(owner=owner))
            return made

        taken = branches.take(owner, ids(*prompt), new)
        common = len(taken)
        assert common < len(prompt)
        assert taken.token_ids.tolist() == prompt[:common]
        taken.keep(range(len(prompt) - common), prompt[common:])
        branches.check()
        assert branches.nbytes <= 5000
        assert len(branches.of(owner)) <= 3


# -- kin ------------------------------------------------------------------------------------------------------


def family(owner: str) -> str:
    return owner[0]


def test_a_new_branch_copies_what_another_owner_of_the_family_has():
    """The longest common prefix of all the family's branches; the donor stays as it is, also while it is decoded."""
    shorter, longer = branch(1, 2, 9, owner="a1"), branch(1, 2, 3, 4, owner="a2")
    stranger = branch(1, 2, 3, 4, 5, owner="b1")
    branches = pool(shorter, longer, stranger)
    branches.kin = family
    branches.pin(longer)
    taken = branches.take("a3", ids(1, 2, 3, 4, 5, 6), lambda: branch(owner="a3"))
    assert taken.token_ids.tolist() == [1, 2, 3, 4]
    assert longer.token_ids.tolist() == [1, 2, 3, 4]
    assert taken.owner == "a3"
    assert len(branches) == 4
    branches.check()


def test_without_kin_nobody_copies_from_another():
    """The default: a new owner begins with nothing."""
    branches = pool(branch(1, 2, 3, owner="a1"))
    assert len(branches.take("a2", ids(1, 2, 3, 4), lambda: branch(owner="a2"))) == 0


def test_a_copy_leaves_the_last_token_of_the_prompt_out():
    """The first step's forward begins with it."""
    branches = pool(branch(1, 2, 3, owner="a1"))
    branches.kin = family
    assert len(branches.take("a2", ids(1, 2, 3), lambda: branch(owner="a2"))) == 2


def test_without_memory_for_a_copy_a_branch_begins_with_nothing():
    """The donor may leave for it then."""
    donor = branch(1, 2, 3, owner="a1")
    branches = pool(donor, budget_bytes=1000)
    branches.kin = family

    def new() -> Branch:
        branches.make_room(1000, donor if len(branches) == 2 else branch(owner="a2"))
        return branch(owner="a2")

    taken = branches.take("a2", ids(1, 2, 3, 4), new)
    assert len(taken) == 0
    assert len(branches) == 1
