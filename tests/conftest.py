"""Property tests draw the same examples in every run: a failure is one that anyone can repeat."""

from hypothesis import settings

settings.register_profile("plait", derandomize=True, deadline=None)
settings.load_profile("plait")
