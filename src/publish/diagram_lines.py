"""The lines of a diagram's arrows: where they leave a box, how they run, and where they arrive."""

from dataclasses import dataclass
from typing import Final, Literal

Side = Literal["left", "right", "top", "bottom"]
TIP: Final = 2
"""Distance of an arrow's tip from its box, in user units."""
BYPASS: Final = 12
"""Distance of a line from the boxes that it passes on their left."""


@dataclass(frozen=True)
class Box:
    """Where a part is drawn, in user units."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """The middle of the box."""
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass(frozen=True)
class Port:
    """A place on the frame of a box.

    Attributes:
        side: The side of the box.
        share: How far along the side, from its left or upper end, from 0 to 1.
    """

    side: Side
    share: float = 0.5

    @property
    def is_upright(self) -> bool:
        """Whether a line goes up or down there."""
        return self.side in ("top", "bottom")

    def point(self, box: Box, distance: float = 0) -> tuple[float, float]:
        """Return the place as x and y, at a distance from the frame."""
        if self.is_upright:
            x = box.x + self.share * box.width
            return x, box.y - distance if self.side == "top" else box.y + box.height + distance
        y = box.y + self.share * box.height
        return box.x - distance if self.side == "left" else box.x + box.width + distance, y


@dataclass(frozen=True)
class Line:
    """The path of an arrow as SVG has it, and where its word stands."""

    path: str
    word_place: tuple[float, float]


def curve(start: Box, end: Box, *, goes_back: bool) -> Line:
    """Return a curve between two boxes of a grid.

    Args:
        start: Where it begins.
        end: Where it arrives.
        goes_back: Whether it stands beside an arrow the other way.
    """
    (start_x, start_y), (end_x, end_y) = start.middle, end.middle
    shift = 16 if goes_back else 0
    if abs(end_x - start_x) > start.width / 2:
        sign = 1 if end_x > start_x else -1
        x1, y1 = start_x + sign * start.width / 2, start_y + shift
        x2, y2 = end_x - sign * (end.width / 2 + TIP), end_y + shift
        bend = (x2 - x1) / 2
        path = f"M{x1:.0f} {y1:.0f} C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} "
    else:
        sign = 1 if end_y > start_y else -1
        x1, y1 = start_x + shift, start_y + sign * start.height / 2
        x2, y2 = end_x + shift, end_y - sign * (end.height / 2 + TIP)
        bend = (y2 - y1) / 2
        path = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} "
    word_place = ((x1 + x2) / 2, (y1 + y2) / 2 + (12 if shift else -5))
    return Line(path + f"{x2:.0f} {y2:.0f}", word_place)


def bent(start: Box, leave: Port, end: Box, arrive: Port) -> Line:
    """Return a line with a corner between two ports, or with two corners to the left of both.

    Args:
        start: Where it begins.
        leave: The port there.
        end: Where it arrives.
        arrive: The port there.
    """
    x1, y1 = leave.point(start)
    x2, y2 = arrive.point(end, TIP)
    if leave.side == arrive.side == "left":
        x = min(start.x, end.x) - BYPASS
        path = f"M{x1:.0f} {y1:.0f} L{x:.0f} {y1:.0f} L{x:.0f} {y2:.0f} L{x2:.0f} {y2:.0f}"
        return Line(path, (x, (y1 + y2) / 2))
    corner = (x1, y2) if leave.is_upright else (x2, y1)
    path = f"M{x1:.0f} {y1:.0f} L{corner[0]:.0f} {corner[1]:.0f} L{x2:.0f} {y2:.0f}"
    return Line(path, corner)


def passing(start: Box, leave: Port | None, end: Box, arrive: Port | None, height: float) -> Line:
    """Return a line that passes other parts of the grid at a height.

    Args:
        start: Where it begins.
        leave: The port there, on the upper or lower side; by default a quarter from the end of
            the side.
        end: Where it arrives.
        arrive: The port there, likewise.
        height: Where it runs, in user units.
    """
    sign = 1 if end.x > start.x else -1
    x1 = start.x + start.width * (leave.share if leave else 0.5 + sign / 4)
    x2 = end.x + end.width * (arrive.share if arrive else 0.5 - sign / 4)
    is_beside = start.y < height < start.y + start.height
    if is_beside:
        x1, y1 = start.middle[0] + sign * start.width / 2, height
    else:
        y1 = start.y if height < start.y else start.y + start.height
    y2 = end.y - TIP if height < end.y else end.y + end.height + TIP
    path = f"M{x1:.0f} {y1:.0f} L{x1:.0f} {height:.0f} L{x2:.0f} {height:.0f} L{x2:.0f} {y2:.0f}"
    return Line(path, ((x1 + x2) / 2, height - 5))


def down(start: Box, end: Box) -> Line:
    """Return a straight line to the box below."""
    x = start.middle[0]
    y1, y2 = start.y + start.height, end.y - TIP
    return Line(f"M{x:.0f} {y1:.0f} L{x:.0f} {y2:.0f}", (x, y2))
