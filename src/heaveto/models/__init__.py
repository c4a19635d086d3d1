"""Models: the protocol, and the clients of the APIs that speak it."""

from .protocol import Model, ModelStream, Request, ToolSpec

__all__ = ["Model", "ModelStream", "Request", "ToolSpec"]
