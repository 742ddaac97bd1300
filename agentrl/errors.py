"""The one exception that is the user's to repair."""


class UserError(ValueError):
    """A mistake of the user: one line naming the field, the value and the remedy.

    The command line prints it to stderr without a traceback and exits 2.
    """
