"""The version of the package; that of the program it belongs to."""

__version__ = "0.1.0"
