"""Sessions of tasks that look at a training otherwise than a capture does."""


class TaskSession:
    """A session of PrecisionDebugger in place of a capture. Also what such a session calls its hooks. What is
    here is the answer of a task that has no use for the question."""

    level = ""
    task = ""

    def __init__(self):
        self.settings = {}
        self.finished = False
        self.generation = 0
        self.model = None
        self.step_open = False
        self.recording = False

    def attach(self, session):
        """Nothing more to know."""

    def tensor_types(self):
        return ()

    def check_model(self, model):
        """Any is right."""

    def ready_to_save(self):
        return False

    def keep_apis(self, session):
        """No functions are replaced."""
