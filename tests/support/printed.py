"""Comparison of printed texts with documents, up to times, sizes and last digits."""

import os
import re

UPDATE = "PLAIT_UPDATE_DOCS" in os.environ  # write what is printed into the documents instead
MEASURED = re.compile(r"\d[\d,.]* (?:s|ms|µs|min|kB|MB|GB)\b")  # by a clock, or of this machine
FRACTION = re.compile(r"-?\d[\d,]*\.\d+(?:e[-+]?\d+)?")
CLOSE, LAST = 0.01, 2e-4  # of its size, or at all, that a fraction may differ by from machine to machine


def prints_as_shown(printed, shown):
    """Whether a text is what a document shows, but for what is measured, last digits and what `…` leaves out."""
    return lines_match(stripped(printed).splitlines(), stripped(shown).splitlines())


def lines_match(got, wanted):
    if not wanted:
        return not got
    if wanted[0] == "…":
        return any(lines_match(got[n:], wanted[1:]) for n in range(len(got) + 1))
    return bool(got) and alike(got[0], wanted[0]) and lines_match(got[1:], wanted[1:])


def alike(line, other):
    """Whether two lines differ in what is measured, in fractions by little, and in the blanks around these at most."""
    (words, fractions), (theirs, others) = (apart(MEASURED.sub("_", one)) for one in (line, other))
    return words == theirs and all(abs(a - b) <= max(CLOSE * abs(b), LAST) for a, b in zip(fractions, others))


def apart(line):
    """A line with a mark for each fraction and one blank for many, and the fractions."""
    fractions = [float(found.replace(",", "")) for found in FRACTION.findall(line)]
    return re.sub(r"([ ─])\1+", r"\1", FRACTION.sub("_._", line)), fractions


def stripped(text):
    """Lines without the blanks at their end, and without empty lines around them."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()).rstrip()
