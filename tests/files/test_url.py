import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.files.source_kinds import scrubbed, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pw@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://me:p@ss:w/rd?#@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:pw@/db?host=/tmp", "postgresql://:***@/db?host=/tmp"),
        ("postgresql:///db?user=me&password=pw&port=1", "postgresql:///db?user=me&password=***&port=1"),
        ("postgresql://me:pw@host/db?sslpassword=x", "postgresql://me:***@host/db?sslpassword=***"),
        ("sqlite:///a.db", "sqlite:///a.db"),
    ],
)
def test_a_password_is_masked_and_the_rest_is_not(url, shown):
    assert without_password(url) == shown


def test_a_message_loses_the_password_and_the_pieces_a_parser_makes_of_it():
    url = "postgresql://me:gr%40ve/stone@host/db"
    assert scrubbed('bad port "gr%40ve" of gr@ve/stone; "stone" is no host', url) == (
        'bad port "***" of ***; "***" is no host'
    )
    assert scrubbed("no such table", "postgresql://host/db") == "no such table"


@given(st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S")), min_size=6))
def test_no_password_survives_whatever_its_characters(password):
    secret = f"<{password}>"  # not part of the rest of the URL by chance
    assert secret not in without_password(f"postgresql://me:{secret}@host/db")
    assert secret not in scrubbed(f"cannot open {secret}", f"postgresql://me:{secret}@host/db")
