"""Speed and memory of Plait, beside a hand-written kernel (yardstick.py) and plain NumPy (plain.py): make bench."""
