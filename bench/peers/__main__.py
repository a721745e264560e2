"""`python -m bench.peers bench`: install the packages of an extra that Plait is measured beside, if they can be had."""

import sys

from bench.peers.reasons import install

if __name__ == "__main__":
    install(sys.argv[1])
