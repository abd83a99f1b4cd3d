"""Settings from the environment and a file.

settings   every setting with its default, and how they are put together
readers    how the text of a variable, or a value of the file, becomes a value
"""

from hookfuse.config.settings import SETTINGS, Loaded, Settings, load, shown, variable

__all__ = ["SETTINGS", "Loaded", "Settings", "load", "shown", "variable"]
