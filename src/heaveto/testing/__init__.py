"""The testing kit: what heaveto's own tests use, for yours.

`clocks.py` fake clocks; `stops.py` a stop at every await; `lint.py` the rules that a type checker cannot see;
`pytest_plugin.py` the fixtures, which pytest finds by itself. Import from the modules: each loads only what it needs.
"""
