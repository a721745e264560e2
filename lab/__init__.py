"""Measurements of Plait, outside the package: Plait never imports them.

harness/   what all of it shares: finished cells are kept, tables, plots, pages, processes of their own
paper/     the experiments of Ermis & Cemgil 2013: make paper
quality/   accuracy compared with other packages: make quality
bench/     speed and memory compared with others: make bench; and tables behind decisions: python -m lab.bench NAME
"""
