"""`python -m bench.peers`: install every package that Plait is measured beside, as far as they can be."""

from bench.peers.reasons import install

if __name__ == "__main__":
    install()
