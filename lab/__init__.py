"""What is measured with Plait, outside of the package: Plait never imports it.

harness/   what all of it shares: finished cells are kept, tables, plots, pages, processes of their own
paper/     the experiments of Ermis & Cemgil 2013: make paper
quality/   how good answers are, beside other packages: make quality
bench/     speed and memory beside others: make bench; and tables behind decisions: python -m lab.bench NAME
"""
