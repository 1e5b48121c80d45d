"""The table that parsers make and renderers take."""


class Table:
    """A header and rows of cells, all strings; every row has as many cells as the header."""

    def __init__(self, header, rows):
        self.header = [str(cell) for cell in header]
        self.rows = []
        for row in rows:
            self.append(row)

    def append(self, row):
        """Add a row; a short one is filled up, a long one is an error."""
        cells = [str(cell) for cell in row]
        if len(cells) > len(self.header):
            raise ValueError(f"expected at most {len(self.header)} cells, got {len(cells)}: {cells!r}")
        cells += [""] * (len(self.header) - len(cells))
        self.rows.append(cells)

    def column(self, index):
        """The cells of one column, without its header."""
        return [row[index] for row in self.rows]

    def __eq__(self, other):
        if not isinstance(other, Table):
            return NotImplemented
        return (self.header, self.rows) == (other.header, other.rows)

    def __repr__(self):
        return f"Table({self.header!r}, {self.rows!r})"
