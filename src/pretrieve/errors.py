"""The two errors that end a command with one readable line instead of a traceback."""


class PretrieveError(Exception):
    """Base class: something the user can mend; the message says what, where and how."""


class DataError(PretrieveError):
    """A file is missing, damaged or not in the expected format."""


class ConfigError(PretrieveError):
    """A configuration key, name or value is not allowed."""
