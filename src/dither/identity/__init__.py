"""Who asks: tokens, users, grants, and the principal of each. The curator alone reads it."""

from dither.identity.access_log import Access, AccessLog
from dither.identity.act_log import ActLog, RecordedAct
from dither.identity.authority import Authority, Credential
from dither.identity.principal import NOT_GRANTED, ROLES, Principal
from dither.identity.tokens import Token, TokenStore, default_home

__all__ = [
    "NOT_GRANTED",
    "ROLES",
    "Access",
    "AccessLog",
    "ActLog",
    "Authority",
    "Credential",
    "Principal",
    "RecordedAct",
    "Token",
    "TokenStore",
    "default_home",
]
