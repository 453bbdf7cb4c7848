"""Python imports this when it starts: also in the processes that vLLM starts."""
import only_what_is_installed  # noqa: F401
