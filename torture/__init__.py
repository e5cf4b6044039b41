"""Long runs that try to break one promise many times over. One file per promise; `python -m torture` lists and runs them."""
