"""Who asks: tokens, and the principal that each of them stands for. The curator alone reads it."""

from dither.identity.principal import ROLES, Principal
from dither.identity.tokens import Token, TokenStore, default_home

__all__ = ["ROLES", "Principal", "Token", "TokenStore", "default_home"]
