"""The rules of Baba Is AI a second time, told object by object; slow, and shares no code with the game."""

NOUNS = ("baba", "ball", "key", "door", "wall")
STEPS = {"up": (0, -1), "right": (1, 0), "down": (0, 1), "left": (-1, 0)}


class Piece:
    """One thing or block: no two are the same one. `moved`: None where it was not YOU in sight when the step began."""

    def __init__(self, name, text):
        self.name, self.text, self.moved = name, text, False


class Oracle:
    """`cells` are stacks by (x, y); what is not among them is the border."""

    def __init__(self, rows):
        self.cells = {}
        for y, row in enumerate(rows):
            for x, words in enumerate(row):
                self.cells[x, y] = [Piece(word.lower(), word.isupper()) for word in words]
        self.read()

    def top(self, at):
        return self.cells[at][-1] if self.cells.get(at) else None

    def word(self, at):
        piece = self.top(at)
        return piece.name if piece is not None and piece.text else None

    def read(self):
        self.rules = []
        for x, y in sorted(self.cells, key=lambda at: (at[1], at[0])):
            if self.word((x, y)) == "is":
                for one, other in (((x - 1, y), (x + 1, y)), ((x, y - 1), (x, y + 1))):
                    subject, what = self.word(one), self.word(other)
                    if subject in NOUNS and what not in (None, "is"):
                        self.rules.append((subject, what))

    def has(self, piece, quality):
        return piece is not None and not piece.text and (piece.name, quality) in self.rules

    def move(self, at, way):
        ahead = at[0] + way[0], at[1] + way[1]
        piece = self.top(ahead)
        if piece is not None and (piece.text or self.has(piece, "push")):
            self.move(ahead, way)
        piece = self.top(ahead)
        free = ahead in self.cells and (piece is None or (not piece.text and not self.has(piece, "stop")))
        new = ahead if free else at
        met = self.top(new)
        result = self.has(met, "win"), self.has(met, "lose")
        if free:
            self.cells[new].append(self.cells[at].pop())
        return new, result

    def step(self, direction):
        """[(place, wins, loses)] of each of YOU that moved."""
        order = sorted(self.cells, key=lambda at: (at[1], at[0]))
        for at in order:
            for piece in self.cells[at]:
                piece.moved = None
            if self.has(self.top(at), "you"):
                self.top(at).moved = False
        results = []
        for at in order:
            piece = self.top(at)
            if self.has(piece, "you") and piece.moved is False:
                new, (win, lose) = self.move(at, STEPS[direction])
                piece.moved = True
                results.append((new, win, lose))
        self.read()
        for subject, what in self.rules:
            if what in NOUNS:
                for at in order:
                    piece = self.top(at)
                    if piece is not None and not piece.text and piece.name == subject:
                        self.cells[at].append(Piece(what, False))
        return results
