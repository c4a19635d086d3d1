from .invoice import Invoice

__all__ = ["Invoice"]
