"""Damaged inputs: good ones with bytes or words changed, drawn from a seed."""

import random

BYTES = [b'"', b",", b";", b"\t", b"|", b"\r", b"\n", b"\r\n", b"\n\n", b" ", b"\x00", b"\xff", b"\x1f\x8b", b"#"]
BYTES += [b"\xc3\xa9", b"\xef\xbb\xbf", b"nan", b"-inf", b"1e999", b"-1", b"0", b"99999999999999999999", b"1.5"]
BYTES += [b"value", b"''", b"\x0c"]
WORDS = ["[", "]", ",", "=", ":", ";", "#", "\n", " ", "\t", "r", "i", "A", "A[i, r]", "value", "é", "\u200b", "\x00"]
WORDS += ["-", ".", "[]", "A[i", "= B", '"', '"""', "'", "{", "}", "true", "nan", "inf", "-1", "1e400", "10_0", "\\"]
WORDS += ["0", "1", "1979-05-27", "[fit]", "[relations.visits]", "source", "model", "rank", "rank = 0", "\ufeff"]
WORDS += ["٣", "𝐀", "..", "/", "x" * 300]


def damaged_bytes(good: bytes, draw: random.Random) -> bytes:
    """A good file changed in one to six places; now and then nothing of it is left."""
    if draw.random() < 0.03:
        return draw.randbytes(draw.randrange(200))
    data = bytearray(good)
    for _ in range(draw.randint(1, 6)):
        at, to = sorted(draw.randrange(len(data) + 1) for _ in range(2))
        to = min(to, at + draw.choice((1, 4, 40)))
        way = draw.randrange(6)
        if way == 0 and data:
            data[min(at, len(data) - 1)] ^= 1 << draw.randrange(8)
        elif way == 1:
            del data[at:to]
        elif way == 2:
            data[at:at] = draw.choice(BYTES)
        elif way == 3:
            data[at:to] = draw.choice(BYTES)
        elif way == 4:
            data[at:at] = data[at:to]
        elif draw.random() < 0.3:
            del data[at:]
    return bytes(data)


def damaged_text(good: str, draw: random.Random) -> str:
    """A good text changed in one to four places."""
    text = good
    for _ in range(draw.randint(1, 4)):
        at, to = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        to = min(to, at + draw.choice((1, 3, 20)))
        new = draw.choice(("", draw.choice(WORDS), chr(draw.randrange(32, 127)), text[at:to] * 2))
        text = text[:at] + new + text[to:]
    return text
