"""The one exception that is the user's to repair."""


class UserError(ValueError):
    """A mistake of the user: one line naming the field, the value and the remedy.

    The command line prints it to stderr without a traceback and exits 2. The line may quote what a file, a game or a
    model says, so everything that is not printable becomes a space.
    """

    def __init__(self, message: object) -> None:
        super().__init__(one_line(message))


def one_line(message: object) -> str:
    """The message as one line of printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(message)).split())
