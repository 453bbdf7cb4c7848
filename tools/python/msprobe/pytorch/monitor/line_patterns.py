"""Regular expressions over call stacks, from a configuration that may be anybody's.

Python's re tries ways to match one after the other: an expression of a few characters can keep it
busy for years. Expressions that may do so are run here as automata, all ways at once (K. Thompson,
Regular expression search algorithm, CACM 11, 1968), or refused.
"""
import re

try:
    from re import _parser as _sre
except ImportError:  # before Python 3.11
    import sre_parse as _sre

LONGEST_EXPRESSION = 2000
_MOST_STATES = 10000
_MOST_KNOWN_TEXTS = 4096
_PLAIN_FLAGS = re.UNICODE.value

_SPLIT, _TAKE, _AT, _END = range(4)


class _NotRegular(Exception):
    """Something that no automaton of this kind can do."""


class _Automaton:
    def __init__(self, tree):
        self._states = [(_END, None, ())]
        self._sequences = 0
        self._start = self._sequence(tree, 0)

    def search(self, text):
        """Whether the expression matches anywhere."""
        reached = set()
        for i in range(len(text) + 1):
            open_ = [self._start] + list(reached)
            now = set()
            while open_:
                state = open_.pop()
                if state in now:
                    continue
                now.add(state)
                kind, about, following = self._states[state]
                if kind == _END:
                    return True
                if kind == _SPLIT or (kind == _AT and about(text, i)):
                    open_.extend(following)
            if i == len(text):
                return False
            reached = {following[0] for kind, about, following in map(self._states.__getitem__, now)
                       if kind == _TAKE and about(text[i])}
        return False

    def _add(self, kind, about, following):
        if len(self._states) >= _MOST_STATES:
            raise _NotRegular
        self._states.append((kind, about, following))
        return len(self._states) - 1

    # Each gives the state to begin with; `then` follows.

    def _sequence(self, tree, then):
        self._sequences += 1  # those of nothing at all add no states
        if self._sequences > _MOST_STATES:
            raise _NotRegular
        for operator, argument in reversed(list(tree)):
            then = self._one(str(operator), argument, then)
        return then

    def _one(self, operator, argument, then):
        if operator == "BRANCH":
            return self._add(_SPLIT, None, tuple(self._sequence(way, then) for way in argument[1]))
        if operator == "SUBPATTERN":
            _, add_flags, remove_flags, tree = argument
            if add_flags or remove_flags:
                raise _NotRegular
            return self._sequence(tree, then)
        if operator in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(*argument, then)
        if operator == "AT":
            return self._add(_AT, _place(str(argument)), (then,))
        return self._add(_TAKE, _taken(operator, argument), (then,))

    def _repeat(self, least, most, tree, then):
        if most == _sre.MAXREPEAT:
            again = self._add(_SPLIT, None, ())
            self._states[again] = (_SPLIT, None, (self._sequence(tree, again), then))
            then = again
        else:
            end = then
            for _ in range(most - least):
                then = self._add(_SPLIT, None, (self._sequence(tree, then), end))
        for _ in range(least):
            then = self._sequence(tree, then)
        return then


_PLACES = {"AT_BEGINNING": r"", "AT_BEGINNING_STRING": r"", "AT_END": r"(?=\n?\Z)",
           "AT_END_STRING": r"\Z", "AT_BOUNDARY": r"\b", "AT_NON_BOUNDARY": r"\B"}
_CATEGORIES = {"CATEGORY_DIGIT": r"\d", "CATEGORY_NOT_DIGIT": r"\D", "CATEGORY_SPACE": r"\s",
               "CATEGORY_NOT_SPACE": r"\S", "CATEGORY_WORD": r"\w", "CATEGORY_NOT_WORD": r"\W"}


def _place(name):
    if name not in _PLACES:
        raise _NotRegular
    if name.startswith("AT_BEGINNING"):
        return lambda text, i: i == 0
    matches = re.compile(_PLACES[name]).match
    return lambda text, i: matches(text, i) is not None


def _taken(operator, argument):
    """Tells whether a character is one of those that are meant."""
    if operator == "LITERAL":
        return lambda char: ord(char) == argument
    if operator == "NOT_LITERAL":
        return lambda char: ord(char) != argument
    if operator == "ANY":
        return lambda char: char != "\n"
    if operator == "RANGE":
        return lambda char: argument[0] <= ord(char) <= argument[1]
    if operator == "CATEGORY" and str(argument) in _CATEGORIES:
        matches = re.compile(_CATEGORIES[str(argument)]).match
        return lambda char: matches(char) is not None
    if operator == "IN":
        negated = str(argument[0][0]) == "NEGATE"
        items = [_taken(str(kind), about) for kind, about in argument[1 if negated else 0:]]
        return lambda char: any(item(char) for item in items) != negated
    raise _NotRegular


def _choices(tree):
    """In how many places there is more than one way on. One alone costs re little."""
    count = 0
    for operator, argument in tree:
        name = str(operator)
        count += name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT", "BRANCH")
        count += sum(_choices(part) for part in _parts(argument))
    return count


def _parts(argument):
    if isinstance(argument, _sre.SubPattern):
        return [argument]
    if isinstance(argument, (tuple, list)):
        return [part for item in argument for part in _parts(item)]
    return []


class LinePattern:
    """An expression that is searched for in the text of a stack."""

    def __init__(self, expression):
        if len(expression.encode("utf-8", "replace")) > LONGEST_EXPRESSION:
            raise ValueError("an expression of more than %d bytes: %s..."
                             % (LONGEST_EXPRESSION, expression[:40]))
        compiled = re.compile(expression)
        self._known = {}
        tree = _sre.parse(expression)
        if _choices(tree) <= 1:
            self._search = compiled.search
            return
        try:
            if compiled.flags != _PLAIN_FLAGS:
                raise _NotRegular
            self._search = _Automaton(tree).search
        except _NotRegular:
            raise ValueError("an expression that may take very long: it has several repetitions or "
                             "alternatives, and beside them flags, look-around, references or high counts: %s"
                             % expression[:200]) from None

    def found_in(self, text):
        """Stacks of a training repeat: each text is looked at once."""
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= _MOST_KNOWN_TEXTS:
                self._known.clear()
            found = self._known[text] = bool(self._search(text))
        return found
