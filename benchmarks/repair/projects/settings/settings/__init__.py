from .loader import load

__all__ = ["load"]
