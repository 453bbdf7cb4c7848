"""Replaced attributes. What is given back is only what is still ours: a replacement that somebody
put over ours, or in its place, stays."""
import gc
import types

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.in_place import layer_over


class Slot:
    """One attribute of a module, a class or a namespace object."""

    def __init__(self, holder, name, replacement, tells=True):
        self.holder = holder
        self.name = name
        self.replacement = replacement
        self.tells = tells  # when it is found replaced by somebody else
        self.in_place = False
        self._look()

    def _look(self):
        self.own = self.name in vars(self.holder)
        self.original = vars(self.holder)[self.name] if self.own else None

    @property
    def is_ours(self):
        """Whether the attribute is what was put there."""
        return vars(self.holder).get(self.name) is self.replacement

    def put(self):
        """What somebody else put there since this slot was made is left alone."""
        if not self.in_place and not self.is_outdated():
            self.in_place = True
            setattr(self.holder, self.name, self.replacement)

    def take(self):
        if not self.in_place:
            return
        self.in_place = False
        if not self.is_ours:
            if self.tells and not runtime.is_ending():
                self._tell()
        elif self.own:
            setattr(self.holder, self.name, self.original)
        else:
            delattr(self.holder, self.name)

    def _tell(self):
        runtime.say_once(
            _native.LOG_WARNING,
            "%s.%s was replaced by somebody else while it was replaced here: it is left as it is"
            % (getattr(self.holder, "__name__", type(self.holder).__name__), self.name))

    def is_outdated(self):
        """Not in place, and the attribute is no longer what it was made from."""
        if self.in_place:
            return False
        return vars(self.holder).get(self.name) is not self.original


class InPlace(Slot):
    """A function that is observed where it is. `replacement` is the layer: as a callable what lies below it. The attribute is left as it
    is; when somebody else changes it, calls of the new function are not observed."""

    is_used_once = False  # it is not put again: then its layer lets go of the handler, which holds the layer where no collector looks

    @property
    def is_ours(self):
        return vars(self.holder).get(self.name) is self.original

    def put(self):
        if not self.in_place and not self.is_outdated():
            self.in_place = True
            self.replacement.put()

    def take(self):
        if not self.in_place:
            return
        self.in_place = False
        self.replacement.take()
        if self.is_used_once:
            self.replacement.observe(None)
        if not self.is_ours and self.tells and not runtime.is_ending():
            self._tell()


def over(holder, name, make_handler, tells=True):
    """The slot of holder.name whose calls go to make_handler(original): observed in place where that is possible. It is put once."""
    function = getattr(holder, name)
    layer = layer_over(function)
    if layer is None:
        return Slot(holder, name, make_handler(function), tells)
    layer.observe(make_handler(layer))
    slot = InPlace(holder, name, layer, tells)
    slot.is_used_once = True
    return slot


class Holder:
    """One who has `_slots`, which are put and taken together."""

    def put(self):
        for slot in self._slots:
            slot.put()

    def take(self):
        for slot in self._slots:
            slot.take()


class ManySlots:
    """Slots by the hundred, put and taken in one go. `renewed(slot)` gives one for an attribute that
    somebody replaced meanwhile, or None: then that one is left alone this time."""

    def __init__(self, slots, renewed):
        self._slots = list(slots)
        self._namespaces = {}
        self._rows = [self._row(slot) for slot in self._slots]
        self._renewed = renewed
        self._left = ()  # indexes of those that are not in place
        self._in_place = False

    def _row(self, slot):
        return (self._namespace(slot.holder), slot.holder, slot.name, slot.replacement,
                slot.original)

    def _namespace(self, holder):
        """Where its attributes are looked up, to be read only. For a class the dict behind the
        proxy, whose KeyErrors would be most of the price of what is inherited."""
        if id(holder) not in self._namespaces:
            own = vars(holder)
            if isinstance(own, types.MappingProxyType):
                [own] = gc.get_referents(own)
            self._namespaces[id(holder)] = own
        return self._namespaces[id(holder)]

    def put(self):
        if self._in_place:
            return
        self._in_place = True
        self._left = {index for index in _native.exchange(self._rows, True)
                      if not self._put_anew(index)}

    def _put_anew(self, index):
        before = self._slots[index]
        slot = self._renewed(before)
        if slot is None:
            return False
        slot.put()
        self._slots[index], self._rows[index] = slot, self._row(slot)
        return True

    def take(self):
        if not self._in_place:
            return
        self._in_place = False
        for index in _native.exchange(self._rows, False):
            if index not in self._left:
                slot = self._slots[index]
                slot.in_place = True
                slot.take()


class Slots:
    """Slots that are put and taken together, as often as wanted. They are made anew each time:
    somebody may have replaced the attributes meanwhile."""

    def __init__(self, make_slots):
        self._make_slots = make_slots
        self._slots = ()

    def put(self):
        if not self._slots:
            self._slots = list(self._make_slots())
            for slot in self._slots:
                slot.put()
            runtime.put(self)

    def take(self):
        slots, self._slots = self._slots, ()
        for slot in reversed(slots):
            slot.take()
        runtime.taken(self)


class SharedSlots:
    """Slots that several need: in place from the first to the last of them."""

    def __init__(self, make_slots):
        self._slots = Slots(make_slots)
        self._users = []

    def hold(self, user):
        if all(known is not user for known in self._users):
            self._users.append(user)
        self._slots.put()

    def release(self, user):
        self._users = [known for known in self._users if known is not user]
        if not self._users:
            self._slots.take()
