"""Functions of the extension, called wrongly: one wording, under the name of the function. No framework is needed."""
import unittest

from msprobe import _native


class Arguments(unittest.TestCase):
    def complaint(self, kind, function, *arguments):
        with self.assertRaises(kind) as caught:
            function(*arguments)
        return str(caught.exception)

    def test_a_wrong_number_is_told_under_the_name_of_the_function(self):
        self.assertEqual(self.complaint(TypeError, _native.log, 1), "log() takes exactly 2 arguments (1 given)")
        self.assertEqual(self.complaint(TypeError, _native.switch), "switch() takes exactly 7 arguments (0 given)")
        self.assertEqual(self.complaint(TypeError, _native.Api, len, "a"), "Api() takes at least 3 arguments (2 given)")
        self.assertIn("takes no arguments", self.complaint(TypeError, _native.version, 1))

    def test_a_wrong_type_is_told_with_its_place(self):
        self.assertIn("module_enter() argument 2 must be tuple, not list",
                      self.complaint(TypeError, _native.module_enter, "Module.a.forward.0", [], None))
        self.assertIn("integer", self.complaint(TypeError, _native.log, "1", "text"))
        self.assertIn("numbers must be a list", self.complaint(TypeError, _native.preheat_adapt, 2.0, True, (), [], 1.0))
        self.assertIn("number", self.complaint(TypeError, _native.preheat_adapt, 2.0, True, ["x"], [], 1.0))

    def test_what_needs_a_capture_says_so_after_its_arguments_were_looked_at(self):
        self.assertEqual(self.complaint(RuntimeError, _native.save, "name", 1), "no capture is open")
        self.assertEqual(self.complaint(RuntimeError, _native.stop), "no capture is open")
        self.assertEqual(self.complaint(TypeError, _native.save, "name"), "save() takes exactly 2 arguments (1 given)")

    def test_tuples_inside_of_a_list_are_read_by_the_same_rules(self):
        class Tensor:
            _version = 0

        class Reader:
            """Of a graph in which every tensor has a node of its own."""
            has_late_hooks = False
            is_leaf = sequence_number = is_view = watch_leaf = plus = minus = None
            edge = staticmethod(lambda tensor: (id(tensor), 0))
            walk = staticmethod(lambda results, targets, since: (Reader.nodes, True))

        def see_outputs():
            call = _native.CallGradients(Reader, None)
            call.see_inputs([Tensor()])
            call.see_outputs([Tensor()])

        Reader.nodes = [[1]]
        self.assertEqual(self.complaint(TypeError, see_outputs), "a node must be a tuple")
        Reader.nodes = [(1,)]
        self.assertEqual(self.complaint(TypeError, see_outputs), "a node() takes exactly 3 arguments (1 given)")

    def test_texts_may_hold_any_character(self):
        self.assertFalse(_native.has_gradients("模块\0.weight"))
        self.assertFalse(_native.has_gradients(b"bytes"))
        self.assertRaises(UnicodeEncodeError, _native.has_gradients, "\ud800")

    def test_a_probe_is_no_other_capsule(self):
        self.assertRaises(ValueError, _native.grad_probe_end, object())

    def test_the_extension_knows_which_functions_give_raw_memory(self):
        raw = [name for name in ("empty", "new_empty_strided", "empty_permuted", "zeros", "", "add") if _native.gives_raw_memory(name)]
        self.assertEqual(raw, ["empty", "new_empty_strided", "empty_permuted"])


if __name__ == "__main__":
    unittest.main()
